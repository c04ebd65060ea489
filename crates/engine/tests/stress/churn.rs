//! A thread that changes everything that can be changed while requests run.

use tollgate::stats::Stats;
use tollgate::{Control, ControlError, Endpoint, ModelIndex, Resource, Worker, WorkerId};

use crate::draws::Draws;
use crate::ingress::Life;
use crate::plan::{
    CHURNED, LONELY, OVERLOADED, SECOND_MODEL, TAINT, TAINTED, UNAVAILABLE, WORKERS, policy,
};
use crate::tally::{Count, Tally};

const MODEL: ModelIndex = ModelIndex(0);

/// All workers of both models, as they are at the start and at the end.
pub(crate) fn workers() -> Vec<(ModelIndex, Worker)> {
    let first = (1..=WORKERS).map(|id| (MODEL, worker(id)));
    first.chain([(SECOND_MODEL, Worker::new(LONELY))]).collect()
}

fn worker(id: u64) -> Worker {
    let worker = Worker::new(id);
    if id == TAINTED {
        let ranks = 2;
        return Worker { ranks, ..worker }.with_taints([TAINT]);
    }
    worker
}

pub(crate) struct Churn<'a> {
    pub(crate) control: Control,
    pub(crate) stats: Stats,
    pub(crate) life: &'a Life,
    pub(crate) draws: Draws,
    pub(crate) tally: Tally,
    pub(crate) season: usize,
}

impl Churn<'_> {
    /// Changes things until the requests are over or the engine is closed.
    pub(crate) fn run(mut self) -> Tally {
        while !self.life.is_over() {
            let done = self.change();
            self.tally.add(Count::ControlCall, 1);
            match done {
                Ok(()) | Err(ControlError::Unknown) => {}
                Err(ControlError::Closed(_)) => break,
                // So many changes of a class's order while its entries live are refused (S3.7).
                Err(ControlError::Full(full)) if full.what == Resource::OrderChanges => {}
                Err(error) => {
                    self.life
                        .ledger
                        .fault(&format!("a control call fails: {error}"));
                }
            }
            (0..self.draws.below(4)).for_each(|_| std::thread::yield_now());
        }
        self.tally
    }

    fn change(&mut self) -> Result<(), ControlError> {
        let control = &self.control;
        let draws = &mut self.draws;
        match draws.below(16) {
            0 => control.remove_worker(MODEL, WorkerId(draws.pick(&CHURNED))),
            1 => control.upsert_worker(MODEL, worker(draws.pick(&CHURNED))),
            2 => control.remove_worker(SECOND_MODEL, WorkerId(LONELY)),
            3 | 4 => control.upsert_worker(SECOND_MODEL, Worker::new(LONELY)),
            5 | 6 => {
                let overloaded = !draws.one_in(4);
                control.set_overloaded(MODEL, WorkerId(OVERLOADED), overloaded)
            }
            7 => {
                let available = draws.one_in(4);
                control.set_available(MODEL, WorkerId(UNAVAILABLE), available)
            }
            8 | 9 => {
                let endpoint = Endpoint::new(draws.pick(&[1, 2, 3, 4, 7]), draws.below(2));
                let tokens = u64::from(draws.below(8) * 1_000);
                control.set_load(MODEL, endpoint, tokens)
            }
            10 => {
                let taints = if draws.one_in(3) { &[][..] } else { &[TAINT] };
                control.set_taints(MODEL, WorkerId(TAINTED), taints.iter().copied())
            }
            11 | 12 => self.reload(),
            13 => control.snapshot(MODEL, 4).map(drop),
            14 => control
                .set_load(ModelIndex(9), Endpoint::new(1, 0), 1)
                .or_else(|error| match error {
                    ControlError::UnknownModel { .. } => Ok(()),
                    error => Err(error),
                }),
            _ => {
                self.read();
                Ok(())
            }
        }
    }

    fn reload(&mut self) -> Result<(), ControlError> {
        self.season += 1;
        self.tally.add(Count::Reload, 1);
        self.control.reload(MODEL, policy(self.season)).map(|_| ())
    }

    /// Lengths are lengths, whenever they are looked at.
    fn read(&self) {
        let now = self.stats.read();
        let rings = now
            .ingress
            .iter()
            .map(|shard| (shard.ring_len, shard.ring_capacity));
        let rings = rings.chain(
            now.egress
                .iter()
                .map(|shard| (shard.ring_len, shard.ring_capacity)),
        );
        for (len, capacity) in rings {
            if len > capacity {
                self.life
                    .ledger
                    .fault(&format!("{len} in a ring of {capacity}"));
            }
        }
    }
}

/// Puts everything back, so that what waits can run or fail.
pub(crate) fn calm(control: &Control) -> Result<(), ControlError> {
    for (model, worker) in workers() {
        let ranks = worker.ranks;
        let id = worker.id;
        control.upsert_worker(model, worker)?;
        for rank in 0..ranks {
            let endpoint = Endpoint { worker: id, rank };
            control.set_load(model, endpoint, 0)?;
        }
    }
    Ok(())
}
