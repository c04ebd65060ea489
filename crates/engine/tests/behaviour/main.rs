//! What the engine does, seen from outside, in one program, so that it is linked once. What needs a
//! process of its own (allocations, leaks, the long run on real threads) stands beside it.

mod builder;
mod by_hand;
mod common;
mod control;
mod doorway;
mod egress_full;
mod faults;
mod feedback;
mod journal;
mod lifecycle;
mod lost_egress;
mod mirror;
mod placement;
mod selectors;
