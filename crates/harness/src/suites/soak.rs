//! Does anything drift in the long run: memory, shares, the tail?
//!
//! One engine, bursts at half of the peak on average, and storms of cancels in between. The resident memory
//! is looked at a hundred times; the first quarter is compared with the last.

use std::time::Duration;

use tollgate_report::bench::{Better, ClassShare, Course, Unit};

use super::adversity::{CancelStorm, with_held_worker};
use super::running::{Load, OpenLoop, as_f64, peak, peak_note};
use crate::machine::{nanos, resident_bytes};
use crate::method::{Case, Cases, Kind, Sample};
use crate::open_loop::{Outside, Random, Watch};
use crate::pipeline::Rig;
use crate::{Plan, Suite, Summary};

pub(super) const SUITE: Suite = Suite {
    name: "soak",
    about: "Do memory, shares or the tail drift in the long run?",
    once: true,
    cases,
};

const ARM: &str = "bursts_and_cancels/50%";
const LOAD: f64 = 0.5;
const BURST_NS: (u64, u64) = (1_000_000, 3_000_000);
/// Looks at the memory.
const LOOKS: u64 = 100;

const GROWTH: Kind = Kind::new(
    "memory, last quarter less first",
    Unit::Bytes,
    Better::Lower,
);
const RESIDENT: Kind = Kind::new("memory at the end", Unit::Bytes, Better::Lower);
const TAIL: Kind = Kind::new(
    "p99 of the last quarter over that of the first",
    Unit::Share,
    Better::Lower,
);
const SHARE_ERROR: Kind = Kind::new(
    "largest difference of a share from what is due",
    Unit::Share,
    Better::Lower,
);

fn cases(plan: &Plan) -> Cases {
    if !plan.wants(SUITE.name, ARM) {
        return Cases::default();
    }
    let (of, peak, span) = (plan.clone(), peak(plan), plan.soak());
    let case = Case::new(ARM, move || soak(&of, peak, span))
        .setting("span", format!("{} s", span.as_secs_f64()));
    Cases {
        cases: vec![case],
        notes: vec![peak_note(plan, peak)],
    }
}

fn soak(plan: &Plan, peak: f64, span: Duration) -> Sample {
    let span_ns = nanos(span);
    let open = OpenLoop {
        builder: with_held_worker(Rig::USUAL.builder(plan.cores)),
        load: Load {
            peak,
            outside: Looking {
                storm: CancelStorm::new(span_ns),
                every_ns: span_ns / LOOKS,
                next: None,
                resident: Vec::with_capacity(2 * usize::try_from(LOOKS).expect("few")),
            },
            watch: Watch {
                course_ns: Some(span_ns),
                ..Watch::default()
            },
            warm: span / 20,
        },
    };
    let arrivals = |start| Random::bursts(LOAD * peak, BURST_NS, start, span_ns);
    let (mut sample, looking) = open.run(plan, arrivals);
    let share_error = share_error(&sample.classes);
    sample = sample.metric(SHARE_ERROR, share_error);
    if let Some(tail) = sample.course.as_ref().and_then(tail_drift) {
        sample = sample.metric(TAIL, tail);
    }
    if let Some((growth, resident)) = growth(&looking.resident) {
        sample = sample.metric(GROWTH, growth).metric(RESIDENT, resident);
    }
    sample
}

/// Looks at the memory now and then, between storms of cancels.
struct Looking {
    storm: CancelStorm,
    every_ns: u64,
    next: Option<u64>,
    resident: Vec<u64>,
}

impl Outside for Looking {
    fn at_doorway(&mut self, now: u64, ingress: &mut tollgate::IngressShard<u64>) -> u64 {
        if self.next.is_none_or(|next| next <= now) {
            self.next = Some(now + self.every_ns);
            self.resident.extend(resident_bytes());
        }
        self.storm.at_doorway(now, ingress)
    }
}

/// Medians of the last quarter and of the first: their difference, and the last look.
fn growth(resident: &[u64]) -> Option<(f64, f64)> {
    let quarter = (resident.len() / 4).max(1);
    let median =
        |part: &[u64]| Summary::of(part.iter().map(|&bytes| as_f64(bytes)).collect()).median;
    let last = *resident.last()?;
    let first = median(&resident[..quarter]);
    Some((
        median(&resident[resident.len() - quarter..]) - first,
        as_f64(last),
    ))
}

/// The median of the steps' 99th percentiles in the last quarter, over that in the first.
fn tail_drift(course: &Course) -> Option<f64> {
    let steps: Vec<f64> = course
        .latency
        .iter()
        .filter(|step| step.count > 0)
        .map(|step| as_f64(step.p99_ns))
        .collect();
    let quarter = steps.len() / 4;
    if quarter == 0 {
        return None;
    }
    let median = |part: &[f64]| Summary::of(part.to_vec()).median;
    let first = median(&steps[..quarter]);
    (first > 0.0).then(|| median(&steps[steps.len() - quarter..]) / first)
}

/// The largest difference between what a class was served and what was due to it, as a part of all.
fn share_error(classes: &[ClassShare]) -> f64 {
    let all: u64 = classes.iter().map(|class| class.entitled_tokens).sum();
    let differences = classes.iter().map(|class| {
        as_f64(class.served_tokens.abs_diff(class.entitled_tokens)) / as_f64(all.max(1))
    });
    differences.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_between_the_medians_of_the_quarters() {
        assert_eq!(growth(&[]), None);
        assert_eq!(growth(&[5]), Some((0.0, 5.0)));
        assert_eq!(
            growth(&[1, 1, 9, 2, 2, 2, 2, 4, 4, 4, 0, 7]),
            Some((3.0, 7.0))
        );
    }

    #[test]
    fn a_share_error_is_a_part_of_all_that_was_served() {
        let class = |served_tokens, entitled_tokens| ClassShare {
            name: String::new(),
            quantum_tokens: 1,
            served_tokens,
            entitled_tokens,
        };
        assert_eq!(share_error(&[class(60, 50), class(40, 50)]), 0.1);
        assert_eq!(share_error(&[]), 0.0);
    }
}
