//! Takes connections and serves them.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::service::Service;
use crate::wire::{Switch, Wire};

/// Connections that may wait to be taken; the system has a limit of its own.
const BACKLOG: u32 = 4_096;
/// How long to wait where a connection cannot be taken, mostly for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(10);

/// Listens at an address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A worker that starts again need not wait for old connections to fade.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves connections until `stop` comes or its sender is gone, then closes all of them.
pub(crate) async fn run(
    listener: TcpListener,
    service: Arc<Service>,
    mut stop: oneshot::Receiver<Infallible>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stop => break,
            Some(_) = connections.join_next() => {}
            taken = listener.accept() => match taken {
                Ok((socket, _)) => {
                    connections.spawn(serve(socket, Arc::clone(&service)));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// Serves one connection to its end.
async fn serve(socket: TcpStream, service: Arc<Service>) {
    // Without it, frames would wait for each other; a socket that refuses is about to fail anyway.
    let _ = socket.set_nodelay(true);
    let switch = Switch::default();
    let wire = TokioIo::new(Wire::new(socket, switch.clone()));
    let answer = service_fn(move |request| {
        let (service, switch) = (Arc::clone(&service), switch.clone());
        Box::pin(async move { Ok::<_, Infallible>(service.answer(switch, request).await) })
    });
    let mut connection = http1::Builder::new().serve_connection(wire, answer);
    // A client that breaks the rules or leaves is no matter of ours.
    let _ = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    connection.into_parts().io.into_inner().finish().await;
}
