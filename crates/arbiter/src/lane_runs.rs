//! Runs of lanes: for each class and egress group, open exact lanes in the order of their heads.
//!
//! With keys that follow the clock a lane that opens has nearly always the worst head of all, and the
//! best one is the next to go; and often only a few lanes are open. A doubly linked list takes the best
//! out in O(1), where a tree has to look again at each node up to its root, and takes in what belongs at
//! its front, at its end or a few steps before. Other heads stand in the tree beside it.
//!
//! Invariants:
//! - R1. A run is sorted: each lane's rank is better than the next one's.
//! - R2. A lane that is in no run has the rank [`NO_KEY`] here.

use crate::order::{NO_KEY, NONE, Rank, SlotOrder};

/// A lane's place in its run.
#[derive(Clone, Copy, Debug)]
struct Node {
    rank: Rank,
    better: u32,
    worse: u32,
}

/// How far from a run's end a lane may belong and still be linked in there.
pub(crate) const REACH: u32 = 8;

/// A run's first and last lane, or [`NONE`].
#[derive(Clone, Copy, Debug)]
struct Ends {
    best: u32,
    last: u32,
}

#[derive(Debug)]
pub(crate) struct LaneRuns {
    /// By class and group.
    ends: Vec<Ends>,
    /// By lane.
    nodes: Vec<Node>,
}

impl LaneRuns {
    pub(crate) fn new(runs: usize, lanes: usize) -> Self {
        let ends = Ends {
            best: NONE,
            last: NONE,
        };
        let node = Node {
            rank: NO_KEY,
            better: NONE,
            worse: NONE,
        };
        Self {
            ends: vec![ends; runs],
            nodes: vec![node; lanes],
        }
    }

    /// The rank with which a lane stands in its run; [`NO_KEY`] if it does not.
    #[inline]
    pub(crate) fn rank(&self, lane: u32) -> Rank {
        self.nodes[lane as usize].rank
    }

    #[inline]
    pub(crate) fn is_empty(&self, run: usize) -> bool {
        self.ends[run].best == NONE
    }

    /// The best rank of a run.
    #[inline]
    pub(crate) fn best(&self, run: usize) -> Rank {
        match self.ends[run].best {
            NONE => NO_KEY,
            lane => self.nodes[lane as usize].rank,
        }
    }

    /// Appends a lane that is in no run, if its rank is worse than all of the run's; whether it is the
    /// best as well.
    #[inline(always)]
    pub(crate) fn append(
        &mut self,
        run: usize,
        lane: u32,
        rank: Rank,
        order: &SlotOrder,
    ) -> Option<bool> {
        let ends = &mut self.ends[run];
        let last = ends.last;
        if last == NONE {
            ends.best = lane;
        } else {
            let before = &mut self.nodes[last as usize];
            if !order.better(before.rank, rank) {
                return None;
            }
            before.worse = lane;
        }
        ends.last = lane;
        self.nodes[lane as usize] = Node {
            rank,
            better: last,
            worse: NONE,
        };
        Some(last == NONE)
    }

    /// Puts a lane that is better than the run's last one where it belongs, if that is the front or at
    /// most `reach` steps from the end; whether it is the best then. O(reach).
    #[inline(never)]
    pub(crate) fn insert(
        &mut self,
        run: usize,
        lane: u32,
        rank: Rank,
        reach: u32,
        order: &SlotOrder,
    ) -> Option<bool> {
        let Ends { best, last } = self.ends[run];
        if order.better(rank, self.nodes[best as usize].rank) {
            self.ends[run].best = lane;
            self.nodes[best as usize].better = lane;
            self.nodes[lane as usize] = Node {
                rank,
                better: NONE,
                worse: best,
            };
            return Some(true);
        }
        let mut worse = last;
        for _ in 0..reach {
            let better = self.nodes[worse as usize].better;
            if order.better(self.nodes[better as usize].rank, rank) {
                self.nodes[better as usize].worse = lane;
                self.nodes[worse as usize].better = lane;
                self.nodes[lane as usize] = Node {
                    rank,
                    better,
                    worse,
                };
                return Some(false);
            }
            worse = better;
        }
        None
    }

    /// Takes a lane out of the run that it is in; whether it was the best.
    #[inline(always)]
    pub(crate) fn remove(&mut self, run: usize, lane: u32) -> bool {
        let node = &mut self.nodes[lane as usize];
        let Node { better, worse, .. } = *node;
        node.rank = NO_KEY;
        let ends = &mut self.ends[run];
        if worse == NONE {
            ends.last = better;
        } else {
            self.nodes[worse as usize].better = better;
        }
        if better == NONE {
            ends.best = worse;
        } else {
            self.nodes[better as usize].worse = worse;
        }
        better == NONE
    }

    /// Takes those lanes out of a run that `keep` refuses. O(run).
    pub(crate) fn retain(&mut self, run: usize, mut keep: impl FnMut(u32, Rank) -> bool) {
        let mut at = self.ends[run].best;
        let (mut best, mut last) = (NONE, NONE);
        while at != NONE {
            let node = &mut self.nodes[at as usize];
            let worse = node.worse;
            if keep(at, node.rank) {
                (node.better, node.worse) = (last, NONE);
                if last == NONE {
                    best = at;
                } else {
                    self.nodes[last as usize].worse = at;
                }
                last = at;
            } else {
                node.rank = NO_KEY;
            }
            at = worse;
        }
        self.ends[run] = Ends { best, last };
    }

    #[cfg(test)]
    pub(crate) fn count(&self, run: usize) -> usize {
        let (mut count, mut at) = (0, self.ends[run].best);
        while at != NONE {
            count += 1;
            at = self.nodes[at as usize].worse;
        }
        count
    }

    /// Asserts R1 for a run.
    pub(crate) fn check(&self, run: usize, order: &SlotOrder) {
        let (mut before, mut at) = (NONE, self.ends[run].best);
        while at != NONE {
            let node = self.nodes[at as usize];
            assert_eq!(node.better, before, "R1: a run is linked both ways");
            assert_ne!(node.rank, NO_KEY, "R2");
            if before != NONE {
                let rank = self.nodes[before as usize].rank;
                assert!(order.better(rank, node.rank), "R1: a run is sorted");
            }
            (before, at) = (at, node.worse);
        }
        assert_eq!(self.ends[run].last, before, "R1: the last one is known");
    }
}
