//! What a feeder writes down of each request that comes out.

use hdrhistogram::Histogram;
use tollgate_report::bench::Course;
use tollgate_report::{Quantiles, Recording};

/// Steps of a course.
const STEPS: u64 = 100;

/// What is to be recorded.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// The whole way also by class, for classes of these names, by index.
    pub classes: Vec<String>,
    /// The whole way also by egress shard.
    pub by_egress: bool,
    /// When requests are taken in, as a turner sees it. It counts what it takes in, so that nothing but the
    /// schedule's requests may go through the ingress shard.
    pub intake: bool,
    /// How it goes over time, for so many nanoseconds from the start.
    pub course_ns: Option<u64>,
}

/// Recordings by room.
#[derive(Debug)]
pub struct Rooms {
    /// Scheduled arrival to first attempt.
    pub late: Recording,
    /// First attempt to the doorway's stamp of the attempt that was accepted.
    pub doorway: Recording,
    /// Doorway to intake; empty where nobody sees the turns.
    pub intake: Recording,
    /// Intake (or doorway) to dispatch.
    pub wait: Recording,
    /// Dispatch to hand-out.
    pub ring: Recording,
    /// Scheduled arrival to hand-out.
    pub end_to_end: Recording,
    /// The same by class.
    pub by_class: Vec<Recording>,
    /// The same by egress shard.
    pub by_egress: Vec<Recording>,
    over_time: Option<OverTime>,
}

/// One request that came out, by its time stamps in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handed {
    pub(super) class: u16,
    pub(super) due: u64,
    pub(super) tried_at: u64,
    pub(super) submitted_at: u64,
    pub(super) dispatched_at: u64,
    pub(super) handed_at: u64,
}

impl Rooms {
    pub(super) fn new(watch: &Watch, egress_shards: usize, start: u64) -> Self {
        let all = "all requests";
        let of_class = |name: &String| {
            let tag = format!("end_to_end.{name}");
            let what = format!("whole way, {name}");
            touched(&tag, &what, &format!("requests of class {name}"))
        };
        let of_egress = |shard: usize| {
            let tag = format!("end_to_end.egress{shard}");
            touched(
                &tag,
                "whole way",
                &format!("requests of egress shard {shard}"),
            )
        };
        let egress_shards = if watch.by_egress { egress_shards } else { 0 };
        Self {
            late: touched("late", "scheduled arrival to submission", all),
            doorway: touched("doorway", "first attempt to doorway", all),
            intake: touched("intake", "doorway to intake", all),
            wait: if watch.intake {
                touched("wait", "wait in the lane", all)
            } else {
                touched("doorway_to_dispatch", "doorway to dispatch", all)
            },
            ring: touched("ring", "dispatch ring", all),
            end_to_end: touched("end_to_end", "whole way", all),
            by_class: watch.classes.iter().map(of_class).collect(),
            by_egress: (0..egress_shards).map(of_egress).collect(),
            over_time: watch.course_ns.map(|span| OverTime::new(start, span)),
        }
    }

    /// `taken_at`: the turn that took it in, where that is known.
    #[inline]
    pub(super) fn came_out(&mut self, egress: usize, handed: &Handed, taken_at: Option<u64>) {
        let way = handed.handed_at.saturating_sub(handed.due);
        self.end_to_end.record(way);
        self.late.record(handed.tried_at - handed.due);
        self.doorway
            .record(handed.submitted_at.saturating_sub(handed.tried_at));
        self.ring
            .record(handed.handed_at.saturating_sub(handed.dispatched_at));
        // A record that is published in the middle of a turn may be taken by that very turn.
        if let Some(taken_at) = taken_at {
            self.intake
                .record(taken_at.saturating_sub(handed.submitted_at));
        }
        let begins = taken_at.map_or(handed.submitted_at, |at| at.max(handed.submitted_at));
        self.wait
            .record(handed.dispatched_at.saturating_sub(begins));
        if let Some(of_class) = self.by_class.get_mut(usize::from(handed.class)) {
            of_class.record(way);
        }
        if let Some(of_egress) = self.by_egress.get_mut(egress) {
            of_egress.record(way);
        }
        if let Some(over_time) = &mut self.over_time {
            over_time.came_out(handed.handed_at, way);
        }
    }

    #[inline]
    pub(super) fn in_flight(&mut self, now: u64, count: u64) {
        if let Some(over_time) = &mut self.over_time {
            over_time.in_flight(now, count);
        }
    }

    /// Every recording, the whole way first.
    #[must_use]
    pub fn into_recordings(self) -> Vec<Recording> {
        let mut all = vec![
            self.end_to_end,
            self.late,
            self.doorway,
            self.intake,
            self.wait,
            self.ring,
        ];
        all.extend(self.by_egress);
        all.extend(self.by_class);
        all
    }

    /// How it went over time, where that was watched.
    #[must_use]
    pub fn course(&self) -> Option<Course> {
        self.over_time.as_ref().map(OverTime::course)
    }
}

/// A recording whose memory is there: a first touch in the middle of a run would be measured.
fn touched(tag: &str, name: &str, population: &str) -> Recording {
    let untouched = Recording::new(tag, name, population);
    // A copy is written, word by word; what was only asked for is not.
    untouched.clone()
}

/// A small histogram for each step: two digits are enough for a plot.
#[derive(Debug)]
struct OverTime {
    start: u64,
    step_ns: u64,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
struct Step {
    latency: Histogram<u32>,
    longest: u64,
    in_flight_max: u64,
}

impl OverTime {
    /// The longest latency that a step tells from longer ones: about 18 minutes.
    const TOP_NS: u64 = 1 << 40;

    fn new(start: u64, span: u64) -> Self {
        let empty = Step {
            latency: Histogram::new_with_bounds(1, Self::TOP_NS, 2)
                .expect("the bounds are far enough apart for two digits"),
            longest: 0,
            in_flight_max: 0,
        };
        // Requests come out after the last arrival too.
        let steps = STEPS + STEPS / 10;
        Self {
            start,
            step_ns: (span / STEPS).max(1),
            steps: (0..steps).map(|_| empty.clone()).collect(),
        }
    }

    /// What comes out later than the last step ends belongs to that.
    #[inline]
    fn step(&mut self, now: u64) -> &mut Step {
        let at = now.saturating_sub(self.start) / self.step_ns;
        let last = self.steps.len() - 1;
        let at = usize::try_from(at).map_or(last, |at| at.min(last));
        &mut self.steps[at]
    }

    #[inline]
    fn came_out(&mut self, now: u64, way: u64) {
        let step = self.step(now);
        step.latency.saturating_record(way);
        step.longest = step.longest.max(way);
    }

    #[inline]
    fn in_flight(&mut self, now: u64, count: u64) {
        let step = self.step(now);
        step.in_flight_max = step.in_flight_max.max(count);
    }

    fn course(&self) -> Course {
        let used = self.steps.iter().rposition(|step| step.in_flight_max > 0);
        let steps = &self.steps[..used.map_or(0, |last| last + 1)];
        let quantiles = |step: &Step| match step.latency.len() {
            0 => Quantiles::default(),
            count => Quantiles {
                count,
                p50_ns: step.latency.value_at_quantile(0.5).min(step.longest),
                p99_ns: step.latency.value_at_quantile(0.99).min(step.longest),
                max_ns: step.longest,
            },
        };
        Course {
            step_ns: self.step_ns,
            handed_out: steps.iter().map(|step| step.latency.len()).collect(),
            in_flight_max: steps.iter().map(|step| step.in_flight_max).collect(),
            latency: steps.iter().map(quantiles).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rooms_of_a_request_add_up_to_its_way() {
        let mut rooms = Rooms::new(&Watch::default(), 1, 0);
        let handed = Handed {
            class: 0,
            due: 100,
            tried_at: 110,
            submitted_at: 130,
            dispatched_at: 400,
            handed_at: 1_000,
        };
        rooms.came_out(0, &handed, Some(200));
        let only = |recording: &Recording| recording.max().expect("one was recorded");
        let parts = [&rooms.intake, &rooms.wait, &rooms.ring].map(only);
        assert_eq!(parts, [70, 200, 600]);
        assert_eq!(only(&rooms.end_to_end), 900);
        let before = [&rooms.late, &rooms.doorway].map(only);
        assert_eq!(before, [10, 20]);
        assert_eq!(before.iter().chain(&parts).sum::<u64>(), 900);
    }

    #[test]
    fn a_course_keeps_what_came_out_by_step_and_the_late_in_its_last() {
        let mut over_time = OverTime::new(1_000, 10_000);
        over_time.came_out(1_050, 7);
        over_time.in_flight(1_050, 3);
        over_time.came_out(1_250, 9);
        over_time.in_flight(1_250, 2);
        over_time.came_out(999_999, 80);
        over_time.in_flight(999_999, 1);
        let course = over_time.course();
        assert_eq!(course.step_ns, 100);
        assert_eq!(course.handed_out.len(), 110);
        assert_eq!(course.handed_out[..3], [1, 0, 1]);
        assert_eq!(course.in_flight_max[..3], [3, 0, 2]);
        assert_eq!(course.latency[2].max_ns, 9);
        assert_eq!(course.latency[109].max_ns, 80);
    }
}
