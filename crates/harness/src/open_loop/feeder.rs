//! A thread's worth of submitting what is due and receiving what comes out.

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate::{Clock, Delivery, EgressShard, IngressShard, Refusal};

use super::recorder::Handed;
use super::{Arrivals, Intakes, Rooms, Watch};
use crate::pipeline::{Asks, BATCH};

/// The payload of requests that do not belong to the schedule: those of an [`Outside`].
pub const FOREIGN: u64 = 1 << 63;
/// What is on its way this long after everything was due, in nanoseconds on the engine's clock, never
/// comes out.
const PATIENCE_NS: u64 = 60_000_000_000;

/// What happens around the schedule, on the feeder's thread.
pub trait Outside {
    /// Before each look at what is due. What it submits must have the payload [`FOREIGN`], comes out of the same
    /// egress shards, and must come to an end; it returns how many it submitted.
    fn at_doorway(&mut self, _now: u64, _ingress: &mut IngressShard<u64>) -> u64 {
        0
    }

    /// Whether an egress shard is not looked at now.
    fn stalls(&mut self, _egress: usize, _now: u64) -> bool {
        false
    }
}

/// Nothing happens.
#[derive(Clone, Copy, Debug)]
pub struct Quiet;

impl Outside for Quiet {}

/// What a feeder is made of.
#[derive(Debug)]
pub struct Feed<A, O> {
    /// Where requests go in.
    pub ingress: IngressShard<u64>,
    /// Where they come out.
    pub egress: Vec<EgressShard<u64>>,
    /// The requests.
    pub asks: Asks,
    /// The engine's clock.
    pub clock: Clock,
    /// When they are due.
    pub arrivals: A,
    /// What happens besides.
    pub outside: O,
    /// What is recorded.
    pub watch: Watch,
    /// Where a turner tells what it took in.
    pub intakes: Option<Arc<Intakes>>,
    /// The most requests that are accepted and not handed out: the engine's slots.
    pub live: usize,
}

/// A request that is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    due: u64,
    tried_at: u64,
    taken_at: Option<u64>,
}

/// Feeds an engine by a schedule.
#[derive(Debug)]
pub struct Feeder<A, O> {
    feed: Feed<A, O>,
    rooms: Rooms,
    first_due: Option<u64>,
    last_due: u64,
    last_handed: u64,
    /// What is under way; a request's payload is its place.
    table: Box<[Entry]>,
    free: Vec<u32>,
    scheduled: u64,
    handed: u64,
    foreign: u64,
    /// Places of what is due and not accepted.
    waiting: Vec<u32>,
    refused: Vec<u32>,
    tries_full: u64,
    received: Vec<Delivery<u64>>,
    /// Places of what was accepted, in order, as far as it is not known when it was taken in.
    untaken: VecDeque<u32>,
    /// Intakes that are known.
    taken: u64,
    /// Handed out before it is known when it was taken in.
    unstamped: VecDeque<(u32, usize, Handed)>,
}

impl<A: Arrivals, O: Outside> Feeder<A, O> {
    /// Nothing is under way.
    ///
    /// # Panics
    /// If there are 2^32 slots or more; an engine has fewer.
    #[must_use]
    pub fn new(feed: Feed<A, O>) -> Self {
        let start = feed.clock.now().0;
        // Those that wait for room have a place as well.
        let places = u32::try_from(feed.live + BATCH).expect("slots are numbered by 32 bits");
        Self {
            rooms: Rooms::new(&feed.watch, feed.egress.len(), start),
            first_due: None,
            last_due: start,
            last_handed: start,
            table: vec![Entry::default(); places as usize].into_boxed_slice(),
            free: (0..places).rev().collect(),
            scheduled: 0,
            handed: 0,
            foreign: 0,
            waiting: Vec::with_capacity(BATCH),
            refused: Vec::with_capacity(BATCH),
            tries_full: 0,
            received: Vec::with_capacity(BATCH),
            untaken: VecDeque::with_capacity(places as usize),
            taken: feed.intakes.as_ref().map_or(0, |intakes| intakes.count()),
            unstamped: VecDeque::with_capacity(BATCH),
            feed,
        }
    }

    /// Looks once: submits what is due, takes what comes out. False when nothing is left.
    ///
    /// # Panics
    /// If a request of the schedule is not dispatched, or nothing comes out for a minute.
    pub fn step(&mut self) -> bool {
        let now = self.feed.clock.now().0;
        self.foreign += self.feed.outside.at_doorway(now, &mut self.feed.ingress);
        self.schedule(now);
        self.submit();
        self.rooms.in_flight(now, self.scheduled - self.handed);
        for egress in 0..self.feed.egress.len() {
            if !self.feed.outside.stalls(egress, now) {
                self.receive(egress);
            }
        }
        self.stamp();
        let is_over = self.feed.arrivals.due().is_none()
            && self.handed == self.scheduled
            && self.foreign == 0
            && self.unstamped.is_empty();
        let since = now.saturating_sub(self.last_due.max(self.last_handed));
        assert!(
            is_over || since < PATIENCE_NS || self.handed == self.scheduled,
            "{} of {} requests did not come out",
            self.scheduled - self.handed,
            self.scheduled
        );
        !is_over
    }

    fn schedule(&mut self, now: u64) {
        while self.waiting.len() < BATCH
            && let Some(due) = self.feed.arrivals.due().filter(|&due| due <= now)
            && let Some(place) = self.free.pop()
        {
            self.table[place as usize] = Entry {
                due,
                tried_at: now,
                taken_at: None,
            };
            self.waiting.push(place);
            self.first_due.get_or_insert(due);
            self.last_due = due;
            self.scheduled += 1;
            self.feed.arrivals.advance();
        }
    }

    fn submit(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let Self {
            feed,
            waiting,
            refused,
            untaken,
            ..
        } = self;
        let mut places = waiting.iter();
        let is_watched = feed.intakes.is_some();
        let requests = waiting.iter().map(|&place| feed.asks.ask(place.into()));
        feed.ingress.submit_batch(requests, |answer| {
            let place = *places.next().expect("an answer for each request");
            match answer {
                Ok(_) if is_watched => untaken.push_back(place),
                Ok(_) => (),
                Err(refusal) if matches!(refusal.reason, Refusal::Full { .. }) => {
                    refused.push(place);
                }
                Err(refusal) => panic!("{}", refusal.reason),
            }
        });
        self.tries_full += self.refused.len() as u64;
        self.waiting.clear();
        std::mem::swap(&mut self.waiting, &mut self.refused);
    }

    fn receive(&mut self, egress: usize) {
        let Self {
            feed,
            received,
            rooms,
            table,
            ..
        } = self;
        let shard = &mut feed.egress[egress];
        let count = shard
            .try_recv_batch(BATCH, received)
            .expect("the engine runs");
        if count == 0 {
            return;
        }
        let now = feed.clock.now().0;
        let mut feedback = shard.feedback();
        for delivery in received.drain(..) {
            let Delivery::Dispatch(dispatch) = delivery else {
                assert_eq!(delivery.into_payload(), FOREIGN, "requests are dispatched");
                self.foreign -= 1;
                continue;
            };
            feedback.prefill_done(dispatch.receipt());
            feedback.complete(dispatch.receipt());
            if dispatch.payload == FOREIGN {
                self.foreign -= 1;
                continue;
            }
            let place = u32::try_from(dispatch.payload).expect("a payload is a place");
            let entry = table[place as usize];
            let handed = Handed {
                class: dispatch.class.0,
                due: entry.due,
                tried_at: entry.tried_at,
                submitted_at: dispatch.submitted_at.0,
                dispatched_at: dispatch.dispatched_at.0,
                handed_at: now,
            };
            if feed.intakes.is_some() && entry.taken_at.is_none() {
                self.unstamped.push_back((place, egress, handed));
            } else {
                rooms.came_out(egress, &handed, entry.taken_at);
                self.free.push(place);
            }
            self.handed += 1;
            feed.arrivals.came_out(now);
        }
        self.last_handed = now;
    }

    /// Learns what was taken in meanwhile, and records what was handed out before that was known.
    fn stamp(&mut self) {
        let Some(intakes) = &self.feed.intakes else {
            return;
        };
        while let Some(taken_at) = intakes.of(self.taken) {
            let place = self
                .untaken
                .pop_front()
                .expect("only what was accepted is taken in");
            self.table[place as usize].taken_at = Some(taken_at);
            self.taken += 1;
        }
        // The core tells of a turn's intake after its dispatches, so that what is known now came first.
        while let Some((place, egress, handed)) = self.unstamped.front() {
            let Some(taken_at) = self.table[*place as usize].taken_at else {
                return;
            };
            self.rooms.came_out(*egress, handed, Some(taken_at));
            self.free.push(*place);
            self.unstamped.pop_front();
        }
    }

    /// Steps until nothing is left.
    ///
    /// # Panics
    /// As [`step`](Self::step).
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// What was recorded, and what the feeder was made of.
    #[must_use]
    pub fn finish(self) -> (Rooms, Feed<A, O>) {
        (self.rooms, self.feed)
    }

    /// Scheduled arrivals a second, from the first to the last one; `None` if all were due at one moment.
    #[must_use]
    pub fn offered(&self) -> Option<f64> {
        rate(
            self.scheduled,
            self.last_due.saturating_sub(self.first_due?),
        )
    }

    /// Requests handed out a second, from the first arrival to the last one that came out; `None` without
    /// any.
    #[must_use]
    pub fn achieved(&self) -> Option<f64> {
        rate(
            self.handed,
            self.last_handed.saturating_sub(self.first_due?),
        )
    }

    /// How often a request found no room; each is submitted again until it is accepted.
    #[must_use]
    pub const fn tries_full(&self) -> u64 {
        self.tries_full
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts and spans stay far below 2^53"
)]
fn rate(count: u64, span_ns: u64) -> Option<f64> {
    (span_ns > 0).then(|| count as f64 * 1e9 / span_ns as f64)
}
