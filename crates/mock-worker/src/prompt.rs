//! Prompts: how many tokens they are, and the blocks that they share.
//!
//! Token ids count as they are; of a text every four bytes are a token, and the rest is one. Each full
//! block of 512 tokens has a name that depends on its tokens and on all blocks before it, so that
//! prompts with equal beginnings, and only they, have blocks in common.

use std::sync::Arc;

use tollgate_sim::trace::BLOCK_TOKENS;
use twox_hash::XxHash3_64;

/// Bytes of a text that are one token.
const TOKEN_BYTES: usize = 4;
/// What a message takes besides its text.
const MESSAGE_TOKENS: u32 = 4;
const BLOCK_BYTES: usize = BLOCK_TOKENS as usize * TOKEN_BYTES;

/// A prompt that was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) tokens: u32,
    /// The names of its full blocks.
    pub(crate) blocks: Arc<[u64]>,
}

/// Counts and names what is put in, in order.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    tokens: u32,
    /// The tokens of the block that is not full yet.
    rest: Vec<u8>,
    blocks: Vec<u64>,
}

impl Counter {
    pub(crate) fn finish(self) -> Prompt {
        Prompt {
            tokens: self.tokens,
            blocks: self.blocks.into(),
        }
    }

    /// A text, from a token of its own on.
    pub(crate) fn put_text(&mut self, text: &str) {
        for piece in text.as_bytes().chunks(TOKEN_BYTES) {
            let mut token = [0; TOKEN_BYTES];
            token[..piece.len()].copy_from_slice(piece);
            self.put(token);
        }
    }

    pub(crate) fn put_ids(&mut self, ids: &[u32]) {
        for id in ids {
            self.put(id.to_le_bytes());
        }
    }

    /// What stands before each message's text.
    pub(crate) fn put_message_head(&mut self, role: &str) {
        let role = XxHash3_64::oneshot(role.as_bytes()).to_le_bytes();
        let (low, high) = role.split_at(TOKEN_BYTES);
        for at in 0..MESSAGE_TOKENS {
            let half = if at % 2 == 0 { low } else { high };
            self.put(half.try_into().expect("half of eight bytes"));
        }
    }

    fn put(&mut self, token: [u8; TOKEN_BYTES]) {
        // A body of 32 MiB has fewer tokens than overflow.
        self.tokens += 1;
        self.rest.extend_from_slice(&token);
        if self.rest.len() == BLOCK_BYTES {
            let before = self.blocks.last().copied().unwrap_or(0);
            self.blocks
                .push(XxHash3_64::oneshot_with_seed(before, &self.rest));
            self.rest.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> u32 {
        let mut counter = Counter::default();
        counter.put_text(text);
        counter.finish().tokens
    }

    #[test]
    fn four_bytes_of_text_are_a_token() {
        for (bytes, tokens) in [("", 0), ("a", 1), ("four", 1), ("fives", 2), ("größe", 2)] {
            assert_eq!(text(bytes), tokens, "{bytes}");
        }
    }

    #[test]
    fn equal_beginnings_have_equal_blocks_up_to_the_first_difference() {
        let ids = |changed: usize| {
            let mut ids: Vec<u32> = (0..2_000).collect();
            ids[changed] = u32::MAX;
            let mut counter = Counter::default();
            counter.put_ids(&ids);
            counter.finish().blocks
        };
        let (late, early) = (ids(1_999), ids(600));
        assert_eq!((late.len(), early.len()), (3, 3), "full blocks alone");
        assert_eq!(late[0], early[0]);
        assert_ne!(late[1], early[1]);
        assert_ne!(
            late[2], early[2],
            "a block's name depends on those before it"
        );
        assert_eq!(late, ids(1_999));
    }

    #[test]
    fn a_message_takes_four_tokens_that_depend_on_its_role() {
        let message = |role| {
            let mut counter = Counter::default();
            counter.put_message_head(role);
            counter.put_text(&"x".repeat(4 * 600));
            counter.finish()
        };
        assert_eq!(message("user").tokens, 604);
        assert_eq!(message("user"), message("user"));
        assert_ne!(message("user").blocks, message("system").blocks);
    }
}
