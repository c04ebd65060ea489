//! S6: turns, credit, which class.

use super::{Booking, Branch, ClassId, Flight, Mutation, Oracle};
use crate::protocol::{Event, Lane, Machine};

/// The best dispatchable head of a class, and what it costs.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    class: ClassId,
    intake: u64,
    cost: u64,
}

impl Oracle {
    /// S6.1, S6.8: one selection; false if it was dry.
    pub(super) fn select(&mut self, out: &mut Vec<Event>) -> bool {
        let candidates = self.candidates();
        if candidates.is_empty() {
            let waits = self.waiting().next().is_some();
            self.coverage.note_if(waits, Branch::Dry);
            let open = self.classes.iter().any(|class| class.turn_open);
            self.coverage.note_if(open, Branch::DryWithOpenTurn);
            if self.has_fault(Mutation::CreditOnDry) {
                for class in self.class_order() {
                    if !self.is_empty(class) {
                        self.grant(class, 1);
                    }
                }
            }
            return false;
        }
        let winner = match self.is_exact() {
            true => self.select_exact(&candidates),
            false => self.select_page(&candidates),
        };
        self.dispatch(winner, out);
        true
    }

    fn candidates(&self) -> Vec<Candidate> {
        let candidate = |class| {
            let head = self.candidate(class)?;
            Some(Candidate {
                class,
                intake: head.intake,
                cost: head.cost,
            })
        };
        self.class_order()
            .into_iter()
            .filter_map(candidate)
            .collect()
    }

    /// S6.1, steps 1 to 4.
    fn select_exact(&mut self, candidates: &[Candidate]) -> Candidate {
        for class in self.ring.clone() {
            let Some(candidate) = of(candidates, class) else {
                continue;
            };
            let state = self.class(class);
            if state.turn_open && candidate.cost > state.deficit {
                self.coverage.note(Branch::TurnEndedUnaffordable);
                self.end_turn(class);
            }
        }
        if let Some(winner) = self.pass(candidates) {
            return winner;
        }
        self.coverage.note(Branch::FastForward);
        let rounds = self.rounds(candidates);
        let granted = match self.has_fault(Mutation::FastForwardAllRounds) {
            true => rounds,
            false => rounds - 1,
        };
        for candidate in candidates {
            self.grant(candidate.class, granted);
        }
        self.pass(candidates)
            .expect("the class that needs the fewest rounds can pay now")
    }

    /// S6.1, step 2: from the front of the ring, each class once.
    fn pass(&mut self, candidates: &[Candidate]) -> Option<Candidate> {
        for class in self.ring.clone() {
            let Some(candidate) = of(candidates, class) else {
                self.coverage
                    .note_if(!self.is_empty(class), Branch::PassedOver);
                continue;
            };
            if self.class(class).turn_open {
                self.coverage.note(Branch::BurstGoesOn);
            } else {
                self.coverage
                    .note_if(self.class(class).deficit > 0, Branch::OpenedWithCredit);
                self.open_turn(candidate);
            }
            if candidate.cost <= self.class(class).deficit {
                return Some(candidate);
            }
            self.end_turn(class);
        }
        None
    }

    /// S6.1, S6.5, S6.6: a turn that opens gets its quantum, and the class remembers for whom.
    fn open_turn(&mut self, candidate: Candidate) {
        let can_pay = self.class(candidate.class).deficit >= candidate.cost;
        if !(can_pay && self.has_fault(Mutation::GrantSkipped)) {
            self.grant(candidate.class, 1);
        }
        let class = self.class_mut(candidate.class);
        class.turn_open = true;
        class.remembered = Some(candidate.intake);
    }

    /// S6.1, step 3; S6.8: how many rounds until the first class can pay.
    fn rounds(&self, candidates: &[Candidate]) -> u64 {
        let rounds = candidates.iter().map(|candidate| {
            let class = self.class(candidate.class);
            (candidate.cost - class.deficit).div_ceil(class.policy.quantum)
        });
        rounds
            .min()
            .expect("a selection that is not dry has a candidate")
    }

    fn grant(&mut self, class: ClassId, quanta: u64) {
        let class = self.class_mut(class);
        class.deficit = class
            .deficit
            .saturating_add(class.policy.quantum.saturating_mul(quanta));
    }

    /// S6: closes the turn and moves the class to the end of the ring. In `page` it only stops being
    /// holder.
    pub(super) fn end_turn(&mut self, class: ClassId) {
        if self.is_exact() {
            self.class_mut(class).turn_open = false;
            self.ring.retain(|id| *id != class);
            self.ring.push(class);
        } else if self.holder == Some(class) {
            self.holder = None;
        }
    }

    /// S6.8.
    fn select_page(&mut self, candidates: &[Candidate]) -> Candidate {
        if let Some(candidate) = self.holder.and_then(|holder| of(candidates, holder)) {
            if candidate.cost <= self.class(candidate.class).deficit {
                self.coverage.note(Branch::PageHolderGoesOn);
                return candidate;
            }
            self.holder = None;
        }
        let mut order = self.class_order();
        let start = order.iter().position(|class| *class == self.cursor);
        order.rotate_left(start.expect("the cursor stands on a class"));
        let candidates: Vec<_> = order
            .into_iter()
            .filter_map(|class| of(candidates, class))
            .collect();
        for candidate in &candidates {
            if candidate.cost <= self.class(candidate.class).deficit {
                return *candidate;
            }
            self.grant(candidate.class, 1);
            if candidate.cost <= self.class(candidate.class).deficit {
                return *candidate;
            }
        }
        self.coverage.note(Branch::PageFastForward);
        let rounds = self.rounds(&candidates);
        for candidate in &candidates {
            self.grant(candidate.class, rounds);
        }
        let able = candidates
            .into_iter()
            .find(|candidate| candidate.cost <= self.class(candidate.class).deficit);
        able.expect("the class that needs the fewest rounds can pay now")
    }

    /// S6.2, S6.8, S9.1: charges, books and reports.
    fn dispatch(&mut self, winner: Candidate, out: &mut Vec<Event>) {
        let lane = self.request(winner.intake).lane;
        let endpoint = match lane {
            Lane::Exact(pin) => pin,
            Lane::Shared => self.choose(winner.intake),
        };
        if lane == Lane::Shared || !self.has_fault(Mutation::PinsTakeNoRoom) {
            self.use_room(endpoint);
        }
        self.uses += 1;
        let uses = self.uses;
        self.place_mut(endpoint)
            .expect("a dispatch goes to a known endpoint")
            .last_use = uses;
        let request = self.request_mut(winner.intake);
        let booking = Booking::Prefill(request.uncached_on(endpoint));
        request.flight = Some(Flight { endpoint, booking });
        request.attempt += 1;
        let (id, attempt, arrival_ns) = (request.id.clone(), request.attempt, request.arrival_ns);

        let class = self.class_mut(winner.class);
        class.deficit -= winner.cost;
        class.dispatched += 1;
        class.charged_tokens = class.charged_tokens.saturating_add(winner.cost);
        if class.remembered == Some(winner.intake) {
            class.remembered = None;
        }
        if !self.is_exact() {
            self.cursor = self.class_after(winner.class);
            self.holder = Some(winner.class);
        }
        if self.is_empty(winner.class) {
            self.became_empty(winner.class);
        } else if self.class(winner.class).deficit == 0 {
            self.end_turn(winner.class);
        }
        let class = self.class(winner.class);
        out.push(Event::Dispatched {
            now_us: self.now_us(),
            id,
            class: class.policy.name.to_string(),
            worker: endpoint,
            cost: winner.cost,
            deficit: class.deficit,
            attempt,
            wait_us: (self.now_ns - arrival_ns) / 1_000,
        });
    }

    /// S6.3: nothing is left to a class that has no work.
    pub(super) fn became_empty(&mut self, class: ClassId) {
        self.coverage.note(Branch::BecameEmpty);
        self.class_mut(class).deficit = 0;
        self.end_turn(class);
    }

    /// The next class in class order; after the last comes the first.
    pub(super) fn class_after(&self, class: ClassId) -> ClassId {
        let order = self.class_order();
        let place = order
            .iter()
            .position(|id| *id == class)
            .expect("it is in the table");
        order[(place + 1) % order.len()]
    }
}

fn of(candidates: &[Candidate], class: ClassId) -> Option<Candidate> {
    candidates
        .iter()
        .copied()
        .find(|candidate| candidate.class == class)
}
