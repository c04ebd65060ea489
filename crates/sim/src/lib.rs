//! Everything around the arbiter that needs no thread and no clock.
//!
//! | module | what it holds |
//! |---|---|
//! | [`protocol`] | the scenario protocol: operations in, events out, one JSON object a line |
//! | [`oracle`] | a naive model of the rules, to compare the arbiter with |
//! | [`differential`] | random operations on two machines, compared after every one |
//! | [`scenario`] | the scenario protocol on the real arbiter |
//! | [`worker`] | modelled workers: how long prefill and decode take, what their caches hold |
//! | [`trace`] | recorded request traces, read and written |
//! | [`replay`] | a trace through the real arbiter onto modelled workers |
//! | [`demo`] | the premium and regular experiment |

pub mod demo;
pub mod differential;
pub mod oracle;
pub mod protocol;
pub mod replay;
pub mod scenario;
pub mod trace;
pub mod worker;
