//! A running router.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tollgate::placement::{CoreId, Placement, PlacementWarning};
use tollgate::policy::PolicyFile;
use tollgate::{BuildErrors, BuiltAdmission, Engine, Lost, Waiter};

use crate::config::{Config, ConfigErrors};
use crate::fleet::{CounterErrors, Counters, Fleet, read_policy, watch};
use crate::server::{self, descriptors};
use crate::shared::{Bound, Shared};
use crate::upstream::{CertificateError, Upstream};
use crate::{admin, routes};

/// Connections of operators at one time.
const OPERATORS: usize = 64;
/// How often the classes' rates are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Ingress shards beyond the threads of a large runtime win nothing.
const SHARDS_MAX: usize = 16;

/// A running router. Dropping it closes everything at once; [`drain`](Self::drain) answers what is there first.
#[derive(Debug)]
pub struct Router {
    shared: Arc<Shared>,
    engine: Option<Engine<Waiter>>,
    listen: SocketAddr,
    admin: SocketAddr,
    connections: usize,
    warnings: Vec<String>,
    tasks: Vec<JoinHandle<()>>,
}

/// Why a router does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// The policy file is wrong or cannot be read.
    #[error("{0}")]
    Policy(String),
    /// The certificates for workers are wrong.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// Tokenizers are wrong or cannot be read.
    #[error(transparent)]
    Tokenizers(#[from] CounterErrors),
    /// The engine cannot be built with these sizes.
    #[error("the engine cannot be built: {0}")]
    Engine(#[from] BuildErrors),
    /// A model or worker has no place.
    #[error("{0}")]
    Fleet(String),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
}

impl StartError {
    /// Whether what was given is wrong, rather than the machine.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Listen { .. })
    }
}

impl Router {
    /// Starts a router on the current runtime. It listens when this returns; before, each worker was looked at
    /// once, or was given the time that a look may take.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        config.check()?;
        let policy = read_policy(&config).map_err(|error| StartError::Policy(error.to_string()))?;
        let mut warnings: Vec<_> = policy.warnings().iter().map(ToString::to_string).collect();
        let upstream = Upstream::new(config.timeouts.connect, config.worker_ca.as_deref())?;
        let counters = read_counters(&config).await?;
        let built = build(&config, &policy)?;
        warnings.extend(built.warnings.iter().map(PlacementWarning::to_string));
        let config = Arc::new(config);
        let handles = built.engine.handles().clone();
        let names = model_names(&config, &policy);
        let fleet = Arc::new(Fleet::new(Arc::clone(&config), handles, policy, counters));
        let expected =
            fleet.change(move |fleet| names.iter().try_for_each(|name| fleet.expect_model(name)));
        expected
            .await
            .map_err(|error| StartError::Fleet(error.to_string()))?;
        let shared = Shared::new(
            Arc::clone(&config),
            Arc::clone(&fleet),
            built.admission,
            upstream.clone(),
        );
        let mut router = Self {
            shared: Arc::new(shared),
            engine: Some(built.engine),
            listen: config.listen,
            admin: config.admin,
            connections: 0,
            warnings,
            tasks: Vec::new(),
        };
        router.listen(&config).await?;
        Ok(router)
    }

    /// Opens both addresses, looks at the workers, and serves.
    async fn listen(&mut self, config: &Config) -> Result<(), StartError> {
        let [clients, operators] = [config.listen, config.admin].map(|address| async move {
            let listener = server::listen(address);
            let listener = listener.map_err(|error| StartError::Listen { address, error })?;
            let bound = listener.local_addr();
            let bound = bound.map_err(|error| StartError::Listen { address, error })?;
            Ok::<_, StartError>((listener, bound))
        });
        let (clients, listen) = clients.await?;
        let (operators, admin) = operators.await?;
        (self.listen, self.admin) = (listen, admin);
        let most = descriptors().connections();
        self.connections = config.limits.connections.unwrap_or(most);
        if self.connections > most {
            self.warnings.push(format!(
                "connections is {}, and the process's file descriptors suffice for {most}",
                self.connections
            ));
        }
        let bound = Bound {
            listen,
            admin,
            connections: self.connections,
        };
        // It is set once: a router listens once.
        let _ = self.shared.bound.set(bound);
        self.look_at_workers(config).await?;
        let shared = || Arc::clone(&self.shared);
        let public = routes::routes(shared());
        let tasks = [
            tokio::spawn(server::serve(shared(), clients, public, self.connections)),
            tokio::spawn(server::serve(
                shared(),
                operators,
                admin::routes(shared()),
                OPERATORS,
            )),
            tokio::spawn(look_at_classes(shared())),
        ];
        self.tasks.extend(tasks);
        Ok(())
    }

    async fn look_at_workers(&self, config: &Config) -> Result<(), StartError> {
        let mut firsts = Vec::new();
        for worker in &config.workers {
            let url = &worker.url;
            let worker = self.shared.fleet.add_worker(worker.clone());
            let worker =
                worker.map_err(|error| StartError::Fleet(format!("worker {url}: {error}")))?;
            firsts.push(watch(&self.shared.fleet, &self.shared.upstream, &worker));
        }
        let all = async {
            for first in firsts {
                // A watch that ended has nothing more to say.
                let _ = first.await;
            }
        };
        // Two questions each, at the same time; a dead one holds nobody up for longer.
        let _ = tokio::time::timeout(config.health.timeout * 2, all).await;
        Ok(())
    }

    /// Where clients come.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.listen
    }

    /// Where operators come.
    #[must_use]
    pub const fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// How many connections of clients are served at one time.
    #[must_use]
    pub const fn connections(&self) -> usize {
        self.connections
    }

    /// What an operator should know about policy and machine.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The effective configuration, a line for each setting.
    #[must_use]
    pub fn describe(&self) -> String {
        admin::describe(&self.shared)
    }

    /// Reads the policy file again and puts it in force; which it is, from 1.
    ///
    /// # Errors
    /// What is wrong with it; nothing has changed then.
    pub async fn reload(&self) -> Result<u64, String> {
        let done = self.shared.fleet.change(Fleet::reload_file).await;
        done.map(|reloaded| reloaded.generation)
            .map_err(|error| error.to_string())
    }

    /// What happens from now on, a sentence each: workers that are added, taken out, taken back; policies;
    /// drains. A listener that is slow loses the oldest.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<String> {
        self.shared.fleet.events()
    }

    /// Takes no new requests from now on; what is there may go on for at most so long. A later call may only
    /// shorten it.
    pub async fn drain(&self, within: Duration) {
        self.shared.drain(within).await;
    }

    /// Waits until a drain, asked for here or at the admin address, is over: everything was answered, or cut
    /// at the deadline. May be dropped and called again.
    pub async fn until_drained(&self) {
        self.shared.until_drained().await;
    }

    /// Ends the engine and writes what the log still holds.
    ///
    /// # Errors
    /// A panic had ended the engine.
    ///
    /// # Panics
    /// If the runtime ends meanwhile.
    pub async fn end(mut self) -> Result<(), Lost> {
        let engine = self.engine.take();
        let shared = Arc::clone(&self.shared);
        let joined = tokio::task::spawn_blocking(move || {
            let joined = engine.map_or(Ok(()), Engine::join);
            shared.journalist.flush();
            joined
        });
        joined
            .await
            .expect("joining does not panic, and nobody aborts it")
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        for worker in self.shared.fleet.workers().values() {
            worker.stop_watching();
        }
        self.shared.phase.send_replace(crate::shared::Phase::Cut);
    }
}

/// Reads the tokenizers, which may take a second each.
async fn read_counters(config: &Config) -> Result<Counters, CounterErrors> {
    let tokenizers = config.tokenizers.clone();
    let read = tokio::task::spawn_blocking(move || Counters::read(&tokenizers)).await;
    read.expect("reading does not panic, and nobody aborts it")
}

/// The models that are known before any worker was asked.
fn model_names(config: &Config, policy: &PolicyFile) -> Vec<String> {
    let told = config.workers.iter().flat_map(|worker| &worker.models);
    let in_policy = policy.models().map(|(name, _)| name.to_owned());
    let mut names: Vec<String> = told.cloned().chain(in_policy).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn build(config: &Config, policy: &PolicyFile) -> Result<BuiltAdmission, BuildErrors> {
    let sizes = &config.engine;
    let profile = policy.profile(None);
    let threads = tokio::runtime::Handle::current().metrics().num_workers();
    // Places for models whose names are not known yet; the router knows which is whose.
    let mut builder = Engine::builder(profile.clone());
    for place in 1..sizes.models {
        builder = builder.model(&format!("place-{place}"), profile.clone());
    }
    /// The blocks of a request with as many hints as there may be; the most that an engine has.
    const BLOCKS: usize = 5;
    const BLOCKS_MAX: usize = 1 << 26;
    let placement = Placement {
        arbiter: sizes.core.map(CoreId),
        ..Placement::default()
    };
    builder
        .ingress_shards(threads.clamp(1, SHARDS_MAX))
        .slots(sizes.slots)
        .room_waiters(sizes.slots)
        .extension_blocks((sizes.slots * BLOCKS).min(BLOCKS_MAX))
        .classes(sizes.classes)
        .workers(sizes.workers)
        .endpoints(sizes.endpoints)
        .idle(sizes.idle)
        .placement(placement)
        .drain(config.drain)
        .build_admission()
}

/// Keeps the models' views of their classes fresh.
async fn look_at_classes(shared: Arc<Shared>) {
    let stats = shared.fleet.handles.stats();
    loop {
        tokio::time::sleep(LOOK).await;
        let read = stats.read();
        for model in shared.fleet.models().iter() {
            if let Some(snapshot) = read.models.get(usize::from(model.index.0)) {
                model.saw_classes(snapshot);
            }
        }
    }
}
