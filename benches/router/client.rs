//! A client on a connection of its own.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

pub(crate) async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .expect("a connection");
    tokio::spawn(connection);
    sender
}

pub(crate) fn request(
    address: SocketAddr,
    class: &str,
    body: &'static str,
) -> Request<Full<Bytes>> {
    Request::builder()
        .method(Method::POST)
        .uri("/v1/completions")
        .header("host", address.to_string())
        .header("content-type", "application/json")
        .header("x-dynamo-meta-policy-class", class)
        .body(Full::new(Bytes::from_static(body.as_bytes())))
        .expect("a request")
}
