//! The core: the arbiters of all models, and everything that reaches and leaves them, as a value that
//! is turned.
//!
//! One turn, in this order:
//!
//! 1. **Control**: at most one command ([`command`]).
//! 2. **Feedback** of the egress shards, then what the ingress shards **submitted**, merged by time
//!    stamp ([`intake`]); then releases that came by **mail** ([`letters`]).
//! 3. **Selection**: for each model that has something to decide, a bounded number of dispatches and
//!    removals ([`select`]); none for workers behind a shard whose handle was dropped ([`upkeep`]).
//! 4. **Delivery**: dispatches and outcomes into the egress rings, freed slots back to their shards
//!    ([`hall`], [`outbox`]).
//! 5. **Upkeep**: shards whose handle was dropped, classes that may leave, the drain's end
//!    ([`upkeep`]); figures for the readers of statistics ([`publish`]).
//!
//! Invariants:
//! - C1. No user code runs in a turn but a selector: no payload is dropped, no waker called, no old
//!   policy freed.
//! - C2. A turn waits for nobody: every loop in it is bounded by a count or a capacity.
//! - C3. A slot goes back to its shard after its request has ended and its last delivery is in a ring.
//! - C4. A delivery that finds no room waits in the outbox; while anything waits there for a shard, no
//!   dispatch is decided for the workers behind it.

mod close;
mod command;
mod guard;
mod hall;
mod intake;
mod letters;
mod outbox;
mod publish;
#[cfg(all(test, not(loom)))]
mod schedules;
mod select;
#[cfg(test)]
mod tape;
mod upkeep;

use std::panic::resume_unwind;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use rtrb::Consumer;
use tollgate_arbiter::{Arbiter, Nanos};

pub(crate) use self::guard::{Guard, Panic};
use self::hall::Hall;
pub(crate) use self::hall::OutletEnds;
use self::intake::Inlet;
pub(crate) use self::intake::InletEnds;
use self::letters::{Fence, Letters};
use self::publish::Publisher;
use self::upkeep::{Upkeep, index16};
use crate::clock::Clock;
use crate::control::{Order, Reply};
use crate::idle::{Idle, Patience};
use crate::journal::Recorder;
use crate::shared::Shared;
use crate::sync::doorbell::{Answer, Doorbell, Sleeper};
use crate::sync::mail::Letterbox;
use crate::wire::Intake;
use crate::wire::extension::Parts;

/// The arbiters of an engine with their ends of all rings: turned by the engine's own thread, or by
/// hand.
///
/// By hand it needs no thread: [`turn`](Self::turn) it as often as you like, from wherever you like,
/// with any time that does not go back. A turn is bounded and waits for nobody, whatever the shards
/// do: [`Builder::build_by_hand`](crate::Builder::build_by_hand).
///
/// Dropping it closes the engine; what it still holds is dropped with it.
#[derive(Debug)]
pub struct Core<P> {
    shared: Arc<Shared>,
    sleeper: Sleeper,
    letterbox: Letterbox,
    clock: Clock,
    models: Vec<Model<P>>,
    inlets: Vec<Inlet<P>>,
    hall: Hall<P>,
    letters: Letters,
    commands: Receiver<Order>,
    /// None once the core is closed: who waits for an answer then gets none.
    replies: Option<Sender<Reply>>,
    parts: Parts,
    /// By number: every taint name that a worker ever carried.
    taint_names: Vec<Arc<str>>,
    upkeep: Upkeep,
    publisher: Publisher,
    /// Where panics of the embedder's selectors come, if there are any such selectors.
    alarm: Option<Receiver<Panic>>,
    now: Nanos,
    /// When the drain ends, once the engine was stopped.
    drain_end: Option<Nanos>,
    is_closed: bool,
    /// Tasks wait for room in the ingress shards, and the first egress shard's receiver lets them in.
    tells_of_room: bool,
    /// Rings of ingress shards that were gone when they were to get them back.
    unclaimed: Vec<Consumer<Intake<P>>>,
    /// Where journals go that nobody took before the close.
    journals: Sender<Box<Recorder>>,
}

/// One model's arbiter.
#[derive(Debug)]
struct Model<P> {
    arbiter: Arbiter<P>,
    /// What is captured of it, while it is.
    journal: Option<Box<Recorder>>,
    /// Something happened that a selection may follow.
    touched: bool,
    /// Classes that left the policy stay until every shard works under this version, and the rings
    /// have come past the fence.
    retiring: Option<Retiring>,
}

impl<P> Model<P> {
    fn hold_drained(&mut self, hold: bool) {
        self.record(|journal| journal.hold(hold));
        self.arbiter.hold_drained(hold);
    }

    /// Writes an operation down before it is carried out, where there is a capture.
    #[inline]
    fn record(&mut self, write: impl FnOnce(&mut Recorder)) {
        if let Some(journal) = &mut self.journal {
            journal.at(self.arbiter.now());
            write(journal);
        }
    }
}

#[derive(Debug)]
struct Retiring {
    version: u64,
    fence: Option<Fence>,
}

/// Everything that a core is made of.
#[derive(Debug)]
pub(crate) struct CoreParts<P> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) sleeper: Sleeper,
    pub(crate) letterbox: Letterbox,
    pub(crate) clock: Clock,
    pub(crate) arbiters: Vec<Arbiter<P>>,
    pub(crate) inlets: Vec<InletEnds<P>>,
    pub(crate) outlets: Vec<OutletEnds<P>>,
    pub(crate) commands: Receiver<Order>,
    pub(crate) replies: Sender<Reply>,
    pub(crate) stats: crate::stats::CoreStats,
    pub(crate) alarm: Option<Receiver<Panic>>,
    pub(crate) journals: Sender<Box<Recorder>>,
}

/// What one turn did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnReport {
    /// Records taken from ingress rings.
    pub intake: u64,
    /// Records taken from feedback rings.
    pub feedback: u64,
    /// Releases that came by mail and were applied.
    pub letters: u64,
    /// Control calls carried out.
    pub commands: u64,
    /// Dispatches decided.
    pub dispatched: u64,
    /// A bound ended the turn before the work did.
    pub more: bool,
    /// The engine is closed: this was the last turn.
    pub closed: bool,
}

impl TurnReport {
    /// It found nothing to do and left nothing to do.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        let done = self.intake + self.feedback + self.letters + self.commands + self.dispatched;
        done == 0 && !self.more && !self.closed
    }
}

impl<P> Core<P> {
    pub(crate) fn new(parts: CoreParts<P>) -> Self {
        let (inlets, outlets) = (parts.inlets.len(), parts.outlets.len());
        let slots = parts.arbiters.iter().map(|a| a.capacities().slots as usize);
        let slots = slots.sum();
        let mut freed = Vec::with_capacity(inlets);
        let take = |ends: InletEnds<P>| {
            freed.push(ends.freed);
            Inlet::new(ends.ring, ends.blocks, ends.returned)
        };
        let inlets_taken = parts.inlets.into_iter().map(take).collect();
        let model = |arbiter| Model {
            arbiter,
            journal: None,
            touched: false,
            retiring: None,
        };
        let mut core = Self {
            hall: Hall::new(parts.shared.places, slots, parts.outlets, freed),
            shared: parts.shared,
            sleeper: parts.sleeper,
            letterbox: parts.letterbox,
            clock: parts.clock,
            inlets: inlets_taken,
            letters: Letters::new(inlets, outlets),
            commands: parts.commands,
            replies: Some(parts.replies),
            parts: Parts::new(),
            taint_names: Vec::new(),
            upkeep: Upkeep::new(outlets),
            publisher: Publisher::new(parts.stats, &parts.arbiters),
            models: parts.arbiters.into_iter().map(model).collect(),
            now: Nanos(0),
            drain_end: None,
            is_closed: false,
            tells_of_room: false,
            unclaimed: Vec::with_capacity(inlets),
            alarm: parts.alarm,
            journals: parts.journals,
        };
        // A limit may cause selections before those of the first turn (S7.1).
        for at in 0..core.models.len() {
            core.open_and_shut(at);
        }
        core
    }

    /// From now on a receiver is told where ingress shards have room again; the receivers' doorbells.
    pub(crate) fn tell_of_room(&mut self) -> Box<[Doorbell]> {
        self.tells_of_room = true;
        let outlets = self.hall.outlets.iter();
        outlets.map(|outlet| outlet.bell.clone()).collect()
    }

    /// Rings for the receiver who is told of room, or its heir.
    pub(super) fn ring_for_usher(&self) {
        let mut usher = self.shared.room.usher();
        while self.hall.outlets[usher].bell.ring() == Answer::Gone {
            let heir = self.shared.room.usher();
            if heir == usher {
                return;
            }
            usher = heir;
        }
    }

    /// One turn at time `now`, which is on the engine's clock and does not go back.
    ///
    /// # Panics
    /// As a selector of the embedder's did in this turn, or in a call of [`execute`](Self::execute)
    /// before it; what the turn decided has been delivered.
    ///
    /// # Complexity
    /// Bounded by constants and by the number of models and shards, whatever waits: at most 64
    /// submissions, 128 feedback records a shard, 64 releases by mail, one command, and 64 dispatches
    /// and 256 removals a model. Three things are longer: a command takes what it affects; a
    /// submission that meets its class's limit may cause as many selections as there is room for
    /// dispatches (S7.1); a snapshot copies.
    pub fn turn(&mut self, now: Nanos) -> TurnReport {
        if self.is_closed {
            return TurnReport {
                closed: true,
                ..TurnReport::default()
            };
        }
        self.now = self.now.max(now);
        for model in &mut self.models {
            model.arbiter.set_time(self.now);
        }
        let mut report = TurnReport {
            commands: self.obey_one(),
            ..TurnReport::default()
        };
        self.collect_letters();
        report.feedback = self.take_feedback();
        report.intake = self.take_in();
        report.letters = self.apply_letters();
        self.notice_losses(&mut report);
        self.select(&mut report);
        let has_freed = self.hall.settle();
        if self.tells_of_room && (has_freed || report.intake > 0) && self.shared.room.tell() {
            self.ring_for_usher();
        }
        if let Some(panic) = self.take_alarm() {
            resume_unwind(panic);
        }
        self.tend(&mut report);
        self.publisher.turned(self.now, &report);
        if self.is_drained() {
            self.close();
            report.closed = true;
        } else if self.publisher.is_due(self.now) {
            self.publish();
        }
        report
    }

    /// What a selector of the embedder's has panicked with, if one has.
    pub(crate) fn take_alarm(&self) -> Option<Panic> {
        self.alarm.as_ref()?.try_recv().ok()
    }

    /// Turns until the engine is closed.
    pub(crate) fn run(&mut self, idle: Idle) {
        let mut patience = Patience::new(idle);
        loop {
            let report = self.turn(self.clock.now());
            if report.closed {
                return;
            }
            if !report.is_idle() {
                patience = Patience::new(idle);
            } else if !patience.wait() {
                if self.settle_figures() {
                    continue;
                }
                self.publish_all();
                self.sleep();
                patience = Patience::new(idle);
            }
        }
    }

    /// Sleeps until somebody rings, or until something is due.
    fn sleep(&mut self) {
        let timeout = self.due().map(|due| {
            let left = due.saturating_sub(self.clock.now());
            std::time::Duration::from_nanos(left.0)
        });
        let waits_for_room = self.watch_room(true);
        let Self {
            sleeper,
            letterbox,
            inlets,
            hall,
            commands,
            shared,
            models,
            ..
        } = self;
        sleeper.sleep_unless(
            || {
                !commands.is_empty()
                    || !letterbox.is_empty()
                    || inlets.iter().any(|inlet| !inlet.ring.is_empty())
                    || hall
                        .outlets
                        .iter()
                        .any(|outlet| !outlet.feedback.is_empty())
                    || waits_for_room && hall.has_news_of_room()
                    || hall.has_lost(shared)
                    || hall.has_leftovers()
                    || models.iter().enumerate().any(|(at, model)| {
                        let retiring = model.retiring.as_ref();
                        retiring.is_some_and(|retiring| shared.all_see(at, retiring.version))
                    })
            },
            timeout,
        );
        self.watch_room(false);
    }

    /// When something happens by itself: a deadline of a waiting request, or the drain's end.
    fn due(&self) -> Option<Nanos> {
        let deadlines = self.models.iter().filter_map(|m| m.arbiter.next_deadline());
        deadlines.chain(self.drain_end).min()
    }

    /// Tells the egress shards whether the core waits for room in their rings; whether it does so for
    /// any.
    fn watch_room(&mut self, sleeps: bool) -> bool {
        let mut waits = false;
        for at in 0..self.hall.outlets.len() {
            let hungry = sleeps && self.waits_for_room(at);
            self.hall.outlets[at].hungry = hungry;
            self.shared.egress[at].set_hungry(hungry);
            waits |= hungry;
        }
        waits
    }

    /// Whether something waits for room in an outlet's ring: deliveries in the outbox, or workers that
    /// are shut. What the arbiters were told counts, not the ring, which may have room again by now.
    fn waits_for_room(&self, outlet: usize) -> bool {
        let hall = &self.hall;
        let is_shut = |group: usize| {
            let mut models = self.models.iter();
            models.any(|model| model.arbiter.egress_room(index16(group)) == 0)
        };
        let mut groups = (0..hall.routes.len()).filter(|&group| hall.routes[group] == outlet);
        !hall.outlets[outlet].lost && (hall.outbox.len(outlet) > 0 || groups.any(is_shut))
    }

    /// Whether a stopped engine has nothing left to do.
    fn is_drained(&self) -> bool {
        let Some(end) = self.drain_end else {
            return false;
        };
        let waits = self.models.iter().any(|m| m.arbiter.waiting() > 0);
        let runs = self.models.iter().any(|m| m.arbiter.outstanding() > 0);
        !waits && (!runs || self.now >= end)
    }
}
