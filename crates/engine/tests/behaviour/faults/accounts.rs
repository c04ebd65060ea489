//! Bookings that leak, are released twice, or belong to somebody else.

use tollgate::{
    ByHand, Command, Dispatch, Done, Endpoint, EndpointState, ManualClock, ModelIndex, Receipt,
    Request, State, Worker, WorkerId,
};

use super::{by_hand, dispatch, small, turn};
use crate::common::classes;
use crate::common::draw::Draw;

const MODEL: ModelIndex = ModelIndex(0);

fn execute<P>(built: &mut ByHand<P>, command: Command) -> Done {
    let done = built.core.execute(&built.handles.control(), command);
    done.unwrap_or_else(|error| panic!("{error}"))
}

fn state<P>(built: &mut ByHand<P>) -> State {
    let command = Command::Snapshot {
        model: MODEL,
        entries_per_lane: 0,
    };
    match execute(built, command) {
        Done::State(state) => *state,
        done => panic!("a state was to come, not {done:?}"),
    }
}

fn endpoint<P>(built: &mut ByHand<P>, worker: u64) -> EndpointState {
    let state = state(built);
    let mut endpoints = state.endpoints.into_iter();
    let found = endpoints.find(|endpoint| endpoint.endpoint == Endpoint::new(worker, 0));
    found.expect("a known worker")
}

/// Prefill tokens and active requests.
fn load<P>(built: &mut ByHand<P>, worker: u64) -> (u64, u64) {
    let endpoint = endpoint(built, worker);
    (endpoint.prefill_tokens, endpoint.active)
}

fn submit(built: &mut ByHand<u64>, hand: &ManualClock, tokens: u32) -> Dispatch<u64> {
    built.ingress[0]
        .try_submit(Request::new(tokens, 0))
        .expect("there is room");
    turn(built, hand);
    dispatch(built.egress[0].try_recv().expect("open"))
}

/// Many requests over four workers, three in ten given up before their prefill: nothing stays booked,
/// and a fifth worker shares what comes next within the threshold.
#[test]
fn requests_that_are_given_up_leave_nothing_booked() {
    let profile = classes(&["a quantum: 100, prefill_busy_threshold: 3000"]);
    let builder = tollgate::Engine::builder(profile).slots(2_048).ring(2_048);
    let builder = (1..=4).fold(builder.dispatch_ring(2_048), |builder, id| {
        builder.worker(Worker::new(id))
    });
    let (mut built, hand) = by_hand::<u64>(builder);
    let mut draws = Draw(5);
    let mut most = 0;
    for half in 0..2 {
        for payload in 0..1_000 {
            let tokens = 1 + draws.small(100);
            built.ingress[0]
                .try_submit(Request::new(tokens, payload))
                .expect("there is room");
        }
        let mut left = 1_000;
        while left > 0 {
            turn(&mut built, &hand);
            for endpoint in state(&mut built).endpoints {
                // The one that crosses it is taken.
                assert!(endpoint.prefill_tokens <= 3_000 + 100);
                most = most.max(endpoint.prefill_tokens);
            }
            while let Ok(Some(delivery)) = built.egress[0].try_recv() {
                let receipt = dispatch(Some(delivery)).receipt();
                if draws.below(10) < 7 {
                    built.egress[0].prefill_done(receipt);
                }
                built.egress[0].complete(receipt);
                left -= 1;
            }
        }
        turn(&mut built, &hand);
        for id in 1..=4 + half {
            assert_eq!(load(&mut built, id), (0, 0), "worker {id}");
        }
        if half == 0 {
            let worker = Worker::new(5);
            execute(
                &mut built,
                Command::UpsertWorker {
                    model: MODEL,
                    worker,
                },
            );
        }
    }
    assert!(most > 500, "the workers were never loaded: {most}");
    assert!(endpoint(&mut built, 5).last_use > 1_000, "it took its part");
}

/// A worker that left and came back is another: what ran on the first frees nothing on the second.
#[test]
fn what_ran_on_a_removed_worker_frees_nothing_on_its_successor() {
    let (mut built, hand) = by_hand::<u64>(small().worker(Worker::new(1)));
    let first = submit(&mut built, &hand, 100);
    let id = WorkerId(1);
    execute(&mut built, Command::RemoveWorker { model: MODEL, id });
    let worker = Worker::new(1);
    execute(
        &mut built,
        Command::UpsertWorker {
            model: MODEL,
            worker,
        },
    );
    let second = submit(&mut built, &hand, 200);
    assert_eq!(load(&mut built, 1), (200, 1));
    built.egress[0].prefill_done(first.receipt());
    built.egress[0].complete(first.receipt());
    turn(&mut built, &hand);
    assert_eq!(load(&mut built, 1), (200, 1));
    built.egress[0].complete(second.receipt());
    turn(&mut built, &hand);
    assert_eq!(load(&mut built, 1), (0, 0));
    // The first prefill, too late; its completion is silent.
    assert_eq!(state(&mut built).stale_events, 1);
}

/// The end of the prefill frees the worker, completion frees no second time; alone it frees both.
#[test]
fn prefill_and_completion_release_each_part_once() {
    let profile = classes(&["a quantum: 100, prefill_busy_threshold: 999"]);
    let builder = tollgate::Engine::builder(profile)
        .slots(64)
        .worker(Worker::new(1));
    let (mut built, hand) = by_hand::<u64>(builder);
    let first = submit(&mut built, &hand, 1_000);
    built.ingress[0]
        .try_submit(Request::new(1_000, 0))
        .expect("there is room");
    turn(&mut built, &hand);
    assert!(matches!(built.egress[0].try_recv(), Ok(None)), "it is busy");
    built.egress[0].prefill_done(first.receipt());
    turn(&mut built, &hand);
    let second = dispatch(built.egress[0].try_recv().expect("open"));
    assert_eq!(load(&mut built, 1), (1_000, 2));
    built.egress[0].complete(first.receipt());
    turn(&mut built, &hand);
    assert_eq!(load(&mut built, 1), (1_000, 1));
    built.egress[0].complete(second.receipt());
    turn(&mut built, &hand);
    assert_eq!(load(&mut built, 1), (0, 0));
    assert_eq!(state(&mut built).stale_events, 0);
}

/// Completions by another way than the dispatch's, before it was decided, between, and after.
#[test]
fn a_completion_before_its_booking_is_stale_and_nothing_more() {
    const ROUNDS: u64 = 20_000;
    let (mut built, hand) = by_hand::<u64>(small().worker(Worker::new(1)));
    let releases = built.handles.releases();
    let (mut draws, mut stale) = (Draw(7), 0);
    for round in 0..ROUNDS {
        let mut submit = || {
            let ticket = built.ingress[0].try_submit(Request::new(3, round));
            ticket.expect("there is room")
        };
        // In another slot's name, whose next use is not known yet.
        let ticket = submit();
        let receipt = Receipt { ticket, attempt: 1 };
        match draws.below(3) {
            0 => {
                // Taken in and dispatched in the turn that reads the letter after both.
                releases.complete(receipt);
                turn(&mut built, &hand);
                stale += 1;
            }
            1 => {
                turn(&mut built, &hand);
                releases.complete(receipt);
            }
            _ => {
                turn(&mut built, &hand);
                releases.prefill_done(receipt);
                releases.complete(receipt);
            }
        }
        let dispatch = dispatch(built.egress[0].try_recv().expect("open"));
        built.egress[0].complete(dispatch.receipt());
        turn(&mut built, &hand);
        let _ = turn(&mut built, &hand);
        assert_eq!(load(&mut built, 1), (0, 0), "round {round}");
    }
    // Of each request one completion was one too many.
    assert_eq!(state(&mut built).stale_events, ROUNDS);
    assert!(stale > ROUNDS / 4);
}

/// Requests that fail before and after their prefill, each reported twice by two ways.
#[test]
fn ends_that_are_reported_twice_count_once() {
    const REQUESTS: u32 = 1_000;
    let builder = small()
        .slots(1_024)
        .feedback_ring(4_096)
        .worker(Worker::new(1));
    let (mut built, hand) = by_hand::<u64>(builder.dispatch_ring(2_048));
    let releases = built.handles.releases();
    for is_prefilled in [false, true] {
        for payload in 0..u64::from(REQUESTS) {
            built.ingress[0]
                .try_submit(Request::new(2, payload))
                .expect("there is room");
        }
        let mut running = Vec::new();
        while running.len() as u64 != u64::from(REQUESTS) {
            turn(&mut built, &hand);
            running.extend(std::iter::from_fn(|| {
                built.egress[0].try_recv().ok().flatten()
            }));
        }
        let receipts: Vec<Receipt> = running
            .into_iter()
            .map(|delivery| dispatch(Some(delivery)).receipt())
            .collect();
        if is_prefilled {
            receipts
                .iter()
                .for_each(|&receipt| built.egress[0].prefill_done(receipt));
            receipts
                .iter()
                .for_each(|&receipt| releases.prefill_done(receipt));
            while !turn(&mut built, &hand).is_idle() {}
            assert_eq!(load(&mut built, 1), (0, REQUESTS.into()));
        }
        let stale = state(&mut built).stale_events;
        receipts
            .iter()
            .for_each(|&receipt| built.egress[0].complete(receipt));
        receipts
            .iter()
            .for_each(|&receipt| releases.complete(receipt));
        while !turn(&mut built, &hand).is_idle() {}
        assert_eq!(load(&mut built, 1), (0, 0));
        assert_eq!(state(&mut built).outstanding, 0);
        assert_eq!(state(&mut built).stale_events - stale, u64::from(REQUESTS));
    }
}
