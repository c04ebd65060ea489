//! Models of the letterbox, over the product's code, and proofs that they would find its faults.
//!
//! A bitmap word has two bits here: five slots have three levels. Slots 0 and 1 share the lowest
//! word, 2 the one above it, 4 only the root.

use loom::thread;

use super::super::doorbell::{Answer, doorbell};
use super::super::model::explore;
use super::*;

const SLOTS: u32 = 5;

/// How a post is done: the product's way, or a faulty one.
type Post = fn(&Mail, u32, Release);

fn properly(mail: &Mail, slot: u32, what: Release) {
    assert!(mail.post(slot, 1, 1, what));
}

fn bits_before_the_letter(mail: &Mail, slot: u32, what: Release) {
    mail.shared.raise(slot as usize);
    assert!(mail.shared.write(slot as usize, 1, 1, what));
}

fn bits_from_the_root_down(mail: &Mail, slot: u32, what: Release) {
    assert!(mail.shared.write(slot as usize, 1, 1, what));
    for level in (0..=mail.shared.levels.len()).rev() {
        let position = slot as usize / WORD_BITS.pow(u32::try_from(level).expect("few levels"));
        mail.shared
            .word(level, position / WORD_BITS)
            .fetch_or(1 << (position % WORD_BITS), Ordering::Release);
    }
}

fn collect_into(letterbox: &mut Letterbox, all: &mut Vec<Letter>) {
    let mut some = ArrayVec::<Letter, 1>::new();
    letterbox.collect(&mut some);
    all.extend(some);
}

/// A poster for each of `posts`; the collector collects twice meanwhile and, when all have posted,
/// until the box is empty. Every release comes, once.
fn every_release_comes_once<const N: usize>(posts: [(u32, Release); N], post: Post) {
    let (mail, mut letterbox) = mail(SLOTS);
    let posters = posts.map(|(slot, what)| {
        let mail = mail.clone();
        thread::spawn(move || post(&mail, slot, what))
    });
    let mut letters = Vec::new();
    collect_into(&mut letterbox, &mut letters);
    collect_into(&mut letterbox, &mut letters);
    for poster in posters {
        poster.join().expect("a poster does not panic");
    }
    while !letterbox.is_empty() {
        collect_into(&mut letterbox, &mut letters);
    }
    for (slot, what) in posts {
        let flag = |letter: &Letter| match what {
            Release::Cancel => letter.cancel,
            Release::PrefillDone => letter.prefill_done,
            Release::Complete => letter.complete,
        };
        let came = letters
            .iter()
            .filter(|letter| letter.slot == slot && flag(letter))
            .count();
        assert_eq!(came, 1, "{what:?} of slot {slot} in {letters:?}");
    }
}

/// M1 to M4.
#[test]
fn two_posters_of_one_slot() {
    explore(3, || {
        every_release_comes_once(
            [(0, Release::PrefillDone), (0, Release::Complete)],
            properly,
        );
    });
}

#[test]
fn two_posters_of_one_word() {
    explore(3, || {
        every_release_comes_once([(0, Release::Complete), (1, Release::Complete)], properly);
    });
}

#[test]
fn two_posters_under_one_word_of_the_second_level() {
    explore(3, || {
        every_release_comes_once([(0, Release::Complete), (2, Release::Complete)], properly);
    });
}

#[test]
fn two_posters_under_the_root() {
    explore(3, || {
        every_release_comes_once([(0, Release::Complete), (4, Release::Cancel)], properly);
    });
}

#[test]
#[should_panic(expected = "of slot 0 in")]
fn a_post_that_sets_the_bits_before_the_letter_is_found() {
    explore(3, || {
        every_release_comes_once([(0, Release::Complete)], bits_before_the_letter)
    });
}

#[test]
#[should_panic(expected = "of slot 0 in")]
fn a_post_that_sets_the_bits_from_the_root_down_is_found() {
    explore(3, || {
        every_release_comes_once([(0, Release::Complete)], bits_from_the_root_down)
    });
}

/// A post to `slot` meets the taking, by `take`, of an earlier letter of slot 0.
fn a_post_meets_a_take(slot: u32, take: fn(&Shared, usize) -> Option<Letter>) {
    let (mail, letterbox) = mail(SLOTS);
    properly(&mail, 0, Release::PrefillDone);
    let poster = thread::spawn(move || properly(&mail, slot, Release::Complete));
    let mut letters = Vec::new();
    let mut take_first = || {
        let slot = letterbox.shared.find(0);
        letters.extend(slot.and_then(|slot| take(&letterbox.shared, slot)));
    };
    take_first();
    poster.join().expect("a poster does not panic");
    while !letterbox.is_empty() {
        take_first();
    }
    assert!(
        letters
            .iter()
            .any(|letter| letter.slot == 0 && letter.prefill_done)
    );
    assert!(
        letters
            .iter()
            .any(|letter| letter.slot == slot && letter.complete),
        "a lost letter"
    );
    assert!(letterbox.is_empty(), "a box without letters says so");
}

fn clear_bit(shared: &Shared, level: usize, position: usize) -> u64 {
    let bit = 1 << (position % WORD_BITS);
    shared
        .word(level, position / WORD_BITS)
        .fetch_and(!bit, Ordering::Acquire)
        & !bit
}

fn the_letter_before_the_bit(shared: &Shared, slot: usize) -> Option<Letter> {
    let word = shared.letters[slot].swap(0, Ordering::Acquire);
    if clear_bit(shared, 0, slot) == 0 {
        shared.prune(0, slot / WORD_BITS);
    }
    letter(slot, word)
}

fn no_second_look(shared: &Shared, slot: usize) -> Option<Letter> {
    let (mut level, mut position) = (0, slot);
    while clear_bit(shared, level, position) == 0 && level < shared.levels.len() {
        level += 1;
        position /= WORD_BITS;
    }
    letter(slot, shared.letters[slot].swap(0, Ordering::Acquire))
}

/// M3, M4.
#[test]
fn a_post_meets_a_proper_take() {
    for slot in [0, 1, 2, 4] {
        explore(4, move || a_post_meets_a_take(slot, Shared::take));
    }
}

#[test]
#[should_panic(expected = "a lost letter")]
fn a_take_of_the_letter_before_the_bit_is_found() {
    explore(4, || a_post_meets_a_take(0, the_letter_before_the_bit));
}

#[test]
#[should_panic(expected = "a lost letter")]
fn a_take_without_the_second_look_is_found() {
    explore(4, || a_post_meets_a_take(1, no_second_look));
}

/// A letter that is replaced is one that became stale, and a later one always comes.
#[test]
fn a_later_generation_meets_an_earlier_one() {
    explore(3, || {
        let (mail, mut letterbox) = mail(1);
        let posters = [1, 2].map(|generation| {
            let mail = mail.clone();
            thread::spawn(move || mail.post(0, generation, 1, Release::Complete))
        });
        let mut letters = Vec::new();
        collect_into(&mut letterbox, &mut letters);
        let accepted = posters.map(|poster| poster.join().expect("a poster does not panic"));
        while !letterbox.is_empty() {
            collect_into(&mut letterbox, &mut letters);
        }
        let came = |generation| {
            letters
                .iter()
                .filter(|l| l.generation == generation)
                .count()
        };
        assert!(accepted[1]);
        assert_eq!(came(2), 1, "{letters:?}");
        assert!(came(1) <= usize::from(accepted[0]), "{letters:?}");
    });
}

/// Posters that ring, a collector that sleeps without end whenever the box is empty: loom reports
/// a deadlock if it sleeps through a letter.
#[test]
fn no_letter_is_slept_through() {
    explore(2, || {
        let (mail, mut letterbox) = mail(SLOTS);
        let (doorbell, mut sleeper) = doorbell();
        let posters = [0, 4].map(|slot| {
            let (mail, doorbell) = (mail.clone(), doorbell.clone());
            thread::spawn(move || {
                properly(&mail, slot, Release::Complete);
                assert_eq!(doorbell.ring(), Answer::Heard);
            })
        });
        let mut letters = Vec::new();
        while letters.len() < posters.len() {
            let before = letters.len();
            collect_into(&mut letterbox, &mut letters);
            if letters.len() == before {
                sleeper.sleep_unless(|| !letterbox.is_empty(), None);
            }
        }
        for poster in posters {
            poster.join().expect("a poster does not panic");
        }
    });
}
