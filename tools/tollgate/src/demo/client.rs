//! 640 clients of the router, each on a connection of its own, released at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::arm::{CLASSES, prompt};

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// 0 premium, 1 regular.
    pub(super) class: usize,
    pub(super) status: u16,
    /// From the release to its being sent.
    pub(super) sent: Duration,
    /// From its submission to its dispatch, as the router tells it.
    pub(super) wait: Duration,
    /// From the release to the end of its answer.
    pub(super) ended: Duration,
}

/// Connects so many clients, by turns premium and regular, releases them, and waits for all answers: these in
/// the order of their ends, and the time until the last.
pub(super) async fn release(
    address: SocketAddr,
    model: &str,
    requests: u32,
) -> anyhow::Result<(Vec<Answer>, Duration)> {
    let (go, gone) = watch::channel(None);
    let model: Arc<str> = model.into();
    let mut clients = JoinSet::new();
    for number in 0..requests {
        let sender = connect(address)
            .await
            .context("cannot connect to the router")?;
        let request = request(address, &model, number)?;
        clients.spawn(ask(number as usize % 2, sender, request, gone.clone()));
    }
    let began = Instant::now();
    go.send_replace(Some(began));
    let mut answers = Vec::new();
    while let Some(answer) = clients.join_next().await {
        answers.push(answer.context("a client panicked")??);
    }
    answers.sort_by_key(|answer: &Answer| answer.ended);
    Ok((answers, began.elapsed()))
}

async fn connect(address: SocketAddr) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // What goes wrong with it is seen by whoever sends.
    tokio::spawn(connection);
    Ok(sender)
}

fn request(address: SocketAddr, model: &str, number: u32) -> anyhow::Result<Request<Full<Bytes>>> {
    let class = CLASSES[number as usize % 2];
    let body = serde_json::json!({ "model": model, "prompt": prompt(number), "max_tokens": 1 });
    let request = Request::builder()
        .method(Method::POST)
        .uri("/v1/completions")
        .header("host", address.to_string())
        .header("content-type", "application/json")
        .header("x-dynamo-meta-policy-class", class)
        .body(Full::new(Bytes::from(body.to_string())))?;
    Ok(request)
}

async fn ask(
    class: usize,
    mut sender: SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
    mut gone: watch::Receiver<Option<Instant>>,
) -> anyhow::Result<Answer> {
    let began = *gone.wait_for(Option::is_some).await?;
    let began = began.context("waited for it")?;
    let sent = began.elapsed();
    let response = sender.send_request(request).await.context("no answer")?;
    let status = response.status().as_u16();
    let wait = response.headers().get("x-tollgate-wait-ms");
    let wait = wait.and_then(|wait| wait.to_str().ok()?.parse::<f64>().ok());
    response
        .into_body()
        .collect()
        .await
        .context("a broken answer")?;
    Ok(Answer {
        class,
        status,
        sent,
        wait: Duration::from_secs_f64(wait.unwrap_or(0.0) / 1e3),
        ended: began.elapsed(),
    })
}
