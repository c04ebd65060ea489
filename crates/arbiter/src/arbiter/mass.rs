//! What one event does to many endpoints alike: a worker's standing, a policy's thresholds (S5, S3.7).
//!
//! Nothing here looks at a lane or an endpoint's record unless it must: bits change 64 a word, and the
//! trees follow in one pass each. What is left over, endpoints that are not eligible and heads with
//! requirements of their own, is judged one by one.

use crate::arbiter::Arbiter;
use crate::bits::ones;
use crate::endpoints::Worker;
use crate::gate::{Band, Counts, Members};
use crate::order::{NO_KEY, NONE, slot_of};

/// What a policy changes about gates and index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changes {
    /// Thresholds of some class.
    pub(super) thresholds: bool,
    /// What overload does.
    pub(super) overload: bool,
    /// Standing scores.
    pub(super) scores: bool,
}

impl<P> Arbiter<P> {
    /// Brings gates, counts, lanes and index in line with the policy in force.
    pub(super) fn settle_changes(&mut self, changes: Changes) {
        if changes.thresholds {
            self.settle_thresholds();
        }
        if changes.scores {
            for number in 0..self.endpoints.reach() {
                if self.endpoints.slot(number).known {
                    self.settle_standing(number);
                }
            }
        }
        for at in 0..self.endpoints.workers().len() {
            let worker = self.endpoints.workers()[at];
            if changes.overload && worker.overloaded {
                self.restand(&worker, worker.taints);
            }
        }
        self.settle_pools();
    }

    /// Restates a worker's endpoints after anything about it but its ranks and its tokens changed.
    pub(super) fn restand(&mut self, worker: &Worker, taints_before: u128) {
        let mut members = std::mem::take(&mut self.members);
        self.endpoints.gather(worker, &mut members);
        let group = self.groups.of_worker(worker.id);
        let Some(any) = members.iter().next() else {
            self.members = members;
            return;
        };
        let was_eligible = self.gates.is_eligible(any);
        let standing = self.standing_of(Some(worker));
        self.move_counts(group, &members, Counts::leave);
        let turned = self.gates.restand(&mut members, standing);
        self.move_counts(group, &members, Counts::join);
        if turned > 0 {
            self.turn_members(group, turned, &members);
        }
        let has_new_taints = worker.taints != taints_before;
        if has_new_taints {
            for number in members.iter() {
                self.carry_taints(number, worker.taints);
            }
        }
        if !was_eligible || !standing.is_eligible {
            if self.are_many(worker.ranks) {
                self.begin_bulk(group);
            }
            self.judge_anew(&members, false);
        } else if has_new_taints && self.extensions.in_use() > 0 {
            self.judge_anew(&members, true);
        }
        self.members = members;
    }

    /// Books some endpoints of a group into all counts, or out of them.
    fn move_counts(&mut self, group: usize, members: &Members, book: fn(&mut Counts, Counts)) {
        let is_group_shut = self.gates.shut_word() >> group & 1 != 0;
        for &class in &self.table {
            let class = class as usize;
            let counts = self.gates.count_members(class, members);
            book(self.gates.of_group(class, group), counts);
            let counts = counts.shut_if(is_group_shut);
            book(&mut self.classes[class].counts, counts);
        }
    }

    /// After some endpoints of a group began to compete, or ceased to: index and lanes.
    fn turn_members(&mut self, group: usize, turned: u32, members: &Members) {
        if !self.are_many(turned) {
            for number in members.turned() {
                self.load_tree.turn(number, &self.endpoints);
            }
            for at in 0..self.table.len() {
                let class = self.table[at] as usize;
                if self.classes[class].waiting() > 0 {
                    members
                        .turned()
                        .for_each(|number| self.turn_lane(class, number));
                }
            }
            return;
        }
        if self.groups.are_many() {
            for number in members.turned() {
                let place = self.groups.place(number) as usize;
                self.load_tree.turn_leaves(group, place, 1);
            }
        } else {
            for (first, turned) in members.turned_words() {
                self.load_tree.turn_leaves(group, first, turned);
            }
        }
        let reach = self.endpoints.reach() as usize;
        let used = reach.div_ceil(self.groups.stride());
        self.load_tree.rebuild(group, used, &self.endpoints);
        self.begin_bulk(group);
    }

    /// The tree over a class's lanes after an endpoint began to compete, or ceased to.
    fn turn_lane(&mut self, class: usize, number: u32) {
        if !self.gates.is_over(class, number) {
            let open = self.gates.open_quad(class, number);
            self.forest.turn(class, number, open, &self.lanes.order);
        }
    }

    /// Judges the heads of some endpoints' lanes again, or those that have parts of their own alone.
    fn judge_anew(&mut self, members: &Members, extended: bool) {
        for at in 0..self.table.len() {
            let class = self.table[at] as usize;
            if self.classes[class].waiting() == 0 {
                continue;
            }
            for number in members.iter() {
                let head = self.forest.leaf(class, number);
                let is_plain = head != NO_KEY && self.slab[slot_of(head)].extension == NONE;
                if !(extended && is_plain) {
                    self.settle_exact(class, number);
                }
            }
        }
    }

    /// Brings everything in line with the thresholds of the policy in force.
    fn settle_thresholds(&mut self) {
        for group in 0..self.groups.stride() {
            self.begin_bulk(group);
        }
        let reach = self.endpoints.reach() as usize;
        for word in 0..reach.div_ceil(64) {
            self.settle_word(word, (reach - word * 64).min(64));
        }
        for at in 0..self.table.len() {
            let class = self.table[at] as usize;
            self.classes[class].counts = self.gates.recount(class);
        }
    }

    /// The bits and bands of the first `count` endpoints of a word. Those that are not known have no load,
    /// so that they are above no threshold.
    fn settle_word(&mut self, word: usize, count: usize) {
        let mut loads = [0; 64];
        let slots = self.endpoints.slots_mut(word * 64, count);
        for (load, slot) in loads.iter_mut().zip(&*slots) {
            *load = slot.load();
        }
        let mut bands = [Band::ALL; 64];
        for at in 0..self.table.len() {
            let class = self.table[at] as usize;
            let thresholds = self.thresholds_of(class, word * 64, count);
            let crossed =
                self.gates
                    .set_thresholds(class, word, count, &loads, &thresholds, &mut bands);
            if self.classes[class].waiting() > 0 {
                let first = index32(word * 64);
                for bit in ones([crossed & self.gates.not_eligible(word)]) {
                    self.settle_exact(class, first + bit);
                }
            }
        }
        let slots = self.endpoints.slots_mut(word * 64, count);
        for (slot, &band) in slots.iter_mut().zip(&bands) {
            slot.band = band;
        }
    }

    /// A class's thresholds for up to 64 endpoints from a number on.
    fn thresholds_of(&self, class: usize, first: usize, count: usize) -> [u64; 64] {
        let settings = &self.classes[class];
        if !settings.has_relative_threshold() {
            return [settings.threshold_for(None); 64];
        }
        let mut thresholds = [0; 64];
        let numbers = (first..first + count).map(index32);
        for (threshold, number) in thresholds.iter_mut().zip(numbers) {
            let endpoint = self.endpoints.slot(number).endpoint;
            let worker = self.endpoints.worker(endpoint.worker);
            let tokens = worker.and_then(|worker| worker.max_batched_tokens);
            *threshold = settings.threshold_for(tokens);
        }
        thresholds
    }
}

fn index32(number: usize) -> u32 {
    u32::try_from(number).expect("bounded by twice ENDPOINTS_MAX")
}

#[cfg(test)]
mod tests {
    use tollgate_policy::{Bucket, ClassPolicy, OverloadAction, Profile, ProfileSpec};

    use crate::{
        Arbiter, Capacities, Endpoint, Event, Nanos, Options, Request, SlotPool, WorkerId,
        WorkerRecord,
    };

    /// A worker that takes all numbers of its group, a request pinned to each of its ranks.
    fn filled(ranks: u32, egress_groups: u16) -> Arbiter<u32> {
        let class = ClassPolicy::matrix("a", "a", 0, 1_000);
        let spec = ProfileSpec::new("a", vec![Bucket::new(0, "all")], vec![class]);
        let profile = Profile::build(spec).expect("one class in its family");
        let profile = profile.with_overload_action(OverloadAction::Hold);
        let capacities = Capacities {
            slots: ranks,
            endpoints: ranks * u32::from(egress_groups),
            egress_groups,
            ..Capacities::default()
        };
        let mut arbiter =
            Arbiter::build(&profile, capacities, Options::default()).expect("within the ranges");
        let record = WorkerRecord {
            ranks,
            ..WorkerRecord::new(0)
        };
        arbiter.upsert_worker(&record).expect("there is room");
        let mut slots = SlotPool::new(ranks);
        for rank in 0..ranks {
            let request = Request {
                pin: Some(Endpoint::new(0, rank)),
                ..Request::new(1, Nanos(0))
            };
            let ticket = slots.take().expect("a slot for each rank");
            let taken = arbiter.submit(ticket, None, &request, rank, &mut |_: Event<u32>| ());
            taken.expect("nothing refuses it");
        }
        arbiter
    }

    #[test]
    fn s5_6_a_worker_of_any_size_shuts_and_opens_all_its_lanes() {
        for egress_groups in [1, 3, 33] {
            for ranks in [1, 3, 4, 16, 64, 65, 256] {
                let mut arbiter = filled(ranks, egress_groups);
                let first = Endpoint::new(0, 0);
                arbiter.set_overloaded(WorkerId(0), true).expect("known");
                arbiter.check_invariants();
                assert!(!arbiter.select(&mut |_: Event<u32>| ()), "all are busy");
                arbiter.shut(first).expect("known");
                arbiter.set_overloaded(WorkerId(0), false).expect("known");
                arbiter.check_invariants();
                let mut sink = |_: Event<u32>| ();
                let dispatched = arbiter.arbitrate(None, &mut sink).dispatched;
                assert_eq!(dispatched, u64::from(ranks) - 1, "its first rank is shut");
                arbiter.open(first).expect("known");
                arbiter.check_invariants();
                assert!(arbiter.select(&mut sink));
                arbiter.remove_worker(WorkerId(0)).expect("known");
                arbiter.check_invariants();
            }
        }
    }
}
