//! A journal as lines: first the checkpoint, then what was captured.
//!
//! The fields are those of the document `docs/SCENARIO.md`; what reads them stands in `tollgate-sim`.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use tollgate_arbiter::{
    ClassCheckpoint, Endpoint, EndpointCheckpoint, FailReason, LimitKind, RequestCheckpoint,
    Ticket, WorkerCheckpoint,
};
use tollgate_policy::{Fraction, Profile};

use super::recorder::{
    HAS_ALLOW, HAS_DEADLINE, HAS_JUMP, HAS_PIN, Kind, MAY_WAIT, Reader, Recorder, Start, class_of,
    halves,
};

/// The version of the format.
const VERSION: u64 = 1;

pub(super) fn write(recorder: &Recorder, mut output: impl Write) -> io::Result<()> {
    let start = recorder.start();
    let checkpoint = &start.checkpoint;
    line(&mut output, restore(start))?;
    for class in &checkpoint.classes {
        line(&mut output, restore_class(class))?;
    }
    for worker in &checkpoint.workers {
        line(&mut output, restore_worker(worker))?;
    }
    for endpoint in &checkpoint.endpoints {
        line(&mut output, restore_endpoint(endpoint))?;
    }
    for request in &checkpoint.requests {
        line(&mut output, start.restore_request(request))?;
    }
    let mut reader = Reader {
        words: recorder.words().iter(),
    };
    while let Some(&head) = reader.words.next() {
        line(&mut output, recorder.record(head, &mut reader))?;
    }
    let end = json!({"op": "end", "full": recorder.is_full(), "records": recorder.records()});
    line(&mut output, end)?;
    output.flush()
}

/// One line, without the fields that say nothing.
fn line(output: &mut impl Write, mut value: Value) -> io::Result<()> {
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, field| !field.is_null());
    }
    writeln!(output, "{value}")
}

fn fraction(fraction: Option<Fraction>) -> Option<String> {
    fraction.map(|fraction| fraction.to_string())
}

fn restore(start: &Start) -> Value {
    let (capacities, checkpoint) = (start.capacities, &start.checkpoint);
    let rooms = checkpoint.rooms.iter();
    let rooms: Vec<_> = rooms
        .map(|&room| (room != u32::MAX).then_some(room))
        .collect();
    let closing = checkpoint.closing.as_ref();
    let answers = closing.map(|closing| {
        let slots = closing.slots.iter().map(|&(slot, intake)| (slot.0, intake));
        slots.collect::<Vec<_>>()
    });
    let mut fields = json!({
        "op": "restore",
        "version": VERSION,
        "model": start.model.0,
        "policy": start.profile.to_file(),
        "queue_threshold": fraction(start.profile.queue_threshold()),
        "slots": capacities.slots,
        "classes": capacities.classes,
        "workers": capacities.workers,
        "endpoints": capacities.endpoints,
        "extension_blocks": capacities.extension_blocks,
        "attempts": capacities.attempts,
        "egress_groups": capacities.egress_groups,
        "now_ns": checkpoint.now.0,
        "generation": checkpoint.generation,
        "draws": checkpoint.draws,
        "next_intake": checkpoint.next_intake,
        "dispatches": checkpoint.dispatches,
        "stale_events": checkpoint.stale_events,
        "unknown_names": checkpoint.unknown_names,
    });
    let more = json!({
        "drain_end_ns": checkpoint.drain_deadline.map(|end| end.0),
        "gathered": closing.and_then(|closing| closing.gathered),
        "answers": answers,
        "holds_drained": checkpoint.holds_drained,
        "rooms": rooms,
        "ring": checkpoint.ring.iter().map(|class| class.0).collect::<Vec<_>>(),
        "cursor": checkpoint.cursor.map(|class| class.0),
        "holder": checkpoint.holder.map(|class| class.0),
        "class_count": checkpoint.classes.len(),
        "worker_count": checkpoint.workers.len(),
        "endpoint_count": checkpoint.endpoints.len(),
        "request_count": checkpoint.requests.len(),
    });
    extend(&mut fields, more);
    fields
}

fn extend(fields: &mut Value, more: Value) {
    if let (Value::Object(fields), Value::Object(more)) = (fields, more) {
        fields.extend(more);
    }
}

fn restore_class(class: &ClassCheckpoint) -> Value {
    let (policy, counters) = (&class.policy, &class.counters);
    let mut fields = json!({
        "op": "restore_class",
        "index": class.index.0,
        "name": policy.name,
        "draining": class.draining,
        "order": policy.order.name(),
        "quantum": policy.quantum,
        "prefill_busy_threshold": policy.prefill_busy_threshold,
        "prefill_busy_threshold_frac": fraction(policy.prefill_busy_threshold_frac),
        "busy_worker_ratio": fraction(policy.busy_worker_ratio),
        "request_queue_limit_per_worker": policy.request_queue_limit_per_worker,
        "raw_isl_token_queue_limit_per_worker": policy.raw_isl_token_queue_limit_per_worker,
        "cached_token_queue_limit_per_worker": policy.cached_token_queue_limit_per_worker,
        "queue_timeout_ms": policy.queue_timeout_ms,
    });
    let more = json!({
        "epoch": class.epoch,
        "deficit": class.deficit,
        "turn_open": class.turn_open,
        "remembered": class.remembered.map(|slot| slot.0),
        "dispatched": counters.dispatched,
        "charged_tokens": counters.charged_tokens,
        "rejected": counters.rejected,
        "expired": counters.expired,
        "cancelled": counters.cancelled,
        "failed": counters.failed,
        "shutting_down": counters.shutting_down,
        "requeued": counters.requeued,
    });
    extend(&mut fields, more);
    fields
}

fn restore_worker(worker: &WorkerCheckpoint) -> Value {
    json!({
        "op": "restore_worker",
        "id": worker.id.0,
        "first_rank": worker.first_rank,
        "ranks": worker.ranks,
        "max_batched_tokens": worker.max_batched_tokens,
        "taints": worker.taints,
        "overloaded": worker.overloaded,
        "available": worker.available,
    })
}

fn restore_endpoint(saved: &EndpointCheckpoint) -> Value {
    json!({
        "op": "restore_endpoint",
        "index": saved.index.0,
        "worker": at(saved.endpoint),
        "reported_tokens": saved.reported_tokens,
        "shut": saved.shut,
        "last_use": saved.last_use,
        "dispatched": saved.dispatched,
        "charged_tokens": saved.charged_tokens,
    })
}

fn at(endpoint: Endpoint) -> Value {
    json!([endpoint.worker.0, endpoint.rank])
}

const fn limit_kind(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::Requests => "requests",
        LimitKind::RawIslTokens => "raw_isl_tokens",
        LimitKind::CachedTokens => "cached_tokens",
        LimitKind::MayWait => "may_wait",
    }
}

/// A list that is left out where it is empty.
fn some<T: Into<Value>>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

impl Start {
    /// What a request is called: its place in the engine, and its generation.
    fn name(&self, ticket: Ticket) -> String {
        self.places.to_engine(self.model.at(), ticket).to_string()
    }

    fn restore_request(&self, saved: &RequestCheckpoint) -> Value {
        let hints = saved.hints.iter();
        let hint = |hint: &tollgate_arbiter::Hint| {
            let Endpoint { worker, rank } = hint.endpoint;
            json!([worker.0, rank, hint.cached])
        };
        let allow = saved.allow.as_ref();
        let booking = saved.booking;
        json!({
            "op": "restore_request",
            "id": self.name(saved.ticket),
            "class": saved.class.0,
            "isl": saved.snapshot.raw,
            "cached": saved.snapshot.cached,
            "at_ns": saved.submitted_at.0,
            "key": format!("{:#x}", saved.key),
            "intake": saved.intake,
            "pin": saved.pin.map(|number| number.0),
            "deadline_ns": saved.deadline.map(|deadline| deadline.0),
            "impatience": saved.impatience.map(limit_kind),
            "attempt": saved.attempt,
            "avoided": some(saved.avoided.iter().map(|number| number.0).collect()),
            "hints": some(hints.map(hint).collect()),
            "allow": allow.map(|ids| ids.iter().map(|id| id.0).collect::<Vec<_>>()),
            "require_taints": some(saved.require_taints.iter().map(|t| &**t).collect()),
            "booked": booking.map(|booking| [booking.index.0, booking.tokens]),
            "prefilled": booking.map(|booking| booking.prefilled),
            "holds": booking.map(|booking| booking.holds),
        })
    }
}

impl Recorder {
    /// One record as a line.
    fn record(&self, head: u64, reader: &mut Reader<'_>) -> Value {
        let rest = head >> 8;
        let id = |ticket| self.start().name(ticket);
        let attempt = rest & 0xff;
        match Kind::of(head) {
            Kind::Time => json!({"op": "at", "ns": reader.word()}),
            Kind::Intake => self.intake_line(head, reader),
            Kind::Cancel => json!({"op": "cancel", "id": id(reader.ticket())}),
            Kind::PrefillDone => {
                json!({"op": "prefill_done", "id": id(reader.ticket()), "attempt": attempt})
            }
            Kind::Complete => {
                json!({"op": "complete", "id": id(reader.ticket()), "attempt": attempt})
            }
            Kind::Requeue => {
                json!({"op": "requeue", "id": id(reader.ticket()), "attempt": attempt})
            }
            Kind::Turn => {
                json!({"op": "turn", "dispatches": reader.word(), "removals": reader.word()})
            }
            Kind::Room => {
                let room = rest >> 16;
                let room = (room != u64::from(u32::MAX)).then_some(room);
                json!({"op": "room", "group": rest & 0xffff, "room": room})
            }
            Kind::Hold => json!({"op": "hold", "on": rest == 1}),
            Kind::Abandon => {
                let (from, budget) = reader.pair();
                json!({"op": "abandon", "group": rest, "from": from, "budget": budget})
            }
            Kind::Drain => json!({"op": "drain", "ns": reader.word()}),
            Kind::Stop => json!({"op": "stop"}),
            Kind::Reload => self.reload_line(rest),
            Kind::Dispatched => {
                let (ticket, worker) = (reader.ticket(), reader.word());
                json!({
                    "op": "decided",
                    "event": "dispatched",
                    "id": id(ticket),
                    "worker": [worker, rest >> 8],
                    "attempt": attempt,
                    "deficit": reader.word(),
                })
            }
            Kind::Ended => ended_line(rest, id(reader.ticket()), reader),
            Kind::Requeued => {
                json!({"op": "decided", "event": "requeued", "id": id(reader.ticket())})
            }
            kind => command_line(kind, rest, reader),
        }
    }

    fn reload_line(&self, index: u64) -> Value {
        let index = usize::try_from(index).expect("it was an index");
        let profile: &Profile = &self.policies()[index];
        json!({
            "op": "reload",
            "text": profile.to_file(),
            "queue_threshold": fraction(profile.queue_threshold()),
        })
    }

    fn intake_line(&self, head: u64, reader: &mut Reader<'_>) -> Value {
        let flags = head >> 8 & 0xff;
        let has = |flag: u64| flags & flag != 0;
        let (hints, allow, taints) = (head >> 32 & 0xff, head >> 40 & 0xffff, head >> 56);
        let ticket = reader.ticket();
        let at_ns = reader.word();
        let (raw, cached) = reader.pair();
        let strict_priority = reader.word();
        let pin = has(HAS_PIN).then(|| at(reader.endpoint()));
        let deadline = has(HAS_DEADLINE).then(|| reader.word());
        let jump = has(HAS_JUMP).then(|| f64::from_bits(reader.word()));
        let hint = |_| {
            let worker = reader.word();
            let (rank, cached) = halves(reader.word());
            json!([worker, rank, cached])
        };
        let hints: Vec<Value> = (0..hints).map(hint).collect();
        let allow: Vec<u64> = (0..allow).map(|_| reader.word()).collect();
        let taints = reader.texts(taints);
        json!({
            "op": "intake",
            "id": self.start().name(ticket),
            "at_ns": at_ns,
            "class": class_of(head).0,
            "isl": raw,
            "cached": (cached > 0).then_some(cached),
            "hints": some(hints),
            "strict_priority": (strict_priority > 0).then_some(strict_priority),
            "priority_jump": jump,
            "pin": pin,
            "allow": has(HAS_ALLOW).then_some(allow),
            "require_taints": some(taints),
            "deadline_ns": deadline,
            "may_wait": (!has(MAY_WAIT)).then_some(false),
        })
    }
}

fn ended_line(rest: u64, id: String, reader: &mut Reader<'_>) -> Value {
    let detail = usize::try_from(rest >> 8 & 0xff).expect("a byte");
    let event = [
        "rejected",
        "expired",
        "cancelled",
        "failed",
        "shutting_down",
    ][usize::try_from(rest & 0xff).expect("a byte")];
    let mut fields = Map::new();
    fields.insert("op".to_owned(), "decided".into());
    fields.insert("event".to_owned(), event.into());
    fields.insert("id".to_owned(), id.into());
    match event {
        "rejected" => {
            let kind = limit_kind(LimitKind::ALL[detail]);
            fields.insert("limit_kind".to_owned(), kind.into());
            for field in ["current", "limit", "workers"] {
                fields.insert(field.to_owned(), reader.word().into());
            }
        }
        "failed" => {
            let reason = FailReason::ALL[detail].code();
            fields.insert("reason".to_owned(), reason.into());
        }
        _ => {}
    }
    fields.into()
}

fn command_line(kind: Kind, rest: u64, reader: &mut Reader<'_>) -> Value {
    match kind {
        Kind::Worker => {
            let id = reader.word();
            let (first_rank, ranks) = reader.pair();
            let max_batched_tokens = reader.word();
            let taints = reader.word();
            json!({
                "op": "worker",
                "id": id,
                "ranks": ranks,
                "first_rank": first_rank,
                "max_batched_tokens": (rest & 4 != 0).then_some(max_batched_tokens),
                "taints": some(reader.texts(taints)),
                "overloaded": (rest & 1 != 0).then_some(true),
                "available": (rest & 2 == 0).then_some(false),
            })
        }
        Kind::RemoveWorker => json!({"op": "remove_worker", "id": reader.word()}),
        Kind::Load => {
            json!({"op": "load", "worker": [reader.word(), rest], "tokens": reader.word()})
        }
        Kind::Overloaded => json!({"op": "amend", "id": reader.word(), "overloaded": rest == 1}),
        Kind::Available => json!({"op": "amend", "id": reader.word(), "available": rest == 1}),
        Kind::Taints => {
            let (id, taints) = (reader.word(), reader.word());
            json!({"op": "amend", "id": id, "taints": reader.texts(taints)})
        }
        other => unreachable!("{other:?} is no command"),
    }
}
