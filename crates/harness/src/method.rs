//! How everything is measured: repetition by repetition in turns, between two looks at the machine.
//!
//! All arms of a suite run once before any runs again, so that what disturbs the machine for a while
//! disturbs all of them. Each repetition warms up by itself, untimed. A suite whose machine moved
//! meanwhile is run again as often as the plan allows, and the last run is told, with the number of
//! attempts.

use tollgate_report::bench::{
    Arm, BenchReport, Better, ClassShare, Course, Metric, Population, SuiteRun, Unit,
};
use tollgate_report::{Fact, Recording};

use crate::machine::{CpuTime, calibrate, facts};
use crate::plan::Plan;

/// A question, and the arms that answer it.
#[derive(Clone, Copy)]
pub struct Suite {
    /// Its name on the command line.
    pub name: &'static str,
    /// The question that it answers.
    pub about: &'static str,
    /// Whether its arms run once where the plan does not say how often.
    pub(crate) once: bool,
    /// Its arms, as far as a plan wants them. Making them may measure something by itself, which the notes
    /// say.
    pub(crate) cases: fn(&Plan) -> Cases,
}

impl std::fmt::Debug for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suite")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The arms of a suite.
#[derive(Default)]
pub(crate) struct Cases {
    pub(crate) cases: Vec<Case>,
    pub(crate) notes: Vec<String>,
}

impl Cases {
    /// Adds an arm, which is made only if the plan wants it, and if there is none of that name.
    pub(crate) fn add(
        &mut self,
        plan: &Plan,
        suite: &str,
        name: String,
        make: impl FnOnce(String) -> Case,
    ) {
        // Two values may have one name, as two parts have that differ by less than is told.
        let is_new = self.cases.iter().all(|case| case.name != name);
        if is_new && plan.wants(suite, &name) {
            self.cases.push(make(name));
        }
    }
}

/// One arm that can be measured again and again.
pub(crate) struct Case {
    name: String,
    settings: Vec<Fact>,
    notes: Vec<String>,
    repeat: Box<dyn FnMut() -> Sample>,
}

impl Case {
    pub(crate) fn new(name: impl Into<String>, repeat: impl FnMut() -> Sample + 'static) -> Self {
        Self {
            name: name.into(),
            settings: Vec::new(),
            notes: Vec::new(),
            repeat: Box::new(repeat),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn setting(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.push(Fact {
            name: name.to_owned(),
            value: value.to_string(),
        });
        self
    }

    pub(crate) fn note(mut self, note: &str) -> Self {
        self.notes.push(note.to_owned());
        self
    }
}

/// A number that repetitions give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
}

impl Kind {
    pub(crate) const fn rate(name: &'static str) -> Self {
        Self::new(name, Unit::PerSecond, Better::Higher)
    }

    pub(crate) const fn nanos(name: &'static str) -> Self {
        Self::new(name, Unit::Nanos, Better::Lower)
    }

    pub(crate) const fn new(name: &'static str, unit: Unit, better: Better) -> Self {
        Self { name, unit, better }
    }
}

/// What one repetition of an arm gave.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub(crate) metrics: Vec<(Kind, f64)>,
    pub(crate) recordings: Vec<Recording>,
    pub(crate) course: Option<Course>,
    pub(crate) classes: Vec<ClassShare>,
}

impl Sample {
    pub(crate) fn of(kind: Kind, value: f64) -> Self {
        Self::default().metric(kind, value)
    }

    pub(crate) fn metric(mut self, kind: Kind, value: f64) -> Self {
        self.metrics.push((kind, value));
        self
    }

    pub(crate) fn recordings(mut self, recordings: impl IntoIterator<Item = Recording>) -> Self {
        // What has recorded nothing says nothing.
        let some = recordings.into_iter().filter(|one| one.count() > 0);
        self.recordings.extend(some);
        self
    }
}

/// What a run is told while it goes on.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The suite.
    pub suite: &'a str,
    /// The arm that is measured next; empty while the machine is looked at, or arms are made.
    pub arm: &'a str,
    /// Repetitions done.
    pub done: u64,
    /// Repetitions in all; 0 while that is not known.
    pub of: u64,
}

/// A report without suites.
#[must_use]
pub fn empty_report(plan: &Plan, command: &str) -> BenchReport {
    BenchReport {
        title: "Tollgate measured".to_owned(),
        command: command.to_owned(),
        machine: facts(plan.cores),
        suites: Vec::new(),
    }
}

/// Measures a suite; `None` if the plan wants none of its arms.
///
/// # Panics
/// If the engine does not do what it is for: a request is lost or refused for another reason than want of
/// room.
pub fn measure(
    suite: &Suite,
    plan: &Plan,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Option<SuiteRun> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let run = attempt(suite, plan, attempts, progress)?;
        if attempts > plan.retries || run.distrust().is_empty() {
            return Some(run);
        }
    }
}

fn attempt(
    suite: &Suite,
    plan: &Plan,
    attempts: u32,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Option<SuiteRun> {
    let mut tell = |arm: &str, done, of| {
        progress(Progress {
            suite: suite.name,
            arm,
            done,
            of,
        });
    };
    tell("", 0, 0);
    let Cases { mut cases, notes } = (suite.cases)(plan);
    if cases.is_empty() {
        return None;
    }
    let before = calibrate(plan.cores, plan.thoroughness(), &CpuTime::default());
    let begun = CpuTime::read().unwrap_or_default();
    let mut arms: Vec<Arm> = cases.iter().map(arm_of).collect();
    let repetitions = if suite.once && plan.repetitions.is_none() {
        1
    } else {
        plan.repetitions()
    };
    let of = u64::from(repetitions) * cases.len() as u64;
    let mut done = 0;
    for _ in 0..repetitions {
        for (case, arm) in cases.iter_mut().zip(&mut arms) {
            tell(&case.name, done, of);
            collect(arm, (case.repeat)());
            done += 1;
        }
    }
    tell("", done, of);
    drop(cases);
    let after = calibrate(plan.cores, plan.thoroughness(), &begun);
    Some(SuiteRun {
        name: suite.name.to_owned(),
        about: suite.about.to_owned(),
        before,
        after,
        attempts,
        notes,
        arms,
    })
}

fn arm_of(case: &Case) -> Arm {
    Arm {
        name: case.name.clone(),
        settings: case.settings.clone(),
        notes: case.notes.clone(),
        ..Arm::default()
    }
}

/// Adds a repetition to an arm. All repetitions give the same kinds of numbers; a room that recorded
/// nothing in one of them has a recording less.
fn collect(arm: &mut Arm, sample: Sample) {
    for (kind, value) in sample.metrics {
        let known = arm
            .metrics
            .iter_mut()
            .find(|metric| metric.name == kind.name);
        if let Some(metric) = known {
            metric.samples.push(value);
        } else {
            arm.metrics.push(Metric {
                name: kind.name.to_owned(),
                unit: kind.unit,
                better: kind.better,
                samples: vec![value],
            });
        }
    }
    for recording in sample.recordings {
        let same =
            |population: &&mut Population| population.repetitions[0].tag() == recording.tag();
        if let Some(population) = arm.populations.iter_mut().find(same) {
            population.repetitions.push(recording);
        } else {
            arm.populations.push(Population {
                repetitions: vec![recording],
            });
        }
    }
    arm.course = sample.course.or(arm.course.take());
    for share in sample.classes {
        if let Some(known) = arm
            .classes
            .iter_mut()
            .find(|class| class.name == share.name)
        {
            known.served_tokens += share.served_tokens;
            known.entitled_tokens += share.entitled_tokens;
        } else {
            arm.classes.push(share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Cores;
    use crate::plan::Scale;

    const COUNT: Kind = Kind::new("order", Unit::Count, Better::Neither);

    /// Arms that tell how many repetitions of any arm came before.
    fn numbered(plan: &Plan) -> Cases {
        let calls = std::rc::Rc::new(std::cell::Cell::new(0_u32));
        let case = |name: &str| {
            let calls = std::rc::Rc::clone(&calls);
            Case::new(name, move || {
                calls.set(calls.get() + 1);
                let mut wait = Recording::new("wait", "wait", "all");
                wait.record(5);
                Sample::of(COUNT, f64::from(calls.get())).recordings([wait])
            })
        };
        let cases = ["a", "b"].map(case).into_iter();
        Cases {
            cases: cases
                .filter(|case| plan.wants("numbered", case.name()))
                .collect(),
            notes: Vec::new(),
        }
    }

    const NUMBERED: Suite = Suite {
        name: "numbered",
        about: "In which order are arms measured?",
        once: false,
        cases: numbered,
    };

    #[test]
    fn all_arms_run_once_before_any_runs_again() {
        let plan = Plan {
            repetitions: Some(3),
            ..Plan::new(Scale::Smoke, Cores::NOBODY)
        };
        let mut told = Vec::new();
        let run = measure(&NUMBERED, &plan, &mut |progress| {
            told.push((progress.arm.to_owned(), progress.done));
        });
        let run = run.expect("two arms are wanted");
        let samples = |at: usize| run.arms[at].metrics[0].samples.clone();
        assert_eq!(
            (samples(0), samples(1)),
            (vec![1.0, 3.0, 5.0], vec![2.0, 4.0, 6.0])
        );
        assert_eq!(run.arms[0].populations[0].repetitions.len(), 3);
        assert_eq!(told.last(), Some(&(String::new(), 6)));
    }

    #[test]
    fn a_filter_leaves_out_arms_and_whole_suites() {
        let mut plan = Plan::new(Scale::Smoke, Cores::NOBODY);
        plan.filter = Some("numbered/b".to_owned());
        let run = measure(&NUMBERED, &plan, &mut |_| ()).expect("one arm is wanted");
        assert_eq!(run.arms.len(), 1);
        plan.filter = Some("nothing".to_owned());
        assert!(measure(&NUMBERED, &plan, &mut |_| ()).is_none());
    }
}
