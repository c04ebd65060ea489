//! An admission by hand, a task that is polled by hand, and a bare executor.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tollgate::policy::{PolicyFile, Profile};
use tollgate::{
    Admission, AdmissionByHand, AdmitError, Builder, Command, Core, Courier, Engine, Handles,
    ModelIndex, Permit, State, Worker,
};

pub(crate) const FIRST: ModelIndex = ModelIndex(0);
/// More turns than anything takes.
const TURNS: usize = 1_000;

/// A profile of classes, each a family of its own, written as `name key: value, key: value`; the first
/// is the default family.
pub(crate) fn classes(lines: &[&'static str]) -> Profile {
    let split = |line: &&'static str| line.split_once(' ').expect("a name and its keys");
    let (first, _) = lines.first().map(split).expect("a class");
    let class = |(name, keys): (&str, &str)| {
        format!("- {{name: {name}, policy_family: {name}, cache_bucket: all, {keys}}}\n")
    };
    let classes: String = lines.iter().map(split).map(class).collect();
    let text = format!(
        "default_policy_family: {first}\nuncached_isl_buckets: [{{min_tokens: 0, bucket: all}}]\n\
         policy_classes:\n{classes}"
    );
    let file = PolicyFile::parse("test.yaml", text.as_bytes());
    let file = file.unwrap_or_else(|errors| panic!("{errors}"));
    file.profile(None).clone()
}

/// One class; nothing is ever busy.
pub(crate) fn open() -> Profile {
    classes(&["a quantum: 1000"])
}

/// One class; a worker is busy with one request.
pub(crate) fn one_at_a_time() -> Profile {
    classes(&["a quantum: 1000, prefill_busy_threshold: 0"])
}

/// An engine that is turned by hand, and its couriers.
pub(crate) struct Hand {
    pub(crate) core: Core<tollgate::Waiter>,
    pub(crate) handles: Handles,
    pub(crate) admission: Admission,
    pub(crate) couriers: Vec<Courier>,
}

impl Hand {
    pub(crate) fn new(profile: Profile, set: impl FnOnce(Builder) -> Builder) -> Self {
        let builder = set(Engine::builder(profile).worker(Worker::new(1)));
        let built = builder.build_admission_by_hand();
        let AdmissionByHand {
            core,
            handles,
            admission,
            couriers,
        } = built.unwrap_or_else(|errors| panic!("{errors}"));
        Self {
            core,
            handles,
            admission,
            couriers,
        }
    }

    /// Turns core and couriers until nothing moves.
    pub(crate) fn settle(&mut self) {
        for _ in 0..TURNS {
            let report = self.core.turn(self.handles.clock().now());
            let mut moved = 0;
            for courier in &mut self.couriers {
                moved += courier.turn().unwrap_or(0);
            }
            if (report.is_idle() || report.closed) && moved == 0 {
                return;
            }
        }
        panic!("it never settles");
    }

    pub(crate) fn execute(&mut self, command: Command) {
        let control = self.handles.control();
        self.core.execute(&control, command).expect("it is valid");
    }

    pub(crate) fn state(&mut self) -> State {
        let control = self.handles.control();
        let command = Command::Snapshot {
            model: FIRST,
            entries_per_lane: 100,
        };
        match self.core.execute(&control, command) {
            Ok(tollgate::Done::State(state)) => *state,
            other => panic!("{other:?}"),
        }
    }

    /// Waiting, and dispatched and not complete.
    pub(crate) fn counts(&mut self) -> (u64, u64) {
        self.settle();
        let state = self.state();
        (state.waiting, state.outstanding)
    }
}

/// Counts its wake-ups.
#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A future that is polled by hand.
pub(crate) struct Task<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
    seen: usize,
}

impl<F: Future> Task<F> {
    pub(crate) fn new(future: F) -> Self {
        Self {
            future: Box::pin(future),
            wakes: Arc::default(),
            seen: 0,
        }
    }

    /// Polled once already.
    pub(crate) fn begun(future: F) -> Self {
        let mut task = Self::new(future);
        assert!(task.poll().is_pending(), "there was nothing to wait for");
        task
    }

    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// The same, by another task.
    pub(crate) fn poll_with(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        self.future.as_mut().poll(context)
    }

    /// What its wakers share.
    pub(crate) fn wakes(&self) -> Arc<Wakes> {
        Arc::clone(&self.wakes)
    }

    /// Whether it was woken since this was asked last.
    pub(crate) fn is_woken(&mut self) -> bool {
        let now = self.wakes.0.load(Ordering::Relaxed);
        std::mem::replace(&mut self.seen, now) != now
    }

    /// Its end, of which it was told.
    pub(crate) fn end(mut self) -> F::Output {
        assert!(self.is_woken(), "nobody woke it");
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it was woken for nothing"),
        }
    }
}

pub(crate) type Admitted = Result<Permit, AdmitError>;

/// Runs a future on the calling thread, without any runtime.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
