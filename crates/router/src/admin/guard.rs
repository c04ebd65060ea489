//! Keeps the scripts of other sites away from the operators' address.
//!
//! A browser lets any page send simple requests to a loopback address, and a page whose name has been pointed
//! there may read the answers as well. So a request whose `Origin` is not the address itself is refused; and
//! where the address is a loopback one, so is a request that came by another name.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::middleware::Next;
use http::header::{HOST, HeaderName, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Request, Response, StatusCode};

use crate::refusal::{Refusal, Retry};
use crate::shared::Shared;

/// Passes what comes from an operator's own tools or from the page at the address itself.
pub(super) async fn guard(
    State(shared): State<Arc<Shared>>,
    request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let is_loopback = shared.config.admin.ip().is_loopback();
    if is_own(request.headers(), is_loopback) {
        let within = shared.config.timeouts.client_body;
        let answer = tokio::time::timeout(within, next.run(request)).await;
        return answer.unwrap_or_else(|_| {
            let message = format!("no answer within {} s", within.as_secs_f64());
            let status = StatusCode::REQUEST_TIMEOUT;
            Refusal::new(status, "body_timeout", message, Retry::Never).response()
        });
    }
    let message = "this address does not answer pages of other sites";
    Refusal::new(
        StatusCode::FORBIDDEN,
        "foreign_origin",
        message,
        Retry::Never,
    )
    .response()
}

fn is_own(headers: &HeaderMap, is_loopback: bool) -> bool {
    let text = |name: &HeaderName| Some(headers.get(name)?.to_str().unwrap_or("?"));
    let host = text(&HOST);
    if is_loopback && host.is_some_and(|host| !names_loopback(host)) {
        return false;
    }
    match text(&ORIGIN) {
        None => true,
        // A proxy before this address may speak TLS.
        Some(origin) => ["http://", "https://"]
            .into_iter()
            .filter_map(|scheme| origin.strip_prefix(scheme))
            .any(|origin| Some(origin) == host),
    }
}

fn names_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host().trim_matches(['[', ']']);
    name == "localhost"
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn is_own_with(host: Option<&str>, origin: Option<&str>, is_loopback: bool) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in [(HOST, host), (ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, HeaderValue::from_str(value).expect("a value"));
            }
        }
        is_own(&headers, is_loopback)
    }

    #[test]
    fn tools_and_the_own_page_pass() {
        assert!(is_own_with(Some("127.0.0.1:9090"), None, true));
        assert!(is_own_with(
            Some("localhost:9090"),
            Some("http://localhost:9090"),
            true
        ));
        assert!(is_own_with(Some("[::1]:9090"), None, true));
        assert!(is_own_with(None, None, true));
        assert!(is_own_with(Some("router.internal:9090"), None, false));
    }

    #[test]
    fn pages_of_other_sites_do_not_pass() {
        assert!(!is_own_with(
            Some("127.0.0.1:9090"),
            Some("http://evil.example"),
            true
        ));
        assert!(!is_own_with(Some("127.0.0.1:9090"), Some("null"), true));
        assert!(!is_own_with(
            Some("evil.example:9090"),
            Some("http://evil.example:9090"),
            true
        ));
        assert!(!is_own_with(Some("evil.example:9090"), None, true));
        assert!(!is_own_with(
            Some("router.internal:9090"),
            Some("http://evil.example"),
            false
        ));
    }
}
