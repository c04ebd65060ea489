//! A replay's report as text.

use std::fmt;

use super::{ClassTally, ReplayReport};
use crate::report::{Table, Waits, counted, percent, seconds};

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (options, model) = (&self.options, &self.options.model);
        writeln!(
            f,
            "{}, {}, {}, arriving within {} at speed {}",
            counted(self.requests as u64, "request"),
            counted(self.prompt_tokens, "prompt token"),
            counted(self.output_tokens, "output token"),
            seconds(self.last_arrival),
            options.speed,
        )?;
        writeln!(
            f,
            "{} of {} sequences, decode step {}; last token out at {}",
            counted(u64::from(options.workers), "modelled worker"),
            model.sequences,
            seconds(model.decode_step),
            seconds(self.finish),
        )?;
        let total: f64 = options.families.iter().map(|family| family.share).sum();
        let family = |family: &super::FamilyShare| {
            format!("{} {}", family.name, percent(family.share, total))
        };
        let families: Vec<String> = options.families.iter().map(family).collect();
        writeln!(
            f,
            "families by draw (seed {}): {}",
            options.seed,
            families.join(", ")
        )?;
        writeln!(f, "\n{}", self.outcomes())?;
        writeln!(f, "{}", self.waits())?;
        writeln!(f, "{}", self.shares())?;
        writeln!(
            f,
            "Shares are measured over the {} dispatches before which requests of two or more \
             classes waited;\na class is entitled to its quantum's part of the quanta of the \
             classes that waited. Credit ends\nwhen a class runs empty, so shares settle where \
             they queue throughout: raise the speed to see it.",
            self.contended
        )?;
        let charged: u64 = self.classes.iter().map(|class| class.charged_tokens).sum();
        let fates: u64 = self.classes.iter().map(|class| class.requests).sum();
        writeln!(
            f,
            "Balance: {}, {}; {} charged, the costs of the requests that ran.",
            counted(self.requests as u64, "row"),
            counted(fates, "outcome"),
            counted(charged, "token"),
        )
    }
}

impl ReplayReport {
    fn outcomes(&self) -> Table {
        let heads = [
            "class",
            "requests",
            "ran",
            "rejected",
            "expired",
            "failed",
            "tokens charged",
        ];
        let mut table = Table::new(&heads);
        let mut total = ClassTally::default();
        "all".clone_into(&mut total.name);
        for class in &self.classes {
            table.row(outcome_cells(class));
            total.requests += class.requests;
            total.dispatched += class.dispatched;
            total.rejected += class.rejected;
            total.expired += class.expired;
            total.failed += class.failed;
            total.charged_tokens += class.charged_tokens;
        }
        table.row(outcome_cells(&total));
        table
    }

    fn waits(&self) -> Table {
        let mut table = Table::new(&["wait of those that ran", "p50", "p99", "max"]);
        let mut all = Waits::default();
        let cells = |name: &str, waits: &Waits| {
            vec![
                name.to_owned(),
                waits.quantile(0.5),
                waits.quantile(0.99),
                waits.longest(),
            ]
        };
        for class in &self.classes {
            table.row(cells(&class.name, &class.waits));
            all.add(&class.waits);
        }
        table.row(cells("all", &all));
        table
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "shares are told to a hundredth of a per cent"
    )]
    fn shares(&self) -> Table {
        let heads = [
            "while backlogged",
            "quantum",
            "tokens served",
            "share",
            "entitled",
            "served/entitled",
        ];
        let mut table = Table::new(&heads);
        let served: u64 = self.classes.iter().map(|class| class.served_tokens).sum();
        for class in &self.classes {
            let tokens = class.served_tokens as f64;
            let ratio = if class.entitled_tokens > 0.0 {
                format!("{:.4}", tokens / class.entitled_tokens)
            } else {
                "-".to_owned()
            };
            table.row(vec![
                class.name.clone(),
                class.quantum.to_string(),
                class.served_tokens.to_string(),
                percent(tokens, served as f64),
                percent(class.entitled_tokens, served as f64),
                ratio,
            ]);
        }
        table
    }
}

fn outcome_cells(class: &ClassTally) -> Vec<String> {
    vec![
        class.name.clone(),
        class.requests.to_string(),
        class.dispatched.to_string(),
        class.rejected.to_string(),
        class.expired.to_string(),
        class.failed.to_string(),
        class.charged_tokens.to_string(),
    ]
}
