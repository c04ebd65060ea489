//! What a client says about its request, by headers and in the body's `nvext.agent_hints`; headers win.

use std::time::Duration;

use arrayvec::ArrayVec;
use http::{HeaderMap, HeaderName};
use tollgate::{Endpoint, REQUIRED_TAINTS_MAX, WorkerId};

use crate::config::Config;
use crate::cost::AgentHints;
use crate::refusal::Refusal;

/// The longest name of a session, in bytes.
const SESSION_BYTES_MAX: usize = 256;

/// What a client says about its request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Hints {
    pub(super) class: Option<String>,
    pub(super) strict_priority: u32,
    /// Seconds.
    pub(super) priority_jump: f64,
    pub(super) deadline: Option<Duration>,
    pub(super) session: Option<String>,
    pub(super) pin: Option<Endpoint>,
    /// What a worker must carry to run it.
    pub(super) taints: ArrayVec<String, REQUIRED_TAINTS_MAX>,
}

/// The first value of a header, without spaces around it; an empty one is none.
fn first<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Refusal> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(value.as_bytes());
    let text = text
        .map_err(|_| invalid(name, "it is not UTF-8", "text"))?
        .trim();
    Ok((!text.is_empty()).then_some(text))
}

fn invalid(name: &HeaderName, found: &str, right: &str) -> Refusal {
    let message = format!("header {name}: {found}; it must be {right}");
    Refusal::invalid("invalid_header", message).with_param(name.as_str())
}

/// What a header and its place in the body say; `right` is what it must be.
fn number<T: std::str::FromStr>(
    headers: &HeaderMap,
    name: &HeaderName,
    right: &str,
) -> Result<Option<T>, Refusal> {
    let Some(text) = first(headers, name)? else {
        return Ok(None);
    };
    let parsed = text.parse().map(Some);
    parsed.map_err(|_| invalid(name, &format!("`{}`", shorten(text)), right))
}

/// The beginning of what somebody else wrote, for a message.
fn shorten(text: &str) -> String {
    const CHARS: usize = 40;
    if text.chars().count() <= CHARS {
        return text.to_owned();
    }
    let begin: String = text.chars().take(CHARS).collect();
    format!("{begin}…")
}

/// Reads all of them.
///
/// # Errors
/// The first header that is wrong.
pub(super) fn read(
    headers: &HeaderMap,
    body: &AgentHints,
    config: &Config,
) -> Result<Hints, Refusal> {
    let names = &config.headers;
    let class = first(headers, &names.class)?.map(str::to_owned);
    let in_body = body.policy_class.as_deref().map(str::trim);
    let in_body = in_body.filter(|class| !class.is_empty()).map(str::to_owned);
    let tier = "a whole number from 0 to 4294967295";
    let strict_priority = number(headers, &names.strict_priority, tier)?;
    let seconds = "a number, of seconds of head start";
    let priority = number::<f64>(headers, &names.priority, seconds)?;
    if priority.is_some_and(|priority| !priority.is_finite()) {
        return Err(invalid(&names.priority, "it is not finite", seconds));
    }
    let millis = "a whole number of milliseconds";
    let deadline = number(headers, &names.deadline, millis)?.map(Duration::from_millis);
    let session = first(headers, &names.session)?.map(str::to_owned);
    if let Some(session) = session
        .as_ref()
        .filter(|name| name.len() > SESSION_BYTES_MAX)
    {
        let found = format!("{} bytes", session.len());
        let right = format!("at most {SESSION_BYTES_MAX} bytes long");
        return Err(invalid(&names.session, &found, &right));
    }
    let pin = if config.allow_pins {
        read_pin(headers, &names.worker)?
    } else {
        None
    };
    let taints = read_taints(headers, &names.taints)?;
    Ok(Hints {
        taints,
        class: class.or(in_body),
        strict_priority: strict_priority.or(body.strict_priority).unwrap_or(0),
        priority_jump: priority.or(body.priority).unwrap_or(0.0),
        deadline,
        session,
        pin,
    })
}

/// Names with commas between them.
fn read_taints(
    headers: &HeaderMap,
    name: &HeaderName,
) -> Result<ArrayVec<String, REQUIRED_TAINTS_MAX>, Refusal> {
    let mut taints = ArrayVec::new();
    let listed = first(headers, name)?.unwrap_or_default().split(',');
    for taint in listed.map(str::trim).filter(|taint| !taint.is_empty()) {
        let right = format!("at most {REQUIRED_TAINTS_MAX} names with commas between them");
        let more = taints.try_push(taint.to_owned());
        more.map_err(|_| invalid(name, "it has more names", &right))?;
    }
    Ok(taints)
}

/// `3` or `3:1`.
fn read_pin(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Endpoint>, Refusal> {
    let Some(text) = first(headers, name)? else {
        return Ok(None);
    };
    let (worker, rank) = text.split_once(':').unwrap_or((text, "0"));
    let endpoint = worker.parse().ok().zip(rank.parse().ok());
    let endpoint = endpoint.map(|(worker, rank)| Endpoint {
        worker: WorkerId(worker),
        rank,
    });
    let right = "a worker's number, or number:rank";
    endpoint
        .map(Some)
        .ok_or_else(|| invalid(name, &format!("`{}`", shorten(text)), right))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).expect("a value"));
        }
        headers
    }

    fn read_with(config: &Config, pairs: &[(&'static str, &str)], body: &AgentHints) -> Hints {
        read(&headers(pairs), body, config).expect("nothing is wrong")
    }

    #[test]
    fn the_class_is_trimmed_and_the_first_wins() {
        let pairs = [
            ("x-dynamo-meta-policy-class", "  premium "),
            ("x-dynamo-meta-policy-class", "regular"),
        ];
        let hints = read_with(&Config::default(), &pairs, &AgentHints::default());
        assert_eq!(hints.class.as_deref(), Some("premium"));
        let empty = [("x-dynamo-meta-policy-class", "  ")];
        let hints = read_with(&Config::default(), &empty, &AgentHints::default());
        assert_eq!(hints, Hints::default());
    }

    #[test]
    fn required_taints_are_names_with_commas_between_them() {
        let pairs = [("x-tollgate-require-taints", " h100 ,, eu ")];
        let hints = read_with(&Config::default(), &pairs, &AgentHints::default());
        assert_eq!(hints.taints.as_slice(), ["h100", "eu"]);
    }

    #[test]
    fn headers_win_over_the_body() {
        let body = AgentHints {
            priority: Some(5.0),
            strict_priority: Some(1),
            policy_class: Some("regular".into()),
        };
        let hints = read_with(&Config::default(), &[], &body);
        assert_eq!((hints.priority_jump, hints.strict_priority), (5.0, 1));
        assert_eq!(hints.class.as_deref(), Some("regular"));
        let pairs = [
            ("x-dynamo-request-priority", "-2.5"),
            ("x-dynamo-request-strict-priority", "7"),
            ("x-dynamo-meta-policy-class", "premium"),
        ];
        let hints = read_with(&Config::default(), &pairs, &body);
        assert_eq!((hints.priority_jump, hints.strict_priority), (-2.5, 7));
        assert_eq!(hints.class.as_deref(), Some("premium"));
    }

    #[test]
    fn a_pin_is_read_only_where_pins_are_allowed() {
        let pairs = [("x-tollgate-worker", "3:1")];
        let none = AgentHints::default();
        assert_eq!(read_with(&Config::default(), &pairs, &none).pin, None);
        let config = Config {
            allow_pins: true,
            ..Config::default()
        };
        let pin = Endpoint {
            worker: WorkerId(3),
            rank: 1,
        };
        assert_eq!(read_with(&config, &pairs, &none).pin, Some(pin));
        let pin = read_with(&config, &[("x-tollgate-worker", "4")], &none).pin;
        assert_eq!(pin.map(|pin| (pin.worker.0, pin.rank)), Some((4, 0)));
    }

    #[test]
    fn a_header_that_is_wrong_is_named_with_what_would_be_right() {
        let config = Config {
            allow_pins: true,
            ..Config::default()
        };
        let long = "x".repeat(300);
        let many = "a,".repeat(17);
        let cases = [
            ("x-tollgate-require-taints", &*many, "at most 16 names"),
            ("x-dynamo-request-strict-priority", "-1", "4294967295"),
            (
                "x-dynamo-request-strict-priority",
                "4294967296",
                "4294967295",
            ),
            ("x-dynamo-request-priority", "high", "a number"),
            ("x-dynamo-request-priority", "inf", "not finite"),
            ("x-dynamo-request-priority", "NaN", "not finite"),
            (
                "x-tollgate-deadline-ms",
                "1.5",
                "whole number of milliseconds",
            ),
            ("x-session-id", &long, "300 bytes"),
            ("x-tollgate-worker", "three", "number:rank"),
        ];
        for (name, value, part) in cases {
            let refused = read(&headers(&[(name, value)]), &AgentHints::default(), &config);
            let refusal = refused.expect_err(name);
            assert_eq!(
                (refusal.status.as_u16(), refusal.code),
                (400, "invalid_header")
            );
            assert_eq!(refusal.param.as_deref(), Some(name));
            assert!(refusal.message.contains(part), "{}", refusal.message);
        }
    }
}
