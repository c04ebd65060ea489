//! What the shards and the arbiter share besides rings: how a thread sleeps and is woken, and the
//! letterbox for releases that may not fail. The protocols and their proofs are in `README.md`
//! beside this file.

pub(crate) mod doorbell;
pub(crate) mod mail;
#[cfg(all(test, loom))]
pub(crate) mod model;
pub(crate) mod room;
pub(crate) mod shim;
#[cfg(all(test, not(loom)))]
mod stress;
