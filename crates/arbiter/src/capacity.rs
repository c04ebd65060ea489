//! Capacities, fixed when an arbiter is built, and the errors of exceeding them.

use crate::WorkerId;

/// How much an arbiter can hold. Everything is allocated when it is built, nothing after (S12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacities {
    /// Live requests: waiting, or dispatched and not complete. 1 to [`SLOTS_MAX`]. Default 65,536.
    pub slots: u32,
    /// Classes at one time, those that drain after a reload included. 1 to [`CLASSES_MAX`].
    /// Default 64.
    pub classes: u32,
    /// Known workers. 1 to 2^20. Default 1,024.
    pub workers: u32,
    /// Endpoint numbers: known endpoints, and departed ones that live requests refer to; split evenly
    /// over the egress groups, rounded up. 1 to [`ENDPOINTS_MAX`]. Default 2,048.
    pub endpoints: u32,
    /// 64-byte blocks for the variable parts of live requests: a request that has hints, an allow-list
    /// or required taints takes one, and one more for each 4 hints and for each 8 allowed workers; a
    /// pinned one takes one at most, for its taints. 0 to 2^28. Default 65,536.
    pub extension_blocks: u32,
    /// The largest `max_attempts` that a policy may ask for. 1 to 255. Default 3. A slot keeps room
    /// for that many less one endpoints to avoid.
    pub attempts: u8,
    /// Egress groups, each with a room of its own (S5.1): worker w is in group
    /// `w % egress_groups`, with all its ranks. 1 to [`EGRESS_GROUPS_MAX`]. Default 1.
    pub egress_groups: u16,
}

impl Capacities {
    /// The egress group of a worker, known or not: a pure function of its id.
    ///
    /// ```
    /// # use tollgate_arbiter::{Capacities, WorkerId};
    /// let capacities = Capacities { egress_groups: 3, ..Capacities::default() };
    /// assert_eq!(capacities.egress_group(WorkerId(7)), 1);
    /// ```
    ///
    /// # Panics
    /// If there are no groups, with which no arbiter is built.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "below a u16")]
    pub const fn egress_group(&self, worker: WorkerId) -> u16 {
        (worker.0 % self.egress_groups as u64) as u16
    }

    /// How many endpoint numbers each egress group has.
    ///
    /// # Panics
    /// If there are no groups.
    #[must_use]
    pub const fn endpoints_per_egress_group(&self) -> u32 {
        self.endpoints.div_ceil(self.egress_groups as u32)
    }

    /// Every [`EndpointIndex`](crate::EndpointIndex) is below this: the numbers of all groups, their
    /// count rounded up to a power of two.
    ///
    /// ```
    /// # use tollgate_arbiter::Capacities;
    /// let capacities = Capacities { endpoints: 300, ..Capacities::default() };
    /// assert_eq!(capacities.endpoint_numbers(), 300);
    /// let capacities = Capacities { egress_groups: 3, ..capacities };
    /// assert_eq!(capacities.endpoint_numbers(), 400);
    /// ```
    ///
    /// # Panics
    /// If there are no groups.
    #[must_use]
    pub const fn endpoint_numbers(&self) -> u32 {
        self.endpoints_per_egress_group() * (self.egress_groups as u32).next_power_of_two()
    }
}

/// The largest [`Capacities::egress_groups`].
pub const EGRESS_GROUPS_MAX: u16 = 64;
/// The largest [`Capacities::slots`].
pub const SLOTS_MAX: u32 = 1 << 24;
/// The largest [`Capacities::classes`].
pub const CLASSES_MAX: u32 = 1 << 14;
/// The largest [`Capacities::endpoints`].
pub const ENDPOINTS_MAX: u32 = 1 << 20;
/// The largest [`Capacities::workers`].
pub const WORKERS_MAX: u32 = 1 << 20;
/// The largest [`Capacities::extension_blocks`].
pub const EXTENSION_BLOCKS_MAX: u32 = 1 << 28;
/// How many different taint names may be in use at one time, by workers and live requests.
pub const TAINTS_MAX: u32 = 128;

impl Default for Capacities {
    fn default() -> Self {
        Self {
            slots: 1 << 16,
            classes: 64,
            workers: 1_024,
            endpoints: 2_048,
            extension_blocks: 1 << 16,
            attempts: 3,
            egress_groups: 1,
        }
    }
}

/// Something with a fixed capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// [`Capacities::slots`].
    Slots,
    /// [`Capacities::classes`].
    Classes,
    /// [`Capacities::workers`].
    Workers,
    /// [`Capacities::endpoints`].
    Endpoints,
    /// [`Capacities::endpoints_per_egress_group`], where there is more than one group.
    EndpointsOfGroup,
    /// [`Capacities::extension_blocks`].
    ExtensionBlocks,
    /// [`Capacities::attempts`].
    Attempts,
    /// [`Capacities::egress_groups`].
    EgressGroups,
    /// [`TAINTS_MAX`].
    Taints,
    /// Changes of a class's order while entries of before wait or run; 62.
    OrderChanges,
}

impl Resource {
    /// The name used in messages, as in `extension_blocks`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slots => "slots",
            Self::Classes => "classes",
            Self::Workers => "workers",
            Self::Endpoints => "endpoints",
            Self::EndpointsOfGroup => "endpoints_of_egress_group",
            Self::ExtensionBlocks => "extension_blocks",
            Self::Attempts => "attempts",
            Self::EgressGroups => "egress_groups",
            Self::Taints => "taints",
            Self::OrderChanges => "order_changes",
        }
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A fixed capacity does not suffice; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not enough {what}: {required} required, {available} available")]
pub struct Full {
    /// What ran out.
    pub what: Resource,
    /// How many would have been needed.
    pub required: u64,
    /// How many there are.
    pub available: u64,
}

/// Why an arbiter cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A capacity is outside its range.
    #[error("{what} must be between {min} and {max}, not {found}")]
    OutOfRange {
        /// Which capacity.
        what: Resource,
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
        /// What was asked for.
        found: u64,
    },
    /// The profile needs more than the capacities give.
    #[error(transparent)]
    Full(#[from] Full),
}
