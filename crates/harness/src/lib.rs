//! Measures Tollgate: how fast, how steady, and whether the figures may be trusted.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`machine`] | The machine that is measured on: cores, calibration, facts |
//! | [`open_loop`] | Requests that come at their own pace, and where each spends its time |
//! | [`pipeline`] | An engine of 8 classes and 256 endpoints, and closed loops over it |
//! | [`suites`] | The questions, an arm for each configuration |
//!
//! [`measure`] runs one suite by the method that it describes; the report's form is
//! `tollgate-report`'s. [`Driver`] and [`Stream`] are an arbiter with its slots and requests drawn
//! beforehand.
//!
//! Everything goes through public API. A question about one structure (a lane's order, the tree over
//! lanes, the class pick) is asked through the whole arbiter, with a configuration in which nothing
//! else varies.

mod driver;
pub mod machine;
mod method;
pub mod open_loop;
pub mod pipeline;
mod plan;
mod stream;
pub mod suites;
mod summary;

pub use driver::{Driver, Lane, Served, Setup};
pub use method::{Progress, Suite, empty_report, measure};
pub use plan::{Axes, Plan, Scale};
pub use stream::{Draw, Stream};
pub use summary::Summary;
