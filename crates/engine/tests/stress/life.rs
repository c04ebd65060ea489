//! One life of an engine: threads around it, and how it ends.

use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use tollgate::stats::{EgressSnapshot, IngressSnapshot};
use tollgate::{
    Built, ClassState, Closed, EgressShard, Endpoint, EndpointState, Engine, Handles, Idle,
    IngressShard, ModelIndex, Receipt, Refusal, Room,
};

use crate::churn::{Churn, calm, workers};
use crate::draws::Draws;
use crate::egress::Receiver;
use crate::ingress::{Life, Submitter};
use crate::ledger::Slip;
use crate::plan::{Plan, SECOND_MODEL, STEADY, policy};
use crate::tally::{Count, Tally};

const INGRESS: usize = 4;
const EGRESS: usize = 2;
/// Live requests of a model and an ingress shard.
const SLOTS: usize = 64;
/// Longer than any hiccup of the machine.
const FOR_EVER: Duration = Duration::from_secs(60);

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// When everything is done.
    Done,
    /// In the middle, with so much time to go on.
    Stop(Duration),
    /// In the middle, by dropping the engine.
    Drop,
}

#[expect(clippy::disallowed_methods, reason = "a test's own watch")]
fn now() -> Instant {
    Instant::now()
}

/// Waits until `done`, which must come true.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = now();
    while !done() {
        assert!(begun.elapsed() < FOR_EVER, "{what}: it never comes");
        std::thread::yield_now();
    }
}

/// Lives once, with so many requests.
pub(crate) fn live(seed: u64, number: usize, requests: usize) -> Tally {
    let draws = &mut Draws::new(seed, number as u64);
    let end = match number % 4 {
        0 | 2 => End::Done,
        1 => End::Stop(Duration::from_micros(draws.pick(&[0, 200, 20_000]))),
        _ => End::Drop,
    };
    // Beside the requests of the threads, one for each slot at the end.
    let life = &Life::new(requests + INGRESS * SLOTS);
    let Built {
        engine,
        ingress,
        egress,
        ..
    } = build(draws);
    let handles = engine.handles().clone();
    let mut tally = Tally::default();
    let ingress = std::thread::scope(|scope| {
        let receivers = receive(scope, egress, life, &handles, draws);
        let submitters = submit(scope, ingress, life, &handles, draws, requests);
        let churn = Churn {
            control: handles.control(),
            stats: handles.stats(),
            life,
            draws: Draws::new(draws.next(), 0),
            tally: Tally::default(),
            season: number,
        };
        let churn = scope.spawn(move || churn.run());

        if end != End::Done {
            let half = requests / 2;
            wait_until("half of it", || life.made.load(Ordering::Relaxed) >= half);
            stop(engine, end, life);
            life.is_over.store(true, Ordering::Relaxed);
            tally.merge(&churn.join().expect("changes"));
            let ingress = join(submitters, &mut tally);
            finish(receivers, &mut tally);
            return ingress;
        }
        let mut ingress = join(submitters, &mut tally);
        life.is_over.store(true, Ordering::Relaxed);
        tally.merge(&churn.join().expect("changes"));
        calm(&handles.control()).expect("all is known");
        wait_until_all_is_over(life);
        check_nothing_is_left(&handles);
        take_every_slot(&mut ingress, &handles, life, &mut tally);
        check_nothing_is_left(&handles);
        stop(engine, End::Stop(Duration::ZERO), life);
        finish(receivers, &mut tally);
        ingress
    });
    check_figures(&handles, &mut tally);
    for mut shard in ingress {
        while let Some((_, slip)) = shard.take_back() {
            life.ledger.taken_back(&slip);
            tally.add(Count::TakenBack, 1);
        }
    }
    life.ledger.audit(life.made.load(Ordering::Relaxed));
    tally
}

fn build(draws: &mut Draws) -> Built<Slip> {
    let idle = draws.pick(&[
        Idle::Park,
        Idle::default(),
        Idle::SpinThenPark {
            spins: 50,
            yields: 2,
        },
        Idle::Spin,
    ]);
    let builder = Engine::builder(policy(0))
        .model("second", policy(0))
        .ingress_shards(INGRESS)
        .egress_shards(EGRESS)
        .slots(SLOTS * INGRESS)
        .ring(draws.pick(&[16, 64, 256]))
        .dispatch_ring(draws.pick(&[4, 8, 64]))
        .feedback_ring(draws.pick(&[2, 4, 64]))
        .extension_ring(draws.pick(&[133, 256]))
        .extension_blocks(INGRESS * draws.pick(&[128, 256]))
        .classes(12)
        .workers(16)
        .endpoints(64)
        .seed(draws.next())
        .idle(idle);
    let built = builder.build();
    let built: Built<Slip> = built.unwrap_or_else(|errors| panic!("{errors}"));
    for (model, worker) in workers() {
        let control = built.engine.control();
        control.upsert_worker(model, worker).expect("there is room");
    }
    built
}

type Submitters<'scope> = Vec<ScopedJoinHandle<'scope, (IngressShard<Slip>, Tally)>>;
type Receivers<'scope> = Vec<ScopedJoinHandle<'scope, (Closed, Tally)>>;

/// A thread for each egress shard, and one that has no shard.
fn receive<'scope>(
    scope: &'scope Scope<'scope, '_>,
    egress: Vec<EgressShard<Slip>>,
    life: &'scope Life,
    handles: &Handles,
    draws: &mut Draws,
) -> Receivers<'scope> {
    let (elsewhere, told) = channel::<Receipt>();
    let receivers = egress.into_iter().map(|shard| {
        let receiver = Receiver {
            shard,
            life,
            releases: handles.releases(),
            elsewhere: elsewhere.clone(),
            draws: Draws::new(draws.next(), 0),
            tally: Tally::default(),
            running: Vec::new(),
            released: Vec::new(),
        };
        scope.spawn(move || receiver.run())
    });
    let receivers = receivers.collect();
    let releases = handles.releases();
    scope.spawn(move || {
        for receipt in told {
            releases.prefill_done(receipt);
            releases.complete(receipt);
        }
    });
    receivers
}

fn submit<'scope>(
    scope: &'scope Scope<'scope, '_>,
    ingress: Vec<IngressShard<Slip>>,
    life: &'scope Life,
    handles: &Handles,
    draws: &mut Draws,
    requests: usize,
) -> Submitters<'scope> {
    let each = requests / INGRESS;
    let submitters = ingress.into_iter().enumerate().map(|(at, shard)| {
        let submitter = Submitter {
            shard,
            life,
            clock: handles.clock(),
            releases: handles.releases(),
            draws: Draws::new(draws.next(), 0),
            tally: Tally::default(),
            numbers: at * each..(at + 1) * each,
            tickets: Vec::new(),
        };
        scope.spawn(move || submitter.run())
    });
    submitters.collect()
}

fn stop(engine: Engine<Slip>, end: End, life: &Life) {
    life.ledger.stop();
    match end {
        End::Done => unreachable!("it is told to stop once it is done"),
        End::Stop(drain) => {
            assert_eq!(engine.control().stop(drain), Ok(()));
            assert_eq!(engine.join(), Ok(()));
        }
        End::Drop => drop(engine),
    }
}

fn join(submitters: Submitters<'_>, tally: &mut Tally) -> Vec<IngressShard<Slip>> {
    let submitters = submitters.into_iter().map(|submitter| {
        let (shard, submitted) = submitter.join().expect("submissions");
        tally.merge(&submitted);
        shard
    });
    submitters.collect()
}

fn finish(receivers: Receivers<'_>, tally: &mut Tally) {
    for receiver in receivers {
        let (closed, received) = receiver.join().expect("deliveries");
        assert_eq!(closed, Closed::Stopped);
        tally.merge(&received);
    }
}

/// Whether nothing waits, runs or is booked.
fn is_idle(handles: &Handles, model: ModelIndex) -> bool {
    let state = handles.control().snapshot(model, 1).expect("it runs");
    let is_idle = |class: &ClassState| {
        [
            class.waiting,
            class.raw_isl_tokens,
            class.cached_tokens,
            class.outstanding,
        ] == [0; 4]
    };
    let is_free = |endpoint: &EndpointState| {
        [
            endpoint.booked_tokens,
            endpoint.reported_tokens,
            endpoint.active,
        ] == [0; 3]
    };
    state.waiting == 0
        && state.outstanding == 0
        && state.classes.iter().all(is_idle)
        && state.endpoints.iter().all(is_free)
}

/// What was released last may still be on its way.
fn check_nothing_is_left(handles: &Handles) {
    for model in [ModelIndex(0), SECOND_MODEL] {
        wait_until("nothing is booked", || is_idle(handles, model));
    }
}

/// Every slot of every shard is free again: all are taken at once, by requests that wait.
fn take_every_slot(
    ingress: &mut [IngressShard<Slip>],
    handles: &Handles,
    life: &Life,
    tally: &mut Tally,
) {
    let model = ModelIndex(0);
    let (control, endpoint) = (handles.control(), Endpoint::new(STEADY[0], 0));
    control.set_load(model, endpoint, 1_000_000).expect("known");
    let mut numbers = life.ledger.spare(ingress.len() * SLOTS);
    for shard in ingress {
        for number in numbers.by_ref().take(SLOTS) {
            let plan = Plan::pinned_to_the_first();
            life.made.fetch_add(1, Ordering::Relaxed);
            let mut request = plan.request(life.ledger.submit(number, &plan));
            while let Err(refused) = shard.try_submit(request) {
                assert_eq!(refused.reason, Refusal::Full { what: Room::Ring });
                tally.add(Count::Full(Room::Ring), 1);
                request = refused.request;
                std::thread::yield_now();
            }
            tally.add(Count::Accepted, 1);
        }
    }
    wait_until("all of them wait", || {
        let state = control.snapshot(model, 0).expect("it runs");
        state.waiting == (INGRESS * SLOTS) as u64
    });
    control.set_load(model, endpoint, 0).expect("known");
    wait_until_all_is_over(life);
}

fn wait_until_all_is_over(life: &Life) {
    wait_until("an end for everything", || {
        life.ledger.finals() == life.made.load(Ordering::Relaxed)
    });
}

/// What the engine counted is what its threads counted.
fn check_figures(handles: &Handles, tally: &mut Tally) {
    let stats = handles.stats().read();
    let submitted = |of: fn(&IngressSnapshot) -> u64| -> u64 { stats.ingress.iter().map(of).sum() };
    let received = |of: fn(&EgressSnapshot) -> u64| -> u64 { stats.egress.iter().map(of).sum() };
    let full: u64 = Room::ALL
        .iter()
        .map(|&what| tally.of(Count::Full(what)))
        .sum();
    assert_eq!(submitted(|shard| shard.accepted), tally.of(Count::Accepted));
    assert_eq!(submitted(|shard| shard.refused_full), full);
    assert_eq!(
        submitted(|shard| shard.refused_invalid),
        tally.of(Count::RefusedInvalid)
    );
    assert_eq!(
        submitted(|shard| shard.refused_closed),
        tally.of(Count::RefusedClosed)
    );
    assert_eq!(received(|shard| shard.delivered), tally.of(Count::Dispatch));
    assert_eq!(received(|shard| shard.outcomes), tally.outcomes());
    assert_eq!(received(|shard| shard.returned), tally.of(Count::Returned));
    assert_eq!(received(|shard| shard.lost), 0);
    let mail = submitted(|shard| shard.cancels_by_mail) + received(|shard| shard.releases_by_mail);
    tally.add(Count::Mail, mail);
    tally.add(Count::Outboxed, received(|shard| shard.outboxed));
    tally.add(Count::Reopening, received(|shard| shard.reopenings));
    tally.add(Count::UnknownName, submitted(|shard| shard.unknown_names));
    tally.add(Count::Park, stats.core.parks);
    tally.add(Count::Stale, stats.core.stale);
}
