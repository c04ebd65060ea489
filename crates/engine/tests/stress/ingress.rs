//! A thread that submits and cancels.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tollgate::{Clock, IngressShard, Refusal, Refused, Releases, Request, Ticket};

use crate::draws::Draws;
use crate::ledger::{Ledger, Slip};
use crate::plan::{Kind, Plan};
use crate::tally::{Count, Tally};

/// How many tickets it keeps, to cancel them.
const TICKETS: usize = 24;
/// How many requests a batch has at most.
const BATCH: u32 = 40;

/// What all threads of a life share.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) ledger: Arc<Ledger>,
    /// How many payloads were made.
    pub(crate) made: AtomicUsize,
    /// Nothing new comes: what runs is completed.
    pub(crate) is_over: AtomicBool,
}

impl Life {
    pub(crate) fn new(requests: usize) -> Self {
        Self {
            ledger: Ledger::new(requests),
            made: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

pub(crate) struct Submitter<'a> {
    pub(crate) shard: IngressShard<Slip>,
    pub(crate) life: &'a Life,
    pub(crate) clock: Clock,
    pub(crate) releases: Releases,
    pub(crate) draws: Draws,
    pub(crate) tally: Tally,
    /// Its requests' numbers.
    pub(crate) numbers: std::ops::Range<usize>,
    pub(crate) tickets: Vec<(Ticket, usize)>,
}

impl Submitter<'_> {
    /// Submits all its requests, or until the engine closes.
    pub(crate) fn run(mut self) -> (IngressShard<Slip>, Tally) {
        let mut is_open = true;
        while is_open && !self.numbers.is_empty() {
            match self.draws.below(16) {
                0..10 => is_open = self.submit_one(),
                10..13 => is_open = self.submit_batch(),
                13 => self.cancel_some(),
                14 => self.cancel_many(),
                _ => self.shard.refresh(),
            }
        }
        (self.shard, self.tally)
    }

    fn submit_one(&mut self) -> bool {
        let plan = Plan::draw(&mut self.draws, self.clock.now());
        let number = self.numbers.next().expect("asked before");
        self.life.made.fetch_add(1, Ordering::Relaxed);
        let slip = self.life.ledger.submit(number, &plan);
        let result = self.shard.try_submit(plan.request(slip));
        let mut heard = Heard::new(self.life);
        heard.hear(number, &plan, result);
        self.learn(heard)
    }

    fn submit_batch(&mut self) -> bool {
        let count = 1 + self.draws.below(BATCH) as usize;
        let count = count.min(self.numbers.len());
        let now = self.clock.now();
        let plans: Vec<Plan> = (0..count)
            .map(|_| Plan::draw(&mut self.draws, now))
            .collect();
        let numbers = self.numbers.start..self.numbers.start + count;
        self.numbers.start += count;
        self.life.made.fetch_add(count, Ordering::Relaxed);
        let ledger = &self.life.ledger;
        let requests = plans.iter().zip(numbers.clone());
        // Now and then others get on, or the engine closes, while the batch is made.
        let is_slow = self.draws.one_in(8);
        let requests = requests.map(|(plan, number)| {
            if is_slow {
                std::thread::yield_now();
            }
            plan.request(ledger.submit(number, plan))
        });
        let mut heard = Heard::new(self.life);
        let mut next = numbers.zip(&plans);
        self.shard.submit_batch(requests, |result| {
            let (number, plan) = next.next().expect("as many answers as requests");
            heard.hear(number, plan, result);
        });
        assert!(next.next().is_none(), "as many answers as requests");
        self.tally.add(Count::Batch, 1);
        self.learn(heard)
    }

    /// Goes on with what was heard; false once the engine is closed.
    fn learn(&mut self, heard: Heard<'_>) -> bool {
        self.tally.merge(&heard.tally);
        self.tickets.extend(heard.tickets);
        let excess = self.tickets.len().saturating_sub(TICKETS);
        self.tickets.drain(..excess);
        if heard.is_full {
            // Whom it waits for may need this core.
            (0..self.draws.below(16)).for_each(|_| std::thread::yield_now());
        }
        !heard.is_closed
    }

    fn draw_ticket(&mut self) -> Option<Ticket> {
        let bound = u32::try_from(self.tickets.len()).expect("a few");
        let at = bound.checked_sub(1).map(|_| self.draws.below(bound))?;
        let (ticket, number) = self.tickets[at as usize];
        self.life.ledger.cancel(number);
        self.tally.add(Count::Cancel, 1);
        Some(ticket)
    }

    fn cancel_some(&mut self) {
        for _ in 0..3 {
            if let Some(ticket) = self.draw_ticket() {
                self.shard.cancel(ticket);
            }
        }
    }

    /// More than the ring holds, and some from anywhere.
    fn cancel_many(&mut self) {
        for _ in 0..self.draws.below(24) {
            if let Some(ticket) = self.draw_ticket() {
                self.shard.cancel(ticket);
            }
        }
        if let Some(ticket) = self.draw_ticket() {
            self.releases.cancel(ticket);
        }
    }
}

/// What the engine answered.
struct Heard<'a> {
    life: &'a Life,
    tally: Tally,
    tickets: Vec<(Ticket, usize)>,
    is_full: bool,
    is_closed: bool,
}

impl<'a> Heard<'a> {
    fn new(life: &'a Life) -> Self {
        Self {
            life,
            tally: Tally::default(),
            tickets: Vec::new(),
            is_full: false,
            is_closed: false,
        }
    }

    fn hear(
        &mut self,
        number: usize,
        plan: &Plan,
        result: Result<Ticket, Refused<Request<'_, Slip>>>,
    ) {
        let refused = match result {
            Ok(ticket) => {
                if plan.kind == Kind::Invalid {
                    self.life.ledger.fault("an invalid request was accepted");
                }
                self.tally.add(Count::Accepted, 1);
                self.tickets.push((ticket, number));
                return;
            }
            Err(refused) => refused,
        };
        if refused.request.payload.number != number {
            self.life.ledger.fault("another request came back");
        }
        self.life.ledger.refused(&refused.request.payload);
        match refused.reason {
            Refusal::Invalid(_) if plan.kind == Kind::Invalid => {
                self.tally.add(Count::RefusedInvalid, 1);
            }
            Refusal::Closed => {
                self.is_closed = true;
                self.tally.add(Count::RefusedClosed, 1);
            }
            Refusal::Full { what } => {
                self.is_full = true;
                self.tally.add(Count::Full(what), 1);
            }
            reason => self
                .life
                .ledger
                .fault(&format!("{:?} is {reason}", plan.kind)),
        }
    }
}
