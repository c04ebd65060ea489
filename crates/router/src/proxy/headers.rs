//! Which headers pass, and in which direction.

use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue};

/// Headers that concern one connection alone (RFC 9110, 7.6.1), beside those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
/// The name by which a request is known on its whole way.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Takes out what concerns one connection alone.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named
        .iter()
        .chain(&HOP_BY_HOP)
        .chain([&KEEP_ALIVE, &PROXY_CONNECTION])
    {
        headers.remove(name);
    }
}

/// A client's headers as a worker gets them. `Authorization` and the W3C trace headers pass, as everything
/// that is not named here; an answer is asked for uncompressed, so that its usage can be read.
pub(super) fn to_worker(mut headers: HeaderMap, request_id: &str) -> HeaderMap {
    strip(&mut headers);
    for name in [HOST, CONTENT_LENGTH, EXPECT, ACCEPT_ENCODING] {
        headers.remove(name);
    }
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, id);
    }
    headers
}

/// A worker's headers as a client gets them.
pub(super) fn to_client(mut headers: HeaderMap) -> HeaderMap {
    strip(&mut headers);
    headers.remove(CONTENT_LENGTH);
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn what_concerns_one_connection_does_not_pass() {
        let before = headers(&[
            ("connection", "keep-alive, X-Private"),
            ("keep-alive", "timeout=5"),
            ("x-private", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "secret"),
            ("content-type", "application/json"),
        ]);
        let expected = headers(&[("content-type", "application/json")]);
        assert_eq!(to_client(before.clone()), expected);
        let mut to = to_worker(before, "r");
        assert_eq!(to.remove(REQUEST_ID).expect("it is set"), "r");
        assert_eq!(to, expected);
    }

    #[test]
    fn authorization_trace_and_unknown_headers_pass() {
        let pairs = [
            ("authorization", "Bearer sk-1"),
            (
                "traceparent",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            ),
            ("tracestate", "a=b"),
            ("x-own", "1"),
        ];
        let mut to = to_worker(headers(&pairs), "r");
        to.remove(REQUEST_ID);
        assert_eq!(to, headers(&pairs));
    }

    #[test]
    fn host_length_and_encoding_are_made_anew() {
        let before = headers(&[
            ("host", "public"),
            ("content-length", "5"),
            ("accept-encoding", "gzip"),
        ]);
        let mut to = to_worker(before, "r");
        to.remove(REQUEST_ID);
        assert!(to.is_empty());
    }
}
