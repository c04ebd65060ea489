//! The worker as its clients see it, over real sockets.

mod answers;
mod bad_input;
mod cancel;
mod client;
mod faults;
mod life;
mod timing;
