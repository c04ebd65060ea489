//! An arbiter that was restored from a checkpoint beside the one that it was taken of: the same random
//! operations, every event, the whole state and the whole checkpoint compared after every one.
//!
//! `TOLLGATE_RESTORE_OPS` sets how many operations follow restores, 300,000 unless set.

use tollgate_arbiter::Nanos;
use tollgate_sim::differential::{Episode, Observation, Pair, Step};
use tollgate_sim::protocol::{Amendment, Endpoint, Event, Machine, Op, Submission, WorkerRecord};
use tollgate_sim::scenario::{ArbiterMachine, MachineOptions};

const OPS: usize = 300_000;
const OPS_PER_EPISODE: usize = 1_060;

/// A stream of chance: xorshift.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn arbiter(episode: &Episode) -> ArbiterMachine {
    let options = MachineOptions {
        seed: episode.selector_seed(),
        slots: 2_048,
        endpoints: 64,
        egress_groups: episode.egress_groups,
        ..MachineOptions::default()
    };
    ArbiterMachine::new(&episode.profile, options).expect("the capacities suffice")
}

/// What an engine does to an arbiter and no scenario can.
fn of_an_engine(dice: &mut Dice, groups: u16) -> impl Fn(&mut ArbiterMachine, &mut Vec<Event>) {
    let kind = dice.roll(20);
    let (small, id) = (dice.roll(4), 1 + dice.roll(6));
    let group = u16::try_from(dice.roll(u64::from(groups))).expect("small");
    let slot = u32::try_from(dice.roll(64)).expect("small");
    let flag = dice.roll(2) == 0;
    move |machine, out| match kind {
        0..8 => machine.turn(small, 1 + id, out),
        8..10 => machine.turn(64, 256, out),
        10..12 => machine.turn(small, 0, out),
        12 => machine.abandon(group, slot, 64),
        13 => machine.amend(id, &Amendment::Overloaded(flag), out),
        14 => machine.amend(id, &Amendment::Available(flag), out),
        15 => machine.amend(id, &Amendment::Taints(vec!["gpu".to_owned()]), out),
        16 if small == 0 && slot < 4 => machine.begin_drain(Nanos(id * 700_000)),
        _ => {
            let now = Nanos(machine.now_us() * 1_000 + id * 100_000);
            machine.set_time(now);
        }
    }
}

/// One episode: the restored machine is replaced now and then; how many operations followed restores.
fn run(seed: u64) -> usize {
    let mut episode = Episode::new(seed);
    let mut dice = Dice(seed * 0x9E37_79B9 + 1);
    let reference = arbiter(&episode);
    let mut pair = Pair {
        subject: reference.resumed(),
        reference,
    };
    let every = 1 + dice.roll(300);
    for at in 0..OPS_PER_EPISODE {
        if dice.roll(every) == 0 {
            pair.subject = pair.reference.resumed();
            pair.subject.check_invariants();
        }
        let seen = if dice.roll(8) == 0 {
            let step = of_an_engine(&mut dice, episode.egress_groups);
            let (mut got, mut want) = (Vec::new(), Vec::new());
            step(&mut pair.subject, &mut got);
            step(&mut pair.reference, &mut want);
            assert_eq!(got, want, "seed {seed}, operation {at}: events");
            Observation {
                events: want,
                state: pair.reference.state(),
            }
        } else {
            let step = episode.step();
            let (mut got, mut want) = (Vec::new(), Vec::new());
            apply(&step, &mut pair.subject, &mut got);
            apply(&step, &mut pair.reference, &mut want);
            assert_eq!(got, want, "seed {seed}, operation {at}, {step}: events");
            Observation {
                events: want,
                state: pair.reference.state(),
            }
        };
        assert_eq!(
            pair.subject.state(),
            seen.state,
            "seed {seed}, operation {at}: state"
        );
        let (got, want) = (pair.subject.checkpoint(), pair.reference.checkpoint());
        if got != want {
            let (got, want) = (format!("{got:#?}"), format!("{want:#?}"));
            let mut lines = got.lines().zip(want.lines());
            let differing = lines.find(|(got, want)| got != want);
            panic!("seed {seed}, operation {at}: checkpoint {differing:?}");
        }
        if at % 16 == 0 {
            pair.subject.check_invariants();
        }
        episode.observe(&seen);
    }
    OPS_PER_EPISODE
}

fn apply(step: &Step, machine: &mut ArbiterMachine, out: &mut Vec<Event>) {
    match step {
        Step::Op(op) => machine.apply(op, out),
        Step::Reload(profile) => machine.reload(profile, out),
        Step::Room(group, room) => machine.set_egress_room(*group, *room),
        Step::Hold(hold) => machine.hold_drained(*hold),
    }
}

/// What waits when a drain is over is gathered, put in intake order and answered over many turns; a
/// checkpoint may be taken between any two of them, also after some of it has been answered or cancelled.
#[test]
fn a_restore_while_the_rest_of_a_drain_is_answered_goes_on_alike() {
    const REQUESTS: u64 = 6_000;
    let profile = Episode::new(3).profile;
    let options = MachineOptions {
        slots: 8_192,
        endpoints: 64,
        ..MachineOptions::default()
    };
    let mut reference = ArbiterMachine::new(&profile, options).expect("the capacities suffice");
    let mut out = Vec::new();
    reference.apply(&Op::Worker(WorkerRecord::new(1)), &mut out);
    let mut dice = Dice(77);
    for number in 0..REQUESTS {
        let submission = Submission {
            strict_priority: u32::try_from(dice.roll(3)).expect("small"),
            pin: (dice.roll(2) == 0).then(|| Endpoint::new(1, 0)),
            ..Submission::new(&format!("r{number}"), 5)
        };
        reference.apply(&Op::Submit(submission), &mut out);
    }
    reference.begin_drain(Nanos(0));
    let mut subject = reference.resumed();
    let mut turns = 0;
    while reference.state().waiting > 0 {
        turns += 1;
        assert!(turns < 100_000, "the drain never ends");
        if dice.roll(4) == 0 {
            subject = reference.resumed();
        }
        let removals = 1 + dice.roll(8);
        let cancelled = dice.roll(REQUESTS);
        let (mut got, mut want) = (Vec::new(), Vec::new());
        for (machine, events) in [(&mut subject, &mut got), (&mut reference, &mut want)] {
            machine.turn(0, removals, events);
            if turns % 3 == 0 {
                let id = format!("r{cancelled}");
                machine.apply(&Op::Cancel { id }, events);
            }
        }
        assert_eq!(got, want, "turn {turns}");
        if turns % 16 == 0 {
            assert!(
                subject.checkpoint() == reference.checkpoint(),
                "turn {turns}"
            );
        }
    }
    assert!(turns > 100, "it took {turns} turns");
}

#[test]
fn a_restored_arbiter_goes_on_as_the_one_it_was_taken_of() {
    let ops = std::env::var("TOLLGATE_RESTORE_OPS").map_or(OPS, |text| {
        text.parse()
            .expect("TOLLGATE_RESTORE_OPS is a whole number")
    });
    let mut done = 0;
    let mut seed = 1;
    while done < ops {
        done += run(seed);
        seed += 1;
    }
}
