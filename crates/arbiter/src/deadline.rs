//! The deadlines of waiting requests: an indexed binary heap (S11.1).
//!
//! Earliest deadline first, equal ones by intake. O(log n) in and out, also by slot; the next one
//! to expire is known in O(1), so requests that do not expire cost a sweep nothing.

use crate::order::NONE;

#[derive(Debug)]
pub(crate) struct Deadlines {
    /// By slot, while it has one: its deadline in nanoseconds.
    at: Vec<u64>,
    /// By slot: its place in the heap, or [`NONE`].
    place: Vec<u32>,
    heap: Vec<(u64, u32)>,
}

impl Deadlines {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            at: vec![0; slots],
            place: vec![NONE; slots],
            heap: Vec::with_capacity(slots),
        }
    }

    /// The deadline that was last set for `slot`.
    pub(crate) fn of(&self, slot: u32) -> u64 {
        self.at[slot as usize]
    }

    /// Remembers a deadline without watching it.
    pub(crate) fn set(&mut self, slot: u32, deadline: u64) {
        self.at[slot as usize] = deadline;
    }

    /// The next to expire: deadline and slot.
    #[inline]
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        self.heap.first().copied()
    }

    /// Watches `slot`'s deadline.
    pub(crate) fn watch(&mut self, slot: u32, seq: &[u64]) {
        debug_assert_eq!(self.place[slot as usize], NONE);
        self.heap.push((self.at[slot as usize], slot));
        self.rise(self.heap.len() - 1, seq);
    }

    /// Stops watching `slot`.
    pub(crate) fn forget(&mut self, slot: u32, seq: &[u64]) {
        let place = self.place[slot as usize] as usize;
        self.place[slot as usize] = NONE;
        let last = self.heap.pop().expect("a watched slot is in the heap");
        if place < self.heap.len() {
            self.heap[place] = last;
            self.rise(place, seq);
            let place = self.place[last.1 as usize] as usize;
            self.sink(place, seq);
        }
    }

    fn earlier(a: (u64, u32), b: (u64, u32), seq: &[u64]) -> bool {
        (a.0, seq[a.1 as usize]) < (b.0, seq[b.1 as usize])
    }

    fn rise(&mut self, mut place: usize, seq: &[u64]) {
        let entry = self.heap[place];
        while place > 0 {
            let above = self.heap[(place - 1) / 2];
            if !Self::earlier(entry, above, seq) {
                break;
            }
            self.put(place, above);
            place = (place - 1) / 2;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize, seq: &[u64]) {
        let entry = self.heap[place];
        loop {
            let mut child = 2 * place + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len()
                && Self::earlier(self.heap[child + 1], self.heap[child], seq)
            {
                child += 1;
            }
            if !Self::earlier(self.heap[child], entry, seq) {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (u64, u32)) {
        self.heap[place] = entry;
        self.place[entry.1 as usize] =
            u32::try_from(place).expect("slots are bounded by SLOTS_MAX");
    }

    /// Asserts the heap order, and that `watched` slots are in it.
    pub(crate) fn check(&self, watched: u64, seq: &[u64]) {
        assert_eq!(
            self.heap.len() as u64,
            watched,
            "every waiting deadline is watched"
        );
        for (place, &entry) in self.heap.iter().enumerate() {
            assert_eq!(self.place[entry.1 as usize] as usize, place);
            assert!(place == 0 || !Self::earlier(entry, self.heap[(place - 1) / 2], seq));
        }
    }
}
