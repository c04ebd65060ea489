//! What `tollgate bench` is told.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_harness::machine::Cores;
use tollgate_harness::suites::ALL;
use tollgate_harness::{Axes, Plan, Scale, Suite};
use tollgate_policy::OrderPolicy;

/// Measures the arbiter and the whole engine on this machine, and says whether the figures may be trusted.
///
/// Suites: arbiter (what a decision costs), ring (what handing a record over costs), pipeline (closed loops:
/// the peak, and a lone request), latency (requests at their own pace), adversity (the same while something
/// goes wrong), soak (minutes: does anything drift). Each arm is measured several times, in turns with the
/// others; the machine is looked at before and after each suite.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BenchArgs {
    /// Everything in less than a minute: figures to look at, not to quote
    #[arg(long)]
    quick: bool,
    /// Only this suite; more than once for several
    #[arg(long = "suite", value_name = "NAME", value_parser = parse_suite)]
    suites: Vec<Suite>,
    /// Only arms whose SUITE/ARM contains this, as in pipeline/full_life
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// The arbiter's core and that of everybody else; without it the last two that this process may use
    #[arg(long, value_name = "ARBITER,OTHERS", value_parser = parse_cores)]
    cpu: Option<Cores>,
    /// How often each arm is measured; without it 5 times, 3 with --quick, and the arm of soak once
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repetitions: Option<u32>,
    /// How often a suite is run again if the machine did not keep still meanwhile
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(..=100))]
    retry: u32,
    /// The peak that loads are parts of, in millions of lives a second; without it what a closed loop reaches that
    /// is measured first. Give it where latencies are to be compared with those of another run
    #[arg(long, value_name = "MILLIONS", allow_negative_numbers = true, value_parser = parse_peak)]
    peak: Option<f64>,
    /// How long the suite soak runs; without it 5 minutes, some seconds with --quick
    #[arg(long, value_name = "MINUTES", allow_negative_numbers = true, value_parser = parse_minutes)]
    minutes: Option<Duration>,
    /// Print the report as JSON instead of text
    #[arg(long)]
    pub(super) json: bool,
    /// Write the report as text, JSON, page (report.html), interval log (.hlog) and percentiles (.hgrm). A run
    /// that was interrupted goes on after the last whole suite if the same command is given again
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Measure again what an interrupted run has left in the directory of --out
    #[arg(long, requires = "out")]
    pub(super) fresh: bool,
    /// Measure although this build is not optimised
    #[arg(long)]
    pub(super) force: bool,
    // At the end: its heading goes on for what comes after it.
    #[command(flatten)]
    axes: AxesArgs,
}

/// Values for arms of one's own; each list replaces the suite's.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Axes, as lists: 1,8,64")]
struct AxesArgs {
    /// Classes (suite arbiter)
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=256))]
    classes: Vec<u32>,
    /// Exact lanes of each class; 0: the shared lane alone (suite arbiter)
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(..=16_384))]
    lanes: Vec<u32>,
    /// Requests that wait throughout (suite arbiter)
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    waiting: Vec<u32>,
    /// Orders of the lanes: fcfs, wspt, lcfs, edf (suite arbiter)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_order)]
    order: Vec<OrderPolicy>,
    /// Parts of the lanes that are blocked, 0 to 1 (suite arbiter)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_part)]
    blocked: Vec<f64>,
    /// Records that a ring holds (suite ring)
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    capacity: Vec<u32>,
    /// Parts of the peak at which requests arrive, from 0.001 to 0.999 (suite latency)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_load)]
    load: Vec<f64>,
}

const AFTER_HELP: &str = "\
Nothing else should run meanwhile. The report says how much the machine disturbed.

Exit status: 0 fine, 1 the run failed, 2 bad usage or input.";

/// The most lanes of all classes together.
const LANES_MAX: u64 = 1 << 21;

impl BenchArgs {
    /// What is to be done, or what is wrong with what was asked for.
    pub(super) fn plan(&self) -> Result<Plan, String> {
        let scale = if self.quick {
            Scale::Quick
        } else {
            Scale::Full
        };
        let axes = &self.axes;
        let most =
            |values: &[u32], usual: u32| u64::from(values.iter().copied().max().unwrap_or(usual));
        let lanes = most(&axes.classes, 8) * most(&axes.lanes, 256);
        if lanes > LANES_MAX {
            return Err(format!(
                "--classes and --lanes: {lanes} lanes in all, where at most {LANES_MAX} are possible"
            ));
        }
        Ok(Plan {
            repetitions: self.repetitions,
            filter: self.filter.clone(),
            axes: Axes {
                classes: axes.classes.clone(),
                lanes: axes.lanes.clone(),
                waiting: axes.waiting.clone(),
                orders: axes.order.clone(),
                blocked: axes.blocked.clone(),
                capacities: axes.capacity.clone(),
                loads: axes.load.clone(),
            },
            peak: self.peak,
            soak: self.minutes,
            retries: self.retry,
            ..Plan::new(scale, self.cpu.unwrap_or_else(Cores::choose))
        })
    }

    /// The suites asked for, each once, in their usual order.
    pub(super) fn suites(&self) -> impl Iterator<Item = Suite> {
        let is_asked_for = |suite: &Suite| {
            self.suites.is_empty() || self.suites.iter().any(|asked| asked.name == suite.name)
        };
        ALL.into_iter().filter(is_asked_for)
    }
}

fn parse_suite(text: &str) -> Result<Suite, String> {
    let names = ALL.map(|suite| suite.name).join(", ");
    let known = ALL.into_iter().find(|suite| suite.name == text);
    known.ok_or_else(|| format!("there are {names}"))
}

fn parse_cores(text: &str) -> Result<Cores, String> {
    const FORM: &str = "write two numbers of cores, as in 1,0";
    let (arbiter, shards) = text.split_once(',').ok_or(FORM)?;
    let core = |text: &str| {
        let number = text.trim().parse::<u16>();
        number.map_err(|_| format!("{text:?} is no number of a core; {FORM}"))
    };
    Cores::pinned(core(arbiter)?, core(shards)?)
}

fn parse_order(text: &str) -> Result<OrderPolicy, String> {
    match text {
        "fcfs" => Ok(OrderPolicy::Fcfs),
        "wspt" => Ok(OrderPolicy::Wspt),
        "lcfs" => Ok(OrderPolicy::Lcfs),
        "edf" => Ok(OrderPolicy::Edf),
        _ => Err("there are fcfs, wspt, lcfs, edf".to_owned()),
    }
}

fn parse_part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| format!("{text:?} is not a number from 0 to 1"))
}

fn parse_load(text: &str) -> Result<f64, String> {
    let load = parse_part(text).ok();
    let load = load.filter(|load| (0.001..=0.999).contains(load));
    load.ok_or_else(|| format!("{text:?} is not a number from 0.001 to 0.999"))
}

/// Lives a second.
fn parse_peak(text: &str) -> Result<f64, String> {
    let millions = text.parse().ok();
    let millions = millions.filter(|millions: &f64| (0.001..=1_000.0).contains(millions));
    let millions = millions
        .ok_or_else(|| format!("{text:?} is not a number of millions from 0.001 to 1000"))?;
    Ok(1e6 * millions)
}

fn parse_minutes(text: &str) -> Result<Duration, String> {
    const MOST: f64 = 10_080.0;
    let minutes = text
        .parse()
        .ok()
        .filter(|minutes| *minutes > 0.0 && *minutes <= MOST);
    let minutes: f64 = minutes
        .ok_or_else(|| format!("{text:?} is not a number of minutes above 0, at most {MOST}"))?;
    Ok(Duration::from_secs_f64(60.0 * minutes))
}
