//! One selection, step by step, for people (S6.1, S6.8).
//!
//! Plays the rules on a copy of the arbiter's state and writes down what happens to each class. It
//! decides nothing: the arbiter does. Where the two disagree, one of them is wrong, and the tests
//! compare them.

use std::collections::VecDeque;

use tollgate_arbiter::{ClassIndex, State};
use tollgate_policy::Arbitration;

use tollgate_report::text::counted;

/// What a selection would do in the present state.
#[derive(Debug)]
pub(super) struct Trace {
    /// The classes in ring order, with what happens to each.
    pub(super) classes: Vec<Traced>,
    /// The class that dispatches; `None`: the selection is dry.
    pub(super) winner: Option<Winner>,
}

/// One class in a [`Trace`].
#[derive(Debug)]
pub(super) struct Traced {
    pub(super) class: ClassIndex,
    pub(super) steps: Vec<String>,
}

/// Who dispatches, and by which right.
#[derive(Debug)]
pub(super) struct Winner {
    pub(super) class: ClassIndex,
    pub(super) because: &'static str,
}

/// What losing the turn is in mode `exact`.
const TURN_ENDED: &str = "turn ended";
/// What losing the turn is in mode `page`.
const NO_HOLDER: &str = "not the holder";

/// What one class brings to a selection.
struct Contender {
    class: ClassIndex,
    waiting: u64,
    /// The cost of its candidate.
    cost: Option<u64>,
    deficit: u64,
    quantum: u64,
    turn_open: bool,
    steps: Vec<String>,
}

impl Contender {
    /// The candidate's cost, or the reason to pass the class over.
    fn cost_or_note(&mut self) -> Option<u64> {
        if self.cost.is_none() {
            let reason = if self.waiting == 0 {
                "empty"
            } else {
                "no candidate"
            };
            self.note_once(format!("passed over: {reason}"));
        }
        self.cost
    }

    fn note_once(&mut self, step: String) {
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    fn grant(&mut self, rounds: u64) -> u64 {
        let granted = self.quantum.saturating_mul(rounds);
        self.deficit = self.deficit.saturating_add(granted);
        granted
    }

    /// S6.2, S6.8: charges the dispatch; a class without requests or credit loses its turn, which
    /// the mode calls `lost`.
    fn pay(&mut self, cost: u64, lost: &str) {
        self.deficit -= cost;
        let left = self.deficit;
        self.steps.push(if left == 0 {
            format!("dispatched: paid {cost}, 0 left: {lost}")
        } else if self.waiting == 1 {
            self.deficit = 0;
            format!("dispatched: paid {cost}; class empty: {left} dropped, {lost}")
        } else {
            format!("dispatched: paid {cost}, {left} left")
        });
    }
}

/// Plays one selection on `state`, which must have been swept.
pub(super) fn trace(state: &State) -> Trace {
    let contenders: Vec<Contender> = state
        .ring
        .iter()
        .filter_map(|&index| state.classes.iter().find(|class| class.index == index))
        .map(|class| Contender {
            class: class.index,
            waiting: class.waiting,
            cost: class.candidate.map(|(_, cost)| u64::from(cost)),
            deficit: class.deficit,
            quantum: class.quantum,
            turn_open: class.turn_open,
            steps: Vec::new(),
        })
        .collect();
    let mut play = Play { contenders };
    let winner = if play.contenders.iter().all(|class| class.cost.is_none()) {
        for class in &mut play.contenders {
            class.cost_or_note();
        }
        None
    } else if state.arbitration == Arbitration::Exact {
        Some(play.exact())
    } else {
        Some(play.page(state.cursor, state.holder))
    };
    let winner = winner.map(|(at, because)| Winner {
        class: play.contenders[at].class,
        because,
    });
    let classes = play.contenders.into_iter().map(finish).collect();
    Trace { classes, winner }
}

fn finish(contender: Contender) -> Traced {
    let mut steps = contender.steps;
    if steps.is_empty() {
        steps.push("not reached".to_owned());
    }
    Traced {
        class: contender.class,
        steps,
    }
}

/// The contenders, in the ring order of the beginning.
struct Play {
    contenders: Vec<Contender>,
}

impl Play {
    /// S6.1, steps 1 to 4: who dispatches, and why.
    fn exact(&mut self) -> (usize, &'static str) {
        let mut ring: VecDeque<usize> = (0..self.contenders.len()).collect();
        for at in 0..self.contenders.len() {
            let class = &mut self.contenders[at];
            if let Some(cost) = class
                .cost
                .filter(|&cost| class.turn_open && cost > class.deficit)
            {
                let left = class.deficit;
                class
                    .steps
                    .push(format!("turn ended: {left} cannot pay {cost}"));
                end_turn(class, at, &mut ring);
            }
        }
        if let Some(won) = self.exact_pass(&mut ring) {
            return won;
        }
        self.fast_forward(1);
        let (at, _) = self
            .exact_pass(&mut ring)
            .expect("after the fast-forward one class can pay");
        (at, "it was the first that could pay after the fast-forward")
    }

    /// S6.1, step 2.
    fn exact_pass(&mut self, ring: &mut VecDeque<usize>) -> Option<(usize, &'static str)> {
        for at in ring.clone() {
            let class = &mut self.contenders[at];
            let Some(cost) = class.cost_or_note() else {
                continue;
            };
            let was_open = class.turn_open;
            if !was_open {
                let granted = class.grant(1);
                let deficit = class.deficit;
                class
                    .steps
                    .push(format!("turn opened: {granted} granted, deficit {deficit}"));
                class.turn_open = true;
            }
            if cost <= class.deficit {
                class.pay(cost, TURN_ENDED);
                let because = if was_open {
                    "its turn was open and its deficit paid"
                } else {
                    "its turn opened and the grant paid"
                };
                return Some((at, because));
            }
            let deficit = class.deficit;
            class
                .steps
                .push(format!("turn ended: {deficit} cannot pay {cost}"));
            end_turn(class, at, ring);
        }
        None
    }

    /// S6.1 step 3 with 1 round `kept_back` for the pass that follows, S6.8 with none.
    fn fast_forward(&mut self, kept_back: u64) {
        let rounds_of = |class: &Contender| {
            class
                .cost
                .map(|cost| cost.saturating_sub(class.deficit).div_ceil(class.quantum))
        };
        let rounds = self
            .contenders
            .iter()
            .filter_map(rounds_of)
            .min()
            .unwrap_or(0);
        let granted_rounds = rounds.saturating_sub(kept_back);
        if granted_rounds == 0 {
            return;
        }
        for class in self
            .contenders
            .iter_mut()
            .filter(|class| class.cost.is_some())
        {
            let granted = class.grant(granted_rounds);
            let deficit = class.deficit;
            let rounds = counted(rounds, "round");
            class.steps.push(format!(
                "fast-forward, {rounds} to the first that can pay: {granted} granted, deficit {deficit}"
            ));
        }
    }

    /// S6.8: who dispatches, and why.
    fn page(
        &mut self,
        cursor: Option<ClassIndex>,
        holder: Option<ClassIndex>,
    ) -> (usize, &'static str) {
        if let Some(at) = self.place(holder) {
            let class = &mut self.contenders[at];
            match class.cost {
                Some(cost) if cost <= class.deficit => {
                    class.pay(cost, NO_HOLDER);
                    return (at, "it held the turn and its deficit paid");
                }
                Some(cost) => {
                    let left = class.deficit;
                    class
                        .steps
                        .push(format!("no longer holder: {left} cannot pay {cost}"));
                }
                None => class.steps.push("still holder".to_owned()),
            }
        }
        let first = self.place(cursor).unwrap_or(0);
        let order: Vec<usize> = (first..self.contenders.len()).chain(0..first).collect();
        for &at in &order {
            if let Some(because) = page_visit(&mut self.contenders[at]) {
                return (at, because);
            }
        }
        self.fast_forward(0);
        let can_pay = |&at: &usize| {
            let class = &self.contenders[at];
            class.cost.is_some_and(|cost| cost <= class.deficit)
        };
        let at = order
            .iter()
            .copied()
            .find(can_pay)
            .expect("the fast-forward made one able to pay");
        if let Some(cost) = self.contenders[at].cost {
            self.contenders[at].pay(cost, NO_HOLDER);
        }
        (
            at,
            "it was the first from the cursor that could pay after the fast-forward",
        )
    }

    fn place(&self, class: Option<ClassIndex>) -> Option<usize> {
        self.contenders
            .iter()
            .position(|contender| Some(contender.class) == class)
    }
}

/// Closes the turn and moves the class to the end of the ring.
fn end_turn(class: &mut Contender, at: usize, ring: &mut VecDeque<usize>) {
    class.turn_open = false;
    ring.retain(|&other| other != at);
    ring.push_back(at);
}

/// S6.8: one class in the pass from the cursor; the reason if it dispatches.
fn page_visit(class: &mut Contender) -> Option<&'static str> {
    let cost = class.cost_or_note()?;
    if cost <= class.deficit {
        class.pay(cost, NO_HOLDER);
        return Some("it was visited and its deficit paid");
    }
    let granted = class.grant(1);
    let deficit = class.deficit;
    class
        .steps
        .push(format!("visited: {granted} granted, deficit {deficit}"));
    if cost > deficit {
        class.steps.push(format!("{deficit} cannot pay {cost}"));
        return None;
    }
    class.pay(cost, NO_HOLDER);
    Some("it was visited and the grant paid")
}
