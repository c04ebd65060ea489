//! Both protocols on real threads, for what a model cannot have: the machine's own reordering, real
//! parking, and more than a few operations.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use rtrb::RingBuffer;

use super::doorbell::{Answer, Doorbell, Sleeper, doorbell};
use super::mail::{Letter, Mail, Release, mail};

/// Longer than any hiccup of the machine: who sleeps so long has missed a ring.
const LONG: Duration = Duration::from_secs(60);

#[expect(clippy::disallowed_methods, reason = "a test's own watch")]
fn now() -> Instant {
    Instant::now()
}

fn sleep_unless(sleeper: &mut Sleeper, has_work: impl FnMut() -> bool) {
    let begun = now();
    sleeper.sleep_unless(has_work, Some(LONG));
    assert!(begun.elapsed() < LONG, "a ring was lost, or a ringer");
}

/// Waits until `done`, or fails when the other side has failed.
fn wait_until(doorbell: &Doorbell, done: impl Fn() -> bool) {
    while !done() {
        assert!(!doorbell.is_gone(), "the sleeper is gone");
        thread::yield_now();
    }
}

/// D2, D3: every ringer waits until its item was taken, so that the sleeper is on its way to sleep,
/// or sleeps, at nearly every ring.
#[test]
fn no_ring_is_lost() {
    const RINGERS: usize = 2;
    const ITEMS: u32 = 20_000;
    let (doorbell, sleeper) = doorbell();
    thread::scope(|scope| {
        let mut sleeper = sleeper;
        let mut rings = [(); RINGERS].map(|()| {
            let (mut into, from) = RingBuffer::new(1);
            let doorbell = doorbell.clone();
            scope.spawn(move || {
                for item in 1..=ITEMS {
                    into.push(Box::new(item)).expect("the last item was taken");
                    assert_eq!(doorbell.ring(), Answer::Heard);
                    wait_until(&doorbell, || !into.is_full());
                }
            });
            from
        });
        let mut taken = [0; RINGERS];
        while taken != [ITEMS; RINGERS] {
            let before = taken;
            for (ring, taken) in rings.iter_mut().zip(&mut taken) {
                if let Ok(item) = ring.pop() {
                    *taken += 1;
                    assert_eq!(*item, *taken);
                }
            }
            if taken == before {
                sleep_unless(&mut sleeper, || rings.iter().any(|ring| !ring.is_empty()));
            }
        }
        sleeper
    });
}

/// D4: what a ringer published while the sleeper closes is found by the last look, or the ringer
/// is told.
#[test]
fn nothing_is_left_behind_at_a_close() {
    const ROUNDS: u32 = 200;
    for round in 0..ROUNDS {
        let (doorbell, mut sleeper) = doorbell();
        let (mut into, mut from) = RingBuffer::new(64);
        thread::scope(|scope| {
            let ringer = scope.spawn(move || {
                let mut heard = 0_u32;
                while !doorbell.is_gone() {
                    if into.is_full() {
                        thread::yield_now();
                        continue;
                    }
                    into.push(Box::new(heard + 1))
                        .expect("there was room a moment ago");
                    if doorbell.ring() == Answer::Gone {
                        break;
                    }
                    heard += 1;
                }
                heard
            });
            let mut last = 0;
            while last <= round {
                match from.pop() {
                    Ok(item) => last = *item,
                    Err(_) => thread::yield_now(),
                }
            }
            sleeper.close();
            while let Ok(item) = from.pop() {
                last = *item;
            }
            let heard = ringer.join().expect("a ringer does not panic");
            assert!(
                last >= heard,
                "item {last} was the last found, {heard} the last heard"
            );
        });
    }
}

const POSTERS: u32 = 3;
const SLOTS: u32 = 201;
const GENERATIONS: u32 = 60;

/// A poster's slots, one in three. Each use of a slot ends when the collector has seen its
/// `Complete`, as in the engine.
fn use_slots(poster: u32, mail: &Mail, doorbell: &Doorbell, completed: &[AtomicU32]) {
    let slots = || (poster..SLOTS).step_by(POSTERS as usize);
    for generation in 0..GENERATIONS {
        for slot in slots() {
            assert!(mail.post(slot, generation, 1, Release::PrefillDone));
            assert!(mail.post(slot, generation, 1, Release::Complete));
            assert_eq!(doorbell.ring(), Answer::Heard);
        }
        for slot in slots() {
            // ORDERING: Acquire with the collector's Release.
            let count = || completed[slot as usize].load(Ordering::Acquire);
            wait_until(doorbell, || count() > generation);
        }
    }
}

/// Cancels whatever uses of the slots are current, or were a moment ago.
fn cancel(mail: &Mail, doorbell: &Doorbell, completed: &[AtomicU32]) {
    for slot in (0..SLOTS).cycle().take((SLOTS * GENERATIONS) as usize) {
        let generation = completed[slot as usize].load(Ordering::Relaxed);
        mail.post(slot, generation, 0, Release::Cancel);
        let _ = doorbell.ring();
    }
}

/// M1 to M4: every release comes once, and none is slept through.
#[test]
fn every_release_comes_once() {
    let (mail, mut letterbox) = mail(SLOTS);
    let (doorbell, sleeper) = doorbell();
    let completed: Vec<AtomicU32> = (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
    let mut prefill_counts = vec![0; SLOTS as usize];
    thread::scope(|scope| {
        let mut sleeper = sleeper;
        for poster in 0..POSTERS {
            let (mail, doorbell, completed) = (mail.clone(), doorbell.clone(), &completed);
            scope.spawn(move || use_slots(poster, &mail, &doorbell, completed));
        }
        scope.spawn(|| cancel(&mail, &doorbell, &completed));
        let mut slots_in_use = SLOTS;
        let mut letters = ArrayVec::<Letter, 7>::new();
        while slots_in_use > 0 {
            letterbox.collect(&mut letters);
            if letters.is_empty() {
                sleep_unless(&mut sleeper, || !letterbox.is_empty());
            }
            for letter in letters.drain(..) {
                let slot = letter.slot as usize;
                let generation = completed[slot].load(Ordering::Relaxed);
                if letter.prefill_done || letter.complete {
                    assert_eq!((letter.generation, letter.attempt), (generation, 1));
                }
                prefill_counts[slot] += u32::from(letter.prefill_done);
                if letter.complete {
                    assert_eq!(prefill_counts[slot], generation + 1);
                    // ORDERING: Release with the posters' Acquire.
                    completed[slot].store(generation + 1, Ordering::Release);
                    slots_in_use -= u32::from(generation + 1 == GENERATIONS);
                }
            }
        }
        sleeper
    });
    assert_eq!(prefill_counts, vec![GENERATIONS; SLOTS as usize]);
}
