//! What can be wrong with an engine that is to be built.

use std::fmt;

use tollgate_arbiter::WorkerId;

use crate::ModelIndex;
use crate::control::ControlError;
use crate::placement::{PinError, PlacementError};

/// Everything that is wrong, in the order of the builder's methods; printed one a line.
#[derive(Clone, Debug)]
pub struct BuildErrors(Vec<BuildError>);

impl BuildErrors {
    /// The errors; at least one.
    #[must_use]
    pub fn errors(&self) -> &[BuildError] {
        &self.0
    }

    pub(super) fn none_of(errors: Vec<BuildError>) -> Result<(), Self> {
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Self(errors))
        }
    }
}

impl From<BuildError> for BuildErrors {
    fn from(error: BuildError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for BuildErrors {}

/// One thing that is wrong with an engine that is to be built.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A number is outside its range.
    #[error("{what} must be between {min} and {max}, not {found}")]
    OutOfRange {
        /// The builder's method.
        what: &'static str,
        /// The smallest allowed.
        min: usize,
        /// The largest allowed.
        max: usize,
        /// What was asked for.
        found: usize,
    },
    /// Slots are rounded up for each shard, and that is too many.
    #[error(
        "{shards} ingress shards with {per_shard} slots each, rounded up together to {found} for a model, are \
         more than {max}"
    )]
    TooManySlots {
        /// Ingress shards.
        shards: usize,
        /// Slots of each, rounded up to a power of two.
        per_shard: usize,
        /// Slots of a model, rounded up to a power of two.
        found: usize,
        /// The most there may be.
        max: usize,
    },
    /// Two models have one name.
    #[error("two models are called \"{name}\"")]
    DuplicateModel {
        /// The name.
        name: Box<str>,
    },
    /// A model's policy does not fit the capacities.
    #[error("model \"{name}\": {error}")]
    Model {
        /// The model.
        name: Box<str>,
        /// What is wrong.
        error: tollgate_arbiter::BuildError,
    },
    /// A worker cannot be added.
    #[error("worker {}: {error}", .id.0)]
    Worker {
        /// The worker.
        id: WorkerId,
        /// What is wrong.
        error: ControlError,
    },
    /// A model's journal cannot begin.
    #[error("the journal of model {}: {error}", .model.0)]
    Journal {
        /// The model.
        model: ModelIndex,
        /// What is wrong.
        error: ControlError,
    },
    /// Threads cannot run where they are to run.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The thread did not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Why the arbiter's thread did not start.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is no thread to be had.
    #[error("the arbiter's thread did not start: {message}")]
    Thread {
        /// What the system says.
        message: String,
    },
    /// It cannot run on its core.
    #[error(transparent)]
    Pin(#[from] PinError),
}
