//! A client of one request a connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) const COMPLETIONS: &str = "/v1/completions";

/// How long an answer may take before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// As it came over the wire: a stream's with the sizes of its chunks.
    pub(crate) body: String,
}

impl Answer {
    /// The body of an answer in one piece.
    pub(crate) fn json(&self) -> Value {
        let body = &self.body;
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }
}

/// A request that was sent, and whose answer may be read. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct Sent(TcpStream);

impl Sent {
    /// Reads until some of the answer is there; it.
    pub(crate) fn first(&mut self) -> String {
        let mut bytes = [0; 4_096];
        let read = self.0.read(&mut bytes).expect("an answer in time");
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }

    /// What is left of the answer.
    pub(crate) fn rest(mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).expect("text in time");
        text
    }

    /// The whole answer.
    pub(crate) fn answer(self) -> Answer {
        let text = self.rest();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        Answer {
            status: status.unwrap_or_else(|| panic!("no answer: {text:?}")),
            body: body.to_owned(),
        }
    }
}

/// Sends a request; nothing of the answer is read yet.
pub(crate) fn send(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Sent {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n", body.len());
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket
        .set_read_timeout(Some(PATIENCE))
        .expect("a time above 0");
    let whole = head + body;
    socket.write_all(whole.as_bytes()).expect("it is taken");
    Sent(socket)
}

pub(crate) fn get(address: &str, path: &str) -> Answer {
    send(address, "GET", path, &[], "").answer()
}

pub(crate) fn post(address: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    send(address, "POST", path, headers, &body.to_string()).answer()
}

/// A completion of so many output tokens.
pub(crate) fn completion(output_tokens: u32) -> Value {
    json!({ "model": "m", "prompt": "Is there room for me?", "max_tokens": output_tokens })
}

/// The same, as a stream.
pub(crate) fn streamed(output_tokens: u32) -> Value {
    let mut body = completion(output_tokens);
    body["stream"] = json!(true);
    body
}
