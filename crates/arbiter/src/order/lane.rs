//! The lanes of all classes and what stands in them.

use super::heap::Heap;
use super::{HeapPool, Links, NO_KEY, NONE, Rank, SlotOrder, slot_of};

/// Whether a lane's head may be dispatched; see [`HeadState`](crate::HeadState).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneStatus {
    /// It competes.
    Open,
    /// Its endpoint or pool is busy.
    Shut,
    /// It fails at the next sweep.
    Doomed,
}

/// One lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    /// The best entry; [`NO_KEY`] when the lane is empty (I1).
    pub(crate) head: Rank,
    heap: Heap,
    run_head: u32,
    run_tail: u32,
    /// The endpoint of an exact lane, [`NONE`] for a shared one; links the free lanes.
    pub(crate) endpoint: u32,
    pub(crate) class: u16,
    /// Of a shared lane; the gates tell it of an exact one.
    pub(crate) status: LaneStatus,
}

impl Lane {
    const fn empty(class: u16, endpoint: u32) -> Self {
        Self {
            head: NO_KEY,
            heap: Heap::EMPTY,
            run_head: NONE,
            run_tail: NONE,
            endpoint,
            class,
            status: LaneStatus::Shut,
        }
    }
}

/// Whether a slot stands in its lane's heap; the slab keeps it with the slot's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Structure {
    /// In the run.
    Run,
    /// In the heap.
    Heap,
}

/// All lanes: the shared lane of class c at index c, exact lanes behind them, taken from a pool
/// while they have entries.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    free: u32,
    /// By class and endpoint: the exact lane's index + 1, or 0.
    exact: Vec<u32>,
    endpoints: usize,
    pub(crate) heaps: HeapPool,
    pub(crate) order: SlotOrder,
}

impl Lanes {
    pub(crate) fn new(slots: usize, classes: usize, endpoints: usize) -> Self {
        let exact = slots.min(classes.saturating_mul(endpoints));
        let mut lanes = Vec::with_capacity(classes + exact);
        lanes.extend((0..classes).map(|class| Lane::empty(index16(class), NONE)));
        lanes.extend((0..exact).map(|lane| {
            let next = if lane + 1 == exact {
                NONE
            } else {
                index32(classes + lane + 1)
            };
            Lane::empty(0, next)
        }));
        Self {
            lanes,
            free: if exact == 0 { NONE } else { index32(classes) },
            exact: vec![0; classes * endpoints],
            endpoints,
            heaps: HeapPool::new(slots),
            order: SlotOrder::new(slots),
        }
    }

    /// Places for lanes, taken or not.
    pub(crate) fn count(&self) -> usize {
        self.lanes.len()
    }

    #[inline]
    pub(crate) fn shared(&self, class: usize) -> &Lane {
        &self.lanes[class]
    }

    #[inline]
    pub(crate) fn get(&self, lane: u32) -> &Lane {
        &self.lanes[lane as usize]
    }

    #[inline]
    pub(crate) fn set_status(&mut self, lane: u32, status: LaneStatus) {
        self.lanes[lane as usize].status = status;
    }

    /// The exact lane of `class` and `endpoint`, if it has entries.
    #[inline]
    pub(crate) fn exact(&self, class: usize, endpoint: u32) -> Option<u32> {
        self.exact[class * self.endpoints + endpoint as usize].checked_sub(1)
    }

    /// The lane that an entry with this pin waits in; made if it is an exact one without entries.
    #[inline]
    pub(crate) fn lane_for(&mut self, class: usize, pin: u32) -> u32 {
        if pin == NONE {
            return index32(class);
        }
        let place = &mut self.exact[class * self.endpoints + pin as usize];
        if *place == 0 {
            let lane = self.free;
            assert_ne!(lane, NONE, "there is a lane for every slot");
            let record = &mut self.lanes[lane as usize];
            self.free = record.endpoint;
            *record = Lane::empty(index16(class), pin);
            *place = lane + 1;
        }
        *place - 1
    }

    /// Makes the exact lane of an endpoint with its first entry; `None` if there is one already.
    #[inline(always)]
    pub(crate) fn found(&mut self, class: usize, endpoint: u32, rank: Rank) -> Option<u32> {
        let place = &mut self.exact[class * self.endpoints + endpoint as usize];
        if *place != 0 {
            return None;
        }
        let index = self.free;
        assert_ne!(index, NONE, "there is a lane for every slot");
        *place = index + 1;
        let slot = slot_of(rank);
        let links = &mut self.order.links[slot as usize];
        (links.a, links.b) = (NONE, NONE);
        let lane = &mut self.lanes[index as usize];
        self.free = lane.endpoint;
        // The heap of a lane without entries is empty.
        lane.head = rank;
        (lane.run_head, lane.run_tail) = (slot, slot);
        (lane.endpoint, lane.class) = (endpoint, index16(class));
        Some(index)
    }

    /// Gives an exact lane up if `slot` is its only entry; whether it was.
    #[inline(always)]
    pub(crate) fn dissolve(&mut self, index: u32, slot: u32) -> bool {
        let lane = &mut self.lanes[index as usize];
        debug_assert_ne!(lane.endpoint, NONE, "a shared lane stays");
        let is_alone = lane.run_head == slot && lane.run_tail == slot && lane.heap.root == NO_KEY;
        if is_alone {
            self.exact[lane.class as usize * self.endpoints + lane.endpoint as usize] = 0;
            lane.head = NO_KEY;
            (lane.run_head, lane.run_tail) = (NONE, NONE);
            lane.endpoint = std::mem::replace(&mut self.free, index);
            return true;
        }
        false
    }

    /// The lane of an entry that waits.
    #[inline]
    pub(crate) fn lane_of(&self, class: usize, pin: u32) -> u32 {
        if pin == NONE {
            index32(class)
        } else {
            self.exact[class * self.endpoints + pin as usize] - 1
        }
    }

    /// Adds `rank` to `lane`, looking for its place at most `reach` steps from the run's tail; where
    /// it stands, and whether it is the head.
    #[inline(always)]
    pub(crate) fn insert(
        &mut self,
        lane: u32,
        rank: Rank,
        reach: u32,
        rank_of: impl Fn(u32) -> Rank,
    ) -> (Structure, bool) {
        let Self {
            lanes,
            heaps,
            order,
            ..
        } = self;
        let lane = &mut lanes[lane as usize];
        let is_head = order.better(rank, lane.head);
        if is_head {
            lane.head = rank;
        }
        let slot = slot_of(rank);
        let after = if lane.run_tail == NONE || order.better(rank_of(lane.run_tail), rank) {
            lane.run_tail
        } else if order.better(rank, rank_of(lane.run_head)) {
            NONE
        } else {
            let mut at = lane.run_tail;
            let mut steps = 0;
            loop {
                if steps == reach {
                    heaps.push(&mut lane.heap, rank, order);
                    return (Structure::Heap, is_head);
                }
                at = order.links[at as usize].a;
                steps += 1;
                if order.better(rank_of(at), rank) {
                    break at;
                }
            }
        };
        lane.link_after(after, slot, order);
        (Structure::Run, is_head)
    }

    /// Takes `slot` out of `lane`; the new head if it was the head. An exact lane whose new head is
    /// [`NO_KEY`] is gone.
    #[inline(always)]
    pub(crate) fn remove(
        &mut self,
        lane_index: u32,
        slot: u32,
        structure: Structure,
        rank_of: impl Fn(u32) -> Rank,
    ) -> Option<Rank> {
        let Self {
            lanes,
            heaps,
            order,
            exact,
            free,
            ..
        } = self;
        let lane = &mut lanes[lane_index as usize];
        match structure {
            Structure::Run => lane.unlink(slot, order),
            Structure::Heap => heaps.remove(&mut lane.heap, slot, order),
        }
        if slot_of(lane.head) != slot {
            return None;
        }
        let front = if lane.run_head == NONE {
            NO_KEY
        } else {
            rank_of(lane.run_head)
        };
        lane.head = order.best(front, lane.heap.root);
        if lane.head == NO_KEY && lane.endpoint != NONE {
            exact[lane.class as usize * self.endpoints + lane.endpoint as usize] = 0;
            lane.endpoint = std::mem::replace(free, lane_index);
        }
        Some(lane.head)
    }

    /// The best `count` entries of `lane`, best first. O(k log k) for k entries; allocates.
    pub(crate) fn best_first(
        &self,
        lane: u32,
        count: usize,
        rank_of: impl Fn(u32) -> Rank,
    ) -> Vec<Rank> {
        let lane = &self.lanes[lane as usize];
        let mut run = lane.run_head;
        let from_run = std::iter::from_fn(|| {
            let slot = (run != NONE).then_some(run)?;
            run = self.order.links[slot as usize].b;
            Some(rank_of(slot))
        });
        let mut best: Vec<Rank> = from_run.take(count).collect();
        self.heaps
            .best_first(&lane.heap, count, &self.order, &mut best);
        best.sort_by(|&a, &b| {
            if self.order.better(a, b) {
                std::cmp::Ordering::Less
            } else {
                std::cmp::Ordering::Greater
            }
        });
        best.truncate(count);
        best
    }

    /// Asserts I1 to I4 for one lane.
    pub(crate) fn check(&self, lane: u32, rank_of: impl Fn(u32) -> Rank) {
        let lane = &self.lanes[lane as usize];
        let mut before = NONE;
        let mut at = lane.run_head;
        while at != NONE {
            let links = self.order.links[at as usize];
            assert_eq!(links.a, before, "I2: the run is linked both ways");
            if before != NONE {
                assert!(
                    self.order.better(rank_of(before), rank_of(at)),
                    "I2: the run is sorted"
                );
            }
            (before, at) = (at, links.b);
        }
        assert_eq!(lane.run_tail, before, "I2: the tail is the last");
        let front = if lane.run_head == NONE {
            NO_KEY
        } else {
            rank_of(lane.run_head)
        };
        assert_eq!(
            lane.head,
            self.order.best(front, lane.heap.root),
            "I1: the head is the better front"
        );
        self.heaps.check(&lane.heap, &self.order);
    }
}

impl Lane {
    #[inline]
    fn link_after(&mut self, after: u32, slot: u32, order: &mut SlotOrder) {
        let next = if after == NONE {
            self.run_head
        } else {
            order.links[after as usize].b
        };
        let links = &mut order.links[slot as usize];
        (links.a, links.b) = (after, next);
        if after == NONE {
            self.run_head = slot;
        } else {
            order.links[after as usize].b = slot;
        }
        if next == NONE {
            self.run_tail = slot;
        } else {
            order.links[next as usize].a = slot;
        }
    }

    #[inline]
    fn unlink(&mut self, slot: u32, order: &mut SlotOrder) {
        let Links {
            a: before,
            b: after,
            ..
        } = order.links[slot as usize];
        if before == NONE {
            self.run_head = after;
        } else {
            order.links[before as usize].b = after;
        }
        if after == NONE {
            self.run_tail = before;
        } else {
            order.links[after as usize].a = before;
        }
    }
}

fn index32(index: usize) -> u32 {
    u32::try_from(index).expect("lanes are bounded by SLOTS_MAX + CLASSES_MAX")
}

fn index16(index: usize) -> u16 {
    u16::try_from(index).expect("classes are bounded by CLASSES_MAX")
}
