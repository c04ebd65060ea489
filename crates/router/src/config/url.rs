//! Where a worker is.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

/// The base address of a worker: `http://` or `https://`, a host, perhaps a port and a path.
///
/// ```
/// use tollgate_router::config::WorkerUrl;
/// let url: WorkerUrl = "http://10.0.0.7:8000/".parse()?;
/// assert_eq!(url.to_string(), "http://10.0.0.7:8000");
/// assert_eq!(url.join("/v1/models").to_string(), "http://10.0.0.7:8000/v1/models");
/// assert!("10.0.0.7:8000".parse::<WorkerUrl>().is_err());
/// # Ok::<(), tollgate_router::config::UrlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerUrl {
    scheme: Scheme,
    authority: Authority,
    /// Without a slash at its end; empty at the root.
    path: String,
}

/// The most characters of a text that its error repeats.
const SHOWN: usize = 200;

/// Why a text is no worker's address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no worker's address: {reason}; write it as http://host:port or https://host:port"
)]
pub struct UrlError {
    text: String,
    reason: String,
}

impl WorkerUrl {
    /// The address of something at this worker; `path` begins with a slash and holds nothing that must be
    /// escaped.
    ///
    /// # Panics
    /// If `path` is no path.
    #[must_use]
    pub fn join(&self, path: &str) -> Uri {
        let whole = format!("{}{path}", self.path);
        let whole = PathAndQuery::try_from(whole).expect("both parts are paths");
        let uri = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(whole);
        uri.build().expect("all three parts are there")
    }
}

impl FromStr for WorkerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let error = |reason: &str| UrlError {
            text: text.chars().take(SHOWN).collect(),
            reason: reason.to_owned(),
        };
        let uri = Uri::from_str(text).map_err(|cause| error(&cause.to_string()))?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.ok_or_else(|| error("it has no scheme"))?;
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(error("its scheme is neither http nor https"));
        }
        let authority = parts.authority.ok_or_else(|| error("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(error("it holds a user name or password"));
        }
        if let Some(reason) = host_fault(authority.host()).or_else(|| port_fault(&authority)) {
            return Err(error(reason));
        }
        // It is no part of an address that is asked, and would be lost without a word.
        if text.contains('#') {
            return Err(error("it has a fragment"));
        }
        let path = parts.path_and_query;
        if path.as_ref().is_some_and(|path| path.query().is_some()) {
            return Err(error("it has a query"));
        }
        let path = path.map(|path| path.path().trim_end_matches('/').to_owned());
        let path = path.unwrap_or_default();
        Ok(Self {
            scheme,
            authority,
            path,
        })
    }
}

impl fmt::Display for WorkerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

/// Why a host is none. Names are as DNS has them, and with underscores, which container networks use.
fn host_fault(host: &str) -> Option<&'static str> {
    if host.is_empty() {
        return Some("it has no host");
    }
    if let Some(inside) = host.strip_prefix('[') {
        let inside = inside.strip_suffix(']').unwrap_or_default();
        let is_address = inside.parse::<Ipv6Addr>().is_ok();
        return (!is_address).then_some("its host is no IPv6 address");
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if name.len() > 253 || !name.split('.').all(is_label) {
        return Some("its host is neither a name nor an address of a machine");
    }
    // No domain at the top is a number.
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && name.parse::<Ipv4Addr>().is_err())
        .then_some("its host is no IPv4 address, which has four numbers from 0 to 255")
}

fn port_fault(authority: &Authority) -> Option<&'static str> {
    let port = authority.as_str().strip_prefix(authority.host())?;
    let port = port.strip_prefix(':')?;
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    // With zeros before it, one worker could be named in several ways.
    let is_port = is_number && !port.starts_with('0') && port.parse::<u16>().is_ok();
    (!is_port).then_some("its port is no number from 1 to 65535")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_its_path() {
        let url: WorkerUrl = "https://gpu.example/team/a/".parse().expect("an address");
        assert_eq!(url.to_string(), "https://gpu.example/team/a");
        let joined = url.join("/v1/completions").to_string();
        assert_eq!(joined, "https://gpu.example/team/a/v1/completions");
    }

    #[test]
    fn hosts_are_names_and_addresses() {
        for text in [
            "http://localhost",
            "http://gpu-1.example.:8000",
            "http://vllm_worker_2:65535",
            "http://10.0.0.7:1",
            "http://1st.example",
            "https://[fe80::1]:8000/v",
        ] {
            let url: WorkerUrl = text.parse().expect(text);
            assert_eq!(url.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_told_why() {
        let cases = [
            ("localhost:8000", "scheme"),
            ("ftp://host", "neither http nor https"),
            ("http://", "empty"),
            ("http://user:secret@host", "user name"),
            ("http://host/?a=1", "a query"),
            ("http://host/#a", "a fragment"),
            ("http://a b", "invalid uri character"),
            ("http://-", "neither a name nor an address"),
            ("http://.", "neither a name nor an address"),
            ("http://a..b:80", "neither a name nor an address"),
            ("http://-a.example", "neither a name nor an address"),
            ("http://a+b", "neither a name nor an address"),
            ("http://10.0.0", "no IPv4 address"),
            ("http://10.0.0.256:8000", "no IPv4 address"),
            ("http://[::1", "authority"),
            ("http://[::g]:80", "no IPv6 address"),
            ("http://host:0", "its port"),
            ("http://host:", "its port"),
            ("http://host:65536", "port"),
            ("http://host:+80", "port"),
            ("http://host:080", "its port"),
            ("", "empty"),
        ];
        for (text, reason) in cases {
            let error = text.parse::<WorkerUrl>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(error.contains("write it as http://"), "{text}: {error}");
        }
        let long = "x".repeat(100_000).parse::<WorkerUrl>();
        assert!(long.expect_err("no address").to_string().len() < 400);
    }
}
