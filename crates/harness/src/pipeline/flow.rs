//! Submitting and receiving: each for a thread of its own, and both for one.

use std::iter::repeat_n;

use tollgate::{Delivery, EgressShard, IngressShard, Refusal, Refused};

use super::rig::Asks;

/// Requests that are submitted, or deliveries that are received, at one go.
pub const BATCH: usize = 64;

/// The ingress shards of an engine in the hands of one thread, and the requests that go into them.
#[derive(Debug)]
pub struct Submitter {
    ingress: Vec<IngressShard<u64>>,
    asks: Asks,
    last: usize,
}

impl Submitter {
    /// For all of these shards, in turns; pinned requests.
    #[must_use]
    pub fn new(ingress: Vec<IngressShard<u64>>) -> Self {
        Self::of(Asks::default(), ingress)
    }

    /// The same with other requests.
    #[must_use]
    pub const fn of(asks: Asks, ingress: Vec<IngressShard<u64>>) -> Self {
        Self {
            ingress,
            asks,
            last: 0,
        }
    }

    /// Submits a request for each payload through the next shard; how many were accepted. `full` hears of
    /// the payloads for which there was no room.
    ///
    /// # Panics
    /// If a request is refused for another reason than want of room.
    pub fn submit(
        &mut self,
        payloads: impl IntoIterator<Item = u64>,
        mut full: impl FnMut(u64),
    ) -> usize {
        let Self {
            ingress,
            asks,
            last,
        } = self;
        *last = (*last + 1) % ingress.len();
        let mut accepted = 0;
        let requests = payloads.into_iter().map(|payload| asks.ask(payload));
        ingress[*last].submit_batch(requests, |answer| match answer {
            Ok(_) => accepted += 1,
            Err(Refused {
                reason: Refusal::Full { .. },
                request,
            }) => full(request.payload),
            Err(refused) => panic!("{}", refused.reason),
        });
        accepted
    }
}

/// An egress shard, all of whose dispatches are released at once.
#[derive(Debug)]
pub struct Receiver {
    egress: EgressShard<u64>,
    prefill: bool,
    received: Vec<Delivery<u64>>,
}

impl Receiver {
    /// `prefill`: whether each dispatch is followed by `prefill_done` before `complete`.
    #[must_use]
    pub fn new(egress: EgressShard<u64>, prefill: bool) -> Self {
        Self {
            egress,
            prefill,
            received: Vec::with_capacity(BATCH),
        }
    }

    /// Receives up to [`BATCH`] dispatches without waiting and releases them, telling `each` their
    /// payloads; how many.
    ///
    /// # Panics
    /// If something else than a dispatch comes out, or the engine is closed.
    pub fn receive(&mut self, mut each: impl FnMut(u64)) -> usize {
        let Self {
            egress, received, ..
        } = self;
        let count = egress
            .try_recv_batch(BATCH, received)
            .expect("the engine runs");
        if count == 0 {
            return 0;
        }
        let mut feedback = egress.feedback();
        for delivery in received.drain(..) {
            let Delivery::Dispatch(dispatch) = delivery else {
                panic!("nothing but dispatches is expected, not {delivery:?}");
            };
            if self.prefill {
                feedback.prefill_done(dispatch.receipt());
            }
            feedback.complete(dispatch.receipt());
            each(dispatch.payload);
        }
        count
    }
}

/// Both in the hands of one thread.
#[derive(Debug)]
pub struct Flow {
    /// What goes in.
    pub submitter: Submitter,
    /// What comes out.
    pub receiver: Receiver,
    in_flight: usize,
}

impl Flow {
    /// With nothing in flight.
    #[must_use]
    pub const fn new(submitter: Submitter, receiver: Receiver) -> Self {
        Self {
            submitter,
            receiver,
            in_flight: 0,
        }
    }

    /// Submits a batch as far as no more than `window` requests are in flight, then receives one; how
    /// many were received.
    ///
    /// # Panics
    /// As [`Submitter::submit`] and [`Receiver::receive`].
    pub fn step(&mut self, window: usize) -> usize {
        self.submit(window);
        self.receive()
    }

    /// The first half of a [`step`](Self::step).
    ///
    /// # Panics
    /// As [`Submitter::submit`].
    pub fn submit(&mut self, window: usize) {
        let room = window.saturating_sub(self.in_flight).min(BATCH);
        if room > 0 {
            self.in_flight += self.submitter.submit(repeat_n(0, room), |_| ());
        }
    }

    /// The second half of a [`step`](Self::step).
    ///
    /// # Panics
    /// As [`Receiver::receive`].
    pub fn receive(&mut self) -> usize {
        let count = self.receiver.receive(|_| ());
        self.in_flight -= count;
        count
    }

    /// Steps until `lives` more have been received.
    ///
    /// # Panics
    /// As [`step`](Self::step).
    pub fn run(&mut self, lives: u64, window: usize) {
        let mut received = 0;
        while received < lives {
            received += self.step(window) as u64;
        }
    }
}
