//! A thread that receives, and gives feedback in every way there is.

use std::sync::mpsc::Sender;
use std::time::Duration;

use tollgate::{Closed, Delivery, Dispatch, EgressShard, Receipt, Releases, RequeueRefused};

use crate::draws::Draws;
use crate::ingress::Life;
use crate::ledger::Slip;
use crate::tally::{Count, Tally};

/// How many dispatches it keeps running at most.
const RUNNING: usize = 48;

pub(crate) struct Receiver<'a> {
    pub(crate) shard: EgressShard<Slip>,
    pub(crate) life: &'a Life,
    pub(crate) releases: Releases,
    /// To a thread that has no shard, and releases what it is told of.
    pub(crate) elsewhere: Sender<Receipt>,
    pub(crate) draws: Draws,
    pub(crate) tally: Tally,
    pub(crate) running: Vec<Dispatch<Slip>>,
    /// Released already, and handed back as well.
    pub(crate) released: Vec<Dispatch<Slip>>,
}

impl Receiver<'_> {
    /// Receives until the engine is closed; why it is.
    pub(crate) fn run(mut self) -> (Closed, Tally) {
        let mut deliveries = Vec::new();
        let closed = loop {
            match self.receive(&mut deliveries) {
                Ok(()) => {}
                Err(closed) => break closed,
            }
            for delivery in deliveries.drain(..) {
                self.take(delivery);
            }
            if self.life.is_over() {
                self.complete(usize::MAX);
            } else {
                self.go_on();
            }
        };
        self.running.append(&mut self.released);
        self.complete(usize::MAX);
        (closed, self.tally)
    }

    fn receive(&mut self, into: &mut Vec<Delivery<Slip>>) -> Result<(), Closed> {
        // Without end only if it has nothing that it must end itself.
        let may_wait = self.running.is_empty() && self.released.is_empty();
        match self.draws.below(8) {
            0 => into.extend(self.shard.try_recv()?),
            1 | 2 => {
                self.shard.try_recv_batch(16, into)?;
            }
            3 if may_wait => into.push(self.shard.recv()?),
            4 if may_wait => {
                self.shard.recv_batch(3, into)?;
            }
            _ => into.extend(self.shard.recv_timeout(Duration::from_micros(200))?),
        }
        Ok(())
    }

    fn take(&mut self, delivery: Delivery<Slip>) {
        let ledger = &self.life.ledger;
        match delivery {
            Delivery::Dispatch(dispatch) => {
                self.tally.add(Count::Dispatch, 1);
                ledger.dispatched(&dispatch);
                self.begin(dispatch);
            }
            Delivery::Ended(ended) => {
                self.tally.add(Count::Outcome(ended.outcome), 1);
                ledger.ended(&ended);
            }
            Delivery::Returned { payload, .. } => {
                self.tally.add(Count::Returned, 1);
                ledger.returned(&payload);
            }
        }
    }

    /// What becomes of a dispatch at first.
    fn begin(&mut self, dispatch: Dispatch<Slip>) {
        let (number, receipt) = (dispatch.payload.number, dispatch.receipt());
        match self.draws.below(16) {
            0..3 => self.requeue(dispatch),
            3 => {
                // Twice, and too late.
                self.life.ledger.complete(number);
                self.shard.complete(receipt);
                self.shard.complete(receipt);
                self.shard.prefill_done(receipt);
            }
            4 => {
                self.life.ledger.complete(number);
                let _ = self.elsewhere.send(receipt);
            }
            5 => {
                // Whichever is first: it comes back, or goes out once more.
                self.releases.complete(receipt);
                self.released.push(dispatch);
            }
            6 => {
                self.releases.prefill_done(receipt);
                self.running.push(dispatch);
            }
            7..10 => {
                self.shard.prefill_done(receipt);
                self.running.push(dispatch);
            }
            _ => self.running.push(dispatch),
        }
    }

    fn requeue(&mut self, dispatch: Dispatch<Slip>) {
        let number = dispatch.payload.number;
        self.life.ledger.requeue(number);
        match self.shard.requeue(dispatch) {
            Ok(()) => self.tally.add(Count::Requeue, 1),
            Err(RequeueRefused::Full(dispatch) | RequeueRefused::Closed(dispatch)) => {
                self.life.ledger.requeue_refused(number);
                self.tally.add(Count::RequeueRefused, 1);
                self.running.push(dispatch);
            }
        }
    }

    fn go_on(&mut self) {
        while self.draws.one_in(2)
            && let Some(dispatch) = self.released.pop()
        {
            self.requeue(dispatch);
        }
        if self.running.len() > RUNNING || self.draws.one_in(3) {
            let count = self.draws.below(20) as usize;
            self.complete(count);
        }
        if self.draws.one_in(400) {
            self.tally.add(Count::Pause, 1);
            (0..self.draws.below(100)).for_each(|_| std::thread::yield_now());
        }
    }

    /// Completes the oldest, in one batch.
    fn complete(&mut self, count: usize) {
        if self.life.is_over() {
            self.running.append(&mut self.released);
        }
        let count = count.min(self.running.len());
        if count == 0 {
            return;
        }
        let mut feedback = self.shard.feedback();
        for dispatch in self.running.drain(..count) {
            let receipt = dispatch.receipt();
            if self.draws.one_in(2) {
                feedback.prefill_done(receipt);
            }
            self.life.ledger.complete(dispatch.payload.number);
            feedback.complete(receipt);
        }
    }
}
