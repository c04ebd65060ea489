//! Requests that are not served: one is cancelled by another thread while it waits, one waits longer
//! than it may, one may not wait at all. Each has its outcome, and nothing is charged for them.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use tollgate::policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate::{Delivery, Engine, Nanos, Receipt, Request, Worker};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A worker is busy from the first prefill on, so that whatever comes after it waits.
    let mut chat = ClassPolicy::matrix("chat", "chat", 0, 1_024);
    chat.prefill_busy_threshold = Some(0);
    let buckets = vec![Bucket::new(0, "all")];
    let policy = Profile::build(ProfileSpec::new("chat", buckets, vec![chat]))?;
    let built = Engine::builder(policy).worker(Worker::new(7)).build()?;
    let (engine, mut ingress, mut egress) = (built.engine, built.ingress, built.egress);
    let handles = engine.handles();

    let soon = handles.clock().now().saturating_add(Nanos::from_millis(20));
    let plain = |prompt| Request::new(512, prompt);
    let requests = [
        plain("runs at once"),
        plain("is given up by its client"),
        Request {
            deadline: Some(soon),
            ..plain("is worth nothing in 20 ms")
        },
        Request {
            may_wait: false,
            ..plain("now or never")
        },
        plain("has patience"),
    ];
    let mut tickets = Vec::new();
    for request in requests {
        let submitted = ingress[0].try_submit(request);
        tickets.push(submitted.map_err(|refused| refused.reason)?);
    }

    // Whoever holds a ticket may cancel, on any thread: here the one that hears of closed connections.
    let (releases, given_up) = (handles.releases(), tickets[1]);
    std::thread::scope(|scope| {
        scope.spawn(|| releases.cancel(given_up));
    });

    let mut running: Option<Receipt> = None;
    for _ in 0..tickets.len() {
        match egress[0].recv()? {
            Delivery::Dispatch(dispatch) => {
                let waited = dispatch.dispatched_at.saturating_sub(dispatch.submitted_at);
                println!(
                    "dispatched after {} us: {}",
                    waited.as_micros(),
                    dispatch.payload
                );
                running = Some(dispatch.receipt());
            }
            Delivery::Ended(ended) => println!("{:?}: {}", ended.outcome, ended.payload),
            Delivery::Returned { payload, .. } => println!("returned: {payload}"),
        }
        // The first request is done once the other three have their outcome; then the last one runs.
        let is_last = handles.clock().now() > soon;
        if let Some(receipt) = running.take_if(|_| is_last) {
            egress[0].complete(receipt);
        }
    }
    engine.stop()?;
    Ok(engine.join()?)
}
