//! The differential harness: random operations on two machines, compared after every one.
//!
//! An [`Episode`] is a random policy and a random stream of [`Step`]s: every operation of the
//! scenario protocol, reloads of random policies and rooms of egress groups among them, weighted so that queues build up, drain
//! and get stuck, and aimed at what it was told to [`observe`](Episode::observe). [`compare`] carries the steps out on both machines and stops at the first event or
//! field of the state that differs; [`shrink`] cuts the stream down to what still shows the
//! difference.
//!
//! | module | what it holds |
//! |---|---|
//! | `episode` | the random stream |
//! | `policies` | the random policies |
//! | `random` | the source of chance |

mod episode;
mod policies;
mod random;

use std::fmt;

pub use episode::Episode;
use tollgate_policy::Profile;

use crate::protocol::{Event, Machine, Op, State, settle_order};

/// One step of an episode.
#[derive(Clone, Debug)]
pub enum Step {
    /// An operation other than a reload.
    Op(Op),
    /// A reload of this profile.
    Reload(Profile),
    /// Room for so many dispatches in an egress group.
    Room(u16, u32),
    /// Vanished classes keep their places when they are empty, or do so no longer.
    Hold(bool),
}

impl Step {
    fn apply(&self, machine: &mut impl Machine, out: &mut Vec<Event>) {
        match self {
            Self::Op(op) => machine.apply(op, out),
            Self::Reload(profile) => machine.reload(profile, out),
            Self::Room(group, room) => machine.set_egress_room(*group, *room),
            Self::Hold(hold) => machine.hold_drained(*hold),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Op(op) => f.write_str(&op.to_json()),
            Self::Reload(profile) => write!(f, "reload {profile:?}"),
            Self::Room(group, room) => write!(f, "room {group} {room}"),
            Self::Hold(hold) => write!(f, "hold {hold}"),
        }
    }
}

/// Two machines that are to behave alike.
#[derive(Debug)]
pub struct Pair<A, B> {
    /// The one under test.
    pub subject: A,
    /// The one that is right.
    pub reference: B,
}

/// What a step made of both machines.
#[derive(Clone, Debug)]
pub struct Observation {
    /// What they said.
    pub events: Vec<Event>,
    /// What they are now.
    pub state: State,
}

impl<A: Machine, B: Machine> Pair<A, B> {
    /// Carries out one step on both and compares what they say and what they are.
    ///
    /// # Errors
    /// What differs, in words.
    pub fn step(&mut self, step: &Step) -> Result<Observation, String> {
        let (mut got, mut want) = (Vec::new(), Vec::new());
        step.apply(&mut self.subject, &mut got);
        step.apply(&mut self.reference, &mut want);
        settle_order(&mut got);
        settle_order(&mut want);
        if got != want {
            return Err(first_difference("event", &lines(&got), &lines(&want)));
        }
        let (state, wanted) = (self.subject.state(), self.reference.state());
        if state != wanted {
            return Err(first_difference("state", &fields(&state), &fields(&wanted)));
        }
        Ok(Observation { events: got, state })
    }
}

/// The first step after which two machines differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// How many steps went before it.
    pub at: usize,
    /// What differs.
    pub what: String,
}

/// Carries `steps` out on a pair.
///
/// # Errors
/// At the first difference.
pub fn compare<A: Machine, B: Machine>(
    pair: &mut Pair<A, B>,
    steps: &[Step],
) -> Result<(), Difference> {
    for (at, step) in steps.iter().enumerate() {
        pair.step(step).map_err(|what| Difference { at, what })?;
    }
    Ok(())
}

/// Drops steps, larger runs first, as long as a fresh pair still differs on the rest.
///
/// # Panics
/// If a fresh pair does not differ on `steps`.
pub fn shrink<A: Machine, B: Machine>(
    mut steps: Vec<Step>,
    fresh: impl Fn() -> Pair<A, B>,
) -> (Vec<Step>, Difference) {
    let differs = |steps: &[Step]| compare(&mut fresh(), steps).err();
    let mut last = differs(&steps).expect("only a stream with a difference is shrunk");
    steps.truncate(last.at + 1);
    let mut run = steps.len() / 2;
    while run > 0 {
        let mut start = 0;
        while start < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(start..(start + run).min(steps.len()));
            if let Some(difference) = differs(&fewer) {
                fewer.truncate(difference.at + 1);
                (steps, last) = (fewer, difference);
            } else {
                start += run;
            }
        }
        run /= 2;
    }
    (steps, last)
}

fn lines(events: &[Event]) -> Vec<String> {
    events.iter().map(Event::to_json).collect()
}

/// A state as lines, so that a difference names one field.
fn fields(state: &State) -> Vec<String> {
    format!("{state:#?}").lines().map(str::to_owned).collect()
}

fn first_difference(what: &str, got: &[String], want: &[String]) -> String {
    let at = got
        .iter()
        .zip(want)
        .take_while(|(got, want)| got == want)
        .count();
    let around = |lines: &[String]| {
        let nearby = lines.iter().skip(at.saturating_sub(2)).take(5);
        nearby
            .map(|line| format!("    {}\n", line.trim_end()))
            .collect::<String>()
    };
    format!(
        "{what} {at} differs\n  want\n{}  got\n{}",
        around(want),
        around(got)
    )
}
