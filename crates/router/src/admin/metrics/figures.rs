//! The families of metrics: name, meaning, kind, and how each is read.

use tollgate::stats::IngressSnapshot;
use tollgate::stats::{ClassGauges, ClassSnapshot, CoreSnapshot, EgressSnapshot, EndpointGauges};

use super::encode::{Figure, seconds};
use super::read::{ClassFigures, ModelFigures, RouterFigures, WorkerFigures};
use crate::cost::estimate::ErrorSums;

/// Declares families with one sample for each row of a kind, or none where a row has no such number.
macro_rules! figures {
    ($name:ident: $kind:ty, $row:ident => $($type:ident $metric:literal $help:literal = $value:expr;)*) => {
        pub(super) const $name: &[Figure<$kind>] = &[$(Figure {
            name: $metric,
            help: $help,
            is_counter: figures!($type),
            read: |$row| $value.into(),
        }),*];
    };
    (counter) => { true };
    (gauge) => { false };
}

fn gauges(row: &ClassFigures) -> &ClassGauges {
    &row.class.gauges
}

figures! { CLASSES: ClassFigures, row =>
    gauge "waiting_requests" "Requests that wait." = gauges(row).waiting;
    gauge "waiting_raw_tokens" "Prompt tokens of the requests that wait." = gauges(row).raw_isl_tokens;
    gauge "waiting_cached_tokens" "Those of them that are expected in a cache." = gauges(row).cached_tokens;
    gauge "limit_requests" "Requests that may wait at present; no sample: any number." = gauges(row).limits[0];
    gauge "limit_raw_tokens" "Prompt tokens that may wait at present; no sample: any number."
        = gauges(row).limits[1];
    gauge "limit_cached_tokens" "Cached tokens that may wait at present; no sample: any number."
        = gauges(row).limits[2];
    gauge "oldest_wait_seconds" "How long the oldest request that waits has waited."
        = seconds(row.class.oldest_wait_ns);
    gauge "deficit_tokens" "Credit for uncached prompt tokens." = gauges(row).deficit;
    gauge "quantum_tokens" "Uncached prompt tokens granted in a turn." = gauges(row).quantum;
    gauge "running_requests" "Requests that were dispatched and have not ended." = gauges(row).outstanding;
    gauge "class_draining" "1: the class has left the policy and takes no new requests."
        = gauges(row).draining;
    counter "share_served_tokens" "Tokens dispatched while the class was backlogged."
        = row.class.share.served_tokens;
    counter "share_entitled_tokens" "Tokens that its quantum entitled it to meanwhile."
        = row.class.share.entitled_tokens;
    counter "dispatched" "Requests dispatched; one that is dispatched again counts once." = row.dispatched;
    counter "charged_tokens" "Uncached prompt tokens of those requests." = row.charged_tokens;
    counter "requeued" "Dispatches that were taken back, since the hand-over failed."
        = gauges(row).counters.requeued;
    counter "expired" "Requests whose deadline passed while they waited." = gauges(row).counters.expired;
    counter "cancelled" "Requests whose clients went away while they waited." = gauges(row).counters.cancelled;
    counter "shut_down" "Requests that the end of the router found waiting."
        = gauges(row).counters.shutting_down;
}

figures! { ENDPOINTS: EndpointGauges, row =>
    gauge "worker_load_tokens" "Prefill tokens booked on the worker, and reported by it." = row.prefill_tokens;
    gauge "worker_active_requests" "Requests that run there." = row.active;
    gauge "worker_available" "1: it takes requests, as far as its health goes." = row.available;
    gauge "worker_overloaded" "1: an operator said that it takes none for now." = row.overloaded;
    gauge "worker_shut" "1: its egress is full." = row.shut;
    counter "worker_dispatched" "Dispatches to it, those that were taken back included." = row.dispatched;
    counter "worker_charged_tokens" "Uncached prompt tokens of those dispatches." = row.charged_tokens;
}

figures! { WORKERS: WorkerFigures, row =>
    counter "worker_requests" "Requests that were handed over to the worker." = row.requests;
    counter "worker_failures" "Hand-overs to it that failed." = row.failures;
}

figures! { MODELS: ModelFigures, row =>
    gauge "model_workers_well" "Workers that serve the model and are well; it stays, at 0, when the last is gone."
        = row.workers_well;
    gauge "waiting_for_room" "Requests that the engine has no room for yet." = row.waiting_for_room;
    gauge "sessions" "Sessions whose worker is known." = row.sessions;
    gauge "prefix_blocks" "Blocks of prompts that the prefix index remembers."
        = row.prefixes.map(|(blocks, _)| blocks);
    counter "prefix_blocks_evicted" "Blocks that made room for others."
        = row.prefixes.map(|(_, evicted)| evicted);
    gauge "tokens_per_byte" "Tokens that a byte of a prompt's text is taken for." = row.tokens_per_byte;
    counter "tokenizer_counted" "Prompts that the model's tokenizer counted."
        = row.counted.map(|counted| counted.counted);
    counter "tokenizer_failures" "Prompts that it could not take, which were estimated."
        = row.counted.map(|counted| counted.failures);
    counter "tokenizer_skipped" "Prompts that were too long for it, or found it busy, and were estimated."
        = row.counted.map(|counted| counted.skipped);
}

figures! { ESTIMATES: ErrorSums, row =>
    counter "estimates" "Estimates that a worker's count could be held against." = row.requests;
    counter "estimate_tokens" "Tokens estimated for those requests." = row.estimated_tokens;
    counter "estimate_actual_tokens" "Tokens that workers counted for them." = row.actual_tokens;
    counter "estimate_error_tokens" "How far apart the two were, request by request."
        = row.absolute_error_tokens;
}

figures! { CORE: CoreSnapshot, row =>
    counter "loop_turns" "Turns of the arbiter's loop." = row.turns;
    counter "loop_busy_seconds" "Time in turns that did something." = seconds(row.busy_ns);
    counter "loop_idle_seconds" "Time in turns that did nothing, and asleep." = seconds(row.idle_ns);
    counter "loop_parks" "How often the arbiter's thread went to sleep." = row.parks;
    counter "loop_dispatches" "Dispatches decided." = row.dispatches;
    counter "loop_intake" "Submissions taken out of the rings." = row.intake;
    counter "loop_letters" "Releases that came by mail." = row.letters;
    counter "loop_stale" "Feedback, cancels and control calls that found nothing to do." = row.stale;
}

figures! { INGRESS: IngressSnapshot, row =>
    counter "ingress_accepted" "Requests that were accepted." = row.accepted;
    counter "ingress_refused_full" "Requests that found no room." = row.refused_full;
    counter "ingress_refused_closed" "Requests that found the engine closed." = row.refused_closed;
    counter "ingress_refused_invalid" "Requests that can never be accepted." = row.refused_invalid;
    counter "ingress_cancels_by_mail" "Cancels that went by mail." = row.cancels_by_mail;
    counter "ingress_unknown_names" "Requests that named a class that there is not." = row.unknown_names;
    gauge "ingress_ring_length" "Records in the ring to the arbiter." = row.ring_len;
    gauge "ingress_ring_capacity" "The most records that the ring holds." = row.ring_capacity;
}

figures! { EGRESS: EgressSnapshot, row =>
    counter "egress_delivered" "Dispatches handed out." = row.delivered;
    counter "egress_outcomes" "Other fates handed out." = row.outcomes;
    counter "egress_returned" "Payloads handed back without a fate." = row.returned;
    counter "egress_releases_by_mail" "Feedback that found no room in the ring." = row.releases_by_mail;
    counter "egress_outboxed" "Deliveries that found no room in the ring at first." = row.outboxed;
    counter "egress_reopenings" "How often workers behind a full ring were opened again." = row.reopenings;
    counter "egress_lost" "Dispatches that ended with the shard that ran them." = row.lost;
    gauge "egress_ring_length" "Deliveries in the ring from the arbiter, when this was read." = row.ring_len;
    gauge "egress_ring_capacity" "The most deliveries that the ring holds." = row.ring_capacity;
    gauge "egress_outbox_length" "Deliveries that wait for room in the ring." = row.outbox_len;
}

figures! { ROUTER: RouterFigures, row =>
    gauge "open_requests" "Requests that have no end yet." = row.open;
    gauge "draining" "1: the router takes no new requests." = row.draining;
    gauge "policy_generation" "Which policy is in force, from 1." = row.generation;
    gauge "buffered_bytes" "Memory that is counted for bodies, the room to grow included." = row.buffered_bytes;
    counter "log_lines_lost" "Lines of the access log that found no room." = row.log_lines_lost;
    gauge "start_time_seconds" "When the router started, in seconds since 1970." = row.start_seconds;
}

/// A class's refusals by a limit, with the limits' names.
pub(super) fn rejected(class: &ClassSnapshot) -> impl Iterator<Item = (&'static str, u64)> {
    let kinds = tollgate::LimitKind::ALL.map(tollgate::LimitKind::code);
    kinds.into_iter().zip(class.gauges.counters.rejected)
}

/// A class's failures, with the reasons' names.
pub(super) fn failed(class: &ClassSnapshot) -> impl Iterator<Item = (&'static str, u64)> {
    let reasons = tollgate::FailReason::ALL.map(tollgate::FailReason::code);
    reasons.into_iter().zip(class.gauges.counters.failed)
}
