//! What goes wrong in schedulers, gateways and routers of this kind, each as a small scenario.

#[path = "../common/mod.rs"]
mod common;

mod accounts;
mod churn;
mod fairness;
mod limits;

use common::{World, classes};

pub(crate) fn blocked_lane() -> World {
    let mut world = World::with_worker(&classes(&["a quantum: 100, prefill_busy_threshold: 0"]));
    world.load(1, 0, 1);
    world
}

/// `SplitMix64`, below `bound`.
pub(crate) fn draw(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) % bound
}

pub(crate) fn tokens_of(world: &World, class: &str) -> u64 {
    world.class(class).counters.charged_tokens
}
