//! How letters merge, what is stale, and in which order slots are collected.

use arrayvec::ArrayVec;

use super::*;

const NOTHING: Letter = Letter {
    slot: 0,
    generation: 0,
    attempt: 0,
    cancel: false,
    prefill_done: false,
    complete: false,
};

fn collect<const N: usize>(from: &mut Letterbox) -> Vec<Letter> {
    let mut into = ArrayVec::<Letter, N>::new();
    from.collect(&mut into);
    into.into_iter().collect()
}

fn slots(letters: &[Letter]) -> Vec<u32> {
    letters.iter().map(|letter| letter.slot).collect()
}

#[test]
fn a_letter_says_what_was_posted_and_comes_once() {
    let (mail, mut letterbox) = mail(100);
    assert!(letterbox.is_empty());
    assert!(mail.post(70, 9, 2, Release::PrefillDone));
    assert!(!letterbox.is_empty());
    let expected = Letter {
        slot: 70,
        generation: 9,
        attempt: 2,
        prefill_done: true,
        ..NOTHING
    };
    assert_eq!(collect::<4>(&mut letterbox), [expected]);
    assert!(letterbox.is_empty());
    assert_eq!(collect::<4>(&mut letterbox), []);
}

#[test]
fn a_slot_that_does_not_exist_has_no_letters() {
    let (mail, letterbox) = mail(3);
    assert!(!mail.post(3, 0, 1, Release::Complete));
    assert!(letterbox.is_empty());
}

#[test]
fn releases_of_one_attempt_share_a_letter() {
    let (mail, mut letterbox) = mail(1);
    assert!(mail.post(0, 5, 1, Release::PrefillDone));
    assert!(mail.post(0, 5, 1, Release::Complete));
    assert!(mail.post(0, 5, 1, Release::Complete));
    let both = Letter {
        generation: 5,
        attempt: 1,
        prefill_done: true,
        complete: true,
        ..NOTHING
    };
    assert_eq!(collect::<4>(&mut letterbox), [both]);
}

#[test]
fn a_later_attempt_replaces_and_an_earlier_one_is_stale() {
    let (mail, mut letterbox) = mail(1);
    assert!(mail.post(0, 5, 2, Release::PrefillDone));
    assert!(!mail.post(0, 5, 1, Release::Complete));
    assert!(mail.post(0, 5, 3, Release::Complete));
    let later = Letter {
        generation: 5,
        attempt: 3,
        complete: true,
        ..NOTHING
    };
    assert_eq!(collect::<4>(&mut letterbox), [later]);
}

#[test]
fn a_cancel_and_the_releases_of_an_attempt_keep_each_other() {
    let (mail, mut letterbox) = mail(1);
    let cancelled = |attempt, complete| Letter {
        generation: 5,
        attempt,
        cancel: true,
        complete,
        ..NOTHING
    };
    assert!(mail.post(0, 5, 2, Release::Complete));
    assert!(mail.post(0, 5, 0, Release::Cancel));
    assert_eq!(collect::<4>(&mut letterbox), [cancelled(2, true)]);
    assert!(mail.post(0, 5, 9, Release::Cancel));
    assert_eq!(collect::<4>(&mut letterbox), [cancelled(0, false)]);
    assert!(mail.post(0, 5, 0, Release::Cancel));
    assert!(mail.post(0, 5, 1, Release::PrefillDone));
    assert!(mail.post(0, 5, 2, Release::Complete));
    assert_eq!(collect::<4>(&mut letterbox), [cancelled(2, true)]);
}

#[test]
fn a_later_generation_replaces_everything_and_an_earlier_one_is_stale() {
    let (mail, mut letterbox) = mail(1);
    for (earlier, later) in [(5, 6), (u32::MAX, 0), (u32::MAX - 3, 1 << 20)] {
        assert!(mail.post(0, earlier, 3, Release::PrefillDone));
        assert!(mail.post(0, earlier, 0, Release::Cancel));
        assert!(mail.post(0, later, 1, Release::Complete));
        assert!(!mail.post(0, earlier, 3, Release::Complete));
        assert!(!mail.post(0, earlier, 0, Release::Cancel));
        let expected = Letter {
            generation: later,
            attempt: 1,
            complete: true,
            ..NOTHING
        };
        assert_eq!(collect::<4>(&mut letterbox), [expected]);
    }
}

/// A slot may be used any number of times without a letter; what was collected long ago must not
/// make a current release look stale.
#[test]
fn nothing_is_stale_against_what_was_collected() {
    let (mail, mut letterbox) = mail(1);
    for generation in [0, 0x8000_0000, 7, 0xffff_ffff, 0x7fff_fff0] {
        assert!(mail.post(0, generation, 1, Release::Complete));
        let expected = Letter {
            generation,
            attempt: 1,
            complete: true,
            ..NOTHING
        };
        assert_eq!(collect::<4>(&mut letterbox), [expected]);
    }
}

#[test]
fn every_slot_of_a_box_of_any_size_is_found() {
    for count in [
        1,
        2,
        63,
        64,
        65,
        4_095,
        4_096,
        4_097,
        (1 << 18) - 1,
        1 << 18,
        (1 << 18) + 1,
    ] {
        let (mail, mut letterbox) = mail(count);
        let posted: Vec<u32> = [
            0,
            1,
            62,
            63,
            64,
            4_095,
            4_096,
            (1 << 18) - 1,
            1 << 18,
            count - 1,
        ]
        .into_iter()
        .filter(|slot| mail.post(*slot, 1, 1, Release::Complete))
        .collect();
        let mut posted = posted;
        posted.sort_unstable();
        posted.dedup();
        assert_eq!(
            slots(&collect::<16>(&mut letterbox)),
            posted,
            "{count} slots"
        );
        assert!(letterbox.is_empty(), "{count} slots");
    }
}

#[test]
fn a_collection_goes_on_where_the_last_one_stopped() {
    let (mail, mut letterbox) = mail(500);
    let all = [3, 64, 65, 300, 499];
    for slot in all {
        assert!(mail.post(slot, 1, 1, Release::Complete));
    }
    assert_eq!(slots(&collect::<2>(&mut letterbox)), [3, 64]);
    assert!(mail.post(3, 2, 1, Release::Complete));
    assert_eq!(slots(&collect::<2>(&mut letterbox)), [65, 300]);
    assert_eq!(slots(&collect::<2>(&mut letterbox)), [499, 3]);
    assert!(letterbox.is_empty());
}

/// The busiest slot cannot keep the others from being collected.
#[test]
fn a_slot_that_is_always_dirty_waits_for_its_turn() {
    let (mail, mut letterbox) = mail(200);
    for slot in 0..200 {
        assert!(mail.post(slot, 1, 1, Release::Complete));
    }
    let mut order = Vec::new();
    for _ in 0..200 {
        assert!(mail.post(0, 1, 1, Release::Complete));
        order.extend(slots(&collect::<1>(&mut letterbox)));
    }
    assert_eq!(order, (0..200).collect::<Vec<_>>());
}

#[test]
fn a_collection_fills_no_more_than_there_is_room() {
    let (mail, mut letterbox) = mail(10);
    for slot in 0..10 {
        assert!(mail.post(slot, 1, 1, Release::Complete));
    }
    let mut into = ArrayVec::<Letter, 4>::new();
    into.push(NOTHING);
    letterbox.collect(&mut into);
    assert_eq!(into.len(), 4);
    letterbox.collect(&mut into);
    assert_eq!(into.len(), 4);
    assert_eq!(collect::<16>(&mut letterbox).len(), 7);
}

#[test]
fn a_recalled_prefill_done_is_gone_and_the_rest_of_the_letter_stays() {
    let (mail, mut letterbox) = mail(100);
    assert!(
        !letterbox.recall_prefill_done(7, 3, 1),
        "there is no letter"
    );
    assert!(!letterbox.recall_prefill_done(100, 3, 1), "nor such a slot");
    assert!(mail.post(7, 3, 1, Release::PrefillDone));
    assert!(
        !letterbox.recall_prefill_done(7, 2, 1),
        "another use of the slot"
    );
    assert!(!letterbox.recall_prefill_done(7, 3, 2), "another attempt");
    assert!(letterbox.recall_prefill_done(7, 3, 1));
    assert!(!letterbox.recall_prefill_done(7, 3, 1), "it was recalled");
    assert_eq!(collect::<4>(&mut letterbox), []);

    for what in [Release::PrefillDone, Release::Cancel] {
        assert!(mail.post(7, 4, 1, what));
    }
    assert!(letterbox.recall_prefill_done(7, 4, 1));
    let cancel = Letter {
        slot: 7,
        generation: 4,
        attempt: 1,
        cancel: true,
        ..NOTHING
    };
    assert_eq!(collect::<4>(&mut letterbox), [cancel]);
}
