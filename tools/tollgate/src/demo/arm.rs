//! One run of the experiment, over real sockets.

use std::fmt;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, ensure};
use tollgate_mock_worker::{MockWorker, Settings};
use tollgate_router::Router;
use tollgate_router::config::{AccessLog, Config, EngineSizes, WorkerConfig};
use tollgate_sim::demo::{PROMPT_TOKENS, REQUESTS_EACH, SEQUENCES, THRESHOLD};
use tollgate_sim::worker::WorkerModel;

use super::client::{self, Answer};

/// The classes, and their places in everything that comes in pairs.
pub(super) const CLASSES: [&str; 2] = ["premium", "regular"];
/// How much faster than a real one the modelled worker is.
pub(super) const SPEED: f64 = 4.0;
/// The model's name.
const MODEL: &str = "demo";

/// The quanta of premium and regular, and what the experiment showed where it was published.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arm {
    pub(super) quanta: [u64; 2],
    /// Among the first 320 completions, from a run to another.
    pub(super) published_first: &'static str,
    /// Regular requests that were left when the last premium one was complete.
    pub(super) published_left: &'static str,
}

/// What came of an arm.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) arm: Arm,
    /// In the order of their ends.
    pub(super) answers: Vec<Answer>,
    /// From the release to the last end.
    pub(super) duration: Duration,
    /// What the worker computed, in tokens.
    pub(super) worker_tokens: u64,
    pub(super) worker_peak: u32,
}

impl Arm {
    pub(super) const ALL: [Self; 3] = [
        Self {
            quanta: [512, 512],
            published_first: "159-161 : 159-161",
            published_left: "0-3",
        },
        Self {
            quanta: [512, 128],
            published_first: "254-257 : 63-66",
            published_left: "237-240",
        },
        Self {
            quanta: [2_048, 512],
            published_first: "254-257 : 63-66",
            published_left: "237-240",
        },
    ];

    /// Starts a worker and a router, releases all requests, and waits for the last answer.
    pub(super) async fn run(self) -> anyhow::Result<Outcome> {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let model = WorkerModel {
            sequences: SEQUENCES,
            cache_blocks: 0,
            ..WorkerModel::default()
        };
        let settings = Settings {
            model: MODEL.to_owned(),
            worker: model,
            speed: SPEED,
        };
        let worker = MockWorker::start(settings, any_port)
            .await
            .context("cannot start the modelled worker")?;
        let policy = PolicyOnDisk::write(self)?;
        let url = format!("http://{}", worker.address());
        let config = Config {
            listen: any_port,
            admin: any_port,
            policy: Some(policy.0.clone()),
            workers: vec![WorkerConfig::new(url.parse()?)],
            engine: EngineSizes {
                models: 1,
                slots: 2_048,
                ..EngineSizes::default()
            },
            access_log: AccessLog::Off,
            ..Config::default()
        };
        let router = Router::start(config)
            .await
            .context("cannot start the router")?;
        let requests = 2 * REQUESTS_EACH;
        let (answers, duration) = client::release(router.address(), MODEL, requests).await?;
        let counters = worker.counters();
        router.drain(Duration::ZERO).await;
        router.until_drained().await;
        router.end().await?;
        worker.stop().await;
        ensure!(
            answers.len() == requests as usize,
            "{} of {requests} requests have an end",
            answers.len()
        );
        Ok(Outcome {
            arm: self,
            answers,
            duration,
            worker_tokens: counters.prompt_tokens,
            worker_peak: u32::try_from(counters.running_max).unwrap_or(u32::MAX),
        })
    }

    /// What the quanta promise of the first 320.
    pub(super) const fn promised(self) -> [u64; 2] {
        let [premium, regular] = self.quanta;
        let share = REQUESTS_EACH as u64 * premium / (premium + regular);
        [share, REQUESTS_EACH as u64 - share]
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.quanta[0], self.quanta[1])
    }
}

impl Outcome {
    /// Whether every request was answered with status 200.
    pub(super) fn is_complete(&self) -> bool {
        self.answers.iter().all(|answer| answer.status == 200)
    }

    /// Premium and regular among the first 320 completions.
    pub(super) fn first(&self) -> [u64; 2] {
        let first = &self.answers[..REQUESTS_EACH as usize];
        let count = |class| first.iter().filter(|answer| answer.class == class).count() as u64;
        [count(0), count(1)]
    }

    /// Regular requests that were left when the last premium one was complete.
    pub(super) fn regular_left(&self) -> u64 {
        let last = self.answers.iter().rposition(|answer| answer.class == 0);
        let after = &self.answers[last.map_or(0, |last| last + 1)..];
        after.iter().filter(|answer| answer.class == 1).count() as u64
    }
}

/// A policy file that goes away with this.
struct PolicyOnDisk(std::path::PathBuf);

impl PolicyOnDisk {
    fn write(arm: Arm) -> anyhow::Result<Self> {
        let [premium, regular] = arm.quanta;
        let name = format!(
            "tollgate-demo-{}-{premium}-{regular}.yaml",
            std::process::id()
        );
        let path = std::env::temp_dir().join(name);
        let class = |name: &str, quantum: u64| {
            format!(
                "- {{name: {name}, policy_family: {name}, cache_bucket: any, quantum: {quantum}, \
                 prefill_busy_threshold: {THRESHOLD}}}\n"
            )
        };
        let text = format!(
            "default_policy_family: {}\nuncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]\n\
             policy_classes:\n{}{}",
            CLASSES[1],
            class(CLASSES[0], premium),
            class(CLASSES[1], regular)
        );
        let written =
            std::fs::File::create(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for PolicyOnDisk {
    fn drop(&mut self) {
        // It is in the folder for what may be thrown away.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The prompt of a request: token ids, no two prompts with a common beginning, so that nothing is cached.
pub(super) fn prompt(number: u32) -> Vec<u32> {
    (0..PROMPT_TOKENS)
        .map(|at| if at == 0 { number } else { at })
        .collect()
}
