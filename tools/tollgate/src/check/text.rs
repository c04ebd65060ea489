//! Profiles as tables for people.

use std::fmt::Display;
use std::fmt::Write as _;

use tollgate_report::text::cut;

use super::effective::{EffectiveBucket, EffectiveClass, EffectiveProfile};

/// Everything about the profiles of a good file.
pub(super) fn render(file: &str, warnings: usize, profiles: &[EffectiveProfile<'_>]) -> String {
    let warnings = match warnings {
        0 => String::new(),
        1 => ", with 1 warning".to_owned(),
        more => format!(", with {more} warnings"),
    };
    let mut text = format!("{file}: good{warnings}\n");
    for profile in profiles {
        text.push('\n');
        render_profile(profile, &mut text);
    }
    text
}

fn render_profile(profile: &EffectiveProfile<'_>, text: &mut String) {
    let title = match (profile.model, profile.source) {
        (None, "root") => "profile of the root".to_owned(),
        (None, _) => {
            "no profile at the root: one class for every model that is not listed".to_owned()
        }
        (Some(model), "model") => format!("profile of the model {}", quoted(model)),
        (Some(model), "root") => {
            format!(
                "profile of the root, for the model {} has none",
                quoted(model)
            )
        }
        (Some(model), _) => {
            format!(
                "no profile for the model {}, and none at the root: one class",
                quoted(model)
            )
        }
    };
    text.push_str(&title);
    text.push_str("\n\n");
    let buckets: Vec<String> = profile.uncached_isl_buckets.iter().map(range).collect();
    let mut settings = Table::new(&["setting", "value"]);
    let mut setting = |name: &str, value: String| settings.row(vec![name.to_owned(), value]);
    setting(
        "default_policy_family",
        or(profile.default_policy_family, "none"),
    );
    setting("uncached_isl_buckets", or_none(&buckets.join(", ")));
    setting("arbitration", profile.arbitration.to_owned());
    setting("overload_action", profile.overload_action.to_owned());
    setting("selector", profile.selector.to_owned());
    setting("decode_weight", profile.decode_weight.to_string());
    setting("max_attempts", profile.max_attempts.to_string());
    settings.render(text);
    text.push('\n');
    shares(profile).render(text);
    text.push('\n');
    thresholds_and_limits(profile).render(text);
    let is_ungated = |class: &&EffectiveClass<'_>| {
        class.prefill_busy_threshold.is_none() && class.prefill_busy_threshold_frac.is_none()
    };
    let ungated: Vec<&str> = profile
        .policy_classes
        .iter()
        .filter(is_ungated)
        .map(|class| class.name)
        .collect();
    if !ungated.is_empty() {
        let _ = writeln!(
            text,
            "\nno threshold, so load makes no request wait: {}",
            ungated.join(", ")
        );
    }
}

/// Which requests reach each class, and what share it has.
fn shares(profile: &EffectiveProfile<'_>) -> Table {
    let mut table = Table::new(&[
        "class",
        "family",
        "uncached tokens",
        "order",
        "quantum",
        "share",
    ]);
    for class in &profile.policy_classes {
        let by_name = if profile.default_policy_family.is_some() {
            "(by name)"
        } else {
            "(all)"
        };
        table.row(vec![
            class.name.to_owned(),
            or(class.policy_family, by_name),
            class
                .cache_bucket
                .as_ref()
                .map_or_else(|| "any".to_owned(), range),
            class.queue_policy.to_owned(),
            class.quantum.to_string(),
            format!("{:.2} %", class.share * 100.0),
        ]);
    }
    table
}

/// What makes workers busy for each class, and how much of it may wait.
fn thresholds_and_limits(profile: &EffectiveProfile<'_>) -> Table {
    let mut table = Table::new(&[
        "class",
        "busy above tokens",
        "fraction",
        "busy ratio",
        "requests/worker",
        "raw tokens/worker",
        "cached tokens/worker",
        "timeout ms",
    ]);
    for class in &profile.policy_classes {
        table.row(vec![
            class.name.to_owned(),
            or(class.prefill_busy_threshold, UNSET),
            or(class.prefill_busy_threshold_frac, UNSET),
            or(class.busy_worker_ratio, UNSET),
            or(class.request_queue_limit_per_worker, UNSET),
            or(class.raw_isl_token_queue_limit_per_worker, UNSET),
            or(class.cached_token_queue_limit_per_worker, UNSET),
            or(class.queue_timeout_ms, UNSET),
        ]);
    }
    table
}

const UNSET: &str = "unset";

fn or<T: Display>(value: Option<T>, absent: &str) -> String {
    value.map_or_else(|| absent.to_owned(), |value| value.to_string())
}

fn or_none(text: &str) -> String {
    if text.is_empty() {
        "none".to_owned()
    } else {
        text.to_owned()
    }
}

/// A model's name, which may hold any character.
fn quoted(name: &str) -> String {
    format!("`{}`", name.escape_debug())
}

/// `warm 0 to 3071`, `cold 3072 and more`.
fn range(bucket: &EffectiveBucket<'_>) -> String {
    let EffectiveBucket {
        bucket,
        min_tokens,
        max_tokens,
    } = bucket;
    match max_tokens {
        Some(max_tokens) => format!("{bucket} {min_tokens} to {max_tokens}"),
        None => format!("{bucket} {min_tokens} and more"),
    }
}

/// Columns of text; the first is aligned left, numbers right. Cells are cut to a width that can be
/// read, but for text in the last column, behind which nothing stands.
struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[&str]) -> Self {
        Self {
            rows: vec![head.iter().map(|title| (*title).to_owned()).collect()],
        }
    }

    fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn render(&self, text: &mut String) {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            self.rows
                .iter()
                .map(|row| cell(&row[column]).chars().count())
                .max()
                .unwrap_or_default()
        };
        let is_number = |cell: &str| cell.starts_with(|first: char| first.is_ascii_digit());
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let numeric: Vec<bool> = (0..columns)
            .map(|column| {
                column > 0
                    && self.rows[1..]
                        .iter()
                        .all(|row| is_number(&row[column]) || row[column] == UNSET)
            })
            .collect();
        for row in &self.rows {
            let mut line = String::from(" ");
            for (column, whole) in row.iter().enumerate() {
                line.push(' ');
                if numeric[column] {
                    line.push_str(&format!("{:>1$}", cell(whole), widths[column]));
                } else if column + 1 == columns {
                    line.push_str(whole);
                } else {
                    line.push_str(&format!("{:<1$}", cell(whole), widths[column]));
                }
                line.push(' ');
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
}

/// A text as a table shows it.
fn cell(text: &str) -> String {
    cut(text, 60)
}
