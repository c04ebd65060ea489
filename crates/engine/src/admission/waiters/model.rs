//! Models of the waiter table: wake against drop, drop against delivery, the close against everything.

use std::future::poll_fn;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Wake, Waker};

use loom::future::block_on;
use loom::sync::Arc;
use loom::thread;
use tollgate_arbiter::{ClassIndex, CostSnapshot, Endpoint, Nanos, Outcome};

use super::*;
use crate::sync::model::explore;
use crate::ticket::{Place, Ticket};

const ENTRY: u32 = 0;

fn grant() -> Grant {
    Grant {
        ticket: Ticket {
            place: Place(3),
            generation: 5,
        },
        class: ClassIndex(1),
        attempt: 1,
        endpoint: Endpoint::new(7, 0),
        snapshot: CostSnapshot { raw: 9, cached: 2 },
        submitted_at: Nanos(1),
        dispatched_at: Nanos(2),
    }
}

fn table(per_front: u32) -> (Arc<Waiters>, Stock) {
    let (table, mut stocks) = Waiters::new(1, per_front);
    (Arc::new(table), stocks.remove(0))
}

/// An entry that waits in the engine, with a waker that wakes nobody.
fn waiting() -> Arc<Waiters> {
    let (table, mut stock) = table(1);
    assert_eq!(table.take(&mut stock), Some(ENTRY));
    table.expect(ENTRY, Waker::noop());
    table
}

/// Delivers as a courier does.
fn deliver(table: &Waiters) -> bool {
    let is_wanted = table.grant(ENTRY, grant());
    if is_wanted {
        table.waker(ENTRY).into_iter().for_each(Waker::wake);
    } else {
        drop(table.give_back(ENTRY));
    }
    is_wanted
}

/// What an entry's future is told, asleep until it is.
fn told(table: &Waiters) -> Found {
    block_on(poll_fn(|context: &mut Context<'_>| {
        match table.look(ENTRY, context.waker()) {
            Found::Nothing => Poll::Pending,
            found => Poll::Ready(found),
        }
    }))
}

/// W3: loom reports a deadlock if the future sleeps through its delivery.
#[test]
fn a_delivery_wakes_who_waits() {
    explore(4, || {
        let table = waiting();
        let courier = thread::spawn({
            let table = Arc::clone(&table);
            move || deliver(&table)
        });
        assert_eq!(told(&table), Found::Granted(grant()));
        assert!(courier.join().expect("it does not panic"));
    });
}

/// A waker that counts; outside the model, so that counting hides no interleaving.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// W3, without sleeping: who found nothing after leaving its waker is woken by the end.
fn who_found_nothing_is_woken(courier_is_faulty: bool) {
    let counter = std::sync::Arc::new(Counter::default());
    let table = waiting();
    let courier = thread::spawn({
        let table = Arc::clone(&table);
        move || {
            if courier_is_faulty {
                table.waker(ENTRY).into_iter().for_each(Waker::wake);
                table.grant(ENTRY, grant());
            } else {
                deliver(&table);
            }
        }
    });
    let found = table.look(ENTRY, &Waker::from(std::sync::Arc::clone(&counter)));
    courier.join().expect("it does not panic");
    let is_woken = counter.0.load(Ordering::Relaxed) > 0;
    assert!(found != Found::Nothing || is_woken, "left asleep");
}

#[test]
fn who_found_nothing_hears_of_the_delivery() {
    explore(4, || who_found_nothing_is_woken(false));
}

#[test]
#[should_panic(expected = "left asleep")]
fn a_courier_that_wakes_first_is_found() {
    explore(4, || who_found_nothing_is_woken(true));
}

/// W1, W2: one of the two has the entry, and if it is the future, it has the whole grant.
#[test]
fn of_a_delivery_and_a_drop_one_has_the_entry() {
    explore(4, || {
        let table = waiting();
        let courier = thread::spawn({
            let table = Arc::clone(&table);
            move || deliver(&table)
        });
        let left = table.leave(ENTRY);
        let was_wanted = courier.join().expect("it does not panic");
        match left {
            Found::Nothing => assert!(!was_wanted),
            Found::Granted(found) => assert!(was_wanted && found == grant()),
            found => panic!("{found:?}"),
        }
    });
}

/// A task that is woken is dropped instead of polled: the drop finds the grant.
#[test]
fn a_wake_meets_a_drop() {
    explore(3, || {
        let table = waiting();
        let courier = thread::spawn({
            let table = Arc::clone(&table);
            move || deliver(&table)
        });
        let found = table.look(ENTRY, Waker::noop());
        let left = table.leave(ENTRY);
        let was_wanted = courier.join().expect("it does not panic");
        assert!(
            found == Found::Nothing || left == found,
            "what was told stays"
        );
        assert_eq!(was_wanted, left != Found::Nothing);
    });
}

/// An entry that comes back while its last courier still holds its number: the next future that has it
/// may be woken in vain, but not left asleep.
#[test]
fn a_late_wake_meets_the_next_future() {
    explore(3, || {
        let (table, mut stock) = table(1);
        table.take(&mut stock);
        table.expect(ENTRY, Waker::noop());
        let couriers = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                deliver(&table);
            }
        });
        while table.look(ENTRY, Waker::noop()) == Found::Nothing {
            thread::yield_now();
        }
        drop(table.give_back(ENTRY));
        assert_eq!(table.take(&mut stock), Some(ENTRY));
        table.expect(ENTRY, Waker::noop());
        let next = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                deliver(&table);
            }
        });
        assert_eq!(told(&table), Found::Granted(grant()));
        couriers.join().expect("it does not panic");
        next.join().expect("it does not panic");
    });
}

/// W5: the close, a drop and a delivery at once: the future, if it is still there, is told something.
#[test]
fn a_close_leaves_nobody_waiting() {
    explore(3, || {
        let table = waiting();
        let closer = thread::spawn({
            let table = Arc::clone(&table);
            move || table.close_all(Waker::wake)
        });
        assert_eq!(told(&table), Found::Ended(Fate::Closed));
        closer.join().expect("it does not panic");
    });
}

/// W5, for who begins to wait for room.
#[test]
fn a_close_meets_who_begins_to_wait_for_room() {
    explore(4, || {
        let (table, mut stock) = table(1);
        let closer = thread::spawn({
            let table = Arc::clone(&table);
            move || table.close_all(Waker::wake)
        });
        assert_eq!(table.take(&mut stock), Some(ENTRY));
        let wish = Wish {
            arrival: 1,
            model: 0,
            blocks: 0,
        };
        let mut has_begun = false;
        let found = block_on(poll_fn(|context: &mut Context<'_>| {
            if !std::mem::replace(&mut has_begun, true) {
                table.wish(ENTRY, context.waker(), wish);
                if table.is_closed() {
                    table.close_one(ENTRY);
                }
            }
            match table.look(ENTRY, context.waker()) {
                Found::Nothing => Poll::Pending,
                found => Poll::Ready(found),
            }
        }));
        assert_eq!(found, Found::Ended(Fate::Closed));
        closer.join().expect("it does not panic");
    });
}

/// W1 for those who wait for room: of an invitation and a drop one has the entry.
#[test]
fn of_an_invitation_and_a_drop_one_has_the_entry() {
    explore(4, || {
        let (table, mut stock) = table(1);
        table.take(&mut stock);
        let wish = Wish {
            arrival: 4,
            model: 2,
            blocks: 1,
        };
        table.wish(ENTRY, Waker::noop(), wish);
        let usher = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                assert_eq!(table.wished(ENTRY), wish);
                table.invite(ENTRY)
            }
        });
        let left = table.leave(ENTRY);
        let is_invited = usher.join().expect("it does not panic");
        assert_eq!(is_invited, left == Found::Invitation);
    });
}

/// W4: entries that several threads give back, while the front takes, are handed out once each.
#[test]
fn entries_come_back_once_each() {
    explore(3, || {
        let (table, mut stock) = table(2);
        let first = table.take(&mut stock).expect("two are there");
        let second = table.take(&mut stock).expect("two are there");
        assert_eq!(table.take(&mut stock), None);
        let others = [first, second].map(|index| {
            let table = Arc::clone(&table);
            thread::spawn(move || drop(table.give_back(index)))
        });
        let early = table.take(&mut stock);
        for other in others {
            other.join().expect("it does not panic");
        }
        let mut all: Vec<u32> = early.into_iter().collect();
        all.extend(std::iter::from_fn(|| table.take(&mut stock)));
        all.sort_unstable();
        assert_eq!(all, [first, second]);
    });
}

/// An outcome's words arrive whole as well.
#[test]
fn a_fate_arrives_whole() {
    explore(4, || {
        let table = waiting();
        let fate = Fate::Ended(ClassIndex(6), Outcome::Expired);
        let courier = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                assert!(table.end(ENTRY, fate));
                table.waker(ENTRY).into_iter().for_each(Waker::wake);
            }
        });
        assert_eq!(told(&table), Found::Ended(fate));
        courier.join().expect("it does not panic");
    });
}
