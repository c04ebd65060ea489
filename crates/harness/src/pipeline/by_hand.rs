//! The same lives with everything on one thread, part by part: what each part costs when no line
//! moves between cores and nobody waits.

use std::time::{Duration, Instant};

use tollgate::ByHand;

use super::{Asks, Flow, Receiver, Rig, Submitter};
use crate::machine::Cores;

/// Nanoseconds of one life, by who spends them.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Submitting, on the ingress shard's thread.
    pub doorway: f64,
    /// The core's turns.
    pub core: f64,
    /// Receiving and releasing, on the egress shard's thread.
    pub egress: f64,
}

impl Parts {
    /// Takes `lives` lives through an engine that is turned by hand, `window` in flight, after as many
    /// untimed ones. Each batch is followed by one turn.
    ///
    /// # Panics
    /// If the engine cannot be built, or something else than dispatches comes out.
    #[must_use]
    pub fn by_hand(rig: &Rig, asks: Asks, prefill: bool, lives: u64, window: usize) -> Self {
        let ByHand {
            mut core,
            handles,
            ingress,
            mut egress,
        } = rig
            .builder(Cores::NOBODY)
            .build_by_hand::<u64>()
            .expect("the rig is valid");
        let clock = handles.clock();
        let receiver = Receiver::new(egress.remove(0), prefill);
        let mut flow = Flow::new(Submitter::of(asks, ingress), receiver);
        let (mut spent, mut received) = ([Duration::ZERO; 3], 0);
        for _warm_then_timed in 0..2 {
            (spent, received) = ([Duration::ZERO; 3], 0);
            while received < lives {
                let start = Instant::now();
                flow.submit(window);
                let submitted = Instant::now();
                core.turn(clock.now());
                let turned = Instant::now();
                received += flow.receive() as u64;
                spent[0] += submitted - start;
                spent[1] += turned - submitted;
                spent[2] += turned.elapsed();
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
        let received = received as f64;
        let [doorway, core, egress] = spent.map(|span| span.as_secs_f64() * 1e9 / received);
        Self {
            doorway,
            core,
            egress,
        }
    }
}
