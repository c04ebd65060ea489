//! Models of the park and wake protocol, over the product's code, and proofs that they would
//! find its faults: without any one of the three fences a model fails.

use loom::thread;

use super::super::model::explore;
use super::super::shim::leave_fences_out;
use super::*;

/// Rings by their contract: one per ringer, a count published with Release and seen with Acquire.
/// The one who takes keeps its own count.
struct Rings<const N: usize> {
    published: [AtomicU32; N],
}

impl<const N: usize> Rings<N> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            published: [(); N].map(|()| AtomicU32::new(0)),
        })
    }

    fn publish(&self, ring: usize, count: u32) {
        // ORDERING: Release with the Acquire of `seen`.
        self.published[ring].store(count, Ordering::Release);
    }

    fn seen(&self) -> [u32; N] {
        // ORDERING: Acquire with the Release of `publish`.
        self.published
            .each_ref()
            .map(|count| count.load(Ordering::Acquire))
    }
}

/// `N` ringers bring `items` each, one by one, to a sleeper that sleeps without end whenever it
/// finds nothing: loom reports a deadlock if it sleeps through the last of them. Nobody is unparked
/// more often than it has announced a sleep.
fn everything_is_taken<const N: usize>(items: u32, ringer_is_faulty: bool) {
    let rings = Rings::<N>::new();
    let (doorbell, mut sleeper) = doorbell();
    let mut next = 0;
    let ringers = [(); N].map(|()| {
        let (ring, rings, doorbell) = (next, Arc::clone(&rings), doorbell.clone());
        next += 1;
        thread::spawn(move || {
            if ringer_is_faulty {
                leave_fences_out();
            }
            for count in 1..=items {
                rings.publish(ring, count);
                assert_eq!(doorbell.ring(), Answer::Heard);
            }
        })
    });
    let (mut taken, mut announced) = ([0; N], 0);
    while taken != [items; N] {
        let seen = rings.seen();
        if seen == taken {
            announced += 1;
            let woken = sleeper.sleep_unless(|| rings.seen() != taken, None);
            assert!(woken != Woken::Work || rings.seen() != taken);
        }
        taken = seen;
    }
    for ringer in ringers {
        ringer.join().expect("a ringer does not panic");
    }
    let unparks = sleeper.parker.unparks();
    assert!(
        unparks <= announced,
        "{unparks} unparks for {announced} announced sleeps"
    );
    assert!(sleeper.sleeps() <= announced as u64);
}

/// D2, D3: of several ringers one pays for a sleep.
#[test]
fn two_ringers_wake_one_sleeper() {
    explore(3, || everything_is_taken::<2>(1, false));
}

/// D2: the second item may come at any point of the first one's wake-up.
#[test]
fn a_ringer_races_the_last_look() {
    explore(4, || everything_is_taken::<1>(2, false));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_ringer_without_its_fence_is_found() {
    explore(3, || everything_is_taken::<1>(1, true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_sleeper_without_its_fence_is_found() {
    explore(3, || {
        leave_fences_out();
        everything_is_taken::<1>(1, false);
    });
}

/// A ringer that rings only if the sleeper has said, before it announced its sleep, that it cares.
/// The ringer asks after a fence of its own.
fn who_cares_is_woken(ringer_is_faulty: bool) {
    let rings = Rings::<1>::new();
    let cares = Arc::new(AtomicU32::new(0));
    let (doorbell, mut sleeper) = doorbell();
    let ringer = thread::spawn({
        let (rings, cares) = (Arc::clone(&rings), Arc::clone(&cares));
        move || {
            if ringer_is_faulty {
                leave_fences_out();
            }
            rings.publish(0, 1);
            // ORDERING: with the fence of `sleep_unless`.
            fence(Ordering::SeqCst);
            if cares.load(Ordering::Relaxed) == 1 {
                assert_eq!(doorbell.ring(), Answer::Heard);
            }
        }
    });
    while rings.seen() != [1] {
        cares.store(1, Ordering::Relaxed);
        sleeper.sleep_unless(|| rings.seen() == [1], None);
        cares.store(0, Ordering::Relaxed);
    }
    ringer.join().expect("a ringer does not panic");
}

/// D2, with a question in front of the ring.
#[test]
fn a_ringer_may_ask_before_it_rings() {
    explore(4, || who_cares_is_woken(false));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_ringer_that_asks_without_a_fence_is_found() {
    explore(4, || who_cares_is_woken(true));
}

/// A sleep that its own timeout ends meets a ring: the ring is told apart, and the next sleep is
/// none the worse.
#[test]
fn a_ring_meets_a_timeout() {
    explore(3, || {
        let rings = Rings::<1>::new();
        let (doorbell, mut sleeper) = doorbell();
        let ringer = thread::spawn({
            let (rings, doorbell) = (Arc::clone(&rings), doorbell.clone());
            move || {
                rings.publish(0, 1);
                assert_eq!(doorbell.ring(), Answer::Heard);
            }
        });
        if sleeper.sleep_unless(|| rings.seen() == [1], Some(Duration::ZERO)) == Woken::Rung {
            assert_eq!(
                rings.seen(),
                [1],
                "a ring makes what was published before it visible"
            );
        }
        assert!(!doorbell.is_asleep());
        if rings.seen() != [1] {
            sleeper.sleep_unless(|| rings.seen() == [1], None);
        }
        ringer.join().expect("a ringer does not panic");
        assert_eq!(rings.seen(), [1]);
    });
}

/// `N` ringers publish and ring while the sleeper, which may have slept, closes and looks for the
/// last time. Nothing is left with nobody: found by the last look, or its ringer was told.
fn nothing_is_left_behind<const N: usize>(ringer_is_faulty: bool) {
    let rings = Rings::<N>::new();
    let (doorbell, mut sleeper) = doorbell();
    let mut next = 0;
    let ringers = [(); N].map(|()| {
        let (ring, rings, doorbell) = (next, Arc::clone(&rings), doorbell.clone());
        next += 1;
        thread::spawn(move || {
            if ringer_is_faulty {
                leave_fences_out();
            }
            rings.publish(ring, 1);
            doorbell.ring()
        })
    });
    sleeper.sleep_unless(|| false, Some(Duration::ZERO));
    sleeper.close();
    let last_look = rings.seen();
    assert_eq!(doorbell.ring(), Answer::Gone);
    for (found, ringer) in last_look.into_iter().zip(ringers) {
        let answer = ringer.join().expect("a ringer does not panic");
        assert!(
            found == 1 || answer == Answer::Gone,
            "neither found nor told"
        );
    }
}

/// D4.
#[test]
fn a_close_leaves_nothing_behind() {
    explore(3, || nothing_is_left_behind::<2>(false));
}

#[test]
#[should_panic(expected = "neither found nor told")]
fn a_ringer_without_its_fence_leaves_something_behind() {
    explore(3, || nothing_is_left_behind::<1>(true));
}

#[test]
#[should_panic(expected = "neither found nor told")]
fn a_close_without_its_fence_leaves_something_behind() {
    explore(3, || {
        leave_fences_out();
        nothing_is_left_behind::<1>(false);
    });
}

/// D1: a drop closes; what the sleeper did before is visible to who is told.
#[test]
fn who_is_told_sees_what_was_done_before_the_close() {
    explore(3, || {
        let (doorbell, sleeper) = doorbell();
        let done = Arc::new(AtomicU32::new(0));
        let closer = thread::spawn({
            let done = Arc::clone(&done);
            move || {
                done.store(1, Ordering::Relaxed);
                drop(sleeper);
            }
        });
        if doorbell.ring() == Answer::Gone {
            assert_eq!(done.load(Ordering::Relaxed), 1);
            assert!(doorbell.is_gone());
        }
        closer.join().expect("the closer does not panic");
        assert_eq!(doorbell.ring(), Answer::Gone);
    });
}
