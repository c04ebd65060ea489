//! What the engine counts and measures.
