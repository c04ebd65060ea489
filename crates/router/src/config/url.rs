//! Where a worker is.

use std::fmt;
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
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        let uri = Uri::from_str(text).map_err(|cause| error(&cause.to_string()))?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.ok_or_else(|| error("it has no scheme"))?;
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(error("its scheme is neither http nor https"));
        }
        let authority = parts.authority.ok_or_else(|| error("it has no host"))?;
        if authority.host().is_empty() {
            return Err(error("it has no host"));
        }
        if authority.as_str().contains('@') {
            return Err(error("it holds a user name or password"));
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
    fn what_is_no_address_is_told_why() {
        let cases = [
            ("localhost:8000", "scheme"),
            ("ftp://host", "neither http nor https"),
            ("http://", "empty"),
            ("http://user:secret@host", "user name"),
            ("http://host/?a=1", "a query"),
            ("", "empty"),
        ];
        for (text, reason) in cases {
            let error = text.parse::<WorkerUrl>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(error.contains("write it as http://"), "{text}: {error}");
        }
    }
}
