//! Everything around the arbiter that needs no thread and no clock.
//!
//! | module | what it holds |
//! |---|---|
//! | [`protocol`] | the scenario protocol: operations in, events out, one JSON object a line |

pub mod protocol;
