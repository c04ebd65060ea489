//! What one event does to many endpoints alike: a worker's standing, a policy's thresholds (S5, S3.7).
//!
//! Nothing here looks at a lane or an endpoint's record unless it must: bits change 64 a word, and the
//! trees follow in one pass each. What is left over, endpoints that are not eligible and heads with
//! requirements of their own, is judged one by one.

use crate::arbiter::Arbiter;
use crate::bits::ones;
use crate::endpoints::Worker;
use crate::gate::{Band, Counts, Members};
use crate::order::{NONE, slot_of};

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
                    for number in members.turned() {
                        let lane = self.lanes.exact(class, number);
                        if let Some(lane) = lane.filter(|_| !self.gates.is_over(class, number)) {
                            self.turn_lane(class, number, lane);
                        }
                    }
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

    /// Judges the heads of some endpoints' lanes again, or those that have parts of their own alone.
    fn judge_anew(&mut self, members: &Members, extended: bool) {
        for at in 0..self.table.len() {
            let class = self.table[at] as usize;
            if self.classes[class].waiting() == 0 {
                continue;
            }
            for number in members.iter() {
                let Some(lane) = self.lanes.exact(class, number) else {
                    continue;
                };
                let head = slot_of(self.lanes.get(lane).head);
                if !(extended && self.slab[head].extension == NONE) {
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
    use std::sync::Arc;

    use tollgate_policy::{Bucket, ClassPolicy, OrderPolicy, OverloadAction, Profile, ProfileSpec};

    use crate::{
        Arbiter, Capacities, Endpoint, Event, Nanos, Options, Request, SlotPool, Ticket, WorkerId,
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

    /// Two classes, of which one's heads come in order, and three workers: one of them is few among all.
    struct Field {
        arbiter: Arbiter<u32>,
        slots: SlotPool,
        waiting: Vec<Ticket>,
        running: Vec<(Ticket, u8)>,
        now: u64,
        chance: u64,
    }

    const RANKS: [u32; 3] = [24, 3, 40];
    const ORDERS: [OrderPolicy; 2] = [OrderPolicy::Fcfs, OrderPolicy::Wspt];

    fn policy(variant: u64) -> Profile {
        let classes = ["a", "b"].iter().zip(ORDERS).enumerate();
        let classes = classes.map(|(at, (name, order))| ClassPolicy {
            order,
            prefill_busy_threshold: (variant >> at & 1 == 0).then_some(100 + 50 * (variant & 3)),
            ..ClassPolicy::matrix(name, name, 0, 1_000)
        });
        let spec = ProfileSpec::new("a", vec![Bucket::new(0, "all")], classes.collect());
        let profile = Profile::build(spec).expect("a class in each family");
        profile.with_overload_action(if variant & 4 == 0 {
            OverloadAction::Hold
        } else {
            OverloadAction::Fail
        })
    }

    impl Field {
        fn new(egress_groups: u16, chance: u64) -> Self {
            let capacities = Capacities {
                slots: 256,
                endpoints: 80 * u32::from(egress_groups),
                egress_groups,
                ..Capacities::default()
            };
            let built = Arbiter::build(&policy(0), capacities, Options::default());
            let mut field = Self {
                arbiter: built.expect("within the ranges"),
                slots: SlotPool::new(256),
                waiting: Vec::new(),
                running: Vec::new(),
                now: 0,
                chance,
            };
            for worker in 0..3 {
                field.put_worker(worker);
            }
            field
        }

        fn draw(&mut self, below: u64) -> u64 {
            self.chance ^= self.chance << 13;
            self.chance ^= self.chance >> 7;
            self.chance ^= self.chance << 17;
            (self.chance >> 20) % below
        }

        fn endpoint(&mut self) -> Endpoint {
            let worker = self.draw(3);
            let ranks = u64::from(RANKS[usize::try_from(worker).expect("one of three")]);
            let rank = self.draw(ranks);
            Endpoint::new(worker, u32::try_from(rank).expect("one of few"))
        }

        fn put_worker(&mut self, worker: u64) {
            let record = WorkerRecord {
                ranks: RANKS[usize::try_from(worker).expect("one of three")],
                ..WorkerRecord::new(worker)
            };
            self.arbiter.upsert_worker(&record).expect("there is room");
        }

        fn take(&mut self, events: Vec<Event<u32>>) {
            for event in events {
                match event {
                    Event::Dispatched(dispatch) => {
                        self.running.push((dispatch.ticket, dispatch.attempt));
                        self.waiting.retain(|&other| other != dispatch.ticket);
                    }
                    Event::Ended { ticket, .. } => {
                        self.waiting.retain(|&other| other != ticket);
                        self.slots.put(ticket);
                    }
                    _ => (),
                }
            }
        }

        fn submit(&mut self) {
            let Some(ticket) = self.slots.take() else {
                return;
            };
            let needs: &[&str] = if self.draw(16) == 0 { &["gpu"] } else { &[] };
            let family = if self.draw(2) == 0 { "a" } else { "b" };
            let tokens = u32::try_from(1 + self.draw(120)).expect("one of few");
            let request = Request {
                pin: (self.draw(8) > 0).then(|| self.endpoint()),
                require_taints: needs,
                ..Request::new(tokens, Nanos(self.now))
            };
            let mut events = Vec::new();
            let mut sink = |event| events.push(event);
            let taken = self
                .arbiter
                .submit(ticket, Some(family), &request, 0, &mut sink);
            if taken.is_ok() {
                self.waiting.push(ticket);
            } else {
                self.slots.put(ticket);
            }
            self.take(events);
        }

        /// What concerns one request or endpoint.
        fn step(&mut self) {
            let mut events = Vec::new();
            let at = usize::try_from(self.draw(1 << 20)).expect("it is small");
            match self.draw(16) {
                0..9 => self.submit(),
                9..11 => {
                    self.arbiter.select(&mut |event| events.push(event));
                }
                11..13 if !self.running.is_empty() => {
                    let at = at % self.running.len();
                    let (ticket, attempt) = self.running.swap_remove(at);
                    self.arbiter.complete(ticket, attempt).expect("it runs");
                    self.slots.put(ticket);
                }
                13 if !self.waiting.is_empty() => {
                    let ticket = self.waiting[at % self.waiting.len()];
                    let mut sink = |event| events.push(event);
                    self.arbiter.cancel(ticket, &mut sink).expect("it waits");
                }
                14 => {
                    let (endpoint, tokens) = (self.endpoint(), self.draw(300));
                    self.arbiter.load(endpoint, tokens).ok();
                }
                _ => {
                    let endpoint = self.endpoint();
                    if self.draw(3) == 0 {
                        self.arbiter.shut(endpoint).ok();
                    } else {
                        self.arbiter.open(endpoint).ok();
                    }
                }
            }
            self.take(events);
        }

        /// What concerns many.
        fn mass_step(&mut self, egress_groups: u16) {
            let (id, is_on) = (WorkerId(self.draw(3)), self.draw(2) == 0);
            match self.draw(8) {
                0..2 => self.arbiter.set_overloaded(id, is_on).unwrap_or(()),
                2 => self.arbiter.set_available(id, is_on).unwrap_or(()),
                3 => {
                    let taints: &[&str] = if is_on { &["gpu"] } else { &[] };
                    let set = self.arbiter.set_taints(id, taints);
                    set.expect("one taint").unwrap_or(());
                }
                4..6 => {
                    let profile = Arc::new(policy(self.draw(8)));
                    self.arbiter.reload(profile).expect("there is room");
                }
                6 => {
                    let group = self.draw(u64::from(egress_groups));
                    let group = u16::try_from(group).expect("one of few");
                    let room = if is_on { 0 } else { 64 };
                    self.arbiter.set_egress_room(group, room);
                }
                _ => {
                    if is_on {
                        self.arbiter.remove_worker(id).unwrap_or(());
                    }
                    self.put_worker(id.0);
                }
            }
        }
    }

    #[test]
    fn f2_lanes_pass_from_runs_to_trees_and_back_through_mass_changes() {
        for (egress_groups, seed) in [(1, 1), (1, 2), (3, 3), (2, 4)] {
            let mut field = Field::new(egress_groups, (seed << 40) + 0x9e37_79b9);
            let mut mass_changes_with_runs = [0; 2];
            for step in 0..3_000 {
                field.now += 1_000;
                field.arbiter.set_time(Nanos(field.now));
                if step % 8 == 7 {
                    for (class, count) in mass_changes_with_runs.iter_mut().enumerate() {
                        *count += u32::from(field.arbiter.forest.in_runs(class) > 1);
                    }
                    field.mass_step(egress_groups);
                } else {
                    field.step();
                }
                field.arbiter.refresh();
                field.arbiter.check_invariants();
            }
            assert!(
                mass_changes_with_runs.iter().all(|&count| count > 30),
                "{mass_changes_with_runs:?} with seed {seed}"
            );
        }
    }
}
