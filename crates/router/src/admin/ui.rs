//! A page that shows the state live.
//!
//! It is one file, and asks nobody but this address, for `/state`. Its policy forbids it all else: scripts and
//! styles run only with the word that each answer carries anew.

use std::hash::{BuildHasher, RandomState};

use axum::body::Body;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName};
use http::header::{REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response};

const PAGE: &str = include_str!("ui.html");
/// What stands in the page where the word of an answer belongs.
const PLACE: &str = "NONCE";

pub(super) async fn show() -> Response<Body> {
    let nonce = nonce();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let mut response = Response::new(Body::from(PAGE.replace(PLACE, &nonce)));
    let policy = HeaderValue::try_from(policy).expect("it is ASCII");
    let fixed = |name: HeaderName, value| (name, HeaderValue::from_static(value));
    response.headers_mut().extend([
        (CONTENT_SECURITY_POLICY, policy),
        fixed(CONTENT_TYPE, "text/html; charset=utf-8"),
        fixed(CACHE_CONTROL, "no-store"),
        fixed(REFERRER_POLICY, "no-referrer"),
        fixed(X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ]);
    response
}

/// A word that nobody can tell beforehand: 128 bits from the seeds of the standard library's hash maps.
fn nonce() -> String {
    let word = |seeds: RandomState| seeds.hash_one(0_u8);
    format!(
        "{:016x}{:016x}",
        word(RandomState::new()),
        word(RandomState::new())
    )
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn page() -> (String, String) {
        let response = show().await;
        let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str();
        let policy = policy.expect("it is ASCII").to_owned();
        let body = response.into_body().collect().await.expect("a body");
        let text = String::from_utf8(body.to_bytes().to_vec()).expect("UTF-8");
        (policy, text)
    }

    #[tokio::test]
    async fn scripts_and_styles_run_only_with_the_word_of_the_answer() {
        let (policy, text) = page().await;
        let (_, rest) = policy.split_once("script-src 'nonce-").expect("it has one");
        let (nonce, _) = rest.split_once('\'').expect("it ends");
        assert_eq!(nonce.len(), 32);
        assert_eq!(text.matches(&format!("nonce=\"{nonce}\"")).count(), 2);
        assert!(!text.contains(PLACE));
        assert_ne!(page().await.0, policy, "the next answer has another one");
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
    }

    #[test]
    fn the_page_shows_thresholds_and_never_an_old_phase_as_the_present_one() {
        assert!(PAGE.contains("one.busy_above_tokens"));
        let (_, after) = PAGE
            .split_once("trying again.`);")
            .expect("it tells a loss");
        assert!(
            after.trim_start().starts_with("show();"),
            "and shows it at once"
        );
        assert!(PAGE.contains("lostSince ? [\"unknown, connection lost\""));
    }

    #[test]
    fn the_page_asks_nobody_else_and_makes_no_markup_of_names() {
        for forbidden in [
            "https://",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "eval(",
            "style=",
        ] {
            assert!(!PAGE.contains(forbidden), "{forbidden}");
        }
        // The one address is the name space of drawings, which nobody is asked for.
        assert_eq!(PAGE.matches("http://").count(), 1);
        assert_eq!(PAGE.matches("fetch(").count(), 1);
        assert!(PAGE.contains("fetch(\"/state?entries=1\""));
    }
}
