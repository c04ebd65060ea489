//! What every connection of a router uses.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tollgate::Admission;

use crate::account::{Journalist, Telemetry};
use crate::config::Config;
use crate::fleet::Fleet;
use crate::upstream::Upstream;

/// Bodies are counted in pieces of so many bytes.
pub(crate) const PIECE: usize = 4_096;

/// What every connection of a router uses.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Arc<Config>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) admission: Admission,
    pub(crate) upstream: Upstream,
    pub(crate) telemetry: Telemetry,
    pub(crate) journalist: Journalist,
    /// Pieces of bodies that may still be held.
    pub(crate) buffers: Arc<Semaphore>,
    pub(crate) phase: watch::Sender<Phase>,
    /// Requests that have no end yet.
    open: AtomicUsize,
    /// Connections that are served.
    connections: AtomicUsize,
    /// Sends whenever `open` falls to 0.
    idle: watch::Sender<()>,
    pub(crate) started: Instant,
    /// What the router listens at, once it does.
    pub(crate) bound: OnceLock<Bound>,
}

/// What a router listens at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Connections of clients at one time.
    pub(crate) connections: usize,
}

/// How far a router is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// New requests are refused; what is there may go on until then.
    Draining(Instant),
    /// What is still there ends now.
    Cut,
}

impl Shared {
    pub(crate) fn new(
        config: Arc<Config>,
        fleet: Arc<Fleet>,
        admission: Admission,
        upstream: Upstream,
    ) -> Self {
        let pieces = config.limits.buffered_bytes.div_ceil(PIECE);
        let journalist = Journalist::new(config.access_log);
        Self {
            config,
            fleet,
            admission,
            upstream,
            telemetry: Telemetry::default(),
            journalist,
            buffers: Arc::new(Semaphore::new(pieces.min(Semaphore::MAX_PERMITS))),
            phase: watch::Sender::new(Phase::Serving),
            open: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            idle: watch::Sender::new(()),
            started: Instant::now(),
            bound: OnceLock::new(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Whether new requests are taken.
    pub(crate) fn is_serving(&self) -> bool {
        self.phase() == Phase::Serving
    }

    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) {
        // ORDERING: pairs with the load in `until_idle`, which then sees what the request's end brought about.
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.idle.send_replace(());
        }
    }

    /// Requests that have no end yet.
    pub(crate) fn open(&self) -> usize {
        // ORDERING: pairs with `closed`.
        self.open.load(Ordering::Acquire)
    }

    async fn until_idle(&self) {
        let mut idle = self.idle.subscribe();
        while self.open() > 0 {
            // The sender is `self`'s own.
            let _ = idle.changed().await;
        }
    }

    /// A connection is served while this lives.
    pub(crate) fn connected(self: &Arc<Self>) -> Connected {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(Arc::clone(self))
    }

    /// Waits until the last answers were written. Connections without a request are closed at once in a drain;
    /// one whose client takes its time is not waited for.
    async fn until_written(&self) {
        const STEP: Duration = Duration::from_millis(5);
        const STEPS: u32 = 100;
        for _ in 0..STEPS {
            // ORDERING: pairs with the drop of `Connected`.
            if self.connections.load(Ordering::Acquire) == 0 {
                return;
            }
            tokio::time::sleep(STEP).await;
        }
    }

    /// Waits until what is still there must end.
    pub(crate) async fn until_cut(&self) {
        let mut phase = self.phase.subscribe();
        // The sender is `self`'s own.
        let _ = phase.wait_for(|phase| *phase == Phase::Cut).await;
    }

    /// Takes no new requests from now on, and gives those that are there at most so long. A later call may
    /// only shorten it (S11.3). Returns how long that is now.
    pub(crate) async fn drain(&self, within: Duration) -> Duration {
        /// Longer than anybody waits, and short enough for every sum of times.
        const MOST: Duration = Duration::from_secs(366 * 86_400);
        let within = within.min(MOST);
        let now = Instant::now();
        let until = now + within;
        let mut left = within;
        let is_news = self.phase.send_if_modified(|phase| match *phase {
            Phase::Draining(before) if before <= until => {
                left = before.saturating_duration_since(now);
                false
            }
            Phase::Serving | Phase::Draining(_) => {
                *phase = Phase::Draining(until);
                true
            }
            Phase::Cut => {
                left = Duration::ZERO;
                false
            }
        });
        if is_news {
            let seconds = within.as_secs_f64();
            self.fleet.say(format!("ending within {seconds} s"));
        }
        // A closed engine is as good as one that stops.
        let _ = self
            .fleet
            .change(move |fleet| fleet.handles.control().stop(within))
            .await;
        left
    }

    /// Waits until a drain was asked for and is over: everything was answered, or cut at the deadline.
    pub(crate) async fn until_drained(&self) {
        /// What is cut says so to its client; it may take so long.
        const LAST_WORDS: Duration = Duration::from_secs(1);
        let mut phase = self.phase.subscribe();
        loop {
            let now = *phase.borrow_and_update();
            match now {
                Phase::Serving => {
                    let _ = phase.changed().await;
                }
                Phase::Draining(until) => tokio::select! {
                    () = self.until_idle() => return self.until_written().await,
                    () = tokio::time::sleep_until(until) => {
                        self.phase.send_replace(Phase::Cut);
                    }
                    _ = phase.changed() => {}
                },
                Phase::Cut => {
                    let _ = tokio::time::timeout(LAST_WORDS, self.until_idle()).await;
                    return self.until_written().await;
                }
            }
        }
    }
}

/// A connection that is served.
#[derive(Debug)]
pub(crate) struct Connected(Arc<Shared>);

impl Drop for Connected {
    fn drop(&mut self) {
        // ORDERING: pairs with the load in `until_written`.
        self.0.connections.fetch_sub(1, Ordering::Release);
    }
}
