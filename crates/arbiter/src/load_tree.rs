//! A winner tree over the endpoints that no class-wide reason keeps out, by standing score (S10.3).
//!
//! The winner has the lowest score; ties go to the endpoint dispatched to longest ago, then, among
//! those never used, to the lowest (worker, rank). A change is carried up while it matters.

use crate::endpoints::Endpoints;

#[derive(Debug)]
pub(crate) struct LoadTree {
    /// A binary tree; leaves from `leaves` on. Endpoint number + 1, or 0.
    nodes: Vec<u32>,
    scores: Vec<u128>,
    leaves: usize,
}

impl LoadTree {
    pub(crate) fn new(endpoints: usize) -> Self {
        let leaves = endpoints.next_power_of_two();
        Self {
            nodes: vec![0; 2 * leaves],
            scores: vec![0; endpoints],
            leaves,
        }
    }

    /// The best endpoint of all.
    #[inline]
    pub(crate) fn best(&self) -> Option<u32> {
        self.nodes[1].checked_sub(1)
    }

    /// Puts an endpoint in with a new score or last use, or takes it out.
    pub(crate) fn update(&mut self, number: u32, score: Option<u128>, endpoints: &Endpoints) {
        let mut at = self.leaves + number as usize;
        self.nodes[at] = if score.is_some() { number + 1 } else { 0 };
        if let Some(score) = score {
            self.scores[number as usize] = score;
        }
        while at > 1 {
            let winner = self.winner(self.nodes[at & !1], self.nodes[at | 1], endpoints);
            at /= 2;
            if self.nodes[at] == winner && winner != number + 1 {
                return;
            }
            self.nodes[at] = winner;
        }
    }

    fn winner(&self, a: u32, b: u32, endpoints: &Endpoints) -> u32 {
        match (a, b) {
            (0, other) | (other, 0) => other,
            (a, b) if self.precedes(b - 1, a - 1, endpoints) => b,
            (a, _) => a,
        }
    }

    fn precedes(&self, a: u32, b: u32, endpoints: &Endpoints) -> bool {
        let (score_a, score_b) = (self.scores[a as usize], self.scores[b as usize]);
        score_a < score_b || score_a == score_b && used_before(a, b, endpoints)
    }

    /// Asserts that every inner node is the winner of its children.
    pub(crate) fn check(&self, endpoints: &Endpoints) {
        for at in 1..self.leaves {
            let winner = self.winner(self.nodes[2 * at], self.nodes[2 * at + 1], endpoints);
            assert_eq!(
                self.nodes[at], winner,
                "an inner node is the winner of its children"
            );
        }
    }
}

/// The tie-break of S10.1: dispatched to longest ago, never-used first, then lowest (worker, rank).
pub(crate) fn used_before(a: u32, b: u32, endpoints: &Endpoints) -> bool {
    let (slot_a, slot_b) = (endpoints.slot(a), endpoints.slot(b));
    (slot_a.last_use, slot_a.endpoint) < (slot_b.last_use, slot_b.endpoint)
}
