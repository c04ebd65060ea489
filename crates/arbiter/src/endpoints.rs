//! Workers, their endpoints, and what is booked on them (S9).
//!
//! An endpoint's number is its place in every table of the arbiter. It stays taken while the
//! endpoint is known or a live request refers to it, so a number held by a request never comes to
//! mean another endpoint; a worker that returns finds its numbers again. What does not survive a
//! departure (bookings, load, last use) is told apart by the incarnation.

use crate::bits::BitRows;
use crate::gate::{Band, Members};
use crate::group::Groups;
use crate::load_tree::{LoadPlace, last_use, precedence_unused};
use crate::{Capacities, Endpoint, Full, Resource, WorkerError, WorkerId, WorkerRecord};

/// A known worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) first_rank: u32,
    pub(crate) ranks: u32,
    pub(crate) max_batched_tokens: Option<u64>,
    pub(crate) taints: u128,
    pub(crate) overloaded: bool,
    pub(crate) available: bool,
    /// The number of its first rank, if those of the others follow it one by one in its egress group.
    pub(crate) run: Option<u32>,
}

impl Worker {
    pub(crate) fn all_ranks(&self) -> impl Iterator<Item = u32> + use<> {
        let first_rank = self.first_rank;
        (0..self.ranks).map(move |offset| first_rank + offset)
    }

    pub(crate) fn has_rank(&self, rank: u32) -> bool {
        rank.checked_sub(self.first_rank)
            .is_some_and(|offset| offset < self.ranks)
    }
}

/// One endpoint number: two cache lines, the first with all that releasing a booking, a report and an
/// event that concerns all endpoints read.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) booked: u64,
    pub(crate) reported: u64,
    /// Loads that are above the thresholds of the same classes.
    pub(crate) band: Band,
    /// Who goes first where scores are equal; tells the last use.
    pub(crate) precedence: u64,
    /// Where it stands in the index over endpoints.
    pub(crate) place: LoadPlace,
    /// Its active requests.
    pub(crate) active: u32,
    /// Live requests that refer to this number.
    refs: u32,
    /// Rises when the endpoint departs: bookings of before are void (S9.3).
    pub(crate) incarnation: u32,
    pub(crate) known: bool,
    pub(crate) endpoint: Endpoint,
    /// Dispatches to it since it arrived, and their costs.
    pub(crate) dispatched: u64,
    pub(crate) charged_tokens: u64,
}

impl Slot {
    const VACANT: Self = Self {
        endpoint: Endpoint::new(0, 0),
        incarnation: 0,
        refs: 0,
        known: false,
        band: Band::NOTHING,
        booked: 0,
        reported: 0,
        active: 0,
        place: LoadPlace::UNSET,
        precedence: 0,
        dispatched: 0,
        charged_tokens: 0,
    };

    /// Booked prefill tokens and the external report (S9.2); saturates.
    #[inline]
    pub(crate) const fn load(&self) -> u64 {
        self.booked.saturating_add(self.reported)
    }

    /// Its load makes it busy for no class.
    #[inline]
    pub(crate) const fn is_calm(&self) -> bool {
        self.band.is_lowest()
    }

    /// A live request refers to it.
    #[inline]
    pub(crate) const fn refer(&mut self) {
        self.refs += 1;
    }

    /// The number of the last dispatch to it; 0 is never.
    #[inline]
    pub(crate) const fn last_use(&self) -> u64 {
        last_use(self.precedence)
    }
}

#[derive(Debug)]
pub(crate) struct Endpoints {
    /// Known workers, by id.
    workers: Vec<Worker>,
    workers_max: usize,
    slots: Vec<Slot>,
    /// By number: the taints that its worker carries.
    pub(crate) taints: Vec<u128>,
    /// By a hash of the endpoint: the number that took this place last. Where that is another
    /// endpoint's, `by_identity` knows.
    shortcut: Vec<u32>,
    /// Taken numbers, by endpoint.
    by_identity: Vec<(Endpoint, u32)>,
    taken: BitRows,
    groups: Groups,
    /// By group: how many numbers are taken.
    taken_count: Vec<u32>,
    /// By group: words of `taken` before this one have no free bit.
    full_words: Vec<usize>,
    /// Numbers below this were used at some time.
    reach: u32,
}

impl Endpoints {
    pub(crate) fn new(capacities: &Capacities) -> Self {
        let groups = Groups::new(capacities);
        let endpoints = groups.numbers();
        Self {
            workers: Vec::with_capacity(capacities.workers as usize),
            workers_max: capacities.workers as usize,
            slots: LoadPlace::all(groups)
                .map(|place| Slot {
                    place,
                    ..Slot::VACANT
                })
                .collect(),
            taints: vec![0; endpoints],
            shortcut: vec![0; (2 * endpoints).next_power_of_two()],
            by_identity: Vec::with_capacity(endpoints),
            taken: BitRows::new(1, endpoints),
            groups,
            taken_count: vec![0; groups.stride()],
            full_words: vec![0; groups.stride()],
            reach: 0,
        }
    }

    /// Known workers, by id.
    pub(crate) fn workers(&self) -> &[Worker] {
        &self.workers
    }

    pub(crate) fn worker_count(&self) -> u64 {
        self.workers.len() as u64
    }

    /// Where a worker stands, or would stand.
    fn worker_place(&self, id: WorkerId) -> Result<usize, usize> {
        match self.workers.last() {
            Some(last) if id <= last.id => self.workers.binary_search_by_key(&id, |w| w.id),
            _ => Err(self.workers.len()),
        }
    }

    /// Where an endpoint stands, or would stand.
    fn identity_place(&self, endpoint: Endpoint) -> usize {
        match self.by_identity.last() {
            Some(&(last, _)) if endpoint <= last => {
                self.by_identity.partition_point(|&(e, _)| e < endpoint)
            }
            _ => self.by_identity.len(),
        }
    }

    pub(crate) fn worker(&self, id: WorkerId) -> Option<&Worker> {
        self.worker_place(id).ok().map(|at| &self.workers[at])
    }

    /// The number of an endpoint that is known or referred to.
    #[inline]
    pub(crate) fn number(&self, endpoint: Endpoint) -> Option<u32> {
        let number = self.shortcut[self.place_of(endpoint)];
        let slot = &self.slots[number as usize];
        if slot.endpoint == endpoint && (slot.known || self.taken.get(0, number)) {
            return Some(number);
        }
        self.number_by_search(endpoint)
    }

    fn number_by_search(&self, endpoint: Endpoint) -> Option<u32> {
        let at = self.identity_place(endpoint);
        self.by_identity
            .get(at)
            .filter(|&&(e, _)| e == endpoint)
            .map(|&(_, number)| number)
    }

    #[inline]
    fn place_of(&self, endpoint: Endpoint) -> usize {
        let mixed = (endpoint.worker.0 ^ u64::from(endpoint.rank).rotate_left(32))
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // The upper bits of the product are the mixed ones.
        (mixed >> 32) as usize & (self.shortcut.len() - 1)
    }

    /// The numbers of all of a worker's endpoints, known or only referred to, by rank.
    pub(crate) fn numbers_of(&self, id: WorkerId) -> impl Iterator<Item = u32> {
        let first = self.identity_place(Endpoint {
            worker: id,
            rank: 0,
        });
        self.by_identity[first..]
            .iter()
            .take_while(move |(e, _)| e.worker == id)
            .map(|&(_, n)| n)
    }

    /// Fills a set with the numbers of a known worker's ranks.
    pub(crate) fn gather(&self, worker: &Worker, members: &mut Members) {
        members.clear();
        if let Some(first) = worker.run {
            let last = first + ((worker.ranks - 1) << self.groups.shift());
            return members.put_run(first, last, self.groups.word(self.groups.of(first)));
        }
        let first = self.identity_place(Endpoint {
            worker: worker.id,
            rank: worker.first_rank,
        });
        // Every rank is known, so that nobody stands between the first and the last.
        let ranks = &self.by_identity[first..][..worker.ranks as usize];
        members.extend(ranks.iter().map(|&(_, number)| number));
    }

    /// The records of some numbers from one on.
    pub(crate) fn slots_mut(&mut self, first: usize, count: usize) -> &mut [Slot] {
        &mut self.slots[first..first + count]
    }

    /// Every taken number, by (worker, rank).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Slot)> {
        self.by_identity
            .iter()
            .map(|&(_, number)| (number, &self.slots[number as usize]))
    }

    /// Numbers below this may be taken.
    pub(crate) const fn reach(&self) -> u32 {
        self.reach
    }

    #[inline]
    pub(crate) fn slot(&self, number: u32) -> &Slot {
        &self.slots[number as usize]
    }

    #[inline]
    pub(crate) fn slot_mut(&mut self, number: u32) -> &mut Slot {
        &mut self.slots[number as usize]
    }

    /// Whether a record fits, before anything is changed.
    pub(crate) fn reserve(&self, record: &WorkerRecord<'_>) -> Result<(), WorkerError> {
        let (first_rank, ranks) = (record.first_rank, record.ranks);
        let last = first_rank.checked_add(ranks.wrapping_sub(1));
        let Some(last) = last.filter(|_| ranks > 0) else {
            return Err(WorkerError::RankRange { first_rank, ranks });
        };
        if self.worker(record.id).is_none() && self.workers.len() == self.workers_max {
            let available = self.workers_max as u64;
            return Err(Full {
                what: Resource::Workers,
                required: available + 1,
                available,
            }
            .into());
        }
        let (mut kept, mut freed) = (0, 0);
        for slot in self.numbers_of(record.id).map(|n| &self.slots[n as usize]) {
            if (first_rank..=last).contains(&slot.endpoint.rank) {
                kept += 1;
            } else if slot.refs == 0 {
                freed += 1;
            }
        }
        let taken = self.taken_count[self.groups.of_worker(record.id)];
        let required = u64::from(taken) - freed + (u64::from(ranks) - kept);
        let available = u64::from(self.groups.per_group());
        if required > available {
            return Err(Full {
                what: if self.groups.are_many() {
                    Resource::EndpointsOfGroup
                } else {
                    Resource::Endpoints
                },
                required,
                available,
            }
            .into());
        }
        Ok(())
    }

    /// Writes a worker's record, ranks aside. Room was reserved.
    pub(crate) fn put_worker(&mut self, worker: Worker) {
        match self.worker_place(worker.id) {
            Ok(at) => self.workers[at] = worker,
            Err(at) => self.workers.insert(at, worker),
        }
    }

    /// Forgets a worker's record, ranks aside.
    pub(crate) fn drop_worker(&mut self, id: WorkerId) -> Option<Worker> {
        let at = self.worker_place(id).ok()?;
        Some(self.workers.remove(at))
    }

    /// Makes all ranks of a worker known. O(ranks), and one move of what the list of endpoints has
    /// behind them.
    pub(crate) fn arrive(&mut self, worker: &Worker) {
        let first = self.identity_place(Endpoint {
            worker: worker.id,
            rank: worker.first_rank,
        });
        let (mut at, end) = (first, self.by_identity.len());
        for rank in worker.all_ranks() {
            let endpoint = Endpoint {
                worker: worker.id,
                rank,
            };
            let number = match self.by_identity[..end].get(at) {
                Some(&(listed, number)) if listed == endpoint => {
                    at += 1;
                    number
                }
                _ => {
                    let number = self.assign(endpoint);
                    self.by_identity.push((endpoint, number));
                    number
                }
            };
            self.slots[number as usize].known = true;
        }
        let added = self.by_identity.len() - end;
        if added > 0 {
            self.by_identity[at..].rotate_right(added);
            self.by_identity[first..at + added].sort_unstable_by_key(|&(endpoint, _)| endpoint);
        }
        let numbers = self.by_identity[first..][..worker.ranks as usize]
            .iter()
            .map(|&(_, number)| number);
        let stride = 1 << self.groups.shift();
        let run = numbers
            .clone()
            .zip(numbers.clone().skip(1))
            .all(|(number, next)| next == number.wrapping_add(stride));
        let run = numbers.take(1).next().filter(|_| run);
        if let Ok(place) = self.worker_place(worker.id) {
            self.workers[place].run = run;
        }
    }

    fn assign(&mut self, endpoint: Endpoint) -> u32 {
        let group = self.groups.of_worker(endpoint.worker);
        let members = self.groups.word(group);
        let words = self.taken.row(0);
        let full_words = &mut self.full_words[group];
        let full = words[*full_words..]
            .iter()
            .take_while(|&&word| !word & members == 0)
            .count();
        *full_words += full;
        let bit = (!words[*full_words] & members).trailing_zeros();
        let number = u32::try_from(*full_words * 64).expect("bounded by ENDPOINTS_MAX") + bit;
        self.take(number, group, endpoint);
        number
    }

    fn take(&mut self, number: u32, group: usize, endpoint: Endpoint) {
        self.taken.set(0, number, true);
        self.taken_count[group] += 1;
        self.reach = self.reach.max(number + 1);
        let slot = &mut self.slots[number as usize];
        *slot = Slot {
            endpoint,
            incarnation: slot.incarnation,
            place: slot.place,
            precedence: precedence_unused(endpoint),
            ..Slot::VACANT
        };
        let place = self.place_of(endpoint);
        self.shortcut[place] = number;
    }

    /// Makes an endpoint unknown: bookings, load, `shut` and last use are forgotten (S9.3). The list of
    /// endpoints is brought up to date by [`end_departures`](Self::end_departures).
    pub(crate) fn depart(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        *slot = Slot {
            endpoint: slot.endpoint,
            incarnation: slot.incarnation.wrapping_add(1),
            refs: slot.refs,
            place: slot.place,
            precedence: precedence_unused(slot.endpoint),
            ..Slot::VACANT
        };
        if slot.refs == 0 {
            self.free(number);
        }
    }

    /// Takes the departed endpoints of a worker that nothing refers to off the list.
    pub(crate) fn end_departures(&mut self, worker: WorkerId) {
        let first = self.identity_place(Endpoint { worker, rank: 0 });
        let mut kept = first;
        let mut at = first;
        while let Some(&entry) = self.by_identity.get(at) {
            if entry.0.worker != worker {
                break;
            }
            if self.taken.get(0, entry.1) {
                self.by_identity[kept] = entry;
                kept += 1;
            }
            at += 1;
        }
        self.by_identity.drain(kept..at);
    }

    /// A live request refers to `number`.
    #[inline]
    pub(crate) fn refer(&mut self, number: u32) {
        self.slots[number as usize].refer();
    }

    /// A live request refers to `number` no longer.
    #[inline]
    pub(crate) fn release(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        slot.refs -= 1;
        if slot.refs == 0 && !slot.known {
            self.free_if_unused(number);
        }
    }

    #[cold]
    fn free_if_unused(&mut self, number: u32) {
        let slot = &self.slots[number as usize];
        if slot.known || slot.refs > 0 {
            return;
        }
        let at = self
            .by_identity
            .partition_point(|&(e, _)| e < slot.endpoint);
        debug_assert_eq!(self.by_identity[at].1, number);
        self.by_identity.remove(at);
        self.free(number);
    }

    fn free(&mut self, number: u32) {
        self.taken.set(0, number, false);
        let group = self.groups.of(number);
        self.taken_count[group] -= 1;
        let full_words = &mut self.full_words[group];
        *full_words = (*full_words).min(number as usize / 64);
    }

    /// Takes a number for an endpoint that is not known yet, for a state that is restored: its
    /// incarnation is 1. False if the number or the endpoint has one already, or the number belongs to
    /// another egress group.
    pub(crate) fn place(&mut self, number: u32, endpoint: Endpoint) -> bool {
        let group = self.groups.of_worker(endpoint.worker);
        let is_possible = (number as usize) < self.slots.len()
            && self.groups.of(number) == group
            && self.groups.place(number) < self.groups.per_group();
        if !is_possible || self.taken.get(0, number) || self.number(endpoint).is_some() {
            return false;
        }
        self.take(number, group, endpoint);
        let at = self.identity_place(endpoint);
        self.by_identity.insert(at, (endpoint, number));
        self.slots[number as usize].incarnation = 1;
        true
    }

    /// Whether a number is taken.
    pub(crate) fn is_taken(&self, number: u32) -> bool {
        (number as usize) < self.slots.len() && self.taken.get(0, number)
    }

    /// How many references requests hold.
    pub(crate) fn reference_count(&self) -> u64 {
        self.slots.iter().map(|slot| u64::from(slot.refs)).sum()
    }
}
