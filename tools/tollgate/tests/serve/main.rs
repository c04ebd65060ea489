//! `tollgate serve` before real workers, as processes: its settings, signals and log, and the clients that
//! people use.

mod curl;
mod http;
mod idle;
mod loss;
mod mistakes;
mod openai;
mod record;
mod settings;
mod signals;
mod stage;
mod tokenizers;
mod venv;
