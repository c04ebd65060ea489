//! A 4-ary heap over a shared pool of chunks.
//!
//! A chunk holds four siblings: the children of one node. The root stands in the lane's record.
//! Chunks of one heap are linked in level order, so that the place of the next node and of the last
//! one are found in O(1); a node's chunk knows its parent node. Only keys are compared, and they
//! stand together: a step down reads one cache line of keys.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{NO_KEY, NONE, Rank, SLOT_BITS, SlotOrder, slot_of};

/// The root's place; other places are `chunk * 4 + index`.
const ROOT: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Keys([Rank; 4]);

#[derive(Clone, Copy, Debug)]
struct ChunkLinks {
    /// The chunks of the four nodes' children.
    child: [u32; 4],
    /// The node whose children these are.
    parent: u32,
    /// Neighbours in level order; `next` also links the free chunks.
    prev: u32,
    next: u32,
}

/// One heap's part of its lane's record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heap {
    pub(super) root: Rank,
    len: u32,
    first: u32,
    last: u32,
}

impl Heap {
    pub(super) const EMPTY: Self = Self {
        root: NO_KEY,
        len: 0,
        first: NONE,
        last: NONE,
    };
}

/// The chunks of all heaps.
#[derive(Debug)]
pub(crate) struct HeapPool {
    keys: Vec<Keys>,
    links: Vec<ChunkLinks>,
    free: u32,
}

impl HeapPool {
    /// A pool that serves `slots` entries, however they spread over heaps: a heap of n entries
    /// takes `ceil((n - 1) / 4)` chunks, at most n / 2.
    pub(crate) fn new(slots: usize) -> Self {
        let chunks = u32::try_from(slots / 2 + 1).expect("slots are bounded by SLOTS_MAX");
        let links = (0..chunks)
            .map(|chunk| ChunkLinks {
                child: [NONE; 4],
                parent: NONE,
                prev: NONE,
                next: if chunk + 1 == chunks { NONE } else { chunk + 1 },
            })
            .collect();
        Self {
            keys: vec![Keys([NO_KEY; 4]); chunks as usize],
            links,
            free: 0,
        }
    }

    /// Adds `rank`. O(log n).
    pub(super) fn push(&mut self, heap: &mut Heap, rank: Rank, order: &mut SlotOrder) {
        heap.len += 1;
        if heap.len == 1 {
            heap.root = rank;
            order.links[slot_of(rank) as usize].a = ROOT;
            return;
        }
        let index = (heap.len - 2) % 4;
        if index == 0 {
            self.append_chunk(heap);
        }
        self.rise(heap, heap.last * 4 + index, rank, order);
    }

    /// Removes the entry of `slot`. O(log n).
    pub(super) fn remove(&mut self, heap: &mut Heap, slot: u32, order: &mut SlotOrder) {
        let place = order.links[slot as usize].a;
        heap.len -= 1;
        if heap.len == 0 {
            debug_assert_eq!(place, ROOT);
            heap.root = NO_KEY;
            return;
        }
        let index = (heap.len - 1) % 4;
        let last_place = heap.last * 4 + index;
        let chunk = heap.last as usize;
        let moved = std::mem::replace(&mut self.keys[chunk].0[index as usize], NO_KEY);
        if index == 0 {
            self.drop_last_chunk(heap);
        }
        if place == last_place {
            return;
        }
        // What is better than the removed entry is better than all below it, and what is worse is worse
        // than all above it, so that its own key, at hand, tells the way.
        if order.better(moved, self.key(heap, place)) {
            self.rise(heap, place, moved, order);
        } else {
            self.sink(heap, place, moved, order);
        }
    }

    /// Puts `rank` at `place` or above it, where it belongs.
    fn rise(&mut self, heap: &mut Heap, mut place: u32, rank: Rank, order: &mut SlotOrder) {
        while place != ROOT {
            let parent = self.parent(place);
            let above = self.key(heap, parent);
            if !order.better(rank, above) {
                break;
            }
            self.put(heap, place, above, order);
            place = parent;
        }
        self.put(heap, place, rank, order);
    }

    /// Puts `rank` at `place` or below it, where it belongs.
    fn sink(&mut self, heap: &mut Heap, mut place: u32, rank: Rank, order: &mut SlotOrder) {
        loop {
            let children = self.children(heap, place);
            if children == NONE {
                break;
            }
            let (index, best) = order.first_of_four(&self.keys[children as usize].0);
            if !order.better(best, rank) {
                break;
            }
            self.put(heap, place, best, order);
            #[expect(clippy::cast_possible_truncation, reason = "an index of four")]
            let index = index as u32;
            place = children * 4 + index;
        }
        self.put(heap, place, rank, order);
    }

    #[inline]
    fn key(&self, heap: &Heap, place: u32) -> Rank {
        if place == ROOT {
            heap.root
        } else {
            self.keys[(place / 4) as usize].0[(place % 4) as usize]
        }
    }

    #[inline]
    fn put(&mut self, heap: &mut Heap, place: u32, rank: Rank, order: &mut SlotOrder) {
        if place == ROOT {
            heap.root = rank;
        } else {
            self.keys[(place / 4) as usize].0[(place % 4) as usize] = rank;
        }
        order.links[slot_of(rank) as usize].a = place;
    }

    #[inline]
    fn parent(&self, place: u32) -> u32 {
        self.links[(place / 4) as usize].parent
    }

    fn append_chunk(&mut self, heap: &mut Heap) {
        let chunk = self.free;
        assert_ne!(chunk, NONE, "the pool holds a chunk for every second slot");
        self.free = self.links[chunk as usize].next;
        let (last, parent) = (heap.last, self.parent_of_next(heap));
        self.links[chunk as usize] = ChunkLinks {
            child: [NONE; 4],
            parent,
            prev: last,
            next: NONE,
        };
        if parent == ROOT {
            heap.first = chunk;
        } else {
            self.links[(parent / 4) as usize].child[(parent % 4) as usize] = chunk;
        }
        if last != NONE {
            self.links[last as usize].next = chunk;
        }
        heap.last = chunk;
    }

    /// The node after the last chunk's parent, in level order.
    fn parent_of_next(&self, heap: &Heap) -> u32 {
        if heap.last == NONE {
            return ROOT;
        }
        let parent = self.links[heap.last as usize].parent;
        if parent == ROOT {
            heap.first * 4
        } else if parent % 4 < 3 {
            parent + 1
        } else {
            self.links[(parent / 4) as usize].next * 4
        }
    }

    fn drop_last_chunk(&mut self, heap: &mut Heap) {
        let chunk = heap.last;
        let ChunkLinks { parent, prev, .. } = self.links[chunk as usize];
        if parent == ROOT {
            heap.first = NONE;
        } else {
            self.links[(parent / 4) as usize].child[(parent % 4) as usize] = NONE;
        }
        if prev != NONE {
            self.links[prev as usize].next = NONE;
        }
        heap.last = prev;
        self.links[chunk as usize].next = self.free;
        self.free = chunk;
    }

    /// Appends the best `count` entries to `best`, best first. O(k log k) for k entries; allocates.
    pub(super) fn best_first(
        &self,
        heap: &Heap,
        count: usize,
        order: &SlotOrder,
        best: &mut Vec<Rank>,
    ) {
        // What a tie is decided by stands beside the key, so that the entries order by themselves.
        let at = |place: u32| {
            let rank = self.key(heap, place);
            let seq = order.seq[slot_of(rank) as usize];
            (rank >> SLOT_BITS, Reverse(seq), place)
        };
        let mut open = BinaryHeap::new();
        if heap.len > 0 {
            open.push(at(ROOT));
        }
        for _ in 0..count {
            let Some((_, _, place)) = open.pop() else {
                return;
            };
            best.push(self.key(heap, place));
            let children = self.children(heap, place);
            let siblings = (0..4)
                .filter(|_| children != NONE)
                .map(|i| children * 4 + i);
            open.extend(siblings.filter(|&p| self.key(heap, p) != NO_KEY).map(at));
        }
    }

    /// The chunk of the children of the node at `place`, or [`NONE`].
    #[inline]
    fn children(&self, heap: &Heap, place: u32) -> u32 {
        if place == ROOT {
            heap.first
        } else {
            self.links[(place / 4) as usize].child[(place % 4) as usize]
        }
    }

    /// Asserts I3 and I4.
    pub(super) fn check(&self, heap: &Heap, order: &SlotOrder) {
        let mut found = u32::from(heap.len > 0);
        let mut chunk = heap.first;
        while chunk != NONE {
            let links = &self.links[chunk as usize];
            let above = self.key(heap, links.parent);
            for (index, &rank) in (0..).zip(&self.keys[chunk as usize].0) {
                if rank == NO_KEY {
                    assert_eq!(links.next, NONE, "I4: only the last chunk has gaps");
                    assert_eq!(
                        links.child[index as usize], NONE,
                        "I4: a gap has no children"
                    );
                    continue;
                }
                found += 1;
                assert!(
                    order.better(above, rank),
                    "I3: a node is better than its children"
                );
                assert_eq!(
                    order.links[slot_of(rank) as usize].a,
                    chunk * 4 + index,
                    "I3: its place"
                );
            }
            if links.next == NONE {
                assert_eq!(heap.last, chunk, "I4: the last chunk is the lane's last");
            }
            chunk = links.next;
        }
        assert_eq!(found, heap.len, "I4: every entry is reached");
        assert_eq!(heap.root == NO_KEY, heap.len == 0, "I3: the root is set");
    }
}
