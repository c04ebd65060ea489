//! What the benchmarks of Tollgate share.
