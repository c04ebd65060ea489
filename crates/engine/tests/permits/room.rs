//! Waiting for room: back-pressure, and in which order who waits is let in.

use std::task::Poll;

use tollgate::{AdmitError, Endpoint, Hint, ModelIndex, Refusal, Request, Room, Worker};

use crate::common::{FIRST, Hand, Task, one_at_a_time, open};

/// An engine with two slots.
fn small(room_waiters: usize) -> Hand {
    Hand::new(open(), |builder| {
        builder.slots(2).room_waiters(room_waiters)
    })
}

#[test]
fn try_admit_refuses_where_there_is_no_room_and_says_of_what() {
    let mut hand = small(4);
    let tasks = [0, 1].map(|_| Task::begun(hand.admission.admit(Request::new(1, ()))));
    let refused = Task::new(hand.admission.try_admit(Request::new(1, ()))).poll();
    let Poll::Ready(Err(AdmitError::Refused(Refusal::Full { what }))) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(what, Room::Slots);
    hand.settle();
    drop(tasks);
    hand.settle();
    let again = Task::begun(hand.admission.try_admit(Request::new(1, ())));
    hand.settle();
    assert!(again.end().is_ok(), "there is room again");
}

#[test]
fn admit_waits_for_room_first_come_first_served() {
    let mut hand = small(16);
    let running = [0, 1].map(|_| Task::begun(hand.admission.admit(Request::new(1, ()))));
    hand.settle();
    let mut running: Vec<_> = running
        .map(|task| task.end().expect("a worker is free"))
        .into();
    let mut waiting: Vec<_> = (0..8)
        .map(|_| Task::begun(hand.admission.admit(Request::new(1, ()))))
        .collect();
    hand.settle();
    assert_eq!(hand.admission.waiting_for_room(FIRST), 8);
    assert!(waiting.iter_mut().all(|task| !task.is_woken()));
    for next in 0..8 {
        drop(running.remove(0));
        hand.settle();
        let mut woken = waiting.iter_mut().map(Task::is_woken);
        assert_eq!(woken.next(), Some(true), "number {next} is next");
        assert!(woken.all(|other| !other), "and nobody else");
        let mut first = waiting.remove(0);
        assert!(first.poll().is_pending(), "it is in the engine now");
        hand.settle();
        running.push(first.end().expect("a worker is free"));
    }
    assert_eq!(hand.admission.waiting_for_room(FIRST), 0);
}

#[test]
fn a_newcomer_does_not_overtake_who_waits_for_room() {
    let mut hand = small(16);
    let running = [0, 1].map(|_| Task::begun(hand.admission.admit(Request::new(1, ()))));
    hand.settle();
    let running = running.map(|task| task.end().expect("a worker is free"));
    let mut first = Task::begun(hand.admission.admit(Request::new(1, ())));
    drop(running);
    hand.settle();
    assert!(first.is_woken(), "there is room for it");
    // It was not polled yet: the room is its own.
    let mut newcomer = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    assert_eq!(hand.admission.waiting_for_room(FIRST), 2);
    assert!(newcomer.is_woken(), "there is room for two");
    assert!(first.poll().is_pending());
    assert!(newcomer.poll().is_pending());
    hand.settle();
    let (first, newcomer) = (first.end(), newcomer.end());
    let order = [first, newcomer].map(|end| end.expect("a worker is free").submitted_at());
    assert!(order[0] <= order[1]);
}

#[test]
fn who_waits_for_room_and_goes_away_passes_its_place_on() {
    let mut hand = small(16);
    let running = [0, 1].map(|_| Task::begun(hand.admission.admit(Request::new(1, ()))));
    hand.settle();
    let [one, other] = running.map(|task| task.end().expect("a worker is free"));
    let wait = |hand: &Hand| Task::begun(hand.admission.admit(Request::new(1, ())));
    let [never_asked, mut asked, mut last] = [wait(&hand), wait(&hand), wait(&hand)];
    hand.settle();
    drop(never_asked);
    hand.settle();
    drop(one);
    hand.settle();
    assert!(asked.is_woken());
    assert!(!last.is_woken());
    // It was invited, and goes away instead.
    drop(asked);
    hand.settle();
    assert!(last.is_woken());
    assert!(last.poll().is_pending());
    hand.settle();
    drop((last.end().expect("a worker is free"), other));
    assert_eq!(hand.counts(), (0, 0));
    assert_eq!(hand.admission.waiting_for_room(FIRST), 0);
}

#[test]
fn models_do_not_wait_for_each_other_s_room() {
    let mut hand = Hand::new(open(), |builder| {
        builder
            .slots(1)
            .room_waiters(8)
            .model("other", open())
            .worker(Worker::new(2))
    });
    let other = Request {
        model: ModelIndex(1),
        ..Request::new(1, ())
    };
    let first = Task::begun(hand.admission.admit(Request::new(1, ())));
    let stuck = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let permit = first.end().expect("a worker is free");
    let task = Task::begun(hand.admission.admit(other));
    hand.settle();
    assert!(task.end().is_ok(), "its model has room");
    assert_eq!(hand.admission.waiting_for_room(FIRST), 1);
    assert_eq!(hand.admission.waiting_for_room(ModelIndex(1)), 0);
    drop((permit, stuck));
}

#[test]
fn a_request_that_takes_more_blocks_waits_for_them_and_is_not_overtaken() {
    let mut hand = Hand::new(one_at_a_time(), |builder| {
        builder.slots(8).extension_blocks(4).room_waiters(8)
    });
    let hints: Vec<Hint> = (1..=8)
        .map(|worker| Hint {
            endpoint: Endpoint::new(worker, 0),
            cached: 1,
        })
        .collect();
    let large = Request {
        hints: &hints,
        ..Request::new(10, ())
    };
    let small = Request {
        hints: &hints[..1],
        ..Request::new(10, ())
    };
    let first = Task::begun(hand.admission.admit(small));
    hand.settle();
    let permit = first.end().expect("a worker is free");
    let mut large = Task::begun(hand.admission.admit(large));
    let mut small = Task::begun(hand.admission.admit(small));
    hand.settle();
    assert!(!large.is_woken() && !small.is_woken());
    assert_eq!(hand.admission.waiting_for_room(FIRST), 2);
    drop(permit);
    hand.settle();
    assert!(large.is_woken(), "all blocks are free");
    assert!(!small.is_woken());
    assert!(large.poll().is_pending());
    hand.settle();
    drop(large.end().expect("a worker is free"));
    hand.settle();
    assert!(small.is_woken());
    assert!(small.poll().is_pending());
    hand.settle();
    assert!(small.end().is_ok());
}

#[test]
fn an_invalid_request_does_not_wait_for_room() {
    let mut hand = small(16);
    let running = [0, 1, 2].map(|_| Task::begun(hand.admission.admit(Request::new(1, ()))));
    hand.settle();
    assert_eq!(hand.admission.waiting_for_room(FIRST), 1);
    let invalid = Request {
        priority_jump: f64::INFINITY,
        ..Request::new(1, ())
    };
    let refused = Task::new(hand.admission.admit(invalid)).poll();
    assert!(matches!(
        refused,
        Poll::Ready(Err(AdmitError::Refused(Refusal::Invalid(_))))
    ));
    drop(running);
}

#[test]
fn more_futures_than_there_may_be_are_refused_with_their_number() {
    let mut hand = small(1);
    let tasks = [0, 1, 2].map(|_| Task::begun(hand.admission.admit(Request::new(1, ()))));
    let refused = Task::new(hand.admission.admit(Request::new(1, ()))).poll();
    let Poll::Ready(Err(error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error, AdmitError::TooMany { max: 3 });
    hand.settle();
    drop(tasks);
    hand.settle();
    let task = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    assert!(task.end().is_ok(), "all entries are free again");
}

/// Slots of one front are no slots of another: who waits is let in wherever there is room.
#[test]
fn who_is_invited_finds_the_front_that_has_room() {
    let mut hand = Hand::new(open(), |builder| {
        builder.ingress_shards(4).slots(4).room_waiters(8)
    });
    let tasks = [0, 1, 2, 3].map(|_| Task::begun(hand.admission.admit(Request::new(1, ()))));
    hand.settle();
    let permits = tasks.map(|task| task.end().expect("a worker is free"));
    let mut waiting = Task::begun(hand.admission.admit(Request::new(1, ())));
    hand.settle();
    let [one, two, three, four] = permits;
    drop((one, two));
    hand.settle();
    assert!(waiting.is_woken());
    assert!(waiting.poll().is_pending());
    hand.settle();
    drop((waiting.end().expect("a worker is free"), three, four));
    assert_eq!(hand.counts(), (0, 0));
}

/// Entries belong to fronts, but who finds none at its own takes another's.
#[test]
fn one_thread_has_the_room_waiters_of_all_fronts() {
    let mut hand = Hand::new(one_at_a_time(), |builder| {
        builder.ingress_shards(4).slots(4).room_waiters(8)
    });
    let admit = |hand: &Hand| Task::begun(hand.admission.admit(Request::new(1, ())));
    let mut tasks: Vec<_> = (0..12).map(|_| admit(&hand)).collect();
    let refused = Task::new(hand.admission.admit(Request::new(1, ()))).poll();
    let Poll::Ready(Err(error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error, AdmitError::TooMany { max: 12 });
    hand.settle();
    assert_eq!(hand.admission.waiting_for_room(FIRST), 8);
    for _ in 0..12 {
        hand.settle();
        let mut first = tasks.remove(0);
        if first.is_woken() && first.poll().is_pending() {
            hand.settle();
        }
        drop(first);
    }
    assert_eq!(hand.counts(), (0, 0));
    assert_eq!(hand.admission.waiting_for_room(FIRST), 0);
}

/// A slot of one front is free, and an entry of another.
#[test]
fn an_entry_of_one_front_takes_a_slot_of_another() {
    let mut hand = Hand::new(open(), |builder| {
        builder.ingress_shards(2).slots(4).room_waiters(0)
    });
    let admit = |hand: &Hand| Task::begun(hand.admission.try_admit(Request::new(1, ())));
    let mut tasks: Vec<_> = (0..4).map(|_| admit(&hand)).collect();
    hand.settle();
    let mut permits: Vec<_> = tasks.drain(..).map(|task| task.end().ok()).collect();
    for round in 0..8 {
        // Whichever goes: its entry is free at once, its slot after a turn.
        drop(permits.remove(round % 3));
        if round % 2 == 0 {
            hand.settle();
        }
        let mut task = Task::new(hand.admission.try_admit(Request::new(1, ())));
        if task.poll().is_ready() {
            hand.settle();
            task = Task::begun(hand.admission.try_admit(Request::new(1, ())));
        }
        hand.settle();
        permits.push(Some(task.end().expect("three of four slots are taken")));
    }
}
