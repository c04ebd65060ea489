//! An async router in one file: tasks on tokio ask for permits, call their worker, and hold the permit
//! until the answer is through.
//!
//! A client that loses its patience drops its future, which cancels the waiting request; a worker that
//! cannot be reached gives the permit back, and the request waits again in its old place. At the end the
//! engine stops: what waits is still served.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tollgate::policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate::{Admission, AdmitError, Endpoint, Engine, Request, Worker};

const WORKERS: u64 = 4;
const CLIENTS: u32 = 200;
/// How long a client waits at most.
const PATIENCE: Duration = Duration::from_millis(40);

/// What became of the clients.
#[derive(Debug, Default)]
struct Tally {
    served: AtomicU32,
    requeued: AtomicU32,
    gave_up: AtomicU32,
    refused: AtomicU32,
}

/// A worker that cannot be reached.
struct Unreachable;

/// Stands for the call over the network: now and then the worker cannot be reached; else the prompt is
/// computed for a while.
async fn prefill(endpoint: Endpoint, client: u32, attempt: u8) -> Result<(), Unreachable> {
    if endpoint.worker.0 == 1 && client.is_multiple_of(5) && attempt == 1 {
        return Err(Unreachable);
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(())
}

async fn serve(admission: &Admission, client: u32, tally: &Tally) -> Result<(), AdmitError> {
    let request = Request {
        family: Some(if client.is_multiple_of(4) {
            "premium"
        } else {
            "regular"
        }),
        ..Request::new(512, ())
    };
    let mut permit = admission.admit(request).await?;
    while prefill(permit.endpoint(), client, permit.attempt())
        .await
        .is_err()
    {
        tally.requeued.fetch_add(1, Ordering::Relaxed);
        permit = permit.requeue().await?;
    }
    permit.prefill_done();
    // The answer is streamed.
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(())
}

async fn client(admission: Admission, client: u32, tally: Arc<Tally>) {
    let end = tokio::time::timeout(PATIENCE, serve(&admission, client, &tally)).await;
    let of = match end {
        Ok(Ok(())) => &tally.served,
        Ok(Err(_)) => &tally.refused,
        Err(_) => &tally.gave_up,
    };
    of.fetch_add(1, Ordering::Relaxed);
}

/// One prefill at a time on each worker, and four premium tokens for each regular one while both wait.
fn policy() -> Result<Profile, Box<dyn Error>> {
    let class = |name, quantum| ClassPolicy {
        prefill_busy_threshold: Some(0),
        ..ClassPolicy::matrix(name, name, 0, quantum)
    };
    let classes = vec![class("premium", 4_096), class("regular", 1_024)];
    let buckets = vec![Bucket::new(0, "all")];
    Ok(Profile::build(ProfileSpec::new(
        "regular", buckets, classes,
    ))?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    // As many ingress shards as the runtime has threads.
    let builder = Engine::builder(policy()?).ingress_shards(2).slots(64);
    let builder = (1..=WORKERS).fold(builder, |builder, id| builder.worker(Worker::new(id)));
    let built = builder.build_admission()?;
    let tally = Arc::new(Tally::default());

    runtime.block_on(async {
        let clients = (0..CLIENTS).map(|number| {
            let (admission, tally) = (built.admission.clone(), Arc::clone(&tally));
            tokio::spawn(client(admission, number, tally))
        });
        for client in clients.collect::<Vec<_>>() {
            client.await?;
        }
        Ok::<(), tokio::task::JoinError>(())
    })?;

    // Stops taking requests; joins once what was dispatched is complete.
    built.engine.stop()?;
    built.engine.join()?;
    println!("{tally:?}");
    Ok(())
}
