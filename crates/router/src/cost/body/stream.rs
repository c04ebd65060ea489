//! A prompt as a stream of bytes that does not depend on how its JSON was spelled, and its blocks.
//!
//! A prompt consists of a few streams, because its parts may come in any order in the body while their
//! order in the prompt is fixed. Each stream hashes its own blocks; [`chain`] links those of all of them.

use twox_hash::XxHash3_64;

/// Bytes of the canonical stream in one block; as token ids, 64 of them.
pub const BLOCK_BYTES: usize = 256;
/// Blocks of one prompt at most: what lies beyond is counted, but not remembered. 2 MiB of text.
pub const BLOCKS_MAX: usize = 8_192;

/// What separates texts in a stream: bytes that UTF-8 never contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mark {
    /// The end of a message's text; its role follows.
    Role = 0xf6,
    /// The name of who speaks follows.
    Name,
    /// Between two messages.
    Message,
    /// Between two parts of a message, or two texts of a batch.
    Part,
    /// Eight bytes that stand for an image, a sound or a file follow.
    Media,
    /// A number, a boolean or null of a JSON value follows.
    Scalar,
    /// A string of a JSON value, or a member's name, follows.
    Text,
    /// An array begins.
    Array,
    /// An object begins.
    Object,
    /// An array or an object ends.
    End,
}

/// One part of a prompt.
#[derive(Debug)]
pub(super) struct Stream {
    /// Hashes of the whole blocks, each of its own bytes alone.
    blocks: Vec<u64>,
    /// The bytes since the last whole block.
    tail: [u8; BLOCK_BYTES],
    tail_len: usize,
    /// Hash of the pieces of less than a block that were sealed since the last whole block; 0: none.
    sealed: u64,
    /// All bytes.
    bytes: u64,
}

impl Stream {
    pub(super) const fn new() -> Self {
        Self {
            blocks: Vec::new(),
            tail: [0; BLOCK_BYTES],
            tail_len: 0,
            sealed: 0,
            bytes: 0,
        }
    }

    /// How many bytes went in.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn mark(&mut self, mark: Mark) {
        self.text(&[mark as u8]);
    }

    pub(super) fn id(&mut self, id: u32) {
        let bytes = id.to_le_bytes();
        match self.tail[self.tail_len..].first_chunk_mut() {
            // The way of nearly all of a prompt's many ids: four bytes, without a loop.
            Some(place) if self.tail_len + bytes.len() < BLOCK_BYTES => {
                *place = bytes;
                self.tail_len += bytes.len();
                self.bytes += bytes.len() as u64;
            }
            _ => self.text(&bytes),
        }
    }

    pub(super) fn text(&mut self, mut bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.tail_len > 0 {
            let room = BLOCK_BYTES - self.tail_len;
            let (first, rest) = bytes.split_at(room.min(bytes.len()));
            self.keep(first);
            bytes = rest;
            if self.tail_len < BLOCK_BYTES {
                return;
            }
            let block = self.tail;
            self.block(&block);
            self.tail_len = 0;
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        for block in blocks.iter().take(BLOCKS_MAX - self.blocks.len()) {
            self.block(block);
        }
        self.keep(rest);
    }

    /// Ends the block here, so that what follows begins one. Less than a block is part of the next one's
    /// hash, and no block itself.
    pub(super) fn seal(&mut self) {
        if self.tail_len > 0 {
            let tail = &self.tail[..self.tail_len];
            self.sealed = XxHash3_64::oneshot_with_seed(self.sealed, tail);
            self.tail_len = 0;
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let end = self.tail_len + bytes.len();
        self.tail[self.tail_len..end].copy_from_slice(bytes);
        self.tail_len = end;
    }

    fn block(&mut self, block: &[u8; BLOCK_BYTES]) {
        if self.blocks.len() == BLOCKS_MAX {
            return;
        }
        let hash = XxHash3_64::oneshot(block);
        let sealed = std::mem::take(&mut self.sealed);
        let hash = if sealed == 0 {
            hash
        } else {
            link(sealed, hash)
        };
        self.blocks.push(hash);
    }
}

/// The blocks of a prompt that consists of these streams, one after the other: each hash stands for its
/// block and all that comes before it. At most [`BLOCKS_MAX`].
pub(super) fn chain<const N: usize>(seed: u64, streams: [Stream; N]) -> Vec<u64> {
    let mut chained = Vec::new();
    let mut before = seed;
    for mut stream in streams {
        for hash in &stream.blocks {
            before = link(before, *hash);
            chained.push(before);
        }
        stream.seal();
        if stream.sealed != 0 {
            before = link(before, stream.sealed);
        }
    }
    chained.truncate(BLOCKS_MAX);
    chained
}

fn link(before: u64, hash: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(before, &hash.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pieces: &[&[u8]]) -> Stream {
        let mut stream = Stream::new();
        for piece in pieces {
            stream.text(piece);
        }
        stream
    }

    #[test]
    fn blocks_do_not_depend_on_how_the_bytes_arrive() {
        let bytes: Vec<u8> = (0..1_000_u32).map(|at| (at % 251) as u8).collect();
        let whole = chain(1, [of(&[&bytes])]);
        assert_eq!(whole.len(), 3);
        for cut in [1, 255, 256, 257, 511, 512, 999] {
            let (first, rest) = bytes.split_at(cut);
            assert_eq!(chain(1, [of(&[first, rest])]), whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_block_stands_for_all_that_comes_before_it() {
        let bytes = [7; 1_024];
        let mut other = bytes;
        other[300] = 8;
        let (one, two) = (chain(1, [of(&[&bytes])]), chain(1, [of(&[&other])]));
        assert_eq!(one[0], two[0]);
        assert!(one.iter().zip(&two).skip(1).all(|(one, two)| one != two));
        assert_ne!(one[0], one[1], "equal blocks at different places");
        assert_ne!(one[0], chain(2, [of(&[&bytes])])[0], "another seed");
    }

    #[test]
    fn less_than_a_block_of_one_stream_tells_in_the_blocks_of_the_next() {
        let body = [7; 512];
        let with = |head: &[u8]| chain(1, [of(&[head]), of(&[&body])]);
        assert_eq!(with(b"").len(), 2);
        assert_eq!(with(b"tools").len(), 2);
        assert_ne!(with(b"tools"), with(b"other"));
        assert_ne!(with(b"tools"), with(b""));
    }

    #[test]
    fn ids_are_four_bytes_each_wherever_they_begin() {
        for before in [0, 1, 3, 252, 253, 255] {
            let mut ids = of(&[&[9; 255][..before]]);
            let mut bytes = vec![9; before];
            for id in 0..200 {
                ids.id(id);
                bytes.extend_from_slice(&id.to_le_bytes());
            }
            assert_eq!(ids.bytes(), bytes.len() as u64);
            assert_eq!(chain(1, [ids]), chain(1, [of(&[&bytes])]), "after {before}");
        }
    }

    #[test]
    fn what_follows_a_seal_begins_a_block() {
        let mut sealed = of(&[&[1; 100]]);
        sealed.seal();
        sealed.text(&[2; 256]);
        let mut twice = of(&[&[3; 100]]);
        twice.seal();
        twice.text(&[2; 256]);
        assert_eq!(sealed.blocks.len(), 1);
        assert_ne!(sealed.blocks, twice.blocks);
        assert_eq!(sealed.bytes(), 356);
    }

    #[test]
    fn blocks_beyond_the_limit_are_counted_and_not_remembered() {
        let piece = [5; 3 * BLOCK_BYTES + 1];
        let mut stream = Stream::new();
        for _ in 0..BLOCKS_MAX {
            stream.text(&piece);
        }
        assert_eq!(stream.bytes(), (BLOCKS_MAX * piece.len()) as u64);
        let head = of(&[&piece]);
        assert_eq!(chain(1, [head, stream]).len(), BLOCKS_MAX);
    }
}
