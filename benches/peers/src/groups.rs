//! The incumbent's own benchmark, all 27 cells of its six groups, on both sides.
//!
//! One class, one token a request, first come first served, arrivals a second apart. A cell fills
//! `requests` requests round-robin into `lanes` exact lanes (or the shared lane) and then does the
//! group's work. As in the incumbent's benchmark, filling is not timed (except where it is the
//! work), nor is freeing the memory, and all work is done on queues that were just built for it.
//!
//! | group | work | operation |
//! |---|---|---|
//! | `pop_once` | one selection, every second lane blocked, lane 0 among them | a selection |
//! | `drain_4096` | 4,096 requests, to the end | a dispatch |
//! | `one_per_lane` | one request a lane, to the end | a dispatch |
//! | `build` | a new queue, one request into each lane | a request |
//! | `blocked` | 10,000 lanes of one, a share of them blocked, to the end | a dispatch; the whole where there is none |
//! | `shared` | the shared lane, to the end | a dispatch |
//!
//! The incumbent's queue picks the class and the request, and no more. Tollgate's selection
//! includes gate, choice of the endpoint, booking and the report of the outcome, and its `build`
//! includes the table of endpoints, which the incumbent keeps elsewhere; `fill` shows the same
//! without the construction. Expect `pop_once/1` and `blocked/100%` to be selections that find
//! nothing to dispatch.

use std::hint::black_box;
use std::ops::RangeInclusive;

use crate::incumbent::{Incumbent, Stamped};
use crate::measure::{Summary, geometric_mean, interleave, print_head, print_row, time};
use crate::ours::Ours;
use crate::subject::{ClassPlan, Placement, Plan, Request, Subject, Ticks};

/// Each ratio counts at most this much in the geometric mean.
const CAP: f64 = 50.0;
/// A repetition times at least this many operations.
const OPERATIONS_MIN: u32 = 64;
/// About how many requests wait in the queues that are timed together. Few, so that a queue is
/// still in the caches when its turn comes, as it is in the incumbent's benchmark.
const BATCH_REQUESTS: u32 = 2_048;
/// At least and at most so many queues are timed together: enough that the clock is not read for
/// each operation, few enough that their fixed parts stay in the caches too.
const BATCH: RangeInclusive<u32> = 2..=32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    PopOnce,
    Drain,
    Build,
    Fill,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    group: &'static str,
    label: &'static str,
    work: Work,
    lanes: u32,
    requests: u32,
    shared: bool,
    is_open: fn(u32) -> bool,
}

impl Cell {
    const fn new(group: &'static str, label: &'static str, work: Work, lanes: u32) -> Self {
        Self {
            group,
            label,
            work,
            lanes,
            requests: lanes,
            shared: false,
            is_open: every,
        }
    }

    const fn holding(self, requests: u32) -> Self {
        Self { requests, ..self }
    }

    const fn shared(self) -> Self {
        Self {
            shared: true,
            ..self
        }
    }

    const fn open(self, is_open: fn(u32) -> bool) -> Self {
        Self { is_open, ..self }
    }

    fn name(&self) -> String {
        format!("{}/{}", self.group, self.label)
    }

    /// Nothing in it can be dispatched, though there is more than one lane to look at.
    fn is_all_blocked(&self) -> bool {
        self.group == "blocked" && self.dispatches() == 0
    }

    /// How many requests the work dispatches.
    fn dispatches(&self) -> u32 {
        let open = (0..self.requests)
            .filter(|index| (self.is_open)(index % self.lanes))
            .count();
        let open = u32::try_from(open).expect("no more than the requests");
        match self.work {
            Work::PopOnce => open.min(1),
            Work::Drain => open,
            Work::Build | Work::Fill => 0,
        }
    }

    /// By how much the time of one queue's work is divided.
    fn operations(&self) -> u32 {
        match self.work {
            Work::PopOnce => 1,
            Work::Drain => self.dispatches().max(1),
            Work::Build | Work::Fill => self.requests,
        }
    }

    /// How many queues are timed together.
    fn batch(&self) -> u32 {
        (BATCH_REQUESTS / self.requests).clamp(*BATCH.start(), *BATCH.end())
    }

    /// How many batches make a repetition.
    fn rounds(&self) -> u32 {
        OPERATIONS_MIN.div_ceil(self.operations() * self.batch())
    }

    fn plan(&self) -> Plan {
        Plan {
            classes: vec![ClassPlan {
                quantum: 1_000_000,
                order: "fcfs",
            }],
            endpoints: self.lanes,
            capacity: self.requests,
            narrowed: false,
            page: false,
        }
    }

    fn request(&self, index: u32) -> Request {
        let placement = if self.shared {
            Placement::Any
        } else {
            Placement::Pinned(index % self.lanes)
        };
        Request {
            id: index,
            class: 0,
            tokens: 1,
            arrival: Ticks(index * Ticks::PER_SECOND),
            jump: Ticks(0),
            strict_priority: 0,
            placement,
        }
    }
}

fn every(_: u32) -> bool {
    true
}

fn odd(lane: u32) -> bool {
    !lane.is_multiple_of(2)
}

fn every_tenth(lane: u32) -> bool {
    lane.is_multiple_of(10)
}

fn none(_: u32) -> bool {
    false
}

/// The incumbent's 27 cells.
const CELLS: [Cell; 27] = {
    const LANES: u32 = 10_000;
    const POP: Cell = Cell::new("pop_once", "", Work::PopOnce, 1).open(odd);
    const fn pop(label: &'static str, lanes: u32) -> Cell {
        Cell {
            label,
            lanes,
            requests: lanes,
            ..POP
        }
    }
    const fn drain(label: &'static str, lanes: u32) -> Cell {
        Cell::new("drain_4096", label, Work::Drain, lanes).holding(4_096)
    }
    const fn one(label: &'static str, lanes: u32) -> Cell {
        Cell::new("one_per_lane", label, Work::Drain, lanes)
    }
    const fn blocked(label: &'static str, is_open: fn(u32) -> bool) -> Cell {
        Cell::new("blocked", label, Work::Drain, LANES).open(is_open)
    }
    const fn shared(label: &'static str, requests: u32) -> Cell {
        Cell::new("shared", label, Work::Drain, 1)
            .holding(requests)
            .shared()
    }
    [
        pop("1", 1),
        pop("8", 8),
        pop("32", 32),
        pop("128", 128),
        pop("512", 512),
        pop("1024", 1_024),
        pop("10000", LANES),
        drain("1", 1),
        drain("8", 8),
        drain("32", 32),
        drain("128", 128),
        drain("512", 512),
        one("8", 8),
        one("32", 32),
        one("128", 128),
        one("512", 512),
        one("1024", 1_024),
        Cell::new("build", "128", Work::Build, 128),
        Cell::new("build", "1024", Work::Build, 1_024),
        Cell::new("build", "10000", Work::Build, LANES),
        blocked("0%", every),
        blocked("50%", odd),
        blocked("90%", every_tenth),
        blocked("100%", none),
        shared("128", 128),
        shared("1024", 1_024),
        shared("4096", 4_096),
    ]
};

/// The three `build` cells again, into queues that stand already.
const FILL: [Cell; 3] = [
    Cell::new("fill", "128", Work::Fill, 128),
    Cell::new("fill", "1024", Work::Fill, 1_024),
    Cell::new("fill", "10000", Work::Fill, 10_000),
];

fn empty<S: Subject>(cell: &Cell, plan: &Plan, profile: &S::Profile) -> S {
    let mut subject = S::build(plan, profile);
    for lane in 0..cell.lanes {
        if !(cell.is_open)(lane) {
            subject.set_open(lane, false);
        }
    }
    subject
}

fn fill<S: Subject>(cell: &Cell, subject: &mut S) {
    for index in 0..cell.requests {
        subject.enqueue(&cell.request(index));
    }
}

fn drain<S: Subject>(subject: &mut S) -> u32 {
    let mut dispatched = 0;
    while subject.pop().is_some() {
        dispatched += 1;
    }
    dispatched
}

/// One repetition: nanoseconds per operation.
fn repeat<S: Subject>(cell: &Cell) -> f64 {
    let plan = cell.plan();
    let profile = S::profile(&plan);
    let rounds = cell.rounds();
    let nanos: f64 = (0..rounds)
        .map(|_| time_batch::<S>(cell, &plan, &profile))
        .sum();
    nanos / f64::from(rounds)
}

/// Builds the queues of one batch and times the cell's work on all of them: nanoseconds per
/// operation.
fn time_batch<S: Subject>(cell: &Cell, plan: &Plan, profile: &S::Profile) -> f64 {
    let batch = cell.batch();
    let operations = u64::from(batch) * u64::from(cell.operations());
    let mut subjects: Vec<S> = Vec::with_capacity(batch as usize);
    if cell.work != Work::Build {
        subjects.extend((0..batch).map(|_| empty::<S>(cell, plan, profile)));
    }
    if matches!(cell.work, Work::PopOnce | Work::Drain) {
        subjects.iter_mut().for_each(|subject| fill(cell, subject));
    }
    let (dispatched, nanos) = time(operations, || -> u64 {
        match cell.work {
            Work::PopOnce => subjects
                .iter_mut()
                .map(|subject| u64::from(black_box(subject.pop()).is_some()))
                .sum(),
            Work::Drain => subjects
                .iter_mut()
                .map(|subject| u64::from(drain(subject)))
                .sum(),
            Work::Build => {
                subjects.extend((0..batch).map(|_| {
                    let mut subject = S::build(plan, profile);
                    fill(cell, &mut subject);
                    subject
                }));
                0
            }
            Work::Fill => {
                subjects.iter_mut().for_each(|subject| fill(cell, subject));
                0
            }
        }
    });
    let expected = u64::from(batch) * u64::from(cell.dispatches());
    assert_eq!(dispatched, expected, "{} of {}", S::NAME, cell.name());
    nanos
}

fn compare(cell: &Cell, repetitions: usize) -> f64 {
    let mut incumbent = || repeat::<Incumbent<Stamped>>(cell);
    let mut ours = || repeat::<Ours>(cell);
    let summaries: Vec<Summary> = interleave(repetitions, &mut [&mut incumbent, &mut ours]);
    print_row(&cell.name(), &summaries[0], &summaries[1])
}

fn print_mean(what: &str, ratios: &[f64]) {
    let slower = ratios.iter().filter(|ratio| **ratio <= 1.0).count();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    if let Some(mean) = geometric_mean(ratios, CAP) {
        println!(
            "{what}: geometric mean {mean:.2}x over {} cells (each at most {CAP}x), least {least:.2}x, \
             {slower} not faster",
            ratios.len()
        );
    }
}

/// Runs and prints all cells.
pub(crate) fn run(quick: bool) {
    let repetitions = if quick { 3 } else { 21 };
    println!("\nThe incumbent's six groups: {repetitions} repetitions, sides alternating");
    print_head("cell", Incumbent::<Stamped>::NAME, Ours::NAME);
    let mut counted: Vec<(&Cell, f64)> = Vec::new();
    let mut apart = Vec::new();
    for cell in &CELLS {
        let ratio = compare(cell, repetitions);
        if cell.is_all_blocked() {
            apart.push((cell.name(), ratio));
        } else {
            counted.push((cell, ratio));
        }
    }
    println!(
        "\nFor information: `build` without the construction of the arbiter and its endpoints"
    );
    let fills: Vec<f64> = FILL.iter().map(|cell| compare(cell, repetitions)).collect();

    let ratios = |keep: &dyn Fn(&Cell) -> bool| -> Vec<f64> {
        let kept = counted.iter().filter(|(cell, _)| keep(cell));
        kept.map(|&(_, ratio)| ratio).collect()
    };
    let mut filled = ratios(&|cell| cell.work != Work::Build);
    filled.extend(fills);
    println!();
    print_mean("all but the all-blocked cell", &ratios(&|_| true));
    print_mean("the same, `fill` in place of `build`", &filled);
    print_mean("128 and more lanes", &ratios(&|cell| cell.lanes >= 128));
    for (name, ratio) in apart {
        println!("all blocked, apart: {name} {ratio:.2}x");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cells_are_the_incumbents_27() {
        let count = |group| CELLS.iter().filter(|cell| cell.group == group).count();
        let groups = [
            "pop_once",
            "drain_4096",
            "one_per_lane",
            "build",
            "blocked",
            "shared",
        ];
        assert_eq!(groups.map(count), [7, 5, 5, 3, 4, 3]);
        assert_eq!(CELLS.iter().filter(|cell| cell.is_all_blocked()).count(), 1);
    }

    #[test]
    fn both_sides_dispatch_what_a_cell_expects() {
        for cell in CELLS.iter().filter(|cell| cell.requests <= 1_024) {
            repeat::<Incumbent<Stamped>>(cell);
            repeat::<Ours>(cell);
        }
    }
}
