//! What can be wrong with a placement, and what its author should know.

use std::fmt;

use super::{CoreId, CoreSet, Role};

/// Something that is wrong with a placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// The core does not exist, or is offline.
    #[error("{role}: core {core} does not exist, there are {existing}")]
    NoSuchCore {
        /// Whom it is given to.
        role: Role,
        /// The core given.
        core: CoreId,
        /// The cores that exist.
        existing: CoreSet,
    },
    /// The core exists, and this process may not use it.
    #[error("{role}: core {core} is outside the mask {mask} of this process")]
    OutsideMask {
        /// Whom it is given to.
        role: Role,
        /// The core given.
        core: CoreId,
        /// The mask that the process was found with.
        mask: CoreSet,
    },
    /// There are more ingress cores than ingress shards.
    #[error("too many ingress cores: {given} given, {shards} shards")]
    TooManyIngressCores {
        /// How many cores are given.
        given: usize,
        /// How many shards there are.
        shards: usize,
    },
    /// There are more egress cores than egress shards.
    #[error("too many egress cores: {given} given, {shards} shards")]
    TooManyEgressCores {
        /// How many cores are given.
        given: usize,
        /// How many shards there are.
        shards: usize,
    },
    /// Two threads that never sleep would take turns of whole time slices on one core.
    #[error("{first} and {second} would both spin on core {core}; share_cores permits it")]
    SharedCore {
        /// The core given to both.
        core: CoreId,
        /// The first of them.
        first: Role,
        /// The other.
        second: Role,
    },
}

/// Something that is legal in a placement and may cost time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlacementWarning {
    /// A role will run unpinned, as
    /// [`IfUnpinnable::RunUnpinned`](super::IfUnpinnable::RunUnpinned) asks.
    RunsUnpinned(PlacementError),
    /// The process may use some of the machine's cores only.
    HiddenCores {
        /// The cores that are online and out of reach.
        hidden: CoreSet,
        /// The mask that the process was found with.
        mask: CoreSet,
    },
    /// Two threads that never sleep are on two logical cores of one physical core, each at the
    /// expense of the other.
    Siblings {
        /// The first of them, and its core.
        first: (Role, CoreId),
        /// The other, and its core.
        second: (Role, CoreId),
    },
    /// The arbiter's core is open to other threads, while there are cores that are not.
    NotIsolated {
        /// The arbiter's core.
        core: CoreId,
        /// The isolated cores within reach.
        isolated: CoreSet,
    },
    /// The arbiter is on core 0, where systems by habit serve interrupts and keep house, while
    /// others are free.
    CoreZero {
        /// The cores within reach that no role is placed on.
        free: CoreSet,
    },
}

impl fmt::Display for PlacementWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunsUnpinned(error) => write!(f, "{error}: it will run unpinned"),
            Self::HiddenCores { hidden, mask } => {
                write!(f, "the mask {mask} of this process hides cores {hidden}")
            }
            Self::Siblings {
                first: (first, first_core),
                second: (second, second_core),
            } => write!(
                f,
                "{first} on core {first_core} and {second} on core {second_core} spin on one \
                 physical core"
            ),
            Self::NotIsolated { core, isolated } => write!(
                f,
                "the arbiter's core {core} is not isolated, cores {isolated} are"
            ),
            Self::CoreZero { free } => write!(
                f,
                "the arbiter is on core 0, which often serves interrupts; cores {free} are free"
            ),
        }
    }
}
