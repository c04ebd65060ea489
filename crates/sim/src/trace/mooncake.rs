//! The JSON lines of the Mooncake traces.
//!
//! One object a line, as in `{"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [0,
//! 17, 3]}`: the arrival in milliseconds, prompt and output tokens, and a name for each block of 512
//! prompt tokens, the last of which may be partly filled. Equal names mean that the prompts are equal up
//! to the end of that block. Other members are ignored.

use serde::Deserialize;
use tollgate_arbiter::Nanos;

use super::column::{hash_of_member, json_message};
use super::{BLOCK_TOKENS, Trace, TraceRow};

const FORM: &str = "a row has timestamp (milliseconds), input_length, output_length, hash_ids";

#[derive(Deserialize)]
struct Row {
    timestamp: serde_json::Number,
    input_length: u32,
    output_length: u32,
    hash_ids: Vec<u64>,
}

/// The request of one line, with its time as in the file.
pub(super) fn parse(line: &str, key: Option<&str>, trace: &mut Trace) -> Result<TraceRow, String> {
    let row: Row =
        serde_json::from_str(line).map_err(|error| format!("{}; {FORM}", json_message(&error)))?;
    let most = row.input_length.div_ceil(BLOCK_TOKENS) as usize;
    let found = row.hash_ids.len();
    if found > most {
        return Err(format!(
            "{found} hash_ids for {} prompt tokens, which fill {most} of {BLOCK_TOKENS} at most",
            row.input_length
        ));
    }
    Ok(TraceRow {
        at: arrival(&row.timestamp)?,
        prompt_tokens: row.input_length,
        output_tokens: row.output_length,
        key: hash_of_member(line, key)?,
        blocks: trace.push_blocks(&row.hash_ids),
        ..TraceRow::default()
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "fractions of a millisecond are rounded; the range is looked at"
)]
fn arrival(millis: &serde_json::Number) -> Result<Nanos, String> {
    let wrong = || format!("timestamp must be milliseconds from 0 to 18446744073709, not {millis}");
    if let Some(whole) = millis.as_u64() {
        return whole.checked_mul(1_000_000).map(Nanos).ok_or_else(wrong);
    }
    let nanos = (millis.as_f64().ok_or_else(wrong)? * 1e6).round();
    if nanos.is_sign_negative() || nanos >= u64::MAX as f64 {
        return Err(wrong());
    }
    Ok(Nanos(nanos as u64))
}
