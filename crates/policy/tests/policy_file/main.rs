//! Policy files, rule by rule: what they say, and what is said about the bad ones.

mod accepted;
mod common;
mod refused;
