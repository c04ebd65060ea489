use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Instant;

use super::*;

/// Longer than any scheduling hiccup: a sleep that lasts so long with work at hand is lost.
const LONG: Option<Duration> = Some(Duration::from_secs(60));
const SHORT: Option<Duration> = Some(Duration::from_millis(1));

#[expect(clippy::disallowed_methods, reason = "a test's own watch")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn who_is_awake_hears_and_is_not_woken_later() {
    let (doorbell, mut sleeper) = doorbell();
    assert!(!doorbell.is_asleep());
    assert_eq!(doorbell.ring(), Answer::Heard);
    assert_eq!(sleeper.sleep_unless(|| false, SHORT), Woken::Elapsed);
    assert_eq!(sleeper.sleeps(), 1);
}

#[test]
fn the_last_look_happens_once_and_after_the_announcement() {
    let (doorbell, mut sleeper) = doorbell();
    let mut looks = 0;
    let look = || {
        looks += 1;
        doorbell.is_asleep()
    };
    assert_eq!(sleeper.sleep_unless(look, None), Woken::Work);
    assert_eq!(looks, 1);
    assert_eq!(sleeper.sleeps(), 0);
    assert!(!doorbell.is_asleep());
}

#[test]
fn a_ring_ends_a_sleep_without_end() {
    let (doorbell, mut sleeper) = doorbell();
    thread::scope(|scope| {
        let asleep = scope.spawn(move || (sleeper.sleep_unless(|| false, None), sleeper));
        while !doorbell.is_asleep() {
            thread::yield_now();
        }
        assert_eq!(doorbell.ring(), Answer::Heard);
        let (woken, sleeper) = asleep.join().expect("the sleeper does not panic");
        assert_eq!(woken, Woken::Rung);
        assert_eq!(sleeper.sleeps(), 1);
    });
}

/// A ringer that comes between the announcement and the last look has given the token of a sleep
/// that did not happen: the next one may end early, but says that it was not rung.
#[test]
fn a_late_token_is_not_taken_for_a_ring() {
    let (doorbell, mut sleeper) = doorbell();
    let rung = || doorbell.ring() == Answer::Heard;
    assert_eq!(sleeper.sleep_unless(rung, None), Woken::Work);
    assert_eq!(sleeper.sleep_unless(|| false, LONG), Woken::Elapsed);
    assert_eq!(sleeper.sleep_unless(|| false, SHORT), Woken::Elapsed);
}

#[test]
fn who_rings_after_the_close_is_told() {
    let (doorbell, mut sleeper) = doorbell();
    assert!(!doorbell.is_gone());
    sleeper.close();
    assert_eq!(doorbell.ring(), Answer::Gone);
    assert!(doorbell.is_gone());
    sleeper.close();
    assert_eq!(doorbell.clone().ring(), Answer::Gone);
}

#[test]
fn dropping_closes() {
    let (doorbell, sleeper) = doorbell();
    drop(sleeper);
    assert!(doorbell.is_gone());
    assert_eq!(doorbell.ring(), Answer::Gone);
}

#[test]
#[should_panic(expected = "a closed sleeper does not sleep")]
fn who_is_gone_does_not_come_back() {
    let (_doorbell, mut sleeper) = doorbell();
    sleeper.close();
    sleeper.sleep_unless(|| false, SHORT);
}

/// D2, D3 on real threads: every ringer publishes the next item when the last was taken, so that
/// the sleeper is on its way to sleep, or sleeps, at nearly every ring.
#[test]
fn no_ring_is_lost() {
    const RINGERS: usize = 2;
    const ITEMS: u64 = 20_000;
    let (doorbell, mut sleeper) = doorbell();
    let published: [AtomicU64; RINGERS] = Default::default();
    let taken: [AtomicU64; RINGERS] = Default::default();
    thread::scope(|scope| {
        for (published, taken) in published.iter().zip(&taken) {
            let doorbell = doorbell.clone();
            scope.spawn(move || {
                for item in 1..=ITEMS {
                    // ORDERING: Release with the sleeper's Acquire.
                    published.store(item, Ordering::Release);
                    assert_eq!(doorbell.ring(), Answer::Heard);
                    while taken.load(Ordering::Relaxed) < item {
                        thread::yield_now();
                    }
                }
            });
        }
        let mut done = [0; RINGERS];
        while done != [ITEMS; RINGERS] {
            // ORDERING: Acquire with the ringers' Release.
            let seen = published
                .each_ref()
                .map(|item| item.load(Ordering::Acquire));
            if seen == done {
                let look = || {
                    published
                        .each_ref()
                        .map(|item| item.load(Ordering::Acquire))
                        != done
                };
                let begun = now();
                sleeper.sleep_unless(look, LONG);
                assert!(
                    Some(begun.elapsed()) < LONG,
                    "{done:?} of {ITEMS}: a ring was lost"
                );
                continue;
            }
            done = seen;
            for (taken, done) in taken.iter().zip(done) {
                taken.store(done, Ordering::Relaxed);
            }
        }
    });
}
