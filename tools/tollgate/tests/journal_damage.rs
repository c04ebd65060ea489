//! A damaged journal ends in a verdict, whatever the damage: never in a panic, and never in one that all
//! was as it says where a line is missing.

use tollgate_sim::scenario::{JournalPlayer, Outcome, Replayed};

/// Damages tried at random in each test.
const DAMAGES: u64 = 20_000;
const JOURNAL: &str = include_str!("../../../docs/examples/captured.jsonl");

fn play(journal: &[u8]) -> Replayed {
    let mut output = Vec::new();
    let played = JournalPlayer::default().run(journal, &mut output);
    let replayed = played.expect("memory can be read and written");
    let told = String::from_utf8(output).expect("events are text");
    let last = told.lines().last().unwrap_or_default();
    assert_eq!(
        replayed.outcome == Outcome::Damaged,
        last.starts_with(r#"{"event":"invalid""#),
        "{last}"
    );
    assert_eq!(
        replayed.outcome == Outcome::Differs,
        last.starts_with(r#"{"event":"differs""#),
        "{last}"
    );
    replayed
}

#[test]
fn the_journal_itself_is_whole() {
    let replayed = play(JOURNAL.as_bytes());
    assert_eq!(replayed.outcome, Outcome::Same);
    assert!(replayed.decisions >= 3);
}

#[test]
fn every_line_is_missed() {
    let lines: Vec<&str> = JOURNAL.lines().collect();
    for missing in 0..lines.len() {
        let mut left = lines.clone();
        left.remove(missing);
        let outcome = play(left.join("\n").as_bytes()).outcome;
        assert_ne!(outcome, Outcome::Same, "without line {}", missing + 1);
    }
}

#[test]
fn every_cut_is_noticed() {
    for end in 0..JOURNAL.len() - 1 {
        let outcome = play(&JOURNAL.as_bytes()[..end]).outcome;
        assert!(
            matches!(outcome, Outcome::Damaged | Outcome::NoJournal),
            "cut after {end} bytes: {outcome:?}"
        );
    }
}

/// A stream of chance: xorshift.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).expect("below a usize")
    }
}

#[test]
fn random_damage_ends_in_a_verdict() {
    let mut dice = Dice(4_711);
    for _ in 0..DAMAGES {
        let mut journal = JOURNAL.as_bytes().to_vec();
        for _ in 0..=dice.roll(3) {
            let at = dice.roll(journal.len());
            match dice.roll(4) {
                0 => journal[at] = b"0123456789,:{}[]\"\n"[dice.roll(18)],
                1 => {
                    journal.remove(at);
                }
                2 => journal.insert(at, b"0123456789"[dice.roll(10)]),
                // Digits become others.
                _ => {
                    let digit = (at..journal.len()).find(|&at| journal[at].is_ascii_digit());
                    if let Some(at) = digit {
                        journal[at] = b'0' + u8::try_from(dice.roll(10)).expect("a digit");
                    }
                }
            }
        }
        play(&journal);
    }
}

#[test]
fn lines_in_another_order_end_in_a_verdict() {
    let mut dice = Dice(99);
    let lines: Vec<&str> = JOURNAL.lines().collect();
    for _ in 0..DAMAGES / 10 {
        let mut shuffled = lines.clone();
        for _ in 0..=dice.roll(4) {
            let (a, b) = (dice.roll(lines.len()), dice.roll(lines.len()));
            shuffled.swap(a, b);
        }
        play(shuffled.join("\n").as_bytes());
    }
}
