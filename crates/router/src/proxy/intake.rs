//! Taking in a request's body, within its limits.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::{Refusal, Retry};
use crate::shared::{PIECE, Shared};

/// Memory for a body is taken as the body comes: a length that is only claimed takes none beyond this.
const FIRST_BYTES: usize = 1 << 16;

/// A body that was taken in, and the right to hold it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: Bytes,
    /// None for an empty body.
    _room: Option<OwnedSemaphorePermit>,
}

/// Takes in a body.
///
/// # Errors
/// It is too large, does not come in time, is cut, or there is no room for it now.
pub(super) async fn take_in(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body,
) -> Result<Held, Refusal> {
    let most = shared.config.limits.body_bytes;
    let claimed = headers.get(CONTENT_LENGTH);
    let claimed = claimed.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if claimed.is_some_and(|claimed| claimed > most as u64) {
        return Err(too_large(most));
    }
    let within = shared.config.timeouts.client_body;
    let claimed = claimed.and_then(|claimed| usize::try_from(claimed).ok());
    let collected = collect(shared, body, claimed.unwrap_or(most));
    match tokio::time::timeout(within, collected).await {
        Ok(held) => held,
        Err(_) => Err(too_slow(within)),
    }
}

/// `claimed`: as many bytes as the body will have, or the most that it may have.
async fn collect(shared: &Shared, mut body: Body, claimed: usize) -> Result<Held, Refusal> {
    let most = shared.config.limits.body_bytes;
    let mut bytes = BytesMut::new();
    let mut room = Room {
        buffers: &shared.buffers,
        held: None,
        pieces: 0,
    };
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let why = crate::upstream::plain(&error);
            let message = format!("the body was cut after {} bytes: {why}", bytes.len());
            Refusal::invalid("incomplete_body", message)
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if data.len() > most - bytes.len() {
            return Err(too_large(most));
        }
        let needed = bytes.len() + data.len();
        // It grows by half of itself, and in the end to what was claimed: what it takes is what is counted.
        let capacity = match bytes.capacity() {
            capacity if needed <= capacity => capacity,
            capacity => (capacity + capacity / 2)
                .max(FIRST_BYTES)
                .min(claimed)
                .max(needed),
        };
        if !room.suffices_for(capacity) {
            let status = shared.config.overload_status();
            let what =
                json!({ "what": "bytes of bodies", "limit": shared.config.limits.buffered_bytes });
            return Err(Refusal::full(status, what));
        }
        if capacity > bytes.capacity() {
            let mut larger = BytesMut::with_capacity(capacity);
            larger.extend_from_slice(&bytes);
            bytes = larger;
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Held {
        bytes: bytes.freeze(),
        _room: room.held,
    })
}

/// The right to hold so many pieces.
struct Room<'a> {
    buffers: &'a Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    pieces: usize,
}

impl Room<'_> {
    /// Whether so many bytes may be held; takes what is missing.
    fn suffices_for(&mut self, bytes: usize) -> bool {
        let pieces = bytes.div_ceil(PIECE);
        let Ok(missing) = u32::try_from(pieces.saturating_sub(self.pieces)) else {
            return false;
        };
        if missing == 0 {
            return true;
        }
        let Ok(more) = Arc::clone(self.buffers).try_acquire_many_owned(missing) else {
            return false;
        };
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        self.pieces = pieces;
        true
    }
}

fn too_large(most: usize) -> Refusal {
    let message = format!("the body is larger than {most} bytes, the most that is taken");
    Refusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        message,
        Retry::Never,
    )
    .with_details(json!({ "limit_bytes": most }))
}

fn too_slow(within: Duration) -> Refusal {
    let message = format!("the body did not come within {} s", within.as_secs_f64());
    Refusal::new(
        StatusCode::REQUEST_TIMEOUT,
        "body_timeout",
        message,
        Retry::Never,
    )
}
