//! Listening, and serving connections within their limits.
//!
//! A connection of a client has a time for its headers, one for its body, and one for taking what is ready for
//! it; whoever uses them up is cut off. As many connections as there may be are served; one more is told so
//! with a status, or, where too many are being told, closed at once.

mod files;
mod stream;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;

pub(crate) use self::files::descriptors;
use self::stream::ImpatientStream;
use crate::refusal::{RETRY_MIN, Refusal, Retry};
use crate::shared::Shared;

/// Connections that are being told at one time that there are too many.
const TOLD: usize = 64;
/// How long one of them may take to hear it.
const TELLING: Duration = Duration::from_secs(2);
/// A pause after an accept that failed for want of something.
const BREATH: Duration = Duration::from_millis(20);

/// Connections that may wait to be accepted, at most as many as the system allows: thousands of clients come at
/// once, and one that finds no room tries again after a second.
const BACKLOG: u32 = 4_096;

/// Opens a listening socket.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves the connections of `listener` until the task is aborted, at most `most` at one time.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    listener: TcpListener,
    routes: axum::Router,
    most: usize,
) {
    let room = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    let told = Arc::new(Semaphore::new(TOLD));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(_) => {
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        if let Ok(permit) = Arc::clone(&room).try_acquire_owned() {
            let serving = serve_connection(Arc::clone(&shared), stream, routes.clone());
            tokio::spawn(async move {
                serving.await;
                drop(permit);
            });
            continue;
        }
        shared.telemetry.refused_connections.inc();
        if let Ok(permit) = Arc::clone(&told).try_acquire_owned() {
            let telling = refuse_connection(stream, most, shared.config.overload_status());
            tokio::spawn(async move {
                let _ = tokio::time::timeout(TELLING, telling).await;
                drop(permit);
            });
        }
    }
}

/// The peer's doing: the next accept may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
    )
}

async fn serve_connection(shared: Arc<Shared>, stream: TcpStream, routes: axum::Router) {
    let _connected = shared.connected();
    // Small frames must not wait for more; a socket that refuses serves all the same.
    let _ = stream.set_nodelay(true);
    let timeouts = &shared.config.timeouts;
    let stream = ImpatientStream::new(stream, timeouts.client_write);
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(timeouts.client_headers)
        .max_buf_size(shared.config.limits.header_bytes);
    if !shared.is_serving() {
        // It is told so, by one answer.
        builder.keep_alive(false);
    }
    let service = TowerToHyperService::new(routes);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut phase = shared.phase.subscribe();
    phase.mark_unchanged();
    // A connection that breaks is its client's affair: what it asked for is accounted for where it was.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = phase.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Tells one request of a connection that there are too many connections.
async fn refuse_connection(stream: TcpStream, most: usize, status: StatusCode) {
    let service = hyper::service::service_fn(move |_: Request<Incoming>| async move {
        let message = format!("this router serves {most} connections, as many as it may");
        let refusal = Refusal::new(
            status,
            "too_many_connections",
            message,
            Retry::After(RETRY_MIN),
        )
        .with_details(json!({ "limit": most }));
        Ok::<http::Response<Body>, std::convert::Infallible>(refusal.response())
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ = connection.await;
}
