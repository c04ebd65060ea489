//! What goes wrong in queues, gateways and schedulers of this kind, each as a small scenario on the
//! engine: lost wake-ups, orphaned work, leaks, ways to hold up others.

mod accounts;
mod control;
mod holdups;
mod rings;
mod wake;

use std::time::{Duration, Instant};

use tollgate::policy::{PolicyFile, Profile};
use tollgate::{
    Builder, ByHand, Clock, Delivery, Dispatch, EgressShard, Engine, ManualClock, Nanos,
};

/// Longer than any hiccup of the machine: who waits so long waits for ever.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(30);

#[expect(clippy::disallowed_methods, reason = "a test's own watch")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// A profile of classes, each a family of its own, written as `name key: value, key: value`; the
/// first is the default family.
pub(crate) fn classes(lines: &[&str]) -> Profile {
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let mut text = format!(
        "default_policy_family: {}\nuncached_isl_buckets: [{{min_tokens: 0, bucket: all}}]\n\
         policy_classes:\n",
        name(lines[0])
    );
    for line in lines {
        let (name, keys) = line.split_once(' ').expect("a name and its keys");
        text.push_str(&format!(
            "- {{name: {name}, policy_family: {name}, cache_bucket: all, {keys}}}\n"
        ));
    }
    let file = PolicyFile::parse("test.yaml", text.as_bytes());
    file.unwrap_or_else(|errors| panic!("{errors}"))
        .profile(None)
        .clone()
}

/// A builder of a small engine with one class that always waits for room alone.
pub(crate) fn small() -> Builder {
    Engine::builder(Profile::synthetic(None))
        .slots(64)
        .extension_blocks(1_024)
        .workers(16)
        .endpoints(16)
        .classes(4)
}

/// By hand, with a clock that the test moves.
pub(crate) fn by_hand<P>(builder: Builder) -> (ByHand<P>, ManualClock) {
    let (clock, hand) = Clock::manual();
    let built = builder.clock(clock).build_by_hand();
    (built.unwrap_or_else(|errors| panic!("{errors}")), hand)
}

/// One turn, a microsecond after the last.
pub(crate) fn turn<P>(built: &mut ByHand<P>, hand: &ManualClock) -> tollgate::TurnReport {
    hand.advance(Nanos::from_micros(1));
    let now = built.handles.clock().now();
    built.core.turn(now)
}

pub(crate) fn dispatch<P: std::fmt::Debug>(delivery: Option<Delivery<P>>) -> Dispatch<P> {
    match delivery {
        Some(Delivery::Dispatch(dispatch)) => dispatch,
        other => panic!("a dispatch was to come, not {other:?}"),
    }
}

/// The next delivery, which must come.
pub(crate) fn must_recv<P>(egress: &mut EgressShard<P>) -> Delivery<P> {
    let delivery = egress.recv_timeout(FOR_EVER);
    let delivery = delivery.unwrap_or_else(|closed| panic!("{closed}"));
    delivery.expect("nothing comes any more: a wake-up was lost")
}

/// `SplitMix64`, below `bound`.
pub(crate) fn draw(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) % bound
}
