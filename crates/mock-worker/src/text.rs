//! What the model says: short words, one a token.

/// The words with the space before them; the first of an answer goes without.
const WORDS: [&str; 16] = [
    " the", " gate", " is", " open", " and", " each", " one", " goes", " in", " its", " turn",
    " to", " where", " there", " is", " room",
];

/// The text of one output token, from 0. It needs no escape in JSON.
pub(crate) fn token(index: u32) -> &'static str {
    let word = WORDS[index as usize % WORDS.len()];
    if index == 0 { word.trim_start() } else { word }
}

/// The text of so many output tokens.
pub(crate) fn of(tokens: u32) -> String {
    (0..tokens).map(token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_as_many_words_as_tokens() {
        for tokens in [0, 1, 2, 16, 17, 100] {
            assert_eq!(of(tokens).split_whitespace().count(), tokens as usize);
        }
        assert_eq!(of(3), "the gate is");
    }

    #[test]
    fn words_stand_in_json_as_they_are() {
        for index in 0..16 {
            let quoted = serde_json::to_string(token(index)).expect("a text");
            assert_eq!(quoted, format!("\"{}\"", token(index)));
        }
    }
}
