//! What the shards and the arbiter share besides rings.
