//! The scheduling core of Tollgate.
mod capacity;
mod event;
mod ids;
mod refusal;
mod request;
mod state;

pub use capacity::*;
pub use event::*;
pub use ids::*;
pub use refusal::*;
pub use request::*;
pub use state::*;
