//! What the engine counts and measures.
#![cfg_attr(not(test), expect(dead_code, reason = "its writers are still to come"))]

mod histogram;
mod record;
