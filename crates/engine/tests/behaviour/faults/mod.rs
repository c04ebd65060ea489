//! What goes wrong in queues, gateways and schedulers of this kind, each as a small scenario on the
//! engine: lost wake-ups, orphaned work, leaks, ways to hold up others.

mod accounts;
mod control;
mod cores;
mod embedders;
mod holdups;
mod measure;
mod rings;
mod scale;
mod wake;

use std::time::{Duration, Instant};

use tollgate::policy::Profile;
use tollgate::{
    Builder, ByHand, Clock, Delivery, Dispatch, EgressShard, Engine, ManualClock, Nanos,
};

/// Longer than any hiccup of the machine: who waits so long waits for ever.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(30);

#[expect(clippy::disallowed_methods, reason = "a test's own watch")]
pub(crate) fn now() -> Instant {
    Instant::now()
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
