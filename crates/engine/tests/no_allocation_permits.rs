//! Once everything is built and warm, permits allocate nothing: a million of them asked for by 64 tasks
//! on two threads of tokio, with dropped futures, requeues, and waiting for room. A program of its own,
//! since it counts the allocations of the whole process.

use std::alloc::System;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::sync::Barrier;
use tollgate::policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate::{Admission, AdmitError, Endpoint, Engine, Hint, Request, Worker};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TASKS: usize = 64;
const PERMITS_EACH: u64 = 1_000_000 / TASKS as u64;
const WARM_EACH: u64 = PERMITS_EACH / 5;
const WORKERS: u64 = 8;
/// Fewer than tasks: some wait for room.
const SLOTS: usize = 32;

fn profile() -> Profile {
    let class = ClassPolicy {
        prefill_busy_threshold: Some(2_000),
        ..ClassPolicy::matrix("all", "all", 0, 1_000)
    };
    let buckets = vec![Bucket::new(0, "all")];
    Profile::build(ProfileSpec::new("all", buckets, vec![class])).expect("it is valid")
}

/// Polled once, and given up unless it is ready.
struct Once<F>(F);

impl<F: Future + Unpin> Future for Once<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.0).poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Poll::Ready(None),
        }
    }
}

async fn ask(admission: &Admission, chance: u64) -> Result<(), AdmitError> {
    let endpoint = Endpoint::new(chance % WORKERS, 0);
    let hints = [Hint {
        endpoint,
        cached: 5,
    }];
    let tokens = 10 + u32::try_from(chance % 500).expect("small");
    let plain = Request::new(tokens, ());
    let request = match chance >> 10 & 3 {
        0 => Request {
            pin: Some(endpoint),
            ..plain
        },
        1 => Request {
            hints: &hints,
            ..plain
        },
        _ => plain,
    };
    let future = admission.admit(request);
    let end = if chance >> 12 & 7 == 0 {
        let Some(end) = Once(future).await else {
            return Ok(());
        };
        end
    } else {
        future.await
    };
    let mut permit = end?;
    if chance >> 15 & 1 == 0 {
        permit.prefill_done();
    }
    if chance >> 16 & 7 == 0 {
        permit = permit.requeue().await?;
    }
    if chance >> 19 & 3 == 0 {
        tokio::task::yield_now().await;
    }
    drop(permit);
    Ok(())
}

async fn task(admission: Admission, number: u64, barrier: Arc<Barrier>) {
    let mut chance = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut permits = async |count| {
        for _ in 0..count {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            let end = ask(&admission, chance >> 11).await;
            assert!(end.is_ok(), "nothing is refused");
        }
    };
    permits(WARM_EACH).await;
    barrier.wait().await;
    barrier.wait().await;
    permits(PERMITS_EACH).await;
    barrier.wait().await;
    barrier.wait().await;
}

fn main() {
    let builder = Engine::builder(profile())
        .ingress_shards(2)
        .egress_shards(2)
        .slots(SLOTS)
        .ring(16)
        .dispatch_ring(8)
        .feedback_ring(4);
    let builder = (0..WORKERS).fold(builder, |builder, id| builder.worker(Worker::new(id)));
    let built = builder
        .build_admission()
        .unwrap_or_else(|errors| panic!("{errors}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("threads are there");
    let allocated = runtime.block_on(async {
        let barrier = Arc::new(Barrier::new(TASKS + 1));
        let spawn = |number| {
            let admission = built.admission.clone();
            tokio::spawn(task(admission, number, Arc::clone(&barrier)))
        };
        let tasks: Vec<_> = (1..=TASKS as u64).map(spawn).collect();
        barrier.wait().await;
        let region = Region::new(ALLOCATOR);
        barrier.wait().await;
        barrier.wait().await;
        let change = region.change();
        barrier.wait().await;
        for task in tasks {
            task.await.expect("it does not panic");
        }
        change
    });
    assert_eq!(allocated.allocations, 0, "{allocated:?}");
    assert_eq!(allocated.reallocations, 0, "{allocated:?}");
    built.engine.stop().expect("it runs");
    built.engine.join().expect("nothing panicked");
}
