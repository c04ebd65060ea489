//! Tollgate beside the queue and the scheduler of NVIDIA Dynamo's released router, in one process.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml -- [PART..] [--quick]`
//!
//! | part | what it shows | fails when |
//! |---|---|---|
//! | `groups` | speed: the incumbent's own six benchmark groups, 27 cells | never |
//! | `wspt` | speed: random WSPT keys under a standing backlog | never |
//! | `scheduler` | speed: a request's whole way, with 64 to 4,096 endpoints | never |
//! | `alternatives` | speed: what routers use instead, and what each of it decides | never |
//! | `order` | behaviour: `arbitration: page` dispatches in the incumbent's order | an order differs |
//! | `faults` | behaviour: shares that break there and hold here | one of ours does not hold |
//!
//! Exit status: 0 fine, 1 a behaviour part failed, 2 bad usage. Ratios are the incumbent's time by
//! ours; both sides alternate repetition by repetition, so that what disturbs the machine disturbs
//! both.

mod alternatives;
mod faults;
mod groups;
mod incumbent;
mod measure;
mod order;
mod ours;
mod random;
mod scheduler;
mod subject;
mod wspt;

use std::process::ExitCode;

use measure::print_load_average;

const USAGE: &str = "usage: peers [groups|wspt|scheduler|alternatives|order|faults|all].. [--quick]\n\
    without a part: all; --quick: few repetitions, to see that everything runs";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Groups,
    Wspt,
    Scheduler,
    Alternatives,
    Order,
    Faults,
}

impl Part {
    const ALL: [Self; 6] = [
        Self::Faults,
        Self::Order,
        Self::Groups,
        Self::Wspt,
        Self::Scheduler,
        Self::Alternatives,
    ];

    fn run(self, quick: bool) -> ExitCode {
        match self {
            Self::Groups => groups::run(quick),
            Self::Wspt => wspt::run(quick),
            Self::Scheduler => scheduler::run(quick),
            Self::Alternatives => alternatives::run(quick),
            Self::Order => return order::run(quick),
            Self::Faults => return faults::run(),
        }
        ExitCode::SUCCESS
    }
}

/// The parts asked for, and whether to be quick.
fn parse(arguments: impl Iterator<Item = String>) -> Result<(Vec<Part>, bool), String> {
    let mut parts = Vec::new();
    let mut quick = false;
    for argument in arguments {
        match argument.as_str() {
            "--quick" => quick = true,
            "groups" => parts.push(Part::Groups),
            "wspt" => parts.push(Part::Wspt),
            "scheduler" => parts.push(Part::Scheduler),
            "alternatives" => parts.push(Part::Alternatives),
            "order" => parts.push(Part::Order),
            "faults" => parts.push(Part::Faults),
            "all" => parts.extend(Part::ALL),
            other => return Err(format!("unknown argument {other:?}\n{USAGE}")),
        }
    }
    if parts.is_empty() {
        parts.extend(Part::ALL);
    }
    Ok((parts, quick))
}

fn main() -> ExitCode {
    let (parts, quick) = match parse(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    print_load_average("before");
    let mut status = ExitCode::SUCCESS;
    for part in parts {
        let outcome = part.run(quick);
        if outcome != ExitCode::SUCCESS {
            status = outcome;
        }
    }
    println!();
    print_load_average("after");
    status
}
