//! Workers: records, load reports, egress (S5, S9.2, S9.3).

use crate::arbiter::Arbiter;
use crate::bits::ones;
use crate::endpoints::Worker;
use crate::gate::Standing;
use crate::order::NONE;
use crate::{Endpoint, Full, Stale, WorkerError, WorkerId, WorkerRecord};

/// A change of one leaf in so many costs about as much along its path as a pass over the tree.
const LEAVES_PER_CHANGE: u64 = 16;

impl<P> Arbiter<P> {
    /// Makes a worker known, or replaces its whole record. Bookings, load, `shut` and last use of
    /// ranks that remain stay; a rank that goes away counts as removed (S9.3).
    /// O(ranks x C + C x endpoints / 64).
    ///
    /// # Errors
    /// Nothing is changed if the ranks are no range, or workers, endpoint numbers or taint names do
    /// not suffice.
    pub fn upsert_worker(&mut self, record: &WorkerRecord<'_>) -> Result<(), WorkerError> {
        self.endpoints.reserve(record)?;
        let taints = self.taints.intern(record.taints)?;
        let worker = Worker {
            id: record.id,
            first_rank: record.first_rank,
            ranks: record.ranks,
            max_batched_tokens: record.max_batched_tokens,
            taints,
            overloaded: record.overloaded,
            available: record.available,
            run: None,
        };
        self.expect_changes(record.id, record.ranks);
        let before = self.endpoints.worker(record.id).copied();
        self.endpoints.put_worker(worker);
        if let Some(before) = before {
            for rank in before.all_ranks() {
                if !worker.has_rank(rank) {
                    self.depart(Endpoint {
                        worker: worker.id,
                        rank,
                    });
                }
            }
            self.endpoints.end_departures(worker.id);
        }
        self.endpoints.arrive(&worker);
        let mut members = std::mem::take(&mut self.members);
        self.endpoints.gather(&worker, &mut members);
        for number in members.iter() {
            self.forest.reach(number);
            self.restate(number, Some(&worker));
        }
        self.members = members;
        if let Some(before) = before {
            self.taints.release(before.taints);
        }
        self.settle_pools();
        Ok(())
    }

    /// Makes a worker unknown (S9.3). Its exact lanes fail at the next sweep if it is still gone
    /// then (S5.4); requests dispatched to it stay the caller's. O(ranks x C + C x endpoints / 64).
    ///
    /// # Errors
    /// [`Stale`] if it is not known.
    pub fn remove_worker(&mut self, id: WorkerId) -> Result<(), Stale> {
        let Some(worker) = self.endpoints.drop_worker(id) else {
            return Err(self.stale());
        };
        self.expect_changes(id, worker.ranks);
        for rank in worker.all_ranks() {
            self.depart(Endpoint { worker: id, rank });
        }
        self.endpoints.end_departures(id);
        self.taints.release(worker.taints);
        self.settle_pools();
        Ok(())
    }

    /// Sets whether a worker is overloaded (S5.2, S5.6).
    ///
    /// # Errors
    /// [`Stale`] if it is not known.
    pub fn set_overloaded(&mut self, id: WorkerId, overloaded: bool) -> Result<(), Stale> {
        self.amend_worker(id, |worker| worker.overloaded = overloaded)
    }

    /// Sets whether a worker is available (S5.2).
    ///
    /// # Errors
    /// [`Stale`] if it is not known.
    pub fn set_available(&mut self, id: WorkerId, available: bool) -> Result<(), Stale> {
        self.amend_worker(id, |worker| worker.available = available)
    }

    /// Replaces a worker's taints (S5.2). `Ok(Err(Stale))` if it is not known.
    ///
    /// # Errors
    /// Nothing is changed if the taint names do not suffice.
    pub fn set_taints(&mut self, id: WorkerId, taints: &[&str]) -> Result<Result<(), Stale>, Full> {
        let Some(before) = self.endpoints.worker(id).map(|worker| worker.taints) else {
            return Ok(Err(self.stale()));
        };
        let taints = self.taints.intern(taints)?;
        let amended = self.amend_worker(id, |worker| worker.taints = taints);
        self.taints.release(before);
        Ok(amended)
    }

    fn amend_worker(&mut self, id: WorkerId, amend: impl Fn(&mut Worker)) -> Result<(), Stale> {
        let Some(before) = self.endpoints.worker(id).copied() else {
            return Err(self.stale());
        };
        let mut worker = before;
        amend(&mut worker);
        self.endpoints.put_worker(worker);
        self.restand(&worker, before.taints);
        self.settle_pools();
        Ok(())
    }

    /// Sets the external report of an endpoint's prefill tokens: absolute, without our own bookings
    /// (S9.2). O(C), plus O(log L) for each lane that flips; O(1) while it crosses no threshold.
    ///
    /// # Errors
    /// [`Stale`] if the endpoint is not known.
    pub fn load(&mut self, endpoint: Endpoint, tokens: u64) -> Result<(), Stale> {
        let number = self.known_number(endpoint)?;
        self.endpoints.slot_mut(number).reported = tokens;
        self.settle_activity(number);
        Ok(())
    }

    /// The endpoint's egress is full: it counts as busy for every class (S5.1).
    ///
    /// # Errors
    /// [`Stale`] if the endpoint is not known.
    pub fn shut(&mut self, endpoint: Endpoint) -> Result<(), Stale> {
        self.set_shut(endpoint, true)
    }

    /// The endpoint's egress has room again.
    ///
    /// # Errors
    /// [`Stale`] if the endpoint is not known.
    pub fn open(&mut self, endpoint: Endpoint) -> Result<(), Stale> {
        self.set_shut(endpoint, false)
    }

    fn set_shut(&mut self, endpoint: Endpoint, shut: bool) -> Result<(), Stale> {
        let number = self.known_number(endpoint)?;
        let was_forced = self.gates.is_forced(number);
        self.gates.set_shut(number, shut);
        let standing = self.standing_of(self.endpoints.worker(endpoint.worker));
        self.gates.set_standing(number, standing);
        if self.gates.is_forced(number) != was_forced {
            self.settle_forced(number);
        }
        Ok(())
    }

    /// After a reason that makes an endpoint busy whatever its load came or went.
    fn settle_forced(&mut self, number: u32) {
        self.settle_standing(number);
        let (available, eligible) = self.gates.weight(number);
        let is_forced = self.gates.is_forced(number);
        let (group, is_group_shut) = (self.groups.of(number), self.gates.is_group_shut(number));
        for at in 0..self.table.len() {
            let class = self.table[at] as usize;
            if self.gates.is_over(class, number) {
                continue;
            }
            let by_group = self.gates.of_group(class, group);
            by_group.flip(available, eligible, is_forced);
            let settings = &mut self.classes[class];
            if !is_group_shut {
                settings.counts.flip(available, eligible, is_forced);
                if settings.masked_head != NONE && self.gates.is_masked(class, number) {
                    settings.masked_counts.flip(available, eligible, is_forced);
                }
            }
            if settings.waiting() > 0 {
                self.settle_shared_status(class);
                self.settle_exact_gate(class, number);
            }
        }
    }

    /// What a worker's endpoints are to all classes; those of no worker are nothing.
    pub(super) fn standing_of(&self, worker: Option<&Worker>) -> Standing {
        worker.map_or(Standing::default(), |worker| {
            let holds = worker.overloaded && self.holds_on_overload();
            Standing {
                is_available: worker.available,
                is_eligible: worker.available && (holds || !worker.overloaded),
                is_forced: holds,
            }
        })
    }

    fn known_number(&mut self, endpoint: Endpoint) -> Result<u32, Stale> {
        self.endpoints
            .number(endpoint)
            .filter(|&number| self.endpoints.slot(number).known)
            .ok_or_else(|| self.stale())
    }

    /// Lets the trees be rebuilt where so many leaves may change that paths would cost more.
    fn expect_changes(&mut self, worker: WorkerId, endpoints: u32) {
        if self.are_many(endpoints) {
            self.begin_bulk(self.groups.of_worker(worker));
        }
    }

    /// Whether a pass over a group's trees costs less than a path for each of so many endpoints.
    pub(super) fn are_many(&self, endpoints: u32) -> bool {
        let leaves = self.groups.place(self.endpoints.reach());
        u64::from(endpoints) * LEAVES_PER_CHANGE > u64::from(leaves)
    }

    /// Lets the trees of a group be rebuilt by [`settle_pools`](Self::settle_pools).
    pub(super) fn begin_bulk(&mut self, group: usize) {
        for &class in &self.table {
            if self.classes[class as usize].waiting() > 0 {
                self.forest.begin_bulk(class as usize, group);
            }
        }
    }

    fn depart(&mut self, endpoint: Endpoint) {
        let number = self
            .endpoints
            .number(endpoint)
            .expect("a known rank has a number");
        self.carry_taints(number, 0);
        // Its lanes are judged by the worker table, which does not know it any more; its number
        // may be free after `depart`, so everything that hangs on it goes first.
        self.endpoints.slot_mut(number).known = false;
        self.gates.set_shut(number, false);
        self.restate(number, None);
        self.endpoints.depart(number);
    }

    /// Restates an endpoint to gates, counts and index; `None` for one that is not known.
    pub(super) fn restate(&mut self, number: u32, worker: Option<&Worker>) {
        let group = self.groups.of(number);
        let is_group_shut = self.gates.is_group_shut(number);
        for at in 0..self.table.len() {
            let class = self.table[at] as usize;
            let (available, eligible) = self.gates.weight(number);
            let bit = self.gates.busy_bit(class, number);
            let by_group = self.gates.of_group(class, group);
            by_group.subtract(available, eligible, bit);
            let counts = &mut self.classes[class].counts;
            counts.subtract(available, eligible, bit || is_group_shut);
        }
        let standing = self.standing_of(worker);
        self.gates.set_standing(number, standing);
        if let Some(worker) = worker {
            self.carry_taints(number, worker.taints);
        }
        let load = worker.map_or(0, |_| self.endpoints.slot(number).load());
        let max_batched_tokens = worker.and_then(|worker| worker.max_batched_tokens);
        for at in 0..self.table.len() {
            let class = self.table[at] as usize;
            let threshold = self.classes[class].threshold_for(max_batched_tokens);
            self.gates.set_threshold(class, number, threshold);
            let over = self.gates.should_be_over(class, number, load);
            self.gates.set_over(class, number, over);
            let bit = self.gates.busy_bit(class, number);
            let (available, eligible) = self.gates.weight(number);
            let by_group = self.gates.of_group(class, group);
            by_group.add(available, eligible, bit);
            let counts = &mut self.classes[class].counts;
            counts.add(available, eligible, bit || is_group_shut);
        }
        self.settle_band(number, load);
        self.settle_standing(number);
        for at in 0..self.table.len() {
            let class = self.table[at] as usize;
            self.settle_exact(class, number);
        }
    }

    /// Brings the rows of taints in line with what an endpoint's worker carries.
    pub(super) fn carry_taints(&mut self, number: u32, taints: u128) {
        let before = std::mem::replace(&mut self.endpoints.taints[number as usize], taints);
        let changed = before ^ taints;
        #[expect(clippy::cast_possible_truncation, reason = "the halves of a u128")]
        let words = [changed as u64, (changed >> 64) as u64];
        for taint in ones(words) {
            let carries = taints >> taint & 1 != 0;
            self.taint_rows.set(taint as usize, number, carries);
        }
    }

    /// Settles every shared lane after endpoints came, went or changed their standing.
    pub(super) fn settle_pools(&mut self) {
        for at in 0..self.table.len() {
            let class = self.table[at] as usize;
            let counts = self.classes[class].counts;
            self.classes[class].shut_at = self.classes[class].shut_at(counts);
            self.settle_shared(class, true);
            self.forest.end_bulk(class, &self.gates, &self.lanes);
        }
    }
}
