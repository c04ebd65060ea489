//! How much memory does a waiting request cost, and is any allocated after the build?
//!
//! Two tables. The first divides the bytes that `Arbiter::build` allocates by the slots, for
//! several capacities, with the smallest payload, and shows apart what endpoints, extension blocks
//! and a larger payload add. The second counts allocations while lanes grow to the capacity and
//! shrink again, under each order, with and without deadlines: there must be none, or the program
//! fails.
#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::alloc::System;
use std::process::ExitCode;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tollgate_arbiter::{Arbiter, Capacities, Options};
use tollgate_benches::sized;
use tollgate_harness::{Driver, Lane, Setup, Stream};
use tollgate_policy::OrderPolicy;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that stay allocated after `work`, and the allocator calls made on the way.
fn count<R>(work: impl FnOnce() -> R) -> (R, usize, usize) {
    let region = Region::new(ALLOCATOR);
    let result = work();
    let change = region.change();
    let kept = change
        .bytes_allocated
        .saturating_sub(change.bytes_deallocated);
    (result, kept, change.allocations + change.reallocations)
}

fn built<P>(setup: &Setup, capacities: Capacities) -> usize {
    let profile = setup.profile(1);
    let (arbiter, bytes, _) =
        count(|| Arbiter::<P>::build(&profile, capacities, Options::default()));
    drop(arbiter.expect("the capacities are in range"));
    bytes
}

/// Bytes for each of `units`; units are few enough for exact floating point.
#[expect(
    clippy::cast_precision_loss,
    reason = "bytes and units stay below 2^53"
)]
fn per(bytes: usize, units: u32) -> f64 {
    bytes as f64 / f64::from(units)
}

fn print_build_sizes() {
    println!("bytes allocated by a build");
    println!(
        "{:>9} {:>12} {:>9} {:>14} {:>12} {:>10} {:>9}",
        "slots", "all", "a slot", "64 B payload", "an endpoint", "a class", "a block"
    );
    let mut sizes = [1 << 10, 1 << 16, 1 << 20].map(sized).to_vec();
    sizes.dedup();
    for slots in sizes {
        let setup = Setup {
            slots,
            ..Setup::default()
        };
        let base = setup.capacities();
        let all = built::<()>(&setup, base);
        let more = |capacities| built::<()>(&setup, capacities).saturating_sub(all);
        let twice = more(Capacities {
            slots: 2 * slots,
            ..base
        });
        let payload = built::<[u64; 8]>(&setup, base).saturating_sub(all);
        let endpoints = more(Capacities {
            endpoints: 1 + 1_024,
            workers: 1 + 1_024,
            ..base
        });
        let classes = more(Capacities {
            classes: 1 + 8,
            ..base
        });
        let blocks = more(Capacities {
            extension_blocks: 1_024,
            ..base
        });
        println!(
            "{slots:>9} {all:>12} {:>9.1} {:>+14.1} {:>12.1} {:>10.1} {:>9.1}",
            per(twice, slots),
            per(payload, slots),
            per(endpoints, 1_024),
            per(classes, 8),
            per(blocks, 1_024)
        );
    }
}

/// Fills `slots` requests into lanes, half of them into one, and drains them; twice.
fn grow_and_shrink(driver: &mut Driver, stream: &mut Stream, slots: u32, lanes: u32) {
    for _ in 0..2 {
        for index in 0..slots {
            let draw = stream.draw();
            let lane = match index % 4 {
                0 | 1 => Lane::Shared,
                _ => Lane::Exact(draw.number % lanes),
            };
            driver.submit(0, draw, lane, 0);
        }
        while let Some(served) = driver.select() {
            driver.complete(served);
        }
    }
}

/// Prints allocator calls after the build; whether there were none.
fn print_allocations_after_build() -> bool {
    let (slots, lanes) = (sized(1 << 16), sized(64));
    println!("\nallocator calls while lanes grow to {slots} requests and back, twice");
    let mut none = true;
    for order in [
        OrderPolicy::Fcfs,
        OrderPolicy::Wspt,
        OrderPolicy::Lcfs,
        OrderPolicy::Edf,
    ] {
        for patience in [0, 1 << 40] {
            let setup = Setup {
                order,
                slots,
                workers: lanes,
                ..Setup::default()
            };
            let mut driver = Driver::new(&setup);
            let mut stream = Stream::new(8_192, 1 << 30, patience);
            let ((), _, calls) = count(|| grow_and_shrink(&mut driver, &mut stream, slots, lanes));
            let deadlines = if patience == 0 { "without" } else { "with" };
            println!(
                "{:<8} {deadlines:>8} deadlines: {calls}",
                format!("{order:?}")
            );
            none &= calls == 0;
        }
    }
    none
}

fn main() -> ExitCode {
    print_build_sizes();
    if print_allocations_after_build() {
        ExitCode::SUCCESS
    } else {
        println!("the arbiter must not allocate after it is built");
        ExitCode::FAILURE
    }
}
