//! Measurements, told: durations that were recorded and counts that were taken, as text for people,
//! as JSON, as files of the HdrHistogram family, and as one HTML page with plots.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`recording`] | One population of durations: a histogram, and what a histogram cannot keep exactly |
//! | [`hlog`], [`hgrm`] | Recordings as files that other tools read |
//! | [`text`] | Tables that align, and numbers with their units |
//! | [`chart`] | SVG charts: lines, bands, bars, percentile curves |
//! | [`page`] | The frame that holds charts and tables, as one HTML file |
//! | [`replay`] | The report of a replay, which uses all of these |
//! | [`bench`](mod@bench) | The report of a benchmark, as well; it is read back, merged and compared |
//!
//! Plain numbers and strings come in; no other crate of the workspace is known here. Nothing reads a
//! clock or the environment, so the same input gives the same bytes.
//!
//! Names are never trusted: they are cut, stripped of control characters and escaped wherever they
//! are shown. JSON alone holds them whole.

pub mod bench;
pub mod chart;
mod encoding;
mod error;
pub mod hgrm;
pub mod hlog;
pub mod page;
pub mod recording;
pub mod replay;
pub mod text;
mod told;

pub use error::{Error, ReadError};
pub use recording::Recording;
pub use told::{Fact, Quantiles};
