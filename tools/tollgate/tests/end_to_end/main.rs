//! The tool from outside: what it prints, where, and its exit status.

mod bench;
mod cases;
mod demo;
mod journal;
#[path = "../../../../crates/report/tests/bench/made_up.rs"]
mod made_up_bench;
mod mock_worker;
mod replay;
mod replay_input;
mod report;
mod scenario;
mod scenario_input;
mod tool;
mod top;
