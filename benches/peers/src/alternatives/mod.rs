//! What routers use instead of Tollgate, in one table: what a request costs, how many go through, and what is
//! decided for that.
//!
//! Every route is given the same requests of 8 classes, 64 to 4,159 tokens each, none bound to an endpoint.
//! 1,024 of them wait, are booked or are in flight at any time, except where tasks each have one. Two arms:
//!
//! - *one thread*: nanoseconds a request, everything on one core; tasks on a runtime of one thread;
//! - *two threads*: millions a second from one core to the other; tasks on a runtime of two threads, and
//!   permits on one beside the engine's own.
//!
//! A route that only moves requests is faster than one that decides where they go, so the table says beside
//! its speed what it decides. All routes run once in each round, in one process; that each request comes out
//! once is asserted by every route.

mod actor;
mod engine;
mod queues;
mod work;

use tollgate_harness::machine::{Cores, line_transfer_ns, on_core};

use crate::measure::{Summary, interleave};

/// What one repetition is given.
#[derive(Clone, Copy, Debug)]
struct Setting {
    requests: u32,
    cores: Cores,
}

/// One repetition: nanoseconds a request.
type Run = fn(&Setting) -> f64;

/// A way to get requests to workers, and what it decides on the way.
struct Route {
    name: &'static str,
    on_one: Option<Run>,
    across_two: Option<Run>,
    shares: &'static str,
    chooses: &'static str,
    books: &'static str,
    cancels: &'static str,
}

impl Route {
    /// One that only orders.
    const fn of(name: &'static str) -> Self {
        Self {
            name,
            on_one: None,
            across_two: None,
            shares: "no",
            chooses: "no",
            books: "no",
            cancels: "O(n)",
        }
    }

    /// One of Tollgate's.
    const fn tollgate(name: &'static str) -> Self {
        Self {
            shares: "yes",
            chooses: "yes",
            books: "yes",
            cancels: "O(1)",
            ..Self::of(name)
        }
    }
}

/// In the table's order.
static ROUTES: [Route; 11] = [
    Route {
        on_one: Some(queues::policy_queue),
        shares: "yes, save what `faults` shows",
        ..Route::of("`PolicyQueue` of dynamo-kv-router 1.6.1")
    },
    Route {
        on_one: Some(queues::scheduler),
        shares: "yes, save what `faults` shows",
        chooses: "yes",
        books: "yes",
        cancels: "O(1), but it stays until its turn",
        ..Route::of("`LocalScheduler` of dynamo-kv-router 1.6.1, 64 endpoints")
    },
    Route {
        on_one: Some(actor::over_a_heap::<64, 1>),
        across_two: Some(actor::over_a_heap::<64, 2>),
        ..Route::of("tokio actor with a binary heap, 64 tasks")
    },
    Route {
        on_one: Some(actor::over_a_heap::<1_024, 1>),
        across_two: Some(actor::over_a_heap::<1_024, 2>),
        ..Route::of("tokio actor with a binary heap, 1,024 tasks")
    },
    Route {
        on_one: Some(queues::locked_heap),
        across_two: Some(queues::locked_heap_across),
        ..Route::of("`Mutex<BinaryHeap>`")
    },
    Route {
        on_one: Some(queues::channels),
        across_two: Some(queues::channels_across),
        shares: "no: by requests",
        cancels: "no",
        ..Route::of("a bounded crossbeam channel for each class, in turns")
    },
    Route {
        on_one: Some(queues::arbiter),
        ..Route::tollgate("Tollgate's arbiter alone, 64 endpoints")
    },
    Route {
        on_one: Some(engine::by_hand),
        across_two: Some(engine::with_threads),
        ..Route::tollgate("Tollgate's engine, 256 endpoints")
    },
    Route {
        across_two: Some(actor::by_permit::<64>),
        ..Route::tollgate("Tollgate's permits, 256 endpoints, 64 tasks")
    },
    Route {
        across_two: Some(actor::by_permit::<1_024>),
        ..Route::tollgate("Tollgate's permits, 256 endpoints, 1,024 tasks")
    },
    Route {
        on_one: Some(actor::over_the_arbiter::<64, 1>),
        across_two: Some(actor::over_the_arbiter::<64, 2>),
        ..Route::tollgate("tokio actor with Tollgate's arbiter, 256 endpoints, 64 tasks")
    },
];

/// Measures all routes and prints the table.
pub(crate) fn run(quick: bool) {
    let cores = Cores::choose();
    let (repetitions, requests, trips) = if quick {
        (2, 20_000, 1_000)
    } else {
        (21, 200_000, 20_000)
    };
    println!(
        "\nWhat routers use instead: {repetitions} repetitions of {requests} requests, routes in turns"
    );
    let line = |moment: &str| {
        let nanos = line_transfer_ns(cores, trips);
        println!("a line from core to core, {moment}: {nanos:.0} ns");
    };
    line("before");
    let setting = Setting { requests, cores };
    let table = measure(&setting, repetitions);
    line("after");
    println!();
    print!("{table}");
}

/// The table in markdown.
fn measure(setting: &Setting, repetitions: usize) -> String {
    let arm = |run: Run, is_alone: bool| {
        move || {
            if is_alone {
                on_core(setting.cores.shards, || run(setting))
            } else {
                run(setting)
            }
        }
    };
    let mut arms: Vec<_> = ROUTES
        .iter()
        .flat_map(|route| [(route.on_one, true), (route.across_two, false)])
        .filter_map(|(run, is_alone)| Some(arm(run?, is_alone)))
        .collect();
    let mut sides: Vec<&mut dyn FnMut() -> f64> = Vec::with_capacity(arms.len());
    for arm in &mut arms {
        sides.push(arm);
    }
    let mut summaries = interleave(repetitions, &mut sides).into_iter();
    let mut table = String::from(
        "| route | one thread, ns a request | two threads, M/s | class shares by tokens | \
         chooses the worker | books its load | cancel while it waits |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for route in &ROUTES {
        let mut cell = |run: Option<Run>, shown: fn(&Summary) -> String| {
            let summary = run.and_then(|_| summaries.next());
            summary.map_or_else(|| "–".to_owned(), |summary| shown(&summary))
        };
        let (one, two) = (cell(route.on_one, nanos), cell(route.across_two, millions));
        let Route {
            name,
            shares,
            chooses,
            books,
            cancels,
            ..
        } = route;
        table.push_str(&format!(
            "| {name} | {one} | {two} | {shares} | {chooses} | {books} | {cancels} |\n"
        ));
    }
    table
}

fn nanos(summary: &Summary) -> String {
    let Summary {
        median, low, high, ..
    } = summary;
    format!("{median:.0} [{low:.0}..{high:.0}]")
}

/// Of nanoseconds a request, so that quartiles change places.
fn millions(summary: &Summary) -> String {
    let [median, low, high] = [summary.median, summary.high, summary.low].map(|nanos| 1e3 / nanos);
    format!("{median:.2} [{low:.2}..{high:.2}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_runs_and_has_its_line() {
        let setting = Setting {
            requests: 2_048,
            cores: Cores::choose(),
        };
        let table = measure(&setting, 1);
        assert_eq!(table.lines().count(), 2 + ROUTES.len());
        let cells = |line: &str| line.matches('|').count();
        assert!(table.lines().all(|line| cells(line) == 8), "{table}");
    }
}
