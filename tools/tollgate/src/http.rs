//! Asking a server one thing over plain HTTP.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Where a server is: a host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(Authority);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            let text = text.escape_debug();
            format!("`{text}` is no address: {why}; write it as host:port or http://host:port")
        };
        let authority = match text.split_once("://") {
            None => text
                .parse()
                .map_err(|_| wrong("it is neither host and port nor a URL"))?,
            Some(_) => {
                let uri: Uri = text.parse().map_err(|_| wrong("it is no URL"))?;
                let parts = uri.into_parts();
                if parts.scheme != Some(Scheme::HTTP) {
                    return Err(wrong("its scheme is not http"));
                }
                if parts.path_and_query.is_some_and(|path| path != "/") {
                    return Err(wrong("it has a path"));
                }
                parts.authority.ok_or_else(|| wrong("it has no host"))?
            }
        };
        if authority.as_str().contains('@') {
            return Err(wrong("it holds a user name"));
        }
        if authority.host().is_empty() {
            return Err(wrong("it has no host"));
        }
        if authority.port_u16().is_none() {
            return Err(wrong("it has no port"));
        }
        Ok(Self(authority))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a server answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// Asks for a path, on a connection of its own, and gives the whole answer, at most 64 MiB.
///
/// # Errors
/// The server cannot be reached, does not answer within the time, or not in HTTP.
pub(crate) async fn get(address: &Address, path: &str, within: Duration) -> anyhow::Result<Answer> {
    let asked = tokio::time::timeout(within, ask(address, path)).await;
    let answered = asked.unwrap_or_else(|_| {
        Err(anyhow::anyhow!(
            "no answer within {} s",
            within.as_secs_f64()
        ))
    });
    answered.map_err(|error| error.context(format!("cannot reach {address}")))
}

async fn ask(address: &Address, path: &str) -> anyhow::Result<Answer> {
    let stream = TcpStream::connect(address.0.as_str()).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // What goes wrong on it, the answer tells.
    let connection = tokio::spawn(async move { connection.await.is_ok() });
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = path.parse()?;
    let host = HeaderValue::try_from(address.0.as_str())?;
    request.headers_mut().insert(header::HOST, host);
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await;
    connection.abort();
    let body =
        body.map_err(|error| anyhow::anyhow!("the answer breaks off or is too long: {error}"))?;
    Ok(Answer {
        status,
        body: body.to_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_and_port_or_a_url_of_them() {
        let cases = [
            ("127.0.0.1:9090", "127.0.0.1:9090"),
            ("http://router.internal:80/", "router.internal:80"),
            ("[::1]:9090", "[::1]:9090"),
        ];
        for (text, expected) in cases {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.to_string(), expected);
        }
    }

    #[test]
    fn what_is_no_address_is_told_why() {
        let cases = [
            ("", "neither"),
            ("127.0.0.1", "no port"),
            ("http://127.0.0.1", "no port"),
            ("https://127.0.0.1:9090", "scheme"),
            ("http://h:1/state", "a path"),
            ("me@h:1", "user name"),
            (":9090", "host"),
            ("h:99999", "no port"),
            ("a b:1", "neither"),
        ];
        for (text, why) in cases {
            let error = text.parse::<Address>().expect_err(text);
            assert!(
                error.contains(why) && error.contains("host:port"),
                "{text}: {error}"
            );
        }
    }
}
