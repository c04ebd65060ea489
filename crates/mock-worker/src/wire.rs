//! A connection, and how it can be broken.
//!
//! A handler that is to break its connection arms the connection's [`Switch`]. Hyper flushes after
//! everything it writes; the first flush that finds the switch armed fails once all bytes are on their
//! way, so hyper lets go of the connection, and what is left to do is done to the bare socket.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// What a client gets instead of HTTP.
const GARBAGE: &[u8] = b"\x00\xffthis is not an answer\x01\r\n\r\n";
/// How long a client may take to read the last answer while it still sends.
const LINGER: Duration = Duration::from_secs(1);

/// How a connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Break {
    /// It is closed.
    Close = 1,
    /// It is reset.
    Reset = 2,
    /// It is closed after bytes that are not HTTP.
    Garbage = 3,
}

/// Breaks a connection once it is armed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Switch(Arc<AtomicU8>);

impl Switch {
    pub(crate) fn arm(&self, how: Break) {
        // ORDERING: Relaxed; the handler and the connection are one task.
        self.0.store(how as u8, Ordering::Relaxed);
    }

    fn armed(&self) -> Option<Break> {
        // ORDERING: Relaxed, as in `arm`.
        let armed = self.0.load(Ordering::Relaxed);
        let all = [Break::Close, Break::Reset, Break::Garbage];
        all.into_iter().find(|how| *how as u8 == armed)
    }
}

/// A client's socket with its switch.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: TcpStream,
    switch: Switch,
}

impl Wire {
    pub(crate) const fn new(socket: TcpStream, switch: Switch) -> Self {
        Self { socket, switch }
    }

    /// Ends a connection that hyper has let go of. What goes wrong with it is the client's own doing.
    pub(crate) async fn finish(mut self) {
        match self.switch.armed() {
            None => self.close().await,
            Some(Break::Close) => {}
            Some(Break::Reset) => {
                let _ = self.socket.set_zero_linger();
            }
            Some(Break::Garbage) => {
                let _ = self.socket.write_all(GARBAGE).await;
            }
        }
    }

    /// Reads on for a while after the last answer: closing a socket with unread bytes resets it, and the
    /// client would lose the answer.
    async fn close(&mut self) {
        if self.socket.shutdown().await.is_err() {
            return;
        }
        let mut unread = [0; 4096];
        let read_on = async { while let Ok(1..) = self.socket.read(&mut unread).await {} };
        let _ = tokio::time::timeout(LINGER, read_on).await;
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket has nothing of its own to flush.
        Poll::Ready(match self.switch.armed() {
            None => Ok(()),
            Some(_) => Err(io::Error::other("broken on request")),
        })
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
