//! Another policy while requests wait: shares of four to one become equal, nobody loses a place, and a
//! policy that is wrong changes nothing.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::collections::BTreeMap;

use tollgate::policy::{PolicyErrors, PolicyFile, Profile};
use tollgate::{Delivery, EgressShard, Engine, ModelIndex, Request, Worker};

const REQUESTS: u64 = 600;
const TOKENS: u32 = 512;

/// A policy file with two classes, of which each worker serves one request at a time.
fn policy(premium_quantum: u64) -> Result<Profile, PolicyErrors> {
    let text = format!(
        "
default_policy_family: regular
uncached_isl_buckets:
- {{min_tokens: 0, bucket: any}}
policy_classes:
- name: premium
  policy_family: premium
  cache_bucket: any
  quantum: {premium_quantum}
  prefill_busy_threshold: 0
- name: regular
  policy_family: regular
  cache_bucket: any
  quantum: 512
  prefill_busy_threshold: 0
"
    );
    let file = PolicyFile::parse("policy.yaml", text.as_bytes())?;
    Ok(file.profile(None).clone())
}

/// Serves `count` requests, one after the other, and counts them by family.
fn serve(
    egress: &mut EgressShard<&'static str>,
    count: u64,
) -> Result<BTreeMap<&'static str, u64>, tollgate::Closed> {
    let mut served = BTreeMap::new();
    for _ in 0..count {
        if let Delivery::Dispatch(dispatch) = egress.recv()? {
            *served.entry(dispatch.payload).or_default() += 1;
            egress.complete(dispatch.receipt());
        }
    }
    Ok(served)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ModelIndex::default();
    let built = Engine::builder(policy(2_048)?)
        .worker(Worker::new(7))
        .build()?;
    let (engine, mut ingress, mut egress) = (built.engine, built.ingress, built.egress);
    for number in 0..REQUESTS {
        let family = if number % 2 == 0 {
            "premium"
        } else {
            "regular"
        };
        let request = Request {
            family: Some(family),
            ..Request::new(TOKENS, family)
        };
        let submitted = ingress[0].try_submit(request);
        submitted.map_err(|refused| refused.reason)?;
    }

    println!("quanta 2048 and 512: {:?}", serve(&mut egress[0], 200)?);

    match policy(0) {
        Ok(_) => println!("a quantum of 0 was taken"),
        Err(errors) => println!("not reloaded:\n{errors}"),
    }

    let generation = engine.control().reload(model, policy(512)?)?;
    println!("reloaded: generation {generation}");
    println!("quanta 512 and 512: {:?}", serve(&mut egress[0], 200)?);

    // What is left need not be waited for.
    engine.control().stop(std::time::Duration::ZERO)?;
    let mut left = 0;
    while let Ok(delivery) = egress[0].recv() {
        left += u64::from(matches!(delivery, Delivery::Ended(_)));
    }
    println!("{left} requests ended as the engine shut down");
    Ok(engine.join()?)
}
