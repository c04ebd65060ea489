//! S6.9: while nobody blocks, `exact` dispatches in the order of textbook Deficit Round Robin.
//!
//! The textbook is written out here: a list of active classes, one quantum a visit, no look ahead.

mod common;

use std::collections::VecDeque;
use tollgate_arbiter::{
    Arbiter, Capacities, Event, Nanos, Options, Request, SlotPool, WorkerRecord,
};

use common::classes;

/// `SplitMix64`.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

struct Queue {
    quantum: u64,
    deficit: u64,
    /// Number and cost.
    waiting: VecDeque<(u32, u64)>,
}

/// Shreedhar and Varghese's loop over classes that are all backlogged from the start: visit, add a
/// quantum, serve while the head is affordable, and go on behind the others.
fn textbook(mut queues: Vec<Queue>) -> Vec<u32> {
    let mut active: VecDeque<usize> = (0..queues.len()).collect();
    active.retain(|&at| !queues[at].waiting.is_empty());
    let mut order = Vec::new();
    while let Some(at) = active.pop_front() {
        let queue = &mut queues[at];
        queue.deficit += queue.quantum;
        while let Some(&(number, cost)) = queue.waiting.front() {
            if cost > queue.deficit {
                break;
            }
            queue.deficit -= cost;
            queue.waiting.pop_front();
            order.push(number);
        }
        if queue.waiting.is_empty() {
            queue.deficit = 0;
        } else {
            active.push_back(at);
        }
    }
    order
}

fn arbitrated(quanta: &[u64], requests: &[(usize, u64)], burst: u64) -> Vec<u32> {
    let lines: Vec<_> = quanta
        .iter()
        .enumerate()
        .map(|(at, q)| format!("c{at} quantum: {q}"))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let capacities = Capacities {
        slots: 1 << 9,
        classes: 16,
        endpoints: 4,
        ..Capacities::default()
    };
    let mut arbiter =
        Arbiter::build(&classes(&lines), capacities, Options::default()).expect("fits");
    let mut slots = SlotPool::new(capacities.slots);
    arbiter.upsert_worker(&WorkerRecord::new(1)).expect("room");
    for (number, &(class, cost)) in (0..).zip(requests) {
        let ticket = slots.take().expect("a slot");
        let request = Request::new(u32::try_from(cost).expect("a cost"), Nanos(0));
        let name = format!("c{class}");
        arbiter
            .submit(ticket, Some(&name), &request, number, &mut |_| {})
            .expect("accepted");
    }
    let mut order = Vec::new();
    let mut sink = |event: Event<u32>| {
        if let Event::Dispatched(dispatch) = event {
            order.push(dispatch.payload);
        }
    };
    while !arbiter.arbitrate(Some(burst), &mut sink).dry {}
    order
}

#[test]
fn s6_9_unblocked_order_is_that_of_textbook_drr() {
    for seed in 0..1_000 {
        let mut draw = Draw(seed);
        let sizes = [1, 3, 20, 1_000, 40_000];
        let count = 1 + usize::try_from(draw.below(9)).expect("small");
        let size = |draw: &mut Draw| {
            let size = sizes[usize::try_from(draw.below(5)).expect("small")];
            1 + draw.below(size)
        };
        let quanta: Vec<u64> = (0..count).map(|_| size(&mut draw)).collect();
        let largest: Vec<u64> = (0..count).map(|_| size(&mut draw)).collect();
        let requests: Vec<(usize, u64)> = (0..20 + draw.below(180))
            .map(|_| {
                let class = usize::try_from(draw.below(count as u64)).expect("small");
                (class, 1 + draw.below(largest[class]))
            })
            .collect();
        let mut queues: Vec<Queue> = quanta
            .iter()
            .map(|&quantum| Queue {
                quantum,
                deficit: 0,
                waiting: VecDeque::new(),
            })
            .collect();
        for (number, &(class, cost)) in (0..).zip(&requests) {
            queues[class].waiting.push_back((number, cost));
        }
        let expected = textbook(queues);
        assert_eq!(expected.len(), requests.len());
        let burst = 1 + draw.below(7);
        assert_eq!(
            arbitrated(&quanta, &requests, burst),
            expected,
            "seed {seed}"
        );
    }
}
