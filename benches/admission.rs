//! What does a permit cost a task, beside the bare shards, and beside an actor that does the same?
//!
//! Closed loops of tasks on tokio, each with one request at a time: ask, get a worker, let it go. 8
//! classes, 256 endpoints, every request pinned to one, no worker ever busy.
//!
//! - *permits*: `Admission::admit`, and the permit dropped.
//! - *shards*: `try_submit`, `try_recv`, `complete` by one thread, with as many in flight; no tasks, no
//!   wake-ups.
//! - *actor*: a task that owns the same arbiter under the same policy; a request is a message through
//!   tokio's `mpsc`, its answer a `oneshot`, its end another message.
//!
//! The engine's arbiter is pinned to a core of its own. The runtime has one thread or two: with two, and
//! two cores, one of them shares the arbiter's. All arms run once in each round.
#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use tollgate_benches::scaled;
use tollgate_benches::tasks::{Load, by_actor, by_permits, by_shards};
use tollgate_harness::Summary;
use tollgate_harness::machine::{Cores, line_transfer_ns, load_average};

const LIVES: u64 = 500_000;
const ROUNDS: u64 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Shards,
    Permits,
    Actor,
}

#[derive(Clone, Copy, Debug)]
struct Arm {
    how: How,
    tasks: usize,
    threads: usize,
}

impl Arm {
    fn run(&self, cores: Cores) -> f64 {
        let load = Load {
            // One task waits for each of its wake-ups: fewer lives take as long.
            lives: scaled(if self.tasks < 8 { LIVES / 50 } else { LIVES }).max(self.tasks as u64),
            tasks: self.tasks,
            threads: self.threads,
            is_pinned: true,
        };
        match self.how {
            How::Shards => by_shards(&load, cores),
            How::Permits => by_permits(&load, cores),
            How::Actor => by_actor(&load),
        }
    }

    fn name(&self) -> String {
        let Self {
            how,
            tasks,
            threads,
        } = self;
        match how {
            How::Shards => format!("shards   {tasks:4} in flight"),
            How::Permits => format!("permits  {tasks:4} tasks, {threads} threads"),
            How::Actor => format!("actor    {tasks:4} tasks, {threads} threads"),
        }
    }
}

fn arms() -> Vec<Arm> {
    let mut arms = Vec::new();
    for tasks in [1, 8, 64, 512] {
        let how = How::Shards;
        arms.push(Arm {
            how,
            tasks,
            threads: 1,
        });
        for threads in [1, 2] {
            for how in [How::Permits, How::Actor] {
                arms.push(Arm {
                    how,
                    tasks,
                    threads,
                });
            }
        }
    }
    arms
}

fn main() {
    let cores = Cores::choose();
    let trips = scaled(20_000);
    println!("{cores}");
    println!("load average before: {}", load_average());
    println!(
        "a line from core to core, before: {:.0} ns",
        line_transfer_ns(cores, trips)
    );
    let (arms, rounds) = (arms(), scaled(ROUNDS));
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); arms.len()];
    for _ in 0..rounds {
        for (arm, rates) in arms.iter().zip(&mut rates) {
            rates.push(arm.run(cores) / 1e6);
        }
    }
    println!("\nmillions a second: median [quartiles] extremes of {rounds} rounds");
    for (arm, rates) in arms.iter().zip(&rates) {
        println!("{:34} {:>36.3}", arm.name(), Summary::of(rates.clone()));
    }
    let best = |how, tasks| {
        let of = |(arm, _): &(&Arm, _)| arm.how == how && arm.tasks == tasks;
        let medians = arms.iter().zip(&rates).filter(of);
        let medians = medians.map(|(_, rates)| Summary::of(rates.clone()).median);
        medians.fold(0.0, f64::max)
    };
    println!("\nthe better number of threads of each");
    for tasks in [1, 8, 64, 512] {
        println!(
            "{tasks:4} tasks: permits {:.2} times the actor, {:.2} times the bare shards",
            best(How::Permits, tasks) / best(How::Actor, tasks),
            best(How::Permits, tasks) / best(How::Shards, tasks),
        );
    }
    println!(
        "\na line from core to core, after: {:.0} ns",
        line_transfer_ns(cores, trips)
    );
    println!("load average after: {}", load_average());
}
