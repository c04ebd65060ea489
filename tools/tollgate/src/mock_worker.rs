//! `tollgate mock-worker`.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::{BoolishValueParser, NonEmptyStringValueParser};
use tokio::signal::unix::{SignalKind, signal};
use tollgate_mock_worker::{MockWorker, Settings};
use tollgate_sim::worker::WorkerModel;

/// Serves a modelled LLM worker that speaks the OpenAI API.
///
/// It waits as long as a real worker would compute, by the model that a replay uses as well, and says
/// the same words over and over. It ends on SIGTERM and ctrl-c.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct MockWorkerArgs {
    /// Where to listen; with port 0 the system chooses one
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8000",
        env = "TOLLGATE_MOCK_LISTEN"
    )]
    listen: SocketAddr,
    /// The name of the model that it serves
    #[arg(long, value_name = "NAME", default_value = "mock", env = "TOLLGATE_MOCK_MODEL",
          value_parser = NonEmptyStringValueParser::new())]
    model: String,
    /// Sequences at one time; further requests wait
    #[arg(long, value_name = "NUMBER", default_value_t = WorkerModel::default().sequences,
          env = "TOLLGATE_MOCK_MAX_NUM_SEQS", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_num_seqs: u32,
    /// New prompt tokens of one prefill batch
    #[arg(long, value_name = "TOKENS", default_value_t = WorkerModel::default().max_batched_tokens,
          env = "TOLLGATE_MOCK_MAX_NUM_BATCHED_TOKENS", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    max_num_batched_tokens: u64,
    /// Compute every prompt from its beginning
    #[arg(long, env = "TOLLGATE_MOCK_NO_PREFIX_CACHE", value_parser = BoolishValueParser::new())]
    no_prefix_cache: bool,
    /// How much faster than the model it is
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, env = "TOLLGATE_MOCK_SPEED",
          allow_negative_numbers = true, value_parser = parse_speed)]
    speed: f64,
}

const AFTER_HELP: &str = "\
The header x-mock-fault of a request makes it go wrong; a name that there is not is answered with those
that there are. GET /stats tells what became of the requests.

Exit status: 0 ended by a signal, 1 it cannot listen, 2 bad usage.";

/// Serves until a signal ends it.
pub(crate) fn run(args: MockWorkerArgs) -> anyhow::Result<ExitCode> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build();
    let runtime = runtime.context("cannot start the threads of the worker")?;
    runtime.block_on(serve(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(args: MockWorkerArgs) -> anyhow::Result<()> {
    // Whoever reads that it listens may end it at once.
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for ctrl-c")?;
    let (listen, settings) = args.into_settings();
    let model = settings.model.clone();
    let worker = MockWorker::start(settings, listen).await?;
    let address = worker.address();
    crate::tell(format_args!("mock worker of {model:?} at http://{address}"));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    worker.stop().await;
    Ok(())
}

impl MockWorkerArgs {
    fn into_settings(self) -> (SocketAddr, Settings) {
        let model = WorkerModel::default();
        let worker = WorkerModel {
            sequences: self.max_num_seqs,
            max_batched_tokens: self.max_num_batched_tokens,
            cache_blocks: if self.no_prefix_cache {
                0
            } else {
                model.cache_blocks
            },
            ..model
        };
        let settings = Settings {
            model: self.model,
            worker,
            speed: self.speed,
        };
        (self.listen, settings)
    }
}

fn parse_speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed > 0.0 => Ok(speed),
        _ => Err(format!("{text:?} is not a number above 0")),
    }
}
