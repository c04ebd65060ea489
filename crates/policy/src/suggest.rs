//! The known word that somebody probably meant.

/// Longer words are not compared; nobody mistypes that much.
const WORD_MAX: usize = 60;
/// No more known words than these are compared.
const KNOWN_MAX: usize = 1_024;

/// The closest of the known words, if one is close: at most a third of its letters differ.
///
/// Case does not count, and `-` and a space are as good as `_`.
pub(crate) fn closest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = letters(word)?;
    known
        .into_iter()
        .take(KNOWN_MAX)
        .filter_map(|candidate| {
            let letters = letters(candidate)?;
            let distance = distance(&word, &letters);
            let allowed = (letters.len() / 3).max(1);
            (distance <= allowed && distance < letters.len()).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The letters of a word as they are compared.
fn letters(word: &str) -> Option<Vec<char>> {
    let letters: Vec<char> = word
        .chars()
        .take(WORD_MAX + 1)
        .map(|letter| match letter {
            '-' | ' ' => '_',
            other => other.to_ascii_lowercase(),
        })
        .collect();
    (!letters.is_empty() && letters.len() <= WORD_MAX).then_some(letters)
}

/// How many letters must be inserted, removed, replaced or swapped with their neighbour.
fn distance(left: &[char], right: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, from) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in right.iter().enumerate() {
            let replaced = last[j] + usize::from(from != to);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == right[j - 1] && left[i - 1] == *to {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["quantum", "queue_policy", "name", "prefill_busy_threshold"];

    #[test]
    fn a_mistyped_word_finds_the_right_one() {
        for (word, meant) in [
            ("quantom", "quantum"),
            ("qauntum", "quantum"),
            ("Quantum", "quantum"),
            ("queue-policy", "queue_policy"),
            ("queu_polcy", "queue_policy"),
            ("nmae", "name"),
            ("prefill_busy_treshold", "prefill_busy_threshold"),
        ] {
            assert_eq!(closest(word, KNOWN), Some(meant), "{word}");
        }
    }

    #[test]
    fn a_different_word_finds_nothing() {
        for word in ["", "x", "weight", "quan", "na", "<<"] {
            assert_eq!(closest(word, KNOWN), None, "{word}");
        }
        assert_eq!(closest(&"q".repeat(1_000_000), KNOWN), None);
    }

    #[test]
    fn distance_counts_single_edits() {
        let measured = |left: &str, right: &str| {
            distance(
                &left.chars().collect::<Vec<_>>(),
                &right.chars().collect::<Vec<_>>(),
            )
        };
        assert_eq!(measured("", ""), 0);
        assert_eq!(measured("abc", "abc"), 0);
        assert_eq!(measured("abc", "ab"), 1);
        assert_eq!(measured("ab", "ba"), 1);
        assert_eq!(measured("abc", "xyz"), 3);
        assert_eq!(measured("kitten", "sitting"), 3);
    }
}
