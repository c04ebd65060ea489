//! The router over real sockets, before mock workers.

mod connections;
mod failures;
mod lifecycle;
mod limits;
mod operators;
mod refusals;
mod routing;
mod sessions;
mod support;
mod tls;
mod waiting;
