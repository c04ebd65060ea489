//! The tool from outside: what it prints, where, and its exit status.

mod cases;
mod demo;
mod journal;
mod replay;
mod replay_input;
mod scenario;
mod scenario_input;
mod tool;
