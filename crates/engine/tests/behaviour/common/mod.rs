//! Small tools for the tests of the engine: an engine that is turned by hand, deliveries as text,
//! policies in a line per class, payloads that say where they end, and tests that may not hang.

pub(crate) mod draw;
pub(crate) mod ledger;

use std::fmt::Display;
use std::time::Duration;

use tollgate::policy::{PolicyFile, Profile};
use tollgate::{
    Builder, Clock, Command, Control, ControlError, Core, Delivery, Dispatch, Done, EgressShard,
    Endpoint, Engine, Handles, IngressShard, ManualClock, ModelIndex, Nanos, Outcome, Releases,
    Request, State, Ticket, TurnReport, Worker, WorkerId,
};

/// The first model.
pub(crate) const FIRST: ModelIndex = ModelIndex(0);
/// The second model.
pub(crate) const SECOND: ModelIndex = ModelIndex(1);

/// A profile of classes, each a family of its own, written as `name key: value, key: value`; the
/// first is the default family.
pub(crate) fn classes(lines: &[&str]) -> Profile {
    classes_and(lines, "")
}

/// The same with settings, written as lines of a policy file.
pub(crate) fn classes_and(lines: &[&str], settings: &str) -> Profile {
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let mut text = format!(
        "{settings}\ndefault_policy_family: {}\n\
         uncached_isl_buckets: [{{min_tokens: 0, bucket: all}}]\npolicy_classes:\n",
        name(lines[0])
    );
    for line in lines {
        let (name, keys) = line.split_once(' ').expect("a name and its keys");
        text.push_str(&format!(
            "- {{name: {name}, policy_family: {name}, cache_bucket: all, {keys}}}\n"
        ));
    }
    let file = PolicyFile::parse("test.yaml", text.as_bytes());
    file.unwrap_or_else(|errors| panic!("{errors}"))
        .profile(None)
        .clone()
}

/// One class `a` whose workers take one request at a time.
pub(crate) fn one_at_a_time() -> Profile {
    classes(&["a quantum: 100, prefill_busy_threshold: 0"])
}

/// One class without a threshold.
pub(crate) fn open() -> Profile {
    Profile::synthetic(None)
}

/// A request of one token for `family`.
pub(crate) fn of<P>(family: &str, payload: P) -> Request<'_, P> {
    Request {
        family: Some(family),
        ..Request::new(1, payload)
    }
}

/// A request of one token pinned to rank 0 of `worker`.
pub(crate) fn pinned<P>(worker: u64, payload: P) -> Request<'static, P> {
    Request {
        pin: Some(Endpoint::new(worker, 0)),
        ..Request::new(1, payload)
    }
}

/// An engine whose core is turned by hand, on a clock that is moved by hand.
#[derive(Debug)]
pub(crate) struct Hand<P> {
    pub(crate) core: Core<P>,
    pub(crate) time: ManualClock,
    pub(crate) handles: Handles,
    pub(crate) control: Control,
    pub(crate) releases: Releases,
    pub(crate) ingress: Vec<IngressShard<P>>,
    pub(crate) egress: Vec<EgressShard<P>>,
}

impl<P> Hand<P> {
    pub(crate) fn new(builder: Builder) -> Self {
        let (clock, time) = Clock::manual();
        let built = builder.clock(clock).build_by_hand();
        let built = built.unwrap_or_else(|errors| panic!("{errors}"));
        Self {
            core: built.core,
            time,
            control: built.handles.control(),
            releases: built.handles.releases(),
            handles: built.handles,
            ingress: built.ingress,
            egress: built.egress,
        }
    }

    /// An engine of one model with workers of these ids.
    pub(crate) fn with_workers(
        profile: Profile,
        ids: impl IntoIterator<Item = u64>,
        settings: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let mut builder = settings(Engine::builder(profile).slots(1_024));
        for id in ids {
            builder = builder.worker(Worker::new(id));
        }
        Self::new(builder)
    }

    pub(crate) fn now(&self) -> Nanos {
        self.handles.clock().now()
    }

    pub(crate) fn advance(&self, micros: u64) {
        self.time.advance(Nanos::from_micros(micros));
    }

    pub(crate) fn turn(&mut self) -> TurnReport {
        self.core.turn(self.now())
    }

    /// Turns until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            let report = self.turn();
            if report.is_idle() || report.closed {
                return;
            }
        }
        panic!("the core finds something to do for ever");
    }

    /// Submits through the first shard, which has room.
    pub(crate) fn submit(&mut self, request: Request<'_, P>) -> Ticket {
        self.submit_to(0, request)
    }

    pub(crate) fn submit_to(&mut self, shard: usize, request: Request<'_, P>) -> Ticket {
        match self.ingress[shard].try_submit(request) {
            Ok(ticket) => ticket,
            Err(refused) => panic!("refused: {}", refused.reason),
        }
    }

    /// Everything that a shard has now.
    pub(crate) fn deliveries(&mut self, shard: usize) -> Vec<Delivery<P>> {
        let mut all = Vec::new();
        while let Ok(Some(delivery)) = self.egress[shard].try_recv() {
            all.push(delivery);
        }
        all
    }

    /// The dispatches that a shard has now, and nothing else.
    pub(crate) fn dispatches(&mut self, shard: usize) -> Vec<Dispatch<P>> {
        let only = |delivery| match delivery {
            Delivery::Dispatch(dispatch) => dispatch,
            other => panic!("{:?} is no dispatch", other.ticket()),
        };
        self.deliveries(shard).into_iter().map(only).collect()
    }

    /// The one dispatch that a shard has now.
    pub(crate) fn dispatch(&mut self, shard: usize) -> Dispatch<P> {
        let mut all = self.dispatches(shard);
        assert_eq!(all.len(), 1, "one dispatch");
        all.remove(0)
    }

    pub(crate) fn execute(&mut self, command: Command) -> Result<Done, ControlError> {
        self.core.execute(&self.control, command)
    }

    pub(crate) fn state(&mut self) -> State {
        self.state_of(FIRST)
    }

    pub(crate) fn state_of(&mut self, model: ModelIndex) -> State {
        let command = Command::Snapshot {
            model,
            entries_per_lane: usize::MAX,
        };
        match self.execute(command) {
            Ok(Done::State(state)) => *state,
            other => panic!("{other:?} is no state"),
        }
    }

    pub(crate) fn set_load(&mut self, worker: u64, tokens: u64) {
        let command = Command::SetLoad {
            model: FIRST,
            endpoint: Endpoint::new(worker, 0),
            tokens,
        };
        self.execute(command).expect("the worker is known");
    }

    pub(crate) fn upsert(&mut self, worker: Worker) {
        let model = FIRST;
        let command = Command::UpsertWorker { model, worker };
        self.execute(command).expect("the worker fits");
    }

    pub(crate) fn remove(&mut self, id: u64) {
        let command = Command::RemoveWorker {
            model: FIRST,
            id: WorkerId(id),
        };
        self.execute(command).expect("the worker is known");
    }

    pub(crate) fn reload(&mut self, profile: Profile) -> Result<u64, ControlError> {
        let command = Command::Reload {
            model: FIRST,
            profile: profile.into(),
        };
        match self.execute(command)? {
            Done::Reloaded { generation } => Ok(generation),
            other => panic!("{other:?} is no generation"),
        }
    }

    pub(crate) fn stop(&mut self, drain: Nanos) {
        let stopped = self.execute(Command::Stop { drain });
        stopped.expect("the engine is not closed");
    }

    /// Stale events of the first model so far.
    pub(crate) fn stale(&mut self) -> u64 {
        self.state().stale_events
    }
}

impl<P: Display> Hand<P> {
    /// Everything that a shard has now, as text.
    pub(crate) fn told(&mut self, shard: usize) -> Vec<String> {
        self.deliveries(shard).iter().map(text).collect()
    }
}

/// A delivery as text: `payload -> worker.rank`, with `#attempt` from the second; or `payload fate`.
pub(crate) fn text<P: Display>(delivery: &Delivery<P>) -> String {
    match delivery {
        Delivery::Dispatch(dispatch) => {
            let (worker, rank) = (dispatch.endpoint.worker.0, dispatch.endpoint.rank);
            let attempt = match dispatch.attempt {
                1 => String::new(),
                attempt => format!("#{attempt}"),
            };
            format!("{} -> {worker}.{rank}{attempt}", dispatch.payload)
        }
        Delivery::Ended(ended) => format!("{} {}", ended.payload, fate(ended.outcome)),
        Delivery::Returned { payload, .. } => format!("{payload} returned"),
    }
}

/// An outcome as text.
pub(crate) fn fate(outcome: Outcome) -> String {
    match outcome {
        Outcome::Rejected(rejection) => format!("rejected {}", rejection.kind.code()),
        Outcome::Expired => "expired".to_owned(),
        Outcome::Cancelled => "cancelled".to_owned(),
        Outcome::Failed(reason) => format!("failed {}", reason.code()),
        Outcome::ShuttingDown => "shutting_down".to_owned(),
    }
}

/// Runs `test` on a thread of its own and panics if it takes longer than `seconds`: a test of what
/// must not hang may not hang itself.
pub(crate) fn within(seconds: u64, test: impl FnOnce() + Send + 'static) {
    let (done, heard) = std::sync::mpsc::channel();
    #[expect(
        clippy::disallowed_methods,
        reason = "a scope would wait for a thread that hangs"
    )]
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    let heard = heard.recv_timeout(Duration::from_secs(seconds));
    if heard == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        panic!("not done after {seconds} s");
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Lets `millis` pass.
pub(crate) fn pause(millis: u64) {
    #[expect(clippy::disallowed_methods, reason = "a test of what time does")]
    std::thread::sleep(Duration::from_millis(millis));
}

/// Waits until `is_so`, for at most ten seconds.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = Clock::monotonic();
    let end = clock.now().saturating_add(Nanos::from_millis(10_000));
    while !is_so() {
        assert!(clock.now() < end, "{what} does not happen");
        std::thread::yield_now();
    }
}
