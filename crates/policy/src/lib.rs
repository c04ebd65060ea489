//! Policy files of Tollgate: YAML in, a validated [`Profile`] out.
//!
//! A [`PolicyFile`] holds the root profile and the profiles of single models. Parsing reports
//! *every* semantic error of a file at once, each with line, column, the line itself and what would
//! be right; a value that exists is valid. Nothing here runs threads, reads clocks or does I/O.
//!
//! | module | what it holds |
//! |---|---|
//! | [`profile`] | the validated values: classes, buckets, settings, class resolution |
//! | [`spec`] | profiles that a program fills in |
//! | [`fraction`] | exact decimal fractions |
//! | [`mod@file`] | a file's text to a [`PolicyFile`] |
//! | [`error`] | what can be wrong with a file, and where |

pub mod error;
pub mod file;
pub mod fraction;
pub mod profile;
pub mod spec;

mod draft;
mod keys;
mod locate;
mod names;
mod path;
mod reader;
mod report;
mod resolve;
mod rules;
mod schema;
mod suggest;
mod warnings;
mod write;
mod yaml;

pub use error::{PolicyError, PolicyErrors, PolicyWarning, Position};
pub use file::PolicyFile;
pub use fraction::{Fraction, FractionError};
pub use names::UnknownName;
pub use profile::{
    Arbitration, Bucket, ClassPolicy, Matching, OrderPolicy, OverloadAction, Profile, Resolution,
    SelectorKind, Settings,
};
pub use spec::ProfileSpec;
