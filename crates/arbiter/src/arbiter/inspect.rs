//! The whole state as a value, and the invariants.

use tollgate_policy::Arbitration;

use crate::arbiter::Arbiter;
use crate::drr::NO_SLOT;
use crate::forest::LaneHead;
use crate::order::{LaneStatus, NO_KEY, NONE, Rank, slot_of};
use crate::slab::Stage;
use crate::{
    ClassIndex, ClassState, EndpointIndex, EndpointState, EntryState, FailReason, HeadState,
    LaneState, Nanos, State,
};

impl<P> Arbiter<P> {
    /// A copy of everything (S13's `state`). Allocates; O(requests + C x endpoints).
    #[must_use]
    pub fn state(&self) -> State {
        self.state_limited(usize::MAX)
    }

    /// The same with at most `entries` waiting requests of each lane, the best ones: for a look at long
    /// queues that must not take long. Allocates; O(lanes x k log k + C x endpoints) for k entries.
    #[must_use]
    pub fn state_limited(&self, entries: usize) -> State {
        let exact = self.is_exact;
        let in_page = |class: u16| (!exact && class != u16::MAX).then_some(ClassIndex(class));
        State {
            now: self.now,
            generation: self.generation,
            arbitration: self.profile.arbitration(),
            ring: self.ring.iter().map(ClassIndex).collect(),
            cursor: in_page(self.ring.cursor),
            holder: in_page(self.ring.holder),
            waiting: self.waiting,
            outstanding: self.outstanding,
            worker_count: self.endpoints.worker_count(),
            closed: self.drain_deadline.is_some(),
            stale_events: self.stale_events,
            unknown_names: self.unknown_names,
            classes: self
                .table
                .iter()
                .map(|&class| self.class_state(class, entries))
                .collect(),
            endpoints: self
                .endpoints
                .iter()
                .filter(|(_, slot)| slot.known)
                .map(|(number, _)| self.endpoint_state(number))
                .collect(),
        }
    }

    fn class_state(&self, index: u16, entries: usize) -> ClassState {
        let at = index as usize;
        let class = &self.classes[at];
        let node = self.ring.node(at);
        let workers = self.endpoints.worker_count();
        let candidate = self.candidate_now(at);
        ClassState {
            index: ClassIndex(index),
            name: class.name.clone(),
            draining: class.draining,
            quantum: node.quantum,
            waiting: class.usage[0],
            raw_isl_tokens: class.usage[1],
            cached_tokens: class.usage[2],
            outstanding: class.outstanding,
            deficit: node.deficit,
            turn_open: self.is_exact && node.open,
            remembered: (node.remembered != NO_SLOT)
                .then(|| self.slab[node.remembered].ticket(node.remembered)),
            candidate: (candidate != NO_KEY).then(|| {
                let slot = slot_of(candidate);
                (
                    self.slab[slot].ticket(slot),
                    self.slab[slot].snapshot().cost(),
                )
            }),
            limits: [0, 1, 2].map(|kind| class.effective_limit(kind, workers)),
            counters: class.counters,
            lanes: self.lane_states(at, entries),
        }
    }

    /// A class's best dispatchable head, found by looking at every lane.
    fn candidate_now(&self, class: usize) -> Rank {
        self.lane_indices(class)
            .filter(|&(lane, number)| {
                matches!(self.head_state(class, lane, number), HeadState::Open)
            })
            .map(|(lane, _)| self.lanes.get(lane).head)
            .fold(NO_KEY, |best, head| self.lanes.order.best(best, head))
    }

    /// The lanes of a class that have entries: the shared one, then exact ones by (worker, rank).
    fn lane_indices(&self, class: usize) -> impl Iterator<Item = (u32, u32)> {
        let shared = u32::from(super::settle::index16(class));
        let shared = (self.lanes.shared(class).head != NO_KEY).then_some((shared, NONE));
        let exact = self.endpoints.iter().filter_map(move |(number, _)| {
            self.lanes.exact(class, number).map(|lane| (lane, number))
        });
        shared.into_iter().chain(exact)
    }

    /// The heads of a class's lanes, open or not.
    pub(super) fn heads(&self, class: usize) -> impl Iterator<Item = Rank> {
        self.lane_indices(class)
            .map(|(lane, _)| self.lanes.get(lane).head)
    }

    fn lane_states(&self, class: usize, entries: usize) -> Vec<LaneState> {
        self.lane_indices(class)
            .map(|(lane, number)| LaneState {
                endpoint: (number != NONE).then(|| self.endpoints.slot(number).endpoint),
                head: self.head_state(class, lane, number),
                entries: self.entries_of(lane, entries),
            })
            .collect()
    }

    fn head_state(&self, class: usize, lane: u32, number: u32) -> HeadState {
        let head = slot_of(self.lanes.get(lane).head);
        let verdict = if number == NONE {
            self.judge_shared(class)
        } else {
            self.judge_exact(class, number, head)
        };
        match verdict {
            Ok(true) => HeadState::Open,
            Err(reason) => HeadState::Doomed(reason),
            Ok(false) if number != NONE => HeadState::Shut {
                busy: 1,
                eligible: 1,
            },
            Ok(false) => {
                let class = &self.classes[class];
                let masked = class.masked_head != NONE;
                let counts = if masked {
                    class.masked_counts
                } else {
                    class.counts
                };
                if counts.eligible > 0 {
                    HeadState::Shut {
                        busy: counts.busy_eligible,
                        eligible: counts.eligible,
                    }
                } else {
                    HeadState::Shut {
                        busy: counts.busy_available,
                        eligible: counts.available,
                    }
                }
            }
        }
    }

    fn entries_of(&self, lane: u32, count: usize) -> Vec<EntryState> {
        self.lanes
            .best_first(lane, count, |slot| self.slab.rank(slot))
            .into_iter()
            .map(|rank| self.entry_state(slot_of(rank)))
            .collect()
    }

    fn entry_state(&self, slot: u32) -> EntryState {
        let entry = &self.slab[slot];
        EntryState {
            ticket: entry.ticket(slot),
            cost: entry.snapshot().cost(),
            submitted_at: Nanos(entry.submitted_at),
            deadline: entry.has_deadline().then(|| Nanos(self.deadlines.of(slot))),
            attempts: entry.attempt,
        }
    }

    fn endpoint_state(&self, number: u32) -> EndpointState {
        let slot = self.endpoints.slot(number);
        let worker = self.endpoints.worker(slot.endpoint.worker);
        let busy = self
            .table
            .iter()
            .filter(|&&class| self.gates.is_busy(class as usize, number));
        EndpointState {
            endpoint: slot.endpoint,
            index: EndpointIndex(number),
            prefill_tokens: slot.load(),
            booked_tokens: slot.booked,
            reported_tokens: slot.reported,
            active: u64::from(slot.active),
            available: worker.is_some_and(|worker| worker.available),
            overloaded: worker.is_some_and(|worker| worker.overloaded),
            shut: self.gates.is_shut(number) || self.gates.is_group_shut(number),
            last_use: slot.last_use(),
            busy_for: busy.map(|&class| ClassIndex(class)).collect(),
        }
    }

    /// Asserts every invariant of the structures and that all counts agree; for tests.
    /// O(requests + C x endpoints).
    ///
    /// # Panics
    /// If one does not hold: a fault in this crate.
    pub fn check_invariants(&self) {
        self.ring.check();
        for group in 0..self.capacities.egress_groups {
            let is_shut = self.gates.shut_word() >> group & 1 != 0;
            let has_room = self.egress_room(group) > 0;
            assert_ne!(has_room, is_shut, "a group without room is shut");
        }
        self.load_tree
            .check(self.gates.shut_word(), &self.endpoints);
        self.deadlines
            .check(self.watched_deadlines, &self.lanes.order.seq);
        let mut doomed = 0;
        for &class in &self.table {
            doomed += self.check_class(class as usize);
        }
        assert_eq!(doomed, self.doomed, "doomed lanes");
        self.check_counts();
        self.check_references();
    }

    /// One class's lanes, gates and candidate; how many of its lanes are doomed.
    fn check_class(&self, class: usize) -> u32 {
        let settings = &self.classes[class];
        self.gates.check_counts(class, settings.counts);
        if settings.masked_head != NONE {
            let counts = self.gates.count_masked(class, class);
            assert_eq!(
                settings.masked_counts, counts,
                "counts over the head's mask"
            );
        }
        self.forest.check(class, &self.gates, &self.lanes.order);
        let (mut doomed, mut doomed_exact) = (0, 0);
        let mut overloaded = vec![0; self.groups.stride()];
        for (lane, number) in self.lane_indices(class) {
            self.lanes.check(lane, |slot| self.slab.rank(slot));
            let status = self.lanes.get(lane).status;
            let verdict = if number == NONE {
                self.judge_shared(class)
            } else {
                let head = slot_of(self.lanes.get(lane).head);
                self.judge_exact_alone(class, number, head)
            };
            let expected = match verdict {
                Ok(true) => LaneStatus::Open,
                Ok(false) => LaneStatus::Shut,
                Err(_) => LaneStatus::Doomed,
            };
            if number == NONE {
                assert_eq!(status, expected, "a lane's status is that of its head");
            }
            let fails = matches!(self.head_state(class, lane, number), HeadState::Doomed(_));
            doomed += u32::from(fails);
            if number != NONE {
                doomed_exact += u32::from(fails);
                let by_overload = verdict == Err(FailReason::PinnedWorkerOverloaded);
                overloaded[self.groups.of(number)] += u32::from(by_overload);
                let listed = self.overloaded_exact.get(class, number);
                assert_eq!(listed, by_overload, "lanes that fail by overload alone");
                let head = if verdict.is_ok() {
                    self.lanes.get(lane).head
                } else {
                    NO_KEY
                };
                let is_open = head != NO_KEY && self.gates.is_open(class, number);
                assert_eq!(
                    is_open,
                    verdict == Ok(true),
                    "a gate is open to heads that may go"
                );
                let lane = LaneHead { number, lane, head };
                self.forest.check_lane(class, lane, &self.gates);
                assert_eq!(self.doomed_exact.get(class, number), verdict.is_err());
            }
        }
        assert_eq!(settings.doomed_lanes, doomed_exact, "doomed exact lanes");
        let listed = &self.overloaded_lanes[class << self.groups.shift()..];
        assert_eq!(listed[..overloaded.len()], overloaded, "overloaded lanes");
        if !settings.is_dirty {
            assert_eq!(
                self.candidates[class],
                self.candidate_now(class),
                "the candidate is current"
            );
        }
        doomed
    }

    fn check_counts(&self) {
        let stage = |stage| self.slab.iter().filter(|(_, e)| e.stage() == stage).count() as u64;
        assert_eq!(self.waiting, stage(Stage::Waiting), "waiting");
        assert_eq!(self.outstanding, stage(Stage::Dispatched), "outstanding");
        let sum = |of: fn(&crate::class::Class) -> u64| {
            self.table
                .iter()
                .map(|&class| of(&self.classes[class as usize]))
                .sum::<u64>()
        };
        assert_eq!(
            self.waiting,
            sum(|class| class.usage[0]),
            "waiting, by class"
        );
        assert_eq!(
            self.outstanding,
            sum(|class| class.outstanding),
            "outstanding, by class"
        );
        let mut tokens = vec![[0; 2]; self.classes.len()];
        let mut impatient = 0;
        for (_, entry) in self
            .slab
            .iter()
            .filter(|(_, e)| e.stage() == Stage::Waiting)
        {
            tokens[entry.class()][0] += u64::from(entry.raw);
            tokens[entry.class()][1] += u64::from(entry.cached);
            impatient += usize::from(entry.impatience().is_some());
        }
        for &class in &self.table {
            assert_eq!(
                self.classes[class as usize].usage[1..],
                tokens[class as usize],
                "tokens"
            );
        }
        if !self.is_closing() {
            assert_eq!(self.impatient.len(), impatient, "impatient requests");
        }
        if self.waiting == 0 && self.outstanding == 0 {
            assert_eq!(self.extensions.in_use(), 0, "blocks come back");
        }
    }

    /// Bookings sum up to what the endpoints hold, and references to what requests refer to.
    fn check_references(&self) {
        let reach = self.endpoints.reach() as usize;
        let mut booked = vec![(0_u64, 0_u64); reach];
        let mut refs = 0;
        let stride = self.capacities.attempts as usize - 1;
        for (slot, entry) in self.slab.iter().filter(|(_, e)| e.stage() != Stage::Vacant) {
            refs += u64::from(entry.pin != NONE);
            let avoided = &self.avoided[slot as usize * stride..][..stride];
            refs += avoided.iter().filter(|&&number| number != 0).count() as u64;
            if entry.stage() == Stage::Dispatched {
                refs += u64::from(entry.pin == NONE);
                let links = self.lanes.order.links[slot as usize];
                if self.endpoints.slot(links.a).incarnation == links.c {
                    let tokens = if entry.is_prefilled() {
                        0
                    } else {
                        u64::from(links.b)
                    };
                    booked[links.a as usize].0 += tokens;
                    booked[links.a as usize].1 += 1;
                }
            }
        }
        assert_eq!(
            self.endpoints.reference_count(),
            refs,
            "references to endpoints"
        );
        for (number, slot) in self.endpoints.iter() {
            let held = booked[number as usize];
            assert_eq!(
                (slot.booked, u64::from(slot.active)),
                held,
                "bookings of {}",
                slot.endpoint
            );
            for &class in &self.table {
                if slot.known {
                    let over = self
                        .gates
                        .should_be_over(class as usize, number, slot.load());
                    assert_eq!(self.gates.is_over(class as usize, number), over, "G1");
                    assert!(slot.band.contains(slot.load()), "G2");
                }
            }
        }
        if self.endpoints.worker_count() == 0 && self.waiting == 0 && self.outstanding == 0 {
            assert_eq!(self.taints.in_use(), 0, "taint names come back");
        }
    }

    /// The arbitration in force.
    #[must_use]
    pub fn arbitration(&self) -> Arbitration {
        self.profile.arbitration()
    }
}
