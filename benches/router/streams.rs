//! Thousands of streams at one time.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{connect, request};
use crate::parts::Part;

/// 20 tokens, each half a second after the other: 10 s of a stream.
const BODY: &str = r#"{"model":"m","prompt":[1,2,3,4,5,6,7,8],"max_tokens":20,"stream":true}"#;
const CLASSES: [&str; 2] = ["premium", "regular"];
/// Each worker takes 2,048 tokens of prefill and what crosses it at one time: 257 requests.
const POLICY: &str = "\
default_policy_family: regular
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
- {name: premium, policy_family: premium, cache_bucket: any, quantum: 32, prefill_busy_threshold: 2048}
- {name: regular, policy_family: regular, cache_bucket: any, quantum: 8, prefill_busy_threshold: 2048}
";

/// What became of a stream.
struct Seen {
    class: usize,
    is_whole: bool,
    /// When it was dispatched, since the release.
    dispatched: Duration,
    first_byte: Duration,
    ended: Duration,
}

/// So many clients, half of each class, released at once.
pub(crate) async fn measure(clients: usize) {
    let mut policy = tempfile::NamedTempFile::new().expect("a file");
    policy.write_all(POLICY.as_bytes()).expect("it is written");
    let workers = [(); 2].map(|()| Part::start("part:worker", &[]));
    let mut arguments = vec![policy.path().display().to_string()];
    arguments.extend(workers.iter().map(|worker| worker.address.to_string()));
    let router = Part::start("part:router", &arguments);
    let (before, _) = router.memory();
    let (go, gone) = watch::channel(None);
    let mut running = JoinSet::new();
    for number in 0..clients {
        let sender = connect(router.address).await;
        let stream = stream(number % 2, router.address, sender, gone.clone());
        running.spawn(stream);
    }
    let (connected, _) = router.memory();
    go.send_replace(Some(Instant::now()));
    let mut all = Vec::new();
    while let Some(seen) = running.join_next().await {
        all.push(seen.expect("no client panics"));
    }
    let (_, peak) = router.memory();
    tell(&mut all, clients);
    println!(
        "router's memory: {} MB at start, {} MB with all connected, {} MB at its peak",
        before >> 20,
        connected >> 20,
        peak >> 20
    );
}

async fn stream(
    class: usize,
    address: SocketAddr,
    mut sender: hyper::client::conn::http1::SendRequest<http_body_util::Full<bytes::Bytes>>,
    mut gone: watch::Receiver<Option<Instant>>,
) -> Seen {
    let began = *gone
        .wait_for(Option::is_some)
        .await
        .expect("it is released");
    let began = began.expect("it was waited for");
    let sent = began.elapsed();
    let mut seen = Seen {
        class,
        is_whole: false,
        dispatched: sent,
        first_byte: Duration::ZERO,
        ended: Duration::ZERO,
    };
    let Ok(response) = sender
        .send_request(request(address, CLASSES[class], BODY))
        .await
    else {
        return seen;
    };
    let wait = response.headers().get("x-tollgate-wait-ms");
    let wait = wait.and_then(|wait| wait.to_str().ok()?.parse::<f64>().ok());
    seen.dispatched += Duration::from_secs_f64(wait.unwrap_or(0.0) / 1e3);
    let is_fine = response.status() == 200;
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        if text.is_empty() {
            seen.first_byte = began.elapsed();
        }
        if let Ok(data) = frame.into_data() {
            text.extend_from_slice(&data);
        }
    }
    seen.ended = began.elapsed();
    seen.is_whole = is_fine && text.ends_with(b"data: [DONE]\n\n");
    seen
}

fn tell(all: &mut [Seen], clients: usize) {
    let whole = all.iter().filter(|seen| seen.is_whole).count();
    println!("{clients} streams released at once, half premium, half regular, at quanta of 4 : 1:");
    println!("whole: {whole} of {clients}");
    // All at one time: the last first byte is before the first end.
    let open = |at: Duration| {
        let is_open = |seen: &&Seen| seen.first_byte <= at && seen.ended > at;
        all.iter().filter(is_open).count()
    };
    let most = all.iter().map(|seen| open(seen.first_byte)).max();
    println!("streaming at one time: {} at the most", most.unwrap_or(0));
    all.sort_by_key(|seen| seen.dispatched);
    let mut left = CLASSES.map(|_| clients / 2);
    let mut served = [0_usize; 2];
    for seen in all.iter() {
        if left.contains(&0) {
            break;
        }
        left[seen.class] = left[seen.class].saturating_sub(1);
        served[seen.class] += 1;
    }
    println!(
        "dispatched while both classes waited: {} premium, {} regular",
        served[0], served[1]
    );
    let last = all.iter().map(|seen| seen.ended).max().unwrap_or_default();
    println!("the last stream ended after {:.1} s", last.as_secs_f64());
}
