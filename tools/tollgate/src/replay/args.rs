//! What `tollgate replay` is told.

use std::path::PathBuf;

use tollgate_arbiter::Nanos;
use tollgate_sim::replay::{FamilyRule, Rule};
use tollgate_sim::trace::{Format, ReadOptions};
use tollgate_sim::worker::{PrefillTime, WorkerModel};

/// Plays a recorded trace through the arbiter onto modelled workers, in virtual time.
///
/// FILE is a trace of the Azure Public Dataset (CSV: TIMESTAMP,ContextTokens,GeneratedTokens, with or
/// without that header), of Mooncake (JSON lines: timestamp, input_length, output_length, hash_ids), or
/// Tollgate's own JSON lines, as --emit writes them; gzip and zstd are unpacked. Each row becomes a
/// request. The report tells, class by class, what became of the requests, how long they waited, and
/// whether classes that had to share got what their quanta promise. The same input and seed give the same
/// report.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReplayArgs {
    /// The trace
    #[arg(value_name = "FILE")]
    pub(super) trace: PathBuf,
    /// The form of the trace; without it, what its first line looks like
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    format: Option<Format>,
    /// Read only so many requests
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Leave out lines that are wrong, and say how many there were
    #[arg(long)]
    skip_bad: bool,
    /// A policy file; more than one to compare them. Without any: premium and regular at quanta of 4096
    /// and 1024, both with a busy threshold of 4096 tokens
    #[arg(long = "policy", value_name = "FILE")]
    pub(super) policies: Vec<PathBuf>,
    /// A family or class, and which requests name it: a share of those that no length fits (0.25), or
    /// those with prompts in a range of tokens (isl:1000..8000, isl:8000..); the first length that fits
    /// counts. Without any, all families of the policy equally, but rows that name a family keep it
    #[arg(long = "family", value_name = "NAME=RULE", value_parser = parse_family)]
    pub(super) families: Vec<FamilyRule>,
    /// Shares by a hash of this column (of a list, its first element) instead of by chance, so that rows
    /// with equal values are of one family
    #[arg(long, value_name = "COLUMN")]
    pub(super) family_by: Option<String>,
    /// How much faster than recorded the requests arrive; raise it until they queue
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0,
          allow_negative_numbers = true, value_parser = parse_positive)]
    pub(super) speed: f64,
    /// Play the trace so many times, one after the other
    #[arg(long, value_name = "NUMBER", default_value_t = 1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) repeat: u64,
    /// Seed for the draw of families and the selector power_of_two
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub(super) seed: u64,
    /// Modelled workers
    #[arg(long, value_name = "NUMBER", default_value_t = 4,
          allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) workers: u32,
    /// Print the report as JSON instead of text
    #[arg(long)]
    pub(super) json: bool,
    /// Write the report as text, JSON, page (report.html), interval log (.hlog) and percentiles (.hgrm)
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Write the requests as Tollgate's own JSON lines, with their families and, under the first policy,
    /// the cached tokens that their workers found
    #[arg(long, value_name = "FILE")]
    pub(super) emit: Option<PathBuf>,
    // At the end: its heading goes on for what comes after it.
    #[command(flatten)]
    model: ModelArgs,
}

/// What a modelled worker is like.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Modelled workers")]
struct ModelArgs {
    /// Sequences that a worker holds at one time
    #[arg(long, value_name = "NUMBER", default_value_t = 16, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    sequences: u32,
    /// New prompt tokens of one prefill batch
    #[arg(long, value_name = "TOKENS", default_value_t = 8_192, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    batched_tokens: u64,
    /// Prompt and output tokens of all sequences on a worker; without it unlimited
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    kv_tokens: Option<u64>,
    /// Blocks of 512 tokens in a worker's prefix cache, for traces that name the blocks of prompts; 0: no
    /// cache
    #[arg(
        long,
        value_name = "BLOCKS",
        default_value_t = 2_048,
        allow_negative_numbers = true
    )]
    cache_blocks: u32,
    /// The time of a prefill of T new tokens, A T^2 + B T + C milliseconds
    #[arg(long, value_name = "A,B,C", default_value = "4.209989e-7,1.518344e-2,16.50142",
          allow_hyphen_values = true, value_parser = parse_prefill)]
    prefill: PrefillTime,
    /// The time of each output token after the first, in milliseconds
    #[arg(long, value_name = "MS", default_value = "10", allow_hyphen_values = true,
          value_parser = parse_millis)]
    decode: Nanos,
}

const AFTER_HELP: &str = "\
Shares settle where the classes queue throughout: raise --speed until they do.

Exit status: 0 fine, 1 the run failed, 2 bad usage or input.";

impl ReplayArgs {
    pub(super) fn read_options(&self) -> ReadOptions {
        ReadOptions {
            format: self.format,
            limit: self.limit,
            skip_bad: self.skip_bad,
            key: self.family_by.clone(),
        }
    }

    pub(super) const fn model(&self) -> WorkerModel {
        WorkerModel {
            sequences: self.model.sequences,
            prefill: self.model.prefill,
            decode_step: self.model.decode,
            max_batched_tokens: self.model.batched_tokens,
            kv_tokens: self.model.kv_tokens,
            cache_blocks: self.model.cache_blocks,
        }
    }
}

fn parse_format(text: &str) -> Result<Format, String> {
    let known = Format::ALL.into_iter().find(|format| format.name() == text);
    known.ok_or_else(|| format!("there are {}", Format::ALL.map(Format::name).join(", ")))
}

fn parse_family(text: &str) -> Result<FamilyRule, String> {
    const FORM: &str =
        "write NAME=SHARE or NAME=isl:FROM..TO, as in premium=0.25 or long=isl:8000..";
    let (name, rule) = text.split_once('=').ok_or(FORM)?;
    if name.is_empty() {
        return Err(format!("the name is empty; {FORM}"));
    }
    let rule = match rule.strip_prefix("isl:") {
        None => Rule::Share(parse_positive(rule)?),
        Some(range) => parse_length(range)
            .ok_or_else(|| format!("{range:?} is no range of tokens that holds any; {FORM}"))?,
    };
    Ok(FamilyRule {
        name: name.to_owned(),
        rule,
    })
}

fn parse_length(range: &str) -> Option<Rule> {
    let (from, to) = range.split_once("..")?;
    let bound = |text: &str| text.parse::<u32>().ok();
    let from = if from.is_empty() { 0 } else { bound(from)? };
    let to = if to.is_empty() {
        None
    } else {
        Some(bound(to)?)
    };
    let holds_any = to.is_none_or(|to| from < to);
    holds_any.then_some(Rule::Length { from, to })
}

fn parse_positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err(format!("{text:?} is not a number above 0")),
    }
}

fn parse_prefill(text: &str) -> Result<PrefillTime, String> {
    let parts: Vec<&str> = text.split(',').collect();
    let [squared, linear, base] = parts[..] else {
        return Err(format!("{} numbers, where A,B,C are three", parts.len()));
    };
    Ok(PrefillTime {
        per_token_squared_as: parse_scaled(squared, 1e15)?,
        per_token_as: parse_scaled(linear, 1e15)?,
        base_as: parse_scaled(base, 1e15)?,
    })
}

fn parse_millis(text: &str) -> Result<Nanos, String> {
    parse_scaled(text, 1e6).map(Nanos)
}

/// Milliseconds in parts of them.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is looked at"
)]
fn parse_scaled(text: &str, per_milli: f64) -> Result<u64, String> {
    let most = 1.8e19 / per_milli;
    match text.trim().parse::<f64>() {
        Ok(millis) if (0.0..=most).contains(&millis) => Ok((millis * per_milli).round() as u64),
        _ => Err(format!(
            "{text:?} is not a number of milliseconds from 0 to {most}"
        )),
    }
}
