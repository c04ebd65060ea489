//! What holds for every report that is read.

use std::collections::BTreeSet;

use super::{Arm, BenchReport, Calibration, Course, Population, SuiteRun};
use crate::ReadError;
use crate::text::cell;

/// Checks a report.
///
/// # Errors
/// [`ReadError::Invalid`] with the first place that breaks a rule.
pub(super) fn check(report: &BenchReport) -> Result<(), ReadError> {
    let names = report.suites.iter().map(|suite| suite.name.as_str());
    unique("suites", "name", names)?;
    for (at, suite) in report.suites.iter().enumerate() {
        check_suite(&format!("suites[{at}]"), suite)?;
    }
    Ok(())
}

fn invalid(at: String, why: impl Into<String>) -> ReadError {
    let why = why.into();
    ReadError::Invalid { at, why }
}

fn unique<'a>(at: &str, what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), ReadError> {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        if !seen.insert(name) {
            let why = format!("the {what} {:?} is there twice", cell(name));
            return Err(invalid(format!("{at}[{index}]"), why));
        }
    }
    Ok(())
}

fn check_suite(at: &str, suite: &SuiteRun) -> Result<(), ReadError> {
    for (when, calibration) in [("before", &suite.before), ("after", &suite.after)] {
        check_calibration(&format!("{at}.{when}"), calibration)?;
    }
    let names = suite.arms.iter().map(|arm| arm.name.as_str());
    unique(&format!("{at}.arms"), "name", names)?;
    for (index, arm) in suite.arms.iter().enumerate() {
        check_arm(&format!("{at}.arms[{index}]"), arm)?;
    }
    Ok(())
}

fn check_calibration(at: &str, of: &Calibration) -> Result<(), ReadError> {
    let numbers = [
        ("line_ns", of.line_ns),
        ("clock_ns", Some(of.clock_ns)),
        ("load_average", of.load_average),
        ("steal", of.steal),
        ("gaps.micros_per_second", Some(of.gaps.micros_per_second)),
        (
            "gaps.ten_micros_per_second",
            Some(of.gaps.ten_micros_per_second),
        ),
        (
            "gaps.hundred_micros_per_second",
            Some(of.gaps.hundred_micros_per_second),
        ),
        ("gaps.lost", Some(of.gaps.lost)),
    ];
    for (name, number) in numbers {
        if let Some(number) = number.filter(|number| !number.is_finite() || *number < 0.0) {
            let why = format!("{number} is not a number from 0 on");
            return Err(invalid(format!("{at}.{name}"), why));
        }
    }
    Ok(())
}

fn check_arm(at: &str, arm: &Arm) -> Result<(), ReadError> {
    let names = arm.metrics.iter().map(|metric| metric.name.as_str());
    unique(&format!("{at}.metrics"), "name", names)?;
    for (index, metric) in arm.metrics.iter().enumerate() {
        let is_odd = |sample: &f64| !sample.is_finite();
        if let Some(sample) = metric.samples.iter().position(is_odd) {
            let at = format!("{at}.metrics[{index}]: samples[{sample}]");
            return Err(invalid(at, "not a finite number"));
        }
    }
    for (index, population) in arm.populations.iter().enumerate() {
        check_population(&format!("{at}.populations[{index}]"), population)?;
    }
    let tags = arm.populations.iter().map(Population::tag);
    unique(&format!("{at}.populations"), "tag", tags)?;
    let classes = arm.classes.iter().map(|class| class.name.as_str());
    unique(&format!("{at}.classes"), "name", classes)?;
    match &arm.course {
        Some(course) => check_course(&format!("{at}.course"), course),
        None => Ok(()),
    }
}

fn check_population(at: &str, population: &Population) -> Result<(), ReadError> {
    let Some((first, rest)) = population.repetitions.split_first() else {
        return Err(invalid(format!("{at}.repetitions"), "is empty"));
    };
    for (index, other) in (1..).zip(rest) {
        for (what, theirs, ours) in [
            ("tag", other.tag(), first.tag()),
            ("name", other.name(), first.name()),
            ("population", other.population(), first.population()),
        ] {
            if theirs != ours {
                let at = format!("{at}.repetitions[{index}]");
                let why = format!(
                    "its {what} is {:?}, that of the first {:?}",
                    cell(theirs),
                    cell(ours)
                );
                return Err(invalid(at, why));
            }
        }
    }
    Ok(())
}

fn check_course(at: &str, course: &Course) -> Result<(), ReadError> {
    let steps = course.handed_out.len();
    for (name, length) in [
        ("in_flight_max", course.in_flight_max.len()),
        ("latency", course.latency.len()),
    ] {
        if length != steps {
            let why = format!("it has {length} steps, handed_out has {steps}");
            return Err(invalid(format!("{at}.{name}"), why));
        }
    }
    Ok(())
}
