//! Tollgate's own traces: all that a request can bring, as JSON lines.
//!
//! One object a line, as in `{"arrival_ns": 1500, "family": "chat", "isl": 1030, "cached": 512, "output":
//! 5}`:
//!
//! | member | meaning | default |
//! |---|---|---|
//! | `arrival_ns` | when it arrives, in nanoseconds | |
//! | `family` | the family or explicit class that it names | given by rules, or none |
//! | `isl` | prompt tokens | |
//! | `cached` | prompt tokens that are cached wherever it runs | 0 |
//! | `output` | tokens to generate | |
//! | `pin` | the only worker that may run it | none |
//! | `tier` | its strict tier, a higher one first | 0 |
//! | `deadline_ns` | when it expires, on the clock of `arrival_ns` | none |
//!
//! A member of another name is an error.

use serde::{Deserialize, Serialize};
use tollgate_arbiter::Nanos;

use super::column::{hash_of_member, json_message};
use super::{Trace, TraceRow};

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// When it arrives, in nanoseconds.
    pub arrival_ns: u64,
    /// The family or explicit class that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Prompt tokens.
    pub isl: u32,
    /// Prompt tokens that are cached wherever it runs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached: u32,
    /// Tokens to generate.
    pub output: u32,
    /// The only worker that may run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<u64>,
    /// Its strict tier.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tier: u32,
    /// When it expires, on the clock of `arrival_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Record {
    /// The line that says it, with its end.
    ///
    /// # Panics
    /// Never: numbers and a text can be written as JSON.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("numbers and a text");
        line.push('\n');
        line
    }
}

/// The request of one line, with its time as in the file.
pub(super) fn parse(line: &str, key: Option<&str>, trace: &mut Trace) -> Result<TraceRow, String> {
    let record: Record = serde_json::from_str(line).map_err(|error| {
        format!(
            "{}; a row has arrival_ns, isl, output, and may have family, cached, pin, tier, deadline_ns",
            json_message(&error)
        )
    })?;
    if record.cached > record.isl {
        return Err(format!(
            "cached must be at most isl, {}, not {}",
            record.isl, record.cached
        ));
    }
    let at = Nanos(record.arrival_ns);
    Ok(TraceRow {
        at,
        prompt_tokens: record.isl,
        output_tokens: record.output,
        cached_tokens: record.cached,
        family: record.family.map(|name| place(&mut trace.families, name)),
        pin: record.pin,
        tier: record.tier,
        patience: record.deadline_ns.map(|due| Nanos(due).saturating_sub(at)),
        key: hash_of_member(line, key)?,
        ..TraceRow::default()
    })
}

fn place(families: &mut Vec<String>, name: String) -> u32 {
    let known = families.iter().position(|known| *known == name);
    let place = known.unwrap_or_else(|| {
        families.push(name);
        families.len() - 1
    });
    u32::try_from(place).unwrap_or(u32::MAX)
}
