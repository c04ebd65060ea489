//! Who has each payload. Every change of hands is checked: a payload that is handed out twice, comes
//! back twice, is dropped inside the engine, or ends in a way that its request cannot end, is a fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use tollgate::{Dispatch, Ended, FailReason, LimitKind, Outcome};

use crate::plan::{Kind, Plan};

/// Who has a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Holder {
    Nobody,
    /// It was submitted.
    Engine,
    /// It was dispatched, and runs.
    Embedder,
    // The rest is final.
    Refused,
    Complete,
    Ended,
    Returned,
    TakenBack,
}

impl Holder {
    fn of(number: u8) -> Self {
        use Holder::{Complete, Embedder, Ended, Engine, Nobody, Refused, Returned, TakenBack};
        const ALL: [Holder; 8] = [
            Nobody, Engine, Embedder, Refused, Complete, Ended, Returned, TakenBack,
        ];
        ALL[usize::from(number)]
    }

    pub(crate) const fn is_final(self) -> bool {
        !matches!(self, Self::Nobody | Self::Engine | Self::Embedder)
    }
}

/// The payload: a request's number, and the ledger that watches it.
#[derive(Debug)]
pub(crate) struct Slip {
    pub(crate) number: usize,
    ledger: Arc<Ledger>,
}

impl Drop for Slip {
    fn drop(&mut self) {
        if std::thread::current().name() == Some("tollgate-arbiter") {
            self.ledger
                .fault("a payload is dropped on the arbiter's thread");
        }
        if self.ledger.holder(self.number) == Holder::Engine {
            self.ledger.fault("a payload is dropped inside the engine");
        }
    }
}

/// One life's payloads.
#[derive(Debug)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
    finals: AtomicUsize,
    faults: AtomicUsize,
    /// The engine was told to stop.
    stopping: AtomicU8,
}

#[derive(Debug, Default)]
struct Entry {
    holder: AtomicU8,
    kind: AtomicU8,
    flags: AtomicU8,
    /// Workers that may run it, as bits, and its raw tokens above.
    facts: AtomicU64,
}

/// It may have been cancelled.
const CANCELLED: u8 = 1;
/// It has been requeued.
const REQUEUED: u8 = 2;

impl Ledger {
    pub(crate) fn new(requests: usize) -> Arc<Self> {
        Arc::new(Self {
            entries: (0..requests).map(|_| Entry::default()).collect(),
            finals: AtomicUsize::new(0),
            faults: AtomicUsize::new(0),
            stopping: AtomicU8::new(0),
        })
    }

    /// Says what is wrong; the life fails at its end.
    pub(crate) fn fault(&self, what: &str) {
        if self.faults.fetch_add(1, Ordering::Relaxed) < 20 {
            eprintln!("fault: {what}");
        }
    }

    pub(crate) fn holder(&self, number: usize) -> Holder {
        Holder::of(self.entries[number].holder.load(Ordering::Relaxed))
    }

    fn pass(&self, number: usize, from: Holder, to: Holder) {
        let holder = &self.entries[number].holder;
        // The engine's rings order what happens to one payload; this only looks at it.
        let before = Holder::of(holder.swap(to as u8, Ordering::Relaxed));
        if before != from {
            self.fault(&format!("{number} goes from {before:?} to {to:?}"));
        }
        if to.is_final() {
            self.finals.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A payload on its way into the engine.
    pub(crate) fn submit(self: &Arc<Self>, number: usize, plan: &Plan) -> Slip {
        let entry = &self.entries[number];
        entry.kind.store(plan.kind as u8, Ordering::Relaxed);
        let facts = u64::from(plan.raw_tokens) << 32 | u64::from(plan.may_run_on);
        entry.facts.store(facts, Ordering::Relaxed);
        self.pass(number, Holder::Nobody, Holder::Engine);
        Slip {
            number,
            ledger: Arc::clone(self),
        }
    }

    pub(crate) fn refused(&self, slip: &Slip) {
        self.pass(slip.number, Holder::Engine, Holder::Refused);
    }

    /// Its ticket is about to be cancelled.
    pub(crate) fn cancel(&self, number: usize) {
        let flags = &self.entries[number].flags;
        flags.fetch_or(CANCELLED, Ordering::Relaxed);
    }

    pub(crate) fn dispatched(&self, dispatch: &Dispatch<Slip>) {
        let number = dispatch.payload.number;
        self.pass(number, Holder::Engine, Holder::Embedder);
        let facts = self.entries[number].facts.load(Ordering::Relaxed);
        let worker = dispatch.endpoint.worker.0;
        if facts & 1 << worker == 0 {
            self.fault(&format!("{number} was not to run on worker {worker}"));
        }
        if u64::from(dispatch.snapshot.raw) != facts >> 32 {
            self.fault(&format!("{number} has another price"));
        }
    }

    /// Its dispatch is about to go back.
    pub(crate) fn requeue(&self, number: usize) {
        let flags = &self.entries[number].flags;
        flags.fetch_or(REQUEUED, Ordering::Relaxed);
        self.pass(number, Holder::Embedder, Holder::Engine);
    }

    /// Its dispatch did not go back after all.
    pub(crate) fn requeue_refused(&self, number: usize) {
        self.pass(number, Holder::Engine, Holder::Embedder);
    }

    pub(crate) fn complete(&self, number: usize) {
        self.pass(number, Holder::Embedder, Holder::Complete);
    }

    pub(crate) fn ended(&self, ended: &Ended<Slip>) {
        let number = ended.payload.number;
        self.pass(number, Holder::Engine, Holder::Ended);
        let entry = &self.entries[number];
        let kind = Kind::of(entry.kind.load(Ordering::Relaxed));
        let flags = entry.flags.load(Ordering::Relaxed);
        let is_plausible = match ended.outcome {
            Outcome::Rejected(rejection) => match rejection.kind {
                LimitKind::MayWait => kind == Kind::Impatient,
                _ => rejection.current >= rejection.limit,
            },
            Outcome::Expired => kind.may_expire(),
            Outcome::Cancelled => flags & CANCELLED != 0,
            Outcome::Failed(FailReason::HandOff) => flags & REQUEUED != 0,
            Outcome::Failed(reason) => kind.may_fail(reason),
            Outcome::ShuttingDown => self.stopping.load(Ordering::Relaxed) != 0,
        };
        if !is_plausible {
            self.fault(&format!("{number}, {kind:?}, ended as {:?}", ended.outcome));
        }
    }

    pub(crate) fn returned(&self, slip: &Slip) {
        self.pass(slip.number, Holder::Engine, Holder::Returned);
    }

    pub(crate) fn taken_back(&self, slip: &Slip) {
        self.pass(slip.number, Holder::Engine, Holder::TakenBack);
    }

    /// The last `count` numbers.
    pub(crate) fn spare(&self, count: usize) -> std::ops::Range<usize> {
        self.entries.len() - count..self.entries.len()
    }

    /// From here on requests may end because the engine stops.
    pub(crate) fn stop(&self) {
        self.stopping.store(1, Ordering::Relaxed);
    }

    /// How many payloads have come to their end.
    pub(crate) fn finals(&self) -> usize {
        self.finals.load(Ordering::Relaxed)
    }

    /// Fails unless each of the payloads that were made, in number, came to exactly one end.
    pub(crate) fn audit(&self, made: usize) {
        let mut unfinished = Vec::new();
        let mut finished = 0;
        for number in 0..self.entries.len() {
            let holder = self.holder(number);
            finished += usize::from(holder.is_final());
            if matches!(holder, Holder::Engine | Holder::Embedder) && unfinished.len() < 8 {
                let kind = Kind::of(self.entries[number].kind.load(Ordering::Relaxed));
                unfinished.push((number, holder, kind));
            }
        }
        assert!(unfinished.is_empty(), "without an end: {unfinished:?}");
        assert_eq!(
            (finished, self.finals()),
            (made, made),
            "ends, and ends counted"
        );
        assert_eq!(self.faults.load(Ordering::Relaxed), 0, "faults, see above");
    }
}
