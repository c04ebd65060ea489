//! The arbiter: what it holds, and how it is built. What it does stands in the modules below, one
//! room each:
//!
//! | module | room |
//! |---|---|
//! | [`submit`] | doorway and intake: snapshot, order of tests, limits, into a lane (S2, S7, S8) |
//! | [`settle`] | gate: what stands between each lane's head and its dispatch (S5) |
//! | [`select`] | selection, choice of worker, dispatch, turns (S6, S9.1, S10, S13) |
//! | [`remove`] | cancel, sweep, credit cuts, impatience (S5.5, S6.6, S7.2, S11.2) |
//! | [`time`] | time, and what is due by it (S11.1) |
//! | [`stop`] | the drain and its end (S11.3) |
//! | [`feedback`] | `prefill_done`, `complete`, `requeue` (S9) |
//! | [`workers`] | worker records, load, shut and open (S5, S9) |
//! | [`mass`] | what one event does to many endpoints alike (S5, S3.7) |
//! | [`egress`] | rooms of egress groups (S5.1) |
//! | [`reload`] | another policy (S3.7) |
//! | [`inspect`] | the whole state, and the invariants |
//! | [`gauges`] | figures for a metrics board |
//! | [`save`] | a checkpoint of everything |
//! | [`restore`] | an arbiter out of a checkpoint |

mod egress;
mod feedback;
mod gauges;
mod inspect;
mod mass;
mod reload;
mod remove;
mod restore;
mod save;
mod select;
mod settle;
mod stop;
mod submit;
mod time;
mod workers;

use std::sync::Arc;

use tollgate_policy::{Arbitration, OverloadAction, Profile};

use self::egress::UNBOUNDED_ROOM;
pub use self::reload::Reloaded;
pub use self::select::{TurnBudget, TurnReport};
use self::stop::Closing;
use crate::bits::BitRows;
use crate::capacity::{
    CLASSES_MAX, EGRESS_GROUPS_MAX, ENDPOINTS_MAX, EXTENSION_BLOCKS_MAX, SLOTS_MAX, WORKERS_MAX,
};
use crate::class::Class;
use crate::deadline::Deadlines;
use crate::drr::Ring;
use crate::endpoints::Endpoints;
use crate::extension::Extensions;
use crate::forest::Forest;
use crate::gate::{Gates, Members};
use crate::group::Groups;
use crate::load_tree::LoadTree;
use crate::order::{Lanes, NO_KEY, Rank};
use crate::selector::{Draws, Selector, Standing, shipped};
use crate::slab::Slab;
use crate::taints::Taints;
use crate::{BuildError, Capacities, ClassIndex, Full, Nanos, Resource};

/// What is not policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Seed of the draws of `power_of_two` (S10.2). Default 0.
    pub seed: u64,
}

/// The scheduling core: which waiting request goes next, and to which endpoint.
///
/// A value without thread, clock or I/O. One owner drives it: submissions and feedback go in as
/// calls, [`select`](Self::select) or [`arbitrate`](Self::arbitrate) decides, and what happens comes
/// out as [`Event`](crate::Event)s through the caller's [`Sink`](crate::Sink), in the order in which
/// it takes effect. Everything is allocated when it is built; nothing after, but for
/// [`state`](Self::state), [`reload`](Self::reload), and the names of new taints.
///
/// `P` is the caller's payload; it moves in with a submission and out with a dispatch or outcome.
///
/// ```
/// use tollgate_arbiter::{Arbiter, Capacities, Event, Nanos, Options, Request, SlotPool, WorkerRecord};
/// use tollgate_policy::Profile;
///
/// let profile = Profile::synthetic(None);
/// let mut arbiter = Arbiter::build(&profile, Capacities::default(), Options::default())?;
/// let mut slots = SlotPool::new(arbiter.capacities().slots);
/// let mut events = Vec::new();
///
/// arbiter.upsert_worker(&WorkerRecord::new(7))?;
/// let request = Request::new(512, Nanos(0));
/// let ticket = slots.take().expect("a free slot");
/// arbiter.submit(ticket, None, &request, "hello", &mut |e| events.push(e)).expect("accepted");
/// assert!(arbiter.select(&mut |e| events.push(e)));
/// let Event::Dispatched(dispatch) = events[1] else { panic!("dispatched") };
/// assert_eq!((dispatch.endpoint.worker.0, dispatch.payload), (7, "hello"));
/// arbiter.complete(ticket, dispatch.attempt)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Arbiter<P> {
    now: Nanos,
    capacities: Capacities,

    profile: Arc<Profile>,
    /// By the profile's class: its place in the tables.
    class_of: Vec<u16>,
    generation: u64,
    selector: Box<dyn Selector + Send>,
    own_selector: bool,
    /// The arbitration in force is exact.
    is_exact: bool,
    /// What the selector says of itself.
    follows_standing: bool,
    standing: Standing,
    draws: Draws,

    slab: Slab<P>,
    lanes: Lanes,
    forest: Forest,
    deadlines: Deadlines,
    extensions: Extensions,
    taints: Taints,
    /// By taint: the known endpoints that carry it.
    taint_rows: BitRows,
    /// By slot, `attempts - 1` each: endpoint number + 1 that failed it, or 0 (S9.4).
    avoided: Vec<u32>,
    /// Waiting requests that may not wait (S7.2), in no order. After a drain's end, those to answer.
    impatient: Vec<u32>,

    endpoints: Endpoints,
    gates: Gates,
    /// The endpoints of the event that goes on.
    members: Members,
    /// By egress group: how many more dispatches its endpoints take.
    rooms: [u32; EGRESS_GROUPS_MAX as usize],
    groups: Groups,
    load_tree: LoadTree,

    classes: Vec<Class>,
    /// The classes in use, in table order.
    table: Vec<u16>,
    ring: Ring,
    /// By class: its best dispatchable head.
    candidates: Vec<Rank>,
    /// Classes whose candidate must be looked at again.
    dirty: Vec<u16>,
    /// By class: the exact lanes whose head fails at the next sweep, or would if its egress group
    /// were not shut.
    doomed_exact: BitRows,
    /// How many bits are set there.
    doomed_bits: u32,
    /// By class: those of them that fail by overload alone, and so not while their group is shut.
    overloaded_exact: BitRows,
    /// By class, then egress group: how many those are.
    overloaded_lanes: Vec<u32>,
    /// Lanes, shared ones included, whose head fails at the next sweep.
    doomed: u32,
    /// Classes whose remembered entry left without service during this event (S6.6).
    cuts: Vec<u16>,
    draining: u32,
    /// Empty classes that left the policy keep their places.
    holds_drained: bool,

    next_seq: u64,
    dispatches: u64,
    waiting: u64,
    outstanding: u64,
    watched_deadlines: u64,
    drain_deadline: Option<Nanos>,
    closing: Closing,
    stale_events: u64,
    unknown_names: u64,
}

impl<P> Arbiter<P> {
    /// An arbiter under `profile`, without workers, at time 0.
    ///
    /// # Errors
    /// A capacity outside its range, or a profile that needs more than the capacities give.
    pub fn build(
        profile: &Profile,
        capacities: Capacities,
        options: Options,
    ) -> Result<Self, BuildError> {
        check_ranges(&capacities)?;
        fits(profile, &capacities, 0)?;
        let slots = capacities.slots as usize;
        let classes = capacities.classes as usize;
        let groups = Groups::new(&capacities);
        let endpoints = groups.numbers();
        let lanes = Lanes::new(slots, classes, endpoints);
        let mut arbiter = Self {
            now: Nanos(0),
            capacities,
            profile: Arc::new(profile.clone()),
            class_of: Vec::with_capacity(classes),
            generation: 1,
            selector: shipped(profile.selector(), profile.decode_weight()),
            own_selector: false,
            is_exact: matches!(profile.arbitration(), Arbitration::Exact),
            follows_standing: false,
            standing: Standing::of_kind(profile.selector(), profile.decode_weight()),
            draws: Draws::new(options.seed),
            slab: Slab::new(slots),
            forest: Forest::new(classes, groups, lanes.count()),
            lanes,
            deadlines: Deadlines::new(slots),
            extensions: Extensions::new(capacities.extension_blocks),
            taints: Taints::new(),
            taint_rows: BitRows::new(crate::capacity::TAINTS_MAX as usize, endpoints),
            avoided: vec![0; slots * (capacities.attempts as usize - 1)],
            impatient: Vec::with_capacity(slots),
            endpoints: Endpoints::new(&capacities),
            gates: Gates::new(classes, groups),
            members: Members::new(endpoints),
            rooms: [UNBOUNDED_ROOM; EGRESS_GROUPS_MAX as usize],
            groups,
            load_tree: LoadTree::new(groups),
            classes: (0..classes).map(|_| Class::unused()).collect(),
            table: Vec::with_capacity(classes),
            ring: Ring::new(classes),
            candidates: vec![NO_KEY; classes],
            dirty: Vec::with_capacity(classes),
            doomed_exact: BitRows::new(classes, endpoints),
            doomed_bits: 0,
            overloaded_exact: BitRows::new(classes, endpoints),
            overloaded_lanes: vec![0; classes * groups.stride()],
            doomed: 0,
            cuts: Vec::with_capacity(classes),
            draining: 0,
            holds_drained: false,
            next_seq: 0,
            dispatches: 0,
            waiting: 0,
            outstanding: 0,
            watched_deadlines: 0,
            drain_deadline: None,
            closing: Closing::NotGathered,
            stale_events: 0,
            unknown_names: 0,
        };
        arbiter.follows_standing = arbiter.selector.follows_standing();
        arbiter.adopt_classes(profile);
        Ok(arbiter)
    }

    /// The same with a selector of the embedder's own, which stays in force over reloads.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_with_selector(
        profile: &Profile,
        capacities: Capacities,
        selector: Box<dyn Selector + Send>,
    ) -> Result<Self, BuildError> {
        let mut arbiter = Self::build(profile, capacities, Options::default())?;
        arbiter.follows_standing = selector.follows_standing();
        arbiter.selector = selector;
        arbiter.own_selector = true;
        arbiter.standing = Standing::Asked;
        Ok(arbiter)
    }

    /// The arbiter's time, as last handed to [`advance`](Self::advance) or
    /// [`set_time`](Self::set_time).
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// The capacities it was built with.
    #[must_use]
    pub const fn capacities(&self) -> Capacities {
        self.capacities
    }

    /// The profile in force.
    #[must_use]
    pub const fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// Waiting requests of all classes.
    #[must_use]
    pub const fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Requests that are dispatched and not complete.
    #[must_use]
    pub const fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// A class's name; empty for a place that is not in use.
    #[must_use]
    pub fn class_name(&self, class: ClassIndex) -> &str {
        let class = self.classes.get(class.at()).filter(|class| class.in_use);
        class.map_or("", |class| &class.name)
    }

    fn holds_on_overload(&self) -> bool {
        matches!(self.profile.overload_action(), OverloadAction::Hold)
    }
}

fn check_ranges(capacities: &Capacities) -> Result<(), BuildError> {
    let ranges = [
        (Resource::Slots, capacities.slots, 1, SLOTS_MAX),
        (Resource::Classes, capacities.classes, 1, CLASSES_MAX),
        (Resource::Workers, capacities.workers, 1, WORKERS_MAX),
        (Resource::Endpoints, capacities.endpoints, 1, ENDPOINTS_MAX),
        (
            Resource::ExtensionBlocks,
            capacities.extension_blocks,
            0,
            EXTENSION_BLOCKS_MAX,
        ),
        (Resource::Attempts, u32::from(capacities.attempts), 1, 255),
        (
            Resource::EgressGroups,
            u32::from(capacities.egress_groups),
            1,
            u32::from(EGRESS_GROUPS_MAX),
        ),
    ];
    for (what, found, min, max) in ranges {
        if !(min..=max).contains(&found) {
            let [min, max, found] = [min, max, found].map(u64::from);
            return Err(BuildError::OutOfRange {
                what,
                min,
                max,
                found,
            });
        }
    }
    Ok(())
}

/// Whether a profile fits beside `kept` classes that it does not name.
fn fits(profile: &Profile, capacities: &Capacities, kept: usize) -> Result<(), Full> {
    let needs = [
        (
            Resource::Classes,
            (profile.classes().len() + kept) as u64,
            u64::from(capacities.classes),
        ),
        (
            Resource::Attempts,
            u64::from(profile.max_attempts()),
            u64::from(capacities.attempts),
        ),
    ];
    for (what, required, available) in needs {
        if required > available {
            return Err(Full {
                what,
                required,
                available,
            });
        }
    }
    Ok(())
}
