//! Where the incumbent's shares were measured to break, beside ours (S6.4, S6.9).
//!
//! Each experiment is driven the same way on both sides, on the incumbent's real queue and on
//! Tollgate's default arbitration. An experiment fails when Tollgate's numbers are not those that
//! the quanta promise; what the incumbent does is measured and printed.

use std::process::ExitCode;

use crate::incumbent::{Incumbent, Live};
use crate::ours::Ours;
use crate::subject::{ClassPlan, Placement, Plan, Request, Subject, Ticks};

const SLOT: u32 = 0;
const IDLE: u32 = 1;

fn plan(quanta: &[u64], capacity: u32) -> Plan {
    Plan {
        classes: quanta
            .iter()
            .map(|&quantum| ClassPlan {
                quantum,
                order: "fcfs",
            })
            .collect(),
        endpoints: 2,
        capacity,
        narrowed: true,
        page: false,
    }
}

/// A subject that counts what it serves; ids are `class + classes x n`.
struct Run<S> {
    subject: S,
    classes: u32,
    next: u32,
    served: Vec<u32>,
}

impl<S: Subject> Run<S> {
    fn new(quanta: &[u64], capacity: u32) -> Self {
        let classes = u32::try_from(quanta.len()).expect("a handful of classes");
        Self {
            subject: S::of(&plan(quanta, capacity)),
            classes,
            next: 0,
            served: vec![0; quanta.len()],
        }
    }

    fn enqueue(&mut self, class: usize, tokens: u32, placement: Placement) {
        let place = u32::try_from(class).expect("a handful of classes");
        self.subject.enqueue(&Request {
            id: place + self.classes * self.next,
            class,
            tokens,
            arrival: Ticks(self.next),
            jump: Ticks(0),
            strict_priority: 0,
            placement,
        });
        self.next += 1;
    }

    /// One selection; counts what it served.
    fn pop(&mut self) -> Option<usize> {
        let class = (self.subject.pop()? % self.classes) as usize;
        self.served[class] += 1;
        Some(class)
    }

    /// One request leaves through the slot, which is busy before and after; the selection that
    /// finds it busy again is dry.
    fn serve_one_slot(&mut self) {
        self.subject.set_open(SLOT, true);
        let class = self.pop();
        assert!(
            class.is_some(),
            "the slot is free and both classes are backlogged"
        );
        self.subject.set_open(SLOT, false);
    }
}

/// Two backlogged classes, cost 512, one slot freed at a time: served of the first 320.
fn one_slot_at_a_time<S: Subject>(quanta: [u64; 2]) -> Vec<u32> {
    const EACH: u32 = 320;
    let mut run = Run::<S>::new(&quanta, 2 * EACH);
    for _ in 0..EACH {
        run.enqueue(0, 512, Placement::Only(SLOT));
        run.enqueue(1, 512, Placement::Only(SLOT));
    }
    for _ in 0..EACH {
        run.serve_one_slot();
        assert!(run.pop().is_none(), "the only slot is busy");
    }
    run.served
}

/// Three classes at cost 100, in the file order given by their names: j (quantum 100) and i (400)
/// are backlogged behind the slot, m (100) is pinned to an idle endpoint and has one request
/// between any two slots. Served of j and i in 600 slots.
fn light_class_between_slots<S: Subject>(file_order: [char; 3]) -> [u32; 2] {
    const SLOTS: u32 = 600;
    let quantum = |name| if name == 'i' { 400 } else { 100 };
    let at = |name| {
        file_order
            .iter()
            .position(|other| *other == name)
            .expect("all three are there")
    };
    let (i, j, m) = (at('i'), at('j'), at('m'));
    let mut run = Run::<S>::new(&file_order.map(quantum), 3 * SLOTS);
    for _ in 0..SLOTS {
        run.enqueue(j, 100, Placement::Only(SLOT));
        run.enqueue(i, 100, Placement::Only(SLOT));
    }
    for _ in 0..SLOTS {
        run.serve_one_slot();
        run.enqueue(m, 100, Placement::Pinned(IDLE));
        assert_eq!(run.pop(), Some(m), "only m's endpoint is idle");
    }
    [run.served[j], run.served[i]]
}

/// Two classes of equal quanta that nothing blocks, with costs of `multiples` quanta: the tokens
/// served of each, in units of a fair half.
fn equal_quanta<S: Subject>(multiples: [u32; 2]) -> [f64; 2] {
    const QUANTUM: u32 = 1_000;
    const DISPATCHES: u32 = 7_000;
    let mut run = Run::<S>::new(&[u64::from(QUANTUM); 2], 2 * DISPATCHES);
    for _ in 0..DISPATCHES {
        for (class, multiple) in multiples.into_iter().enumerate() {
            run.enqueue(class, multiple * QUANTUM, Placement::Any);
        }
    }
    for _ in 0..DISPATCHES {
        assert!(run.pop().is_some(), "nothing blocks");
    }
    let tokens = [0, 1].map(|class| f64::from(run.served[class] * multiples[class]));
    tokens.map(|served| served / ((tokens[0] + tokens[1]) / 2.0))
}

fn print_line(what: &str, incumbent: &str, ours: &str, promised: &str, kept: bool) -> bool {
    let verdict = if kept { "kept" } else { "BROKEN" };
    println!("{what:<44} {incumbent:>16} {ours:>16} {promised:>16}  {verdict}");
    kept
}

fn slot_experiments() -> bool {
    let mut kept = true;
    for (quanta, promised) in [
        ([2_048, 512], [256, 64]),
        ([1_024, 256], [256, 64]),
        ([5_120, 1_280], [258, 62]),
    ] {
        let theirs = one_slot_at_a_time::<Incumbent<Live>>(quanta);
        let ours = one_slot_at_a_time::<Ours>(quanta);
        let show = |served: &[u32]| format!("{}:{}", served[0], served[1]);
        kept &= print_line(
            &format!("one slot at a time, quanta {}:{}", quanta[0], quanta[1]),
            &show(&theirs),
            &show(&ours),
            &show(&promised),
            ours == promised,
        );
    }
    kept
}

fn starvation_experiments() -> bool {
    let mut kept = true;
    for order in ["jim", "jmi", "ijm", "imj", "mji", "mij"] {
        let names: Vec<char> = order.chars().collect();
        let names = [names[0], names[1], names[2]];
        let theirs = light_class_between_slots::<Incumbent<Live>>(names);
        let ours = light_class_between_slots::<Ours>(names);
        let show = |[j, i]: [u32; 2]| format!("{j}:{i}");
        kept &= print_line(
            &format!("j:i of 100:400, light m between, order {order}"),
            &show(theirs),
            &show(ours),
            "120:480",
            ours == [120, 480],
        );
    }
    kept
}

fn share_experiments() -> bool {
    let mut kept = true;
    for multiples in [[3, 4], [2, 3]] {
        let theirs = equal_quanta::<Incumbent<Live>>(multiples);
        let ours = equal_quanta::<Ours>(multiples);
        let show = |[first, second]: [f64; 2]| format!("{first:.3}:{second:.3}");
        kept &= print_line(
            &format!(
                "equal quanta Q, costs {}Q and {}Q",
                multiples[0], multiples[1]
            ),
            &show(theirs),
            &show(ours),
            "1.000:1.000",
            ours.iter().all(|share| (share - 1.0).abs() < 0.001),
        );
    }
    kept
}

/// Runs and prints all experiments; fails when Tollgate breaks a promise.
pub(crate) fn run() -> ExitCode {
    println!("\nShares that quanta promise, and what is served");
    println!(
        "{:<44} {:>16} {:>16} {:>16}",
        "experiment",
        "dynamo 1.6.1",
        Ours::NAME,
        "promised"
    );
    let kept = [
        slot_experiments(),
        starvation_experiments(),
        share_experiments(),
    ];
    if kept.iter().all(|kept| *kept) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_4_the_incumbents_shares_break_when_one_slot_is_freed_at_a_time() {
        assert_eq!(
            one_slot_at_a_time::<Incumbent<Live>>([2_048, 512]),
            [160, 160]
        );
        assert_eq!(
            one_slot_at_a_time::<Incumbent<Live>>([1_024, 256]),
            [214, 106]
        );
        assert_eq!(
            one_slot_at_a_time::<Incumbent<Live>>([5_120, 1_280]),
            [160, 160]
        );
    }

    #[test]
    fn s6_4_the_incumbent_starves_a_class_when_a_light_one_is_served_between() {
        assert_eq!(
            light_class_between_slots::<Incumbent<Live>>(['j', 'i', 'm']),
            [600, 0]
        );
    }

    #[test]
    fn s6_9_the_incumbents_shares_depend_on_cost() {
        let close = |[first, second]: [f64; 2], expected: [f64; 2]| {
            (first - expected[0]).abs() < 0.001 && (second - expected[1]).abs() < 0.001
        };
        assert!(close(
            equal_quanta::<Incumbent<Live>>([3, 4]),
            [0.857, 1.143]
        ));
        assert!(close(equal_quanta::<Incumbent<Live>>([2, 3]), [0.8, 1.2]));
    }

    #[test]
    fn s6_4_and_s6_9_ours_hold() {
        assert_eq!(one_slot_at_a_time::<Ours>([2_048, 512]), [256, 64]);
        assert_eq!(one_slot_at_a_time::<Ours>([1_024, 256]), [256, 64]);
        assert_eq!(one_slot_at_a_time::<Ours>([5_120, 1_280]), [258, 62]);
        for order in [['j', 'i', 'm'], ['i', 'm', 'j'], ['m', 'j', 'i']] {
            assert_eq!(light_class_between_slots::<Ours>(order), [120, 480]);
        }
        assert!(share_experiments());
    }
}
