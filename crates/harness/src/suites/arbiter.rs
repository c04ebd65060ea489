//! What does one decision cost, by itself: the arbiter on one thread, with a standing backlog.
//!
//! A *step* is select, complete, and the submission of a request like the one that was dispatched, so
//! that the backlog stays as it is. All that varies is in an arm's name: the order, classes (`c`), exact
//! lanes of each class (`l`; 0 is the shared lane alone), waiting requests (`n`), blocked lanes (`b`).

use std::hint::black_box;
use std::time::{Duration, Instant};

use tollgate_arbiter::Ticket;
use tollgate_policy::OrderPolicy;
use tollgate_report::Recording;

use super::{again_and_again, percent};
use crate::machine::{nanos, on_core};
use crate::method::{Case, Cases, Kind, Sample};
use crate::{Axes, Driver, Lane, Plan, Setup, Stream, Suite};

mod flip;

pub(super) const SUITE: Suite = Suite {
    name: "arbiter",
    about: "What does a decision cost as classes, lanes and backlog grow, and as lanes are blocked?",
    once: false,
    cases,
};

const STEP: Kind = Kind::nanos("a step");
const CANCEL: Kind = Kind::nanos("a cancel");

const TOKENS_MAX: u32 = 8_192;
/// Patience of requests that are ordered by deadline, in nanoseconds of a clock that stands still.
const PATIENCE_NS: u64 = 1 << 40;
/// Steps between two looks at the clock.
const BATCH: u32 = 256;

/// One configuration of the arbiter.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    classes: u32,
    lanes: u32,
    waiting: u32,
    order: OrderPolicy,
    blocked: f64,
}

impl Shape {
    const USUAL: Self = Self {
        classes: 8,
        lanes: 256,
        waiting: 1 << 14,
        order: OrderPolicy::Fcfs,
        blocked: 0.0,
    };

    fn name(&self) -> String {
        let Self {
            classes,
            lanes,
            waiting,
            order,
            blocked,
        } = self;
        let order = format!("{order:?}").to_lowercase();
        format!(
            "{order}/c{classes}/l{lanes}/n{waiting}/b{}",
            percent(*blocked)
        )
    }
}

/// What the suite measures by itself: one thing varies at a time.
fn usual_shapes() -> Vec<Shape> {
    let usual = Shape::USUAL;
    let mut shapes = vec![usual];
    shapes.extend([1, 64].map(|classes| Shape { classes, ..usual }));
    shapes.extend([0, 1, 1_024, 10_000].map(|lanes| Shape { lanes, ..usual }));
    shapes.extend([1 << 10, 1 << 16, 1 << 20].map(|waiting| Shape { waiting, ..usual }));
    shapes.extend([0.5, 0.9, 1.0].map(|blocked| Shape { blocked, ..usual }));
    shapes.extend(
        [OrderPolicy::Wspt, OrderPolicy::Lcfs, OrderPolicy::Edf]
            .map(|order| Shape { order, ..usual }),
    );
    shapes.extend([1 << 16, 1 << 20].map(|waiting| Shape {
        lanes: 1_024,
        waiting,
        order: OrderPolicy::Wspt,
        ..usual
    }));
    shapes
}

/// Every combination of the values asked for; where an axis has none, the usual value.
fn shapes(axes: &Axes) -> Vec<Shape> {
    let Axes {
        classes,
        lanes,
        waiting,
        orders,
        blocked,
        ..
    } = axes;
    let asked = [
        classes.len(),
        lanes.len(),
        waiting.len(),
        orders.len(),
        blocked.len(),
    ];
    if asked.iter().all(|&values| values == 0) {
        return usual_shapes();
    }
    let mut shapes = vec![Shape::USUAL];
    vary(&mut shapes, classes, |shape, classes| Shape {
        classes,
        ..shape
    });
    vary(&mut shapes, lanes, |shape, lanes| Shape { lanes, ..shape });
    vary(&mut shapes, waiting, |shape, waiting| Shape {
        waiting,
        ..shape
    });
    vary(&mut shapes, orders, |shape, order| Shape { order, ..shape });
    vary(&mut shapes, blocked, |shape, blocked| Shape {
        blocked,
        ..shape
    });
    shapes
}

fn vary<V: Copy>(shapes: &mut Vec<Shape>, values: &[V], with: impl Fn(Shape, V) -> Shape) {
    if values.is_empty() {
        return;
    }
    let varied = shapes
        .iter()
        .flat_map(|&shape| values.iter().map(move |&value| (shape, value)));
    *shapes = varied.map(|(shape, value)| with(shape, value)).collect();
}

fn cases(plan: &Plan) -> Cases {
    let core = plan.cores.arbiter;
    let mut cases = Cases::default();
    let span = plan.span(Duration::from_millis(400));
    for shape in shapes(&plan.axes) {
        let name = format!("step/{}", shape.name());
        cases.add(plan, SUITE.name, name, |name| {
            let mut standing = Standing::new(&shape, plan);
            Case::new(name, move || on_core(core, || standing.steps(span)))
        });
    }
    let usual = Shape::USUAL;
    let cold_span = plan.span(Duration::from_secs(2));
    let name = format!("cold_step/{}", usual.name());
    cases.add(plan, SUITE.name, name, |name| {
        let mut standing = Standing::new(&usual, plan);
        let repeat = move || on_core(core, || standing.cold_steps(cold_span));
        Case::new(name, repeat)
            .note("Before each step, more than the caches hold is read from elsewhere.")
    });
    let lane_by_lane = Shape {
        classes: 1,
        lanes: 1_024,
        waiting: 1 << 16,
        order: OrderPolicy::Wspt,
        ..usual
    };
    let name = format!("cancel/{}", lane_by_lane.name());
    cases.add(plan, SUITE.name, name, |name| {
        let mut standing = Standing::new(&lane_by_lane, plan);
        Case::new(name, move || on_core(core, || standing.cancels(span)))
    });
    flip::add(plan, &mut cases);
    cases
}

/// An arbiter in which as many requests wait at the end of each step as at its start.
struct Standing {
    driver: Driver,
    stream: Stream,
    classes: u32,
    lanes: u32,
    waiting: Vec<Ticket>,
    elsewhere: Vec<u64>,
}

impl Standing {
    fn new(shape: &Shape, plan: &Plan) -> Self {
        let (lanes, waiting) = (plan.size(shape.lanes), plan.size(shape.waiting).max(1));
        let setup = Setup {
            quanta: (1..=shape.classes)
                .map(|class| 1_024 * u64::from(class))
                .collect(),
            order: shape.order,
            workers: lanes.max(1),
            slots: waiting + 1,
            ..Setup::default()
        };
        let patience = if shape.order == OrderPolicy::Edf {
            PATIENCE_NS
        } else {
            0
        };
        let mut standing = Self {
            driver: Driver::new(&setup),
            stream: Stream::new(TOKENS_MAX, 0, patience),
            classes: shape.classes,
            lanes,
            waiting: Vec::new(),
            elsewhere: Vec::new(),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of a 32-bit number"
        )]
        let blocked = (shape.blocked * f64::from(lanes.max(1))).round() as u32;
        for endpoint in 0..blocked {
            standing.driver.set_busy(endpoint, true);
        }
        for number in 0..waiting {
            // All lanes of a class in turn, then those of the next one.
            let ticket = standing.submit(number % standing.classes, number / standing.classes);
            standing.waiting.push(ticket);
        }
        standing
    }

    fn submit(&mut self, class: u32, number: u32) -> Ticket {
        let lane = match self.lanes {
            0 => Lane::Shared,
            lanes => Lane::Exact(number % lanes),
        };
        let class = u16::try_from(class).expect("classes are numbered by 16 bits");
        let draw = self.stream.draw();
        self.driver.submit(class, draw, lane, u64::from(number))
    }

    /// One step; where everything is blocked, a selection that finds nothing.
    #[inline]
    fn step(&mut self) {
        let Some(served) = self.driver.select() else {
            return;
        };
        self.driver.complete(served);
        let number = u32::try_from(served.payload).expect("payloads are numbers of lanes");
        self.submit(served.class.into(), number);
    }

    fn steps(&mut self, span: Duration) -> Sample {
        let mut batch = || (0..BATCH).for_each(|_| self.step());
        again_and_again(span / 10, &mut batch);
        let (_, each) = again_and_again(span, batch);
        Sample::of(STEP, each / f64::from(BATCH))
    }

    fn cold_steps(&mut self, span: Duration) -> Sample {
        /// More than the last-level cache of common machines, in words.
        const WORDS: usize = 64 << 17;
        const WORDS_A_LINE: usize = 8;
        self.elsewhere.resize(WORDS, 1);
        let mut times = Recording::new("cold_step", "a step, caches cold", "steps");
        again_and_again(span, || {
            let lines = self.elsewhere.iter().step_by(WORDS_A_LINE);
            black_box(lines.sum::<u64>());
            let begun = Instant::now();
            self.step();
            times.record(nanos(begun.elapsed()));
        });
        Sample::default().recordings([times])
    }

    /// Cancels a sixteenth of what waits, in no order; what was cancelled is submitted again, untimed.
    fn cancels(&mut self, span: Duration) -> Sample {
        let (mut spent, mut cancelled) = (Duration::ZERO, 0_u32);
        let len = self.waiting.len();
        // A stride near the golden section spreads the victims; lengths are powers of two, so that an
        // odd one meets none twice.
        let stride = (len * 5 / 8) | 1;
        again_and_again(span, || {
            let start = self.stream.draw().number as usize;
            let victims = (0..len.div_ceil(16)).map(|index| (start + index * stride) % len);
            let victims: Vec<usize> = victims.collect();
            let begun = Instant::now();
            for &victim in &victims {
                self.driver.cancel(self.waiting[victim]);
            }
            spent += begun.elapsed();
            for victim in victims {
                let number = self.stream.draw().number;
                self.waiting[victim] = self.submit(0, number);
                cancelled += 1;
            }
        });
        Sample::of(CANCEL, spent.as_secs_f64() * 1e9 / f64::from(cancelled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_multiply_and_the_others_stay_as_usual() {
        let axes = Axes {
            classes: vec![1, 2],
            lanes: vec![0, 8, 16],
            ..Axes::default()
        };
        let names: Vec<String> = shapes(&axes).iter().map(Shape::name).collect();
        assert_eq!(names.len(), 6);
        assert_eq!(names[0], "fcfs/c1/l0/n16384/b0%");
        assert_eq!(names[5], "fcfs/c2/l16/n16384/b0%");
    }
}
