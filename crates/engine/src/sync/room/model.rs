//! Models of the room word together with the doorbell: who waits for room does not sleep through it.

use loom::sync::Arc;
use loom::thread;

use super::super::doorbell::doorbell;
use super::super::model::explore;
use super::super::shim::{AtomicU32, Ordering, leave_fences_out};
use super::RoomWord;

/// The core gives back a slot at a time; the usher takes them all, asleep whenever it finds none: loom
/// reports a deadlock if it sleeps through the last of them.
fn all_room_is_taken(slots: u32, core_is_faulty: bool, usher_is_faulty: bool) {
    let room = Arc::new(RoomWord::new());
    let given = Arc::new(AtomicU32::new(0));
    let (bell, mut sleeper) = doorbell();
    let core = thread::spawn({
        let (room, given) = (Arc::clone(&room), Arc::clone(&given));
        move || {
            if core_is_faulty {
                leave_fences_out();
            }
            for count in 1..=slots {
                given.store(count, Ordering::Release);
                if room.tell() {
                    let _ = bell.ring();
                }
            }
        }
    });
    if usher_is_faulty {
        leave_fences_out();
    }
    let mut taken = 0;
    while taken < slots {
        room.want();
        let seen = given.load(Ordering::Acquire);
        if seen == taken {
            sleeper.sleep_unless(|| room.has_news(), None);
        }
        taken = seen;
    }
    core.join().expect("the core does not panic");
}

#[test]
fn who_wants_room_is_told_of_it() {
    explore(4, || all_room_is_taken(2, false, false));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_core_without_its_fence_is_found() {
    explore(4, || all_room_is_taken(1, true, false));
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_usher_without_its_fence_is_found() {
    explore(4, || all_room_is_taken(1, false, true));
}
