//! The time of a request through the router, beside that of a direct one and of one through a bare proxy.

use std::net::SocketAddr;
use std::time::Instant;

use hdrhistogram::Histogram;
use http_body_util::BodyExt;

use crate::client::{connect, request};
use crate::parts::Part;

const BODY: &str = r#"{"model":"m","prompt":[1,2,3,4,5,6,7,8],"max_tokens":1}"#;
/// Clients at one time in the second arm.
const MANY: u64 = 32;
/// What passes a request on, if anything.
const NAMES: [&str; 3] = ["direct", "proxy", "router"];

/// So many calls of each kind.
pub(crate) async fn measure(calls: u64) {
    let worker = Part::start("part:instant", &[]);
    let proxy = Part::start("part:proxy", &[worker.address.to_string()]);
    let router = Part::start("part:router", &[String::new(), worker.address.to_string()]);
    println!(
        "A request of 8 prompt tokens to a worker that answers at once, {calls} calls of each kind, by turns:"
    );
    println!("clients  path       p50 us  p99 us  calls/s");
    for clients in [1, MANY.min(calls)] {
        let ways = [worker.address, proxy.address, router.address];
        let mut seen =
            ways.map(|_| Histogram::<u64>::new_with_max(60_000_000_000, 3).expect("a range"));
        let mut seconds = ways.map(|_| 0.0);
        let rounds = 10;
        let each = (calls / rounds / clients).max(1);
        // The first round warms both ways up.
        for round in 0..=rounds {
            for way in 0..ways.len() {
                let began = Instant::now();
                let times = calls_of(ways[way], clients, each).await;
                if round > 0 {
                    seconds[way] += began.elapsed().as_secs_f64();
                    times
                        .into_iter()
                        .for_each(|time| seen[way].saturating_record(time));
                }
            }
        }
        for (way, name) in NAMES.into_iter().enumerate() {
            println!(
                "{clients:7}  {name:9} {} {:8.0}",
                quantiles(&seen[way]),
                count(&seen[way]) / seconds[way]
            );
        }
        for (name, than) in [("to direct", 0), ("to proxy", 1)] {
            let added = |q: f64| {
                let [less, router] = [than, 2].map(|way: usize| seen[way].value_at_quantile(q));
                micros(router) - micros(less)
            };
            println!(
                "{clients:7}  {name:9} {:7.0} {:7.0}",
                added(0.5),
                added(0.99)
            );
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "told to whole numbers")]
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

#[expect(clippy::cast_precision_loss, reason = "told to whole numbers")]
fn count(histogram: &Histogram<u64>) -> f64 {
    histogram.len() as f64
}

fn quantiles(histogram: &Histogram<u64>) -> String {
    let at = |q| micros(histogram.value_at_quantile(q));
    format!("{:7.0} {:7.0}", at(0.5), at(0.99))
}

/// The times of so many calls of each client, in nanoseconds.
async fn calls_of(address: SocketAddr, clients: u64, calls: u64) -> Vec<u64> {
    let mut all = Vec::new();
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..clients {
        running.spawn(async move {
            let mut sender = connect(address).await;
            let mut times = Vec::new();
            for _ in 0..calls {
                let request = request(address, "default", BODY);
                let began = Instant::now();
                sender.ready().await.expect("it is kept");
                let response = sender.send_request(request).await.expect("an answer");
                assert_eq!(response.status(), 200);
                response
                    .into_body()
                    .collect()
                    .await
                    .expect("a whole answer");
                times.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
            }
            times
        });
    }
    while let Some(times) = running.join_next().await {
        all.extend(times.expect("no client panics"));
    }
    all
}
