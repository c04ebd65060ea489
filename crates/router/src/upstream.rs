//! Talking to workers over HTTP.

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tower_service::Service;

/// Idle connections to one worker that are kept.
const IDLE_CONNECTIONS: usize = 512;
/// How long one is kept. Common servers close theirs after 5 s, and a request that meets the closing fails.
const IDLE_TIME: Duration = Duration::from_secs(4);

/// A client for all workers: it keeps connections.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    client: Client<InTime, Full<Bytes>>,
}

/// Connects within a time, TLS included: a server that takes a connection and says nothing holds up nobody.
#[derive(Clone, Debug)]
struct InTime {
    connector: HttpsConnector<HttpConnector>,
    within: Duration,
}

impl Service<Uri> for InTime {
    type Response = <HttpsConnector<HttpConnector> as Service<Uri>>::Response;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let within = self.within;
        let connected = tokio::time::timeout(within, self.connector.call(to));
        Box::pin(async move {
            let late = |_| format!("no connection within {} ms", within.as_millis());
            connected.await.map_err(late)?
        })
    }
}

/// Why the certificates for workers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The file cannot be read.
    #[error("worker-ca: {path}: {error}")]
    Unreadable {
        /// Which file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// It holds nothing usable.
    #[error("worker-ca: {path}: {reason}; it must hold certificates in PEM")]
    Invalid {
        /// Which file.
        path: String,
        /// Why.
        reason: String,
    },
}

/// Why a short question to a worker has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}")]
    Broken(String),
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("status {0}")]
    Status(http::StatusCode),
    #[error("the answer is broken or too long: {0}")]
    Body(String),
}

impl Upstream {
    pub(crate) fn new(connect: Duration, ca: Option<&Path>) -> Result<Self, CertificateError> {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        // Of several addresses of a host, each gets its part of the time.
        http.set_connect_timeout(Some(connect));
        http.set_keepalive(Some(Duration::from_secs(30)));
        http.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(ca)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(InTime {
                connector,
                within: connect,
            });
        Ok(Self { client })
    }

    /// Sends a request and waits for the answer's head.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Error> {
        self.client.request(request).await
    }

    /// Asks something short.
    pub(crate) async fn ask(&self, uri: Uri, within: Duration) -> Result<Bytes, AskError> {
        const LONGEST: usize = 1 << 20;
        let mut request = Request::new(Full::default());
        *request.uri_mut() = uri;
        let answer = async {
            let response = self.send(request).await;
            let response = response.map_err(|error| match error.is_connect() {
                true => AskError::Unreachable(plain(&error)),
                false => AskError::Broken(plain(&error)),
            })?;
            if !response.status().is_success() {
                return Err(AskError::Status(response.status()));
            }
            let body = Limited::new(response.into_body(), LONGEST).collect().await;
            let body = body.map_err(|error| AskError::Body(error.to_string()))?;
            Ok(body.to_bytes())
        };
        let answer = tokio::time::timeout(within, answer).await;
        answer.unwrap_or(Err(AskError::Timeout(within)))
    }
}

/// The system's certificates, and those of a file.
fn tls(ca: Option<&Path>) -> Result<ClientConfig, CertificateError> {
    let mut roots = RootCertStore::empty();
    // A system without certificates can still reach workers that a file vouches for, or that use none.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca {
        let name = || path.display().to_string();
        let text = std::fs::read(path).map_err(|error| CertificateError::Unreadable {
            path: name(),
            error,
        })?;
        let invalid = |reason: String| CertificateError::Invalid {
            path: name(),
            reason,
        };
        let mut count = 0;
        for certificate in CertificateDer::pem_slice_iter(&text) {
            let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| invalid(error.to_string()))?;
            count += 1;
        }
        if count == 0 {
            return Err(invalid("it holds no certificate".to_owned()));
        }
    }
    let provider = rustls::crypto::ring::default_provider().into();
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// The innermost reason of an error: `connection refused` rather than `client error`; and what it is about, where
/// a worker does not speak what its address says.
pub(crate) fn plain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(inner) = inner(innermost) {
        innermost = inner;
    }
    match innermost.downcast_ref() {
        Some(rustls::Error::InvalidMessage(_)) => format!("it does not speak TLS: {innermost}"),
        Some(_) => format!("TLS: {innermost}"),
        None if innermost.downcast_ref().is_some_and(hyper::Error::is_parse) => {
            format!("it does not speak HTTP/1.1: {innermost}")
        }
        None => innermost.to_string(),
    }
}

/// What an error is about. An I/O error holds another one without naming it as its source.
fn inner<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> Option<&'e (dyn std::error::Error + 'static)> {
    let held = error.downcast_ref().and_then(std::io::Error::get_ref);
    match held {
        Some(held) => Some(held),
        None => error.source(),
    }
}
