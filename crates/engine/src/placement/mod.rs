//! Which core a thread runs on.
