//! Generated traffic of three classes through two policies.
//!
//! Two minutes on four workers: a busy chat class with short prompts, an agent class whose bursts share
//! long beginnings, and a batch class with long ones: a little more than the workers can do. The same requests run with equal quanta
//! and with quanta of 8 : 4 : 1.

use std::fmt;

use tollgate_arbiter::Nanos;
use tollgate_policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate_report::Fact;
use tollgate_report::replay::ReplayReport;
use tollgate_report::text::{Side, Table, duration_or_dash, percent};

use crate::replay::{self, ReplayError, ReplayOptions};
use crate::trace::{BLOCK_TOKENS, Trace, TraceRow};
use crate::worker::WorkerModel;

const FAMILIES: [&str; 3] = ["chat", "agent", "batch"];
const SECONDS: u64 = 120;
const WORKERS: u32 = 4;

/// What became of the traffic under each policy; its `Display` is a text for a newcomer.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The whole account, which can be told as a page.
    pub report: ReplayReport,
}

impl Traffic {
    /// Generates the requests and plays them; takes well under a second.
    ///
    /// # Errors
    /// None that a machine with a few megabytes of memory would see.
    pub fn run() -> Result<Self, ReplayError> {
        let trace = trace();
        let options = ReplayOptions {
            workers: WORKERS,
            model: WorkerModel::default(),
            speed: 1.0,
            repeat: 1,
            seed: 0,
            families: Vec::new(),
            keeps_families: true,
            is_by_key: false,
            clock: None,
        };
        let policies = [("equal", [1_024; 3]), ("weighted", [8_192, 4_096, 1_024])];
        let runs = policies.map(|(name, quanta)| {
            let played = replay::run(name, &policy(quanta), &trace, &options, &mut |_| {});
            played.map(|played| played.run)
        });
        let [equal, weighted] = runs;
        Ok(Self {
            report: ReplayReport {
                title: "Three classes on four workers".to_owned(),
                command: "tollgate demo".to_owned(),
                trace: vec![Fact {
                    name: "generated requests".to_owned(),
                    value: trace.rows.len().to_string(),
                }],
                runs: vec![equal?, weighted?],
            },
        })
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Two minutes of generated traffic on {WORKERS} modelled workers: busy chat, agents in bursts \
             that share\ntheir beginnings, long batch prompts: a little too much of it. Equal quanta, then 8 : 4 : 1:\n"
        )?;
        let mut table = Table::new(&[
            ("class", Side::Left),
            ("quanta", Side::Left),
            ("requests", Side::Right),
            ("share served", Side::Right),
            ("entitled", Side::Right),
            ("from cache", Side::Right),
            ("first token p50", Side::Right),
            ("p99", Side::Right),
        ]);
        for (at, family) in FAMILIES.iter().enumerate() {
            for run in &self.report.runs {
                let class = &run.classes[at];
                let served = run.classes.iter().map(|class| class.served_tokens);
                let served = to_float(served.sum());
                table.row(&[
                    (*family).to_owned(),
                    run.policy.clone(),
                    class.requests.to_string(),
                    percent(to_float(class.served_tokens), served),
                    percent(class.entitled_tokens, served),
                    percent(to_float(class.cached_tokens), to_float(class.prompt_tokens)),
                    duration_or_dash(class.first_token.quantile(0.5)),
                    duration_or_dash(class.first_token.quantile(0.99)),
                ]);
            }
        }
        write!(f, "{table}")
    }
}

#[expect(clippy::cast_precision_loss, reason = "shares are told to some digits")]
const fn to_float(tokens: u64) -> f64 {
    tokens as f64
}

fn policy(quanta: [u64; 3]) -> Profile {
    let class = |(name, quantum): (&str, u64)| ClassPolicy {
        prefill_busy_threshold: Some(8_192),
        ..ClassPolicy::matrix(name, name, 0, quantum)
    };
    let classes = FAMILIES.into_iter().zip(quanta).map(class).collect();
    let spec = ProfileSpec::new(FAMILIES[0], vec![Bucket::new(0, "all")], classes);
    Profile::build(spec).expect("three classes with a quantum each are a valid policy")
}

fn trace() -> Trace {
    let mut trace = Trace {
        families: FAMILIES.map(str::to_owned).into(),
        ..Trace::default()
    };
    let mut chance = Chance(1);
    let mut block = 0;
    for tenth in 0..10 * SECONDS {
        let at = Nanos::from_millis(100 * tenth);
        for _ in 0..9 + chance.below(5) {
            let (prompt, output) = (600 + chance.below(1_000), 5 + chance.below(15));
            push(&mut trace, 0, at, prompt, output, &[]);
        }
        // Every few seconds an agent asks ten questions about one long text.
        if chance.below(30) == 0 {
            let text: Vec<u64> = (block..block + 12).collect();
            block += 12;
            for _ in 0..10 {
                let later = Nanos(at.0 + 1_000_000 * chance.below(2_000));
                let own = [&text[..], &[block]].concat();
                block += 1;
                push(&mut trace, 1, later, 6_300, 30, &own);
            }
        }
        for _ in 0..1 + chance.below(2) {
            push(&mut trace, 2, at, 3_000 + chance.below(3_000), 5, &[]);
        }
    }
    trace.rows.sort_by_key(|row| row.at);
    trace
}

fn push(trace: &mut Trace, family: u32, at: Nanos, prompt: u64, output: u64, blocks: &[u64]) {
    debug_assert!(
        blocks.len() as u64 * u64::from(BLOCK_TOKENS) < prompt + 512,
        "they fit"
    );
    let tokens = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let blocks = trace.push_blocks(blocks);
    trace.rows.push(TraceRow {
        at,
        prompt_tokens: tokens(prompt),
        output_tokens: tokens(output),
        blocks,
        family: Some(family),
        ..TraceRow::default()
    });
}

/// `SplitMix64` (Steele, Lea, Flood 2014).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_help_those_who_have_them() {
        let traffic = Traffic::run().expect("it fits");
        let [equal, weighted] = &traffic.report.runs[..] else {
            panic!("two policies");
        };
        let p99 = |run: &tollgate_report::replay::ReplayRun, class: usize| {
            run.classes[class]
                .first_token
                .quantile(0.99)
                .expect("it ran")
        };
        assert!(p99(weighted, 0) < p99(equal, 0), "chat");
        assert!(p99(weighted, 2) > p99(equal, 2), "batch");
        for run in [equal, weighted] {
            assert_eq!(run.totals.requests, run.totals.completed);
            assert!(
                run.classes[1].cached_tokens > 0,
                "agents share their beginnings"
            );
        }
        assert!(traffic.to_string().contains("weighted"));
    }
}
