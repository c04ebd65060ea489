//! The demo as text for a newcomer.

use std::fmt;

use tollgate_policy::Arbitration;

use super::{ArmResult, Demo, PROMPT_TOKENS, REQUESTS_EACH, SEQUENCES, THRESHOLD};
use tollgate_report::Recording;
use tollgate_report::text::{Side, Table, seconds};

impl fmt::Display for Demo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Two classes share one worker. {REQUESTS_EACH} premium and {REQUESTS_EACH} regular \
             requests of {PROMPT_TOKENS} tokens all wait\nat time 0; the worker runs {SEQUENCES} at \
             a time (a busy threshold of {THRESHOLD} tokens lets {SEQUENCES} through).\nEach turn \
             gives a class its quantum of tokens to spend. Who is served first?\n"
        )?;
        let heads = [
            ("quanta", Side::Left),
            ("mode", Side::Left),
            ("first 320", Side::Right),
            ("by quanta", Side::Right),
            ("regular left", Side::Right),
            ("premium p50", Side::Right),
            ("max", Side::Right),
            ("regular p50", Side::Right),
            ("max", Side::Right),
        ];
        let mut table = Table::new(&heads);
        for result in &self.results {
            table.row(&cells(result));
        }
        writeln!(f, "{table}")?;
        writeln!(
            f,
            "first 320: premium : regular among the first 320 completions. by quanta: what the \
             quanta promise.\nregular left: not complete when the last premium request was. p50, \
             max: wait for the worker.\n"
        )?;
        for result in &self.results {
            writeln!(
                f,
                "{:<10}  {:<5}  {}",
                quanta(result),
                mode(result),
                self.sentence(result)
            )?;
        }
        Ok(())
    }
}

impl Demo {
    /// What a newcomer should see in the line of `result`.
    fn sentence(&self, result: &ArmResult) -> String {
        let [premium, regular] = result.first;
        if result.arm.arbitration == Arbitration::Page {
            let twin = self.results.iter().find(|twin| {
                twin.arm.quanta == result.arm.quanta && twin.arm.arbitration == Arbitration::Exact
            });
            return match twin {
                Some(twin) if twin.first == result.first => {
                    "The algorithm as NVIDIA Dynamo's page words it, for comparison: the same here."
                        .to_owned()
                }
                _ => format!(
                    "The algorithm as NVIDIA Dynamo's page words it, for comparison: \
                     {premium} : {regular} here."
                ),
            };
        }
        let cost = u64::from(PROMPT_TOKENS);
        let [premium_quantum, regular_quantum] = result.arm.quanta;
        if premium_quantum == regular_quantum {
            "Equal quanta: the classes take turns and end together.".to_owned()
        } else if premium_quantum.is_multiple_of(cost) && regular_quantum.is_multiple_of(cost) {
            format!(
                "Each turn pays for {} premium requests or {} regular one.",
                premium_quantum / cost,
                regular_quantum / cost
            )
        } else if regular_quantum < cost {
            format!(
                "A regular turn pays for a part of a request; regular saves up {} turns for each.",
                cost.div_ceil(regular_quantum)
            )
        } else {
            format!(
                "Bursts of {}, and of 2 or 3 that use up what was saved; the 320 end inside one.",
                premium_quantum / cost
            )
        }
    }
}

fn cells(result: &ArmResult) -> Vec<String> {
    let [premium, regular] = result.first;
    let [premium_waits, regular_waits] = &result.waits;
    let [premium_quantum, regular_quantum] = result.arm.quanta;
    let total = u64::from(REQUESTS_EACH);
    let promised = total * premium_quantum / (premium_quantum + regular_quantum);
    vec![
        quanta(result),
        mode(result).to_owned(),
        format!("{premium} : {regular}"),
        format!("{promised} : {}", total - promised),
        result.regular_left.to_string(),
        median(premium_waits),
        longest(premium_waits),
        median(regular_waits),
        longest(regular_waits),
    ]
}

fn median(waits: &Recording) -> String {
    seconds(waits.quantile(0.5).unwrap_or(0))
}

fn longest(waits: &Recording) -> String {
    seconds(waits.max().unwrap_or(0))
}

fn quanta(result: &ArmResult) -> String {
    let [premium, regular] = result.arm.quanta;
    format!("{premium}:{regular}")
}

const fn mode(result: &ArmResult) -> &'static str {
    match result.arm.arbitration {
        Arbitration::Exact => "exact",
        Arbitration::Page => "page",
    }
}
