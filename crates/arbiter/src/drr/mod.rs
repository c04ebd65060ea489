//! Deficit Round Robin over the classes (S6).
//!
//! The ring is a circular linked list over class indices, with each class's credit and candidate cost
//! in its node: ending a turn is O(1), the front's is no more than going on to the next, and a pass
//! reads one array. Which entry a candidate is, and whether
//! its lane is open, is the arbiter's business; here a class has a cost or none.

pub(crate) mod exact;
pub(crate) mod page;

const NONE: u16 = u16::MAX;
/// No slot is remembered.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// One class in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Credit in uncached tokens (S6.2); saturates.
    pub(crate) deficit: u64,
    pub(crate) quantum: u64,
    /// The cost of its candidate; 0 while it has none.
    pub(crate) cost: u32,
    /// The candidate's slot.
    slot: u32,
    /// The slot that was its candidate when its turn last opened, or [`NO_SLOT`] (S6.6).
    pub(crate) remembered: u32,
    prev: u16,
    next: u16,
    pub(crate) open: bool,
}

impl Node {
    const fn new(quantum: u64) -> Self {
        Self {
            deficit: 0,
            quantum,
            cost: 0,
            slot: NO_SLOT,
            remembered: NO_SLOT,
            prev: NONE,
            next: NONE,
            open: false,
        }
    }

    /// What a turn that opens brings: the quantum (S6.5), and the candidate is remembered (S6.6).
    #[inline]
    const fn grant(&mut self) {
        self.deficit = self.deficit.saturating_add(self.quantum);
        self.remembered = self.slot;
    }
}

/// The classes in ring order.
#[derive(Debug)]
pub(crate) struct Ring {
    nodes: Vec<Node>,
    front: u16,
    len: u16,
    /// Classes with a candidate.
    candidates: u16,
    /// Classes whose turn is open.
    open: u16,
    /// State of `page` (S6.8).
    pub(crate) cursor: u16,
    pub(crate) holder: u16,
}

impl Ring {
    pub(crate) fn new(classes: usize) -> Self {
        Self {
            nodes: vec![Node::new(1); classes],
            front: NONE,
            len: 0,
            candidates: 0,
            open: 0,
            cursor: NONE,
            holder: NONE,
        }
    }

    #[inline]
    pub(crate) fn node(&self, class: usize) -> &Node {
        &self.nodes[class]
    }

    pub(crate) fn set_quantum(&mut self, class: usize, quantum: u64) {
        self.nodes[class].quantum = quantum;
    }

    pub(crate) fn set_deficit(&mut self, class: usize, deficit: u64) {
        self.nodes[class].deficit = deficit;
    }

    /// Sets a class's candidate, by slot and cost; a cost of 0 is none.
    #[inline]
    pub(crate) fn set_candidate(&mut self, class: usize, slot: u32, cost: u32) {
        let node = &mut self.nodes[class];
        self.candidates = self.candidates + u16::from(cost > 0) - u16::from(node.cost > 0);
        (node.slot, node.cost) = (slot, cost);
    }

    /// A class pays its candidate, which is `slot`.
    #[inline]
    pub(crate) fn charge(&mut self, class: usize, slot: u32) {
        let node = &mut self.nodes[class];
        node.deficit -= u64::from(node.cost);
        if node.remembered == slot {
            node.remembered = NO_SLOT;
        }
    }

    /// Forgets the remembered slot of a class if it is `slot`; whether it was (S6.6).
    #[inline]
    pub(crate) fn forget(&mut self, class: usize, slot: u32) -> bool {
        let remembered = &mut self.nodes[class].remembered;
        let found = *remembered == slot;
        if found {
            *remembered = NO_SLOT;
        }
        found
    }

    /// Sets where a class stands whose turn is closed: its credit, its turn, and what it remembers.
    pub(crate) fn resume(&mut self, class: usize, deficit: u64, open: bool, remembered: u32) {
        let node = &mut self.nodes[class];
        debug_assert!(!node.open, "a class that has just joined");
        (node.deficit, node.open, node.remembered) = (deficit, open, remembered);
        self.open += u16::from(open);
    }

    /// Appends a class, with no credit and its turn closed.
    pub(crate) fn join(&mut self, class: u16, quantum: u64) {
        self.nodes[class as usize] = Node::new(quantum);
        self.link_back(class);
        self.len += 1;
        if self.cursor == NONE {
            self.cursor = class;
        }
    }

    /// Takes an empty class out.
    pub(crate) fn leave(&mut self, class: u16) {
        self.close(class);
        self.set_candidate(class as usize, NO_SLOT, 0);
        if self.cursor == class {
            self.cursor = self.after(class);
        }
        if self.holder == class {
            self.holder = NONE;
        }
        self.unlink(class);
        self.len -= 1;
        if self.len == 0 {
            self.cursor = NONE;
        }
    }

    #[inline]
    fn close(&mut self, class: u16) {
        let node = &mut self.nodes[class as usize];
        self.open -= u16::from(node.open);
        node.open = false;
    }

    /// Ends a turn: closes it, whether or not it was open, and moves the class to the end (S6).
    #[inline]
    pub(crate) fn end_turn(&mut self, class: u16) {
        self.close(class);
        self.move_back(class);
    }

    #[inline]
    fn move_back(&mut self, class: u16) {
        if self.front == class {
            self.front = self.nodes[class as usize].next;
        } else {
            self.unlink(class);
            self.link_back(class);
        }
    }

    /// A class that held on in `page` does so no longer (S6.8).
    pub(crate) fn release(&mut self, class: u16) {
        if self.holder == class {
            self.holder = NONE;
        }
    }

    /// Back to `order`, all turns closed, no holder, nothing remembered: for a change of
    /// arbitration (S3.7).
    pub(crate) fn restart(&mut self, order: impl Iterator<Item = u16>) {
        self.front = NONE;
        for class in order {
            self.close(class);
            self.nodes[class as usize].remembered = NO_SLOT;
            self.link_back(class);
        }
        self.cursor = self.front;
        self.holder = NONE;
    }

    fn link_back(&mut self, class: u16) {
        let front = self.front;
        if front == NONE {
            let node = &mut self.nodes[class as usize];
            (node.prev, node.next) = (class, class);
            self.front = class;
            return;
        }
        let back = std::mem::replace(&mut self.nodes[front as usize].prev, class);
        self.nodes[back as usize].next = class;
        let node = &mut self.nodes[class as usize];
        (node.prev, node.next) = (back, front);
    }

    fn unlink(&mut self, class: u16) {
        let Node { prev, next, .. } = self.nodes[class as usize];
        self.nodes[prev as usize].next = next;
        self.nodes[next as usize].prev = prev;
        if self.front == class {
            self.front = if next == class { NONE } else { next };
        }
    }

    /// The next class around the ring.
    fn after(&self, class: u16) -> u16 {
        self.nodes[class as usize].next
    }

    /// The classes in ring order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> {
        let mut class = self.front;
        (0..self.len).map(move |_| {
            let here = class;
            class = self.nodes[here as usize].next;
            here
        })
    }

    /// `min ceil((cost - deficit) / quantum)` over the classes with a candidate, none of which can
    /// pay.
    fn rounds(&self) -> u64 {
        self.iter()
            .map(|class| &self.nodes[class as usize])
            .filter(|node| node.cost > 0)
            .map(|node| (u64::from(node.cost) - node.deficit).div_ceil(node.quantum))
            .min()
            .unwrap_or(0)
    }

    fn grant_all(&mut self, rounds: u64) {
        let mut class = self.front;
        for _ in 0..self.len {
            let node = &mut self.nodes[class as usize];
            if node.cost > 0 {
                let gain = node.quantum.saturating_mul(rounds);
                node.deficit = node.deficit.saturating_add(gain);
            }
            class = node.next;
        }
    }

    /// Asserts that the list, its length and the counts agree.
    pub(crate) fn check(&self) {
        let (mut open, mut candidates) = (0, 0);
        let mut last = NONE;
        for class in self.iter() {
            let node = &self.nodes[class as usize];
            let next = &self.nodes[node.next as usize];
            assert_eq!(next.prev, class, "the ring is linked both ways");
            assert!(
                last == NONE || class != self.front,
                "each class is in the ring once"
            );
            open += u16::from(node.open);
            candidates += u16::from(node.cost > 0);
            last = class;
        }
        assert!(
            last == NONE || self.after(last) == self.front,
            "the ring has as many classes as it counts"
        );
        assert_eq!((open, candidates), (self.open, self.candidates));
    }
}

/// A pick: the class, as an index into the ring.
pub(crate) type Pick = Option<u16>;

#[inline]
fn can_pay(node: &Node) -> bool {
    u64::from(node.cost) <= node.deficit
}
