//! Whatever the bytes are, reading them ends with a file or with errors, never with a panic.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tollgate_policy::PolicyFile;

const SAMPLE: &[u8] = include_bytes!("../sample-policy.yaml");

/// Reads bytes, and looks at everything that comes out.
fn look(bytes: &[u8]) {
    match PolicyFile::parse("p.yaml", bytes) {
        Ok(file) => {
            for profile in [
                file.profile(None),
                file.profile(Some("example/small-model")),
            ] {
                assert!(!profile.classes().is_empty());
                for name in [None, Some("chat"), Some("probe"), Some("batch"), Some("?")] {
                    for uncached in [0, 3_071, 3_072, u64::MAX] {
                        let class = profile.resolve(name, uncached).class;
                        assert!(class < profile.classes().len());
                    }
                }
            }
            assert!(
                file.warnings()
                    .iter()
                    .all(|warning| !warning.to_string().is_empty())
            );
        }
        Err(errors) => {
            assert!(!errors.errors().is_empty());
            let shown = errors.to_string();
            assert!(!shown.is_empty() && !shown.contains(|c: char| c.is_control() && c != '\n'));
        }
    }
}

/// One change of the sample.
#[derive(Clone, Debug)]
enum Change {
    Replace(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Copy(Index, Index, usize),
    Cut(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let token = select(vec![
        "\n",
        "  ",
        "- ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        "&a ",
        "*a",
        "!!str ",
        "#",
        "|",
        ">",
        "? ",
        "---\n",
        "~",
        "0",
        "-1",
        "1e99",
        ".nan",
        "\t",
        "\u{feff}",
        "\u{e9}",
        "%YAML 1.2\n",
        "<<: ",
    ]);
    let token = token.prop_map(|token| token.as_bytes().to_vec());
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Replace(at, byte)),
        (any::<Index>(), token).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (any::<Index>(), 1_usize..60).prop_map(|(at, count)| Change::Remove(at, count)),
        (any::<Index>(), any::<Index>(), 1_usize..200)
            .prop_map(|(from, to, count)| Change::Copy(from, to, count)),
        any::<Index>().prop_map(Change::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: Change) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    let until = |start: usize, count: usize| (start + count).min(length);
    match change {
        Change::Replace(at, byte) => bytes[at.index(length)] = byte,
        Change::Insert(at, new) => {
            let at = at.index(length);
            bytes.splice(at..at, new);
        }
        Change::Remove(at, count) => {
            let at = at.index(length);
            bytes.drain(at..until(at, count));
        }
        Change::Copy(from, to, count) => {
            let from = from.index(length);
            let copied = bytes[from..until(from, count)].to_vec();
            let to = to.index(length);
            bytes.splice(to..to, copied);
        }
        Change::Cut(at) => bytes.truncate(at.index(length)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..400)) {
        look(&bytes);
    }

    #[test]
    fn random_text_never_panics(text in "[ \\n:\\-{}\\[\\]&*!|>'\"%@`#?,~a0.\u{e9}\u{2028}\t\r]{0,200}") {
        look(text.as_bytes());
    }

    #[test]
    fn a_changed_sample_never_panics(changes in vec(change(), 1..8)) {
        let mut bytes = SAMPLE.to_vec();
        for change in changes {
            apply(&mut bytes, change);
        }
        look(&bytes);
    }
}

#[test]
fn every_prefix_of_the_sample_is_read_or_refused() {
    for end in 0..=SAMPLE.len() {
        look(&SAMPLE[..end]);
    }
}
