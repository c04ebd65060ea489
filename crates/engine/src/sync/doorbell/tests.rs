//! Each state and answer of the doorbell by itself.

use std::thread;

use super::*;

/// Longer than any scheduling hiccup: a sleep that lasts so long with work at hand is lost.
const LONG: Option<Duration> = Some(Duration::from_secs(60));
const SHORT: Option<Duration> = Some(Duration::from_millis(1));

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
