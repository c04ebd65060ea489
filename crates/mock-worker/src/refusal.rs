//! Answers to requests that cannot be served.

use http::StatusCode;
use serde_json::json;

/// An error as the API tells it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// The field of the request that is wrong.
    pub(crate) field: Option<&'static str>,
    pub(crate) code: Option<&'static str>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            field: None,
            code: None,
        }
    }

    pub(crate) fn bad_field(field: &'static str, message: impl Into<String>) -> Self {
        Self {
            field: Some(field),
            ..Self::new(StatusCode::BAD_REQUEST, message)
        }
    }

    /// The error's envelope.
    pub(crate) fn json(&self) -> String {
        let kind = if self.status.is_server_error() {
            "server_error"
        } else {
            "invalid_request_error"
        };
        json!({
            "error": {
                "message": self.message,
                "type": kind,
                "param": self.field,
                "code": self.code,
            }
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_names_the_field_and_whose_fault_it_is() {
        let refusal = Refusal::bad_field("prompt", "there is \"no\" prompt");
        assert_eq!(
            refusal.json(),
            r#"{"error":{"message":"there is \"no\" prompt","type":"invalid_request_error","param":"prompt","code":null}}"#
        );
        let broken = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy");
        assert!(broken.json().contains(r#""type":"server_error""#));
    }
}
