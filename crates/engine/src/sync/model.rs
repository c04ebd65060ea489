//! What the models of this module share. Each explores the product's own code under loom: every
//! interleaving of its threads with at most so many preemptions, and every value that a load may
//! see by the memory model.

use loom::model::Builder;

/// Explores `threads`, with at most `preemptions` preemptions in one run.
pub(crate) fn explore(preemptions: usize, threads: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(threads);
}
