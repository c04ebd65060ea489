//! Why did this go first? An engine under some load, a journal of it captured from the middle on, and the
//! command that replays and explains it.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::fs::File;
use std::io::BufWriter;

use tollgate::policy::{Bucket, ClassPolicy, Profile, ProfileSpec};
use tollgate::{Delivery, EgressShard, Engine, IngressShard, ModelIndex, Request, Worker};

const REQUESTS: u64 = 400;
const JOURNAL_BYTES: usize = 1 << 20;

/// Premium has four times the share of regular; a worker serves one request at a time.
fn profile() -> Result<Profile, tollgate::policy::PolicyErrors> {
    let class = |family, quantum| ClassPolicy {
        prefill_busy_threshold: Some(0),
        ..ClassPolicy::matrix(family, family, 0, quantum)
    };
    let classes = vec![class("premium", 2_048), class("regular", 512)];
    let buckets = vec![Bucket::new(0, "any")];
    Profile::build(ProfileSpec::new("regular", buckets, classes))
}

fn submit(shard: &mut IngressShard<u64>) {
    for number in 0..REQUESTS {
        let family = if number % 2 == 0 {
            "premium"
        } else {
            "regular"
        };
        let request = Request {
            family: Some(family),
            ..Request::new(512, number)
        };
        shard.try_submit(request).expect("there is room");
    }
}

/// Serves `count` requests, one after the other.
fn serve(shard: &mut EgressShard<u64>, count: u64) -> Result<(), tollgate::Closed> {
    for _ in 0..count {
        if let Delivery::Dispatch(dispatch) = shard.recv()? {
            shard.complete(dispatch.receipt());
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let built = Engine::builder(profile()?).worker(Worker::new(7)).build()?;
    let (engine, mut ingress, mut egress) = (built.engine, built.ingress, built.egress);
    let control = engine.control();
    let model = ModelIndex::default();

    submit(&mut ingress[0]);
    serve(&mut egress[0], REQUESTS / 4)?;
    // From here on; what waits and runs by now is in its checkpoint.
    control.start_journal(model, JOURNAL_BYTES)?;
    serve(&mut egress[0], REQUESTS / 4)?;
    let journal = control.take_journal(model)?.ok_or("it was started")?;
    serve(&mut egress[0], REQUESTS / 2)?;

    let path = std::env::temp_dir().join(format!("tollgate-{}.journal", std::process::id()));
    journal.write(BufWriter::new(File::create(&path)?))?;
    println!(
        "captured {} records in {} bytes; the checkpoint held the arbiter for {:?}",
        journal.records(),
        journal.bytes(),
        journal.pause()
    );
    println!("tollgate scenario --explain {}", path.display());
    engine.stop()?;
    engine.join()?;
    Ok(())
}
