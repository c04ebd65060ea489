//! The tollgate tool.
fn main() {}
