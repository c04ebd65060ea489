//! Random WSPT keys with a standing backlog: one enqueue and one selection a step.
//!
//! C classes of quanta 1,024 to 8,192, an exact lane for each of L endpoints in each class, N
//! entries in all, nothing blocked. Costs are uniform from 1 to 8,192 tokens, so that keys arrive
//! in random order. Each step enqueues one request into a random lane and makes one selection, so
//! N stay waiting. Tollgate also ends what it dispatched; the incumbent's queue keeps no such
//! books, so that is measured apart, in the last column.

use crate::incumbent::{Incumbent, Stamped};
use crate::measure::{Summary, interleave, print_head, print_row, time};
use crate::ours::Ours;
use crate::random::Random;
use crate::subject::{ClassPlan, Placement, Plan, Request, Subject, Ticks};

const COST_MAX: u32 = 8_192;
/// (classes, lanes of a class, waiting entries in all).
const SIZES: [(u32, u32, u32); 3] = [(8, 256, 1 << 14), (8, 1_024, 1 << 16), (8, 1_024, 1 << 20)];

#[derive(Clone, Debug)]
struct Stream {
    random: Random,
    classes: u32,
    lanes: u32,
    next_id: u32,
}

impl Stream {
    fn new(classes: u32, lanes: u32) -> Self {
        Self {
            random: Random::new(7),
            classes,
            lanes,
            next_id: 0,
        }
    }

    fn next(&mut self) -> Request {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        Request {
            id,
            class: self.random.below(self.classes) as usize,
            tokens: self.random.between(1, COST_MAX),
            // WSPT does not look at it; a constant keeps it out of the comparison.
            arrival: Ticks(0),
            jump: Ticks(0),
            strict_priority: 0,
            placement: Placement::Pinned(self.random.below(self.lanes)),
        }
    }

    fn take(&mut self, count: u32) -> Vec<Request> {
        (0..count).map(|_| self.next()).collect()
    }
}

/// A subject with its backlog, and the stream that goes on from there.
struct Standing<S> {
    subject: S,
    stream: Stream,
    steps: u32,
    settle_nanos: Vec<f64>,
}

impl<S: Subject> Standing<S> {
    fn new(classes: u32, lanes: u32, waiting: u32, steps: u32) -> Self {
        let plan = Plan {
            classes: (0..classes)
                .map(|class| ClassPlan {
                    quantum: 1_024 * (u64::from(class) + 1),
                    order: "wspt",
                })
                .collect(),
            endpoints: lanes,
            capacity: waiting + steps,
            narrowed: false,
            page: false,
        };
        let mut stream = Stream::new(classes, lanes);
        let mut subject = S::of(&plan);
        for _ in 0..waiting {
            subject.enqueue(&stream.next());
        }
        Self {
            subject,
            stream,
            steps,
            settle_nanos: Vec::new(),
        }
    }

    /// One repetition: nanoseconds per step.
    fn repeat(&mut self) -> f64 {
        let requests = self.stream.take(self.steps);
        let operations = u64::from(self.steps);
        let subject = &mut self.subject;
        let (dispatched, nanos) = time(operations, || {
            let mut dispatched = 0;
            for request in &requests {
                subject.enqueue(request);
                dispatched += u64::from(subject.pop().is_some());
            }
            dispatched
        });
        assert_eq!(
            dispatched, operations,
            "nothing is blocked, so each step dispatches"
        );
        let ((), settle) = time(operations, || subject.settle());
        self.settle_nanos.push(settle);
        nanos
    }
}

/// Runs and prints all sizes.
pub(crate) fn run(quick: bool) {
    let (repetitions, steps) = if quick { (3, 256) } else { (41, 4_096) };
    let sizes = if quick { &SIZES[..1] } else { &SIZES[..] };
    println!(
        "\nRandom WSPT keys, enqueue + select + dispatch: {repetitions} repetitions of {steps} steps, \
         sides alternating"
    );
    print_head(
        "classes, lanes, waiting",
        Incumbent::<Stamped>::NAME,
        Ours::NAME,
    );
    for &(classes, lanes, waiting) in sizes {
        let mut incumbent = Standing::<Incumbent<Stamped>>::new(classes, lanes, waiting, steps);
        let mut ours = Standing::<Ours>::new(classes, lanes, waiting, steps);
        let summaries = interleave(
            repetitions,
            &mut [&mut || incumbent.repeat(), &mut || ours.repeat()],
        );
        let name = format!("({classes}, {lanes}, {waiting})");
        print_row(&name, &summaries[0], &summaries[1]);
        let settle = Summary::of(ours.settle_nanos);
        println!(
            "{:<30} and {:.1} ns a request to complete it at tollgate",
            "", settle.median
        );
    }
}
