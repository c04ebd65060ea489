//! The families of metrics: name, meaning, kind, and how each is read.

use tollgate::stats::IngressSnapshot;
use tollgate::stats::{ClassGauges, ClassSnapshot, CoreSnapshot, EgressSnapshot, EndpointGauges};

use super::encode::{Figure, Number, counter, gauge, seconds, some};
use super::read::{ClassFigures, ModelFigures, RouterFigures, WorkerFigures};
use crate::cost::estimate::ErrorSums;

fn gauges(row: &ClassFigures) -> &ClassGauges {
    &row.class.gauges
}

pub(super) const CLASSES: &[Figure<ClassFigures>] = &[
    gauge("waiting_requests", "Requests that wait.", |row| {
        some(gauges(row).waiting)
    }),
    gauge(
        "waiting_raw_tokens",
        "Prompt tokens of the requests that wait.",
        |row| some(gauges(row).raw_isl_tokens),
    ),
    gauge(
        "waiting_cached_tokens",
        "Those of them that are expected in a cache.",
        |row| some(gauges(row).cached_tokens),
    ),
    gauge(
        "limit_requests",
        "Requests that may wait at present; no sample: any number.",
        |row| gauges(row).limits[0].map(Number::Whole),
    ),
    gauge(
        "limit_raw_tokens",
        "Prompt tokens that may wait at present; no sample: any number.",
        |row| gauges(row).limits[1].map(Number::Whole),
    ),
    gauge(
        "limit_cached_tokens",
        "Cached tokens that may wait at present; no sample: any number.",
        |row| gauges(row).limits[2].map(Number::Whole),
    ),
    gauge(
        "oldest_wait_seconds",
        "How long the oldest request that waits has waited.",
        |row| seconds(row.class.oldest_wait_ns),
    ),
    gauge(
        "deficit_tokens",
        "Credit for uncached prompt tokens.",
        |row| some(gauges(row).deficit),
    ),
    gauge(
        "quantum_tokens",
        "Uncached prompt tokens granted in a turn.",
        |row| some(gauges(row).quantum),
    ),
    gauge(
        "running_requests",
        "Requests that were dispatched and have not ended.",
        |row| some(gauges(row).outstanding),
    ),
    gauge(
        "class_draining",
        "1: the class has left the policy and takes no new requests.",
        |row| some(gauges(row).draining),
    ),
    counter(
        "share_served_tokens",
        "Tokens dispatched while the class was backlogged.",
        |row| some(row.class.share.served_tokens),
    ),
    counter(
        "share_entitled_tokens",
        "Tokens that its quantum entitled it to meanwhile.",
        |row| some(row.class.share.entitled_tokens),
    ),
    counter(
        "dispatched",
        "Requests dispatched; one that is dispatched again counts once.",
        |row| some(row.dispatched),
    ),
    counter(
        "charged_tokens",
        "Uncached prompt tokens of those requests.",
        |row| some(row.charged_tokens),
    ),
    counter(
        "requeued",
        "Dispatches that were taken back, since the hand-over failed.",
        |row| some(gauges(row).counters.requeued),
    ),
    counter(
        "expired",
        "Requests whose deadline passed while they waited.",
        |row| some(gauges(row).counters.expired),
    ),
    counter(
        "cancelled",
        "Requests whose clients went away while they waited.",
        |row| some(gauges(row).counters.cancelled),
    ),
    counter(
        "shut_down",
        "Requests that the end of the router found waiting.",
        |row| some(gauges(row).counters.shutting_down),
    ),
];

pub(super) const ENDPOINTS: &[Figure<EndpointGauges>] = &[
    gauge(
        "worker_load_tokens",
        "Prefill tokens booked on the worker, and reported by it.",
        |row| some(row.prefill_tokens),
    ),
    gauge(
        "worker_active_requests",
        "Requests that run there.",
        |row| some(row.active),
    ),
    gauge(
        "worker_available",
        "1: it takes requests, as far as its health goes.",
        |row| some(row.available),
    ),
    gauge(
        "worker_overloaded",
        "1: an operator said that it takes none for now.",
        |row| some(row.overloaded),
    ),
    gauge("worker_shut", "1: its egress is full.", |row| {
        some(row.shut)
    }),
    counter(
        "worker_dispatched",
        "Dispatches to it, those that were taken back included.",
        |row| some(row.dispatched),
    ),
    counter(
        "worker_charged_tokens",
        "Uncached prompt tokens of those dispatches.",
        |row| some(row.charged_tokens),
    ),
];

pub(super) const WORKERS: &[Figure<WorkerFigures>] = &[
    counter(
        "worker_requests",
        "Requests that were handed over to the worker.",
        |row| some(row.requests),
    ),
    counter("worker_failures", "Hand-overs to it that failed.", |row| {
        some(row.failures)
    }),
];

pub(super) const MODELS: &[Figure<ModelFigures>] = &[
    gauge(
        "waiting_for_room",
        "Requests that the engine has no room for yet.",
        |row| some(row.waiting_for_room),
    ),
    gauge("sessions", "Sessions whose worker is known.", |row| {
        some(row.sessions)
    }),
    gauge(
        "prefix_blocks",
        "Blocks of prompts that the prefix index remembers.",
        |row| row.prefixes.map(|(blocks, _)| Number::Whole(blocks)),
    ),
    counter(
        "prefix_blocks_evicted",
        "Blocks that made room for others.",
        |row| row.prefixes.map(|(_, evicted)| Number::Whole(evicted)),
    ),
    gauge(
        "tokens_per_byte",
        "Tokens that a byte of a prompt's text is taken for.",
        |row| some(row.tokens_per_byte),
    ),
    counter(
        "tokenizer_counted",
        "Prompts that the model's tokenizer counted.",
        |row| row.counted.map(|counted| Number::Whole(counted.counted)),
    ),
    counter(
        "tokenizer_failures",
        "Prompts that it could not take, which were estimated.",
        |row| row.counted.map(|counted| Number::Whole(counted.failures)),
    ),
    counter(
        "tokenizer_skipped",
        "Prompts that were too long for it, or found it busy, and were estimated.",
        |row| row.counted.map(|counted| Number::Whole(counted.skipped)),
    ),
];

pub(super) const ESTIMATES: &[Figure<ErrorSums>] = &[
    counter(
        "estimates",
        "Estimates that a worker's count could be held against.",
        |row| some(row.requests),
    ),
    counter(
        "estimate_tokens",
        "Tokens estimated for those requests.",
        |row| some(row.estimated_tokens),
    ),
    counter(
        "estimate_actual_tokens",
        "Tokens that workers counted for them.",
        |row| some(row.actual_tokens),
    ),
    counter(
        "estimate_error_tokens",
        "How far apart the two were, request by request.",
        |row| some(row.absolute_error_tokens),
    ),
];

pub(super) const CORE: &[Figure<CoreSnapshot>] = &[
    counter("loop_turns", "Turns of the arbiter's loop.", |row| {
        some(row.turns)
    }),
    counter(
        "loop_busy_seconds",
        "Time in turns that did something.",
        |row| seconds(row.busy_ns),
    ),
    counter(
        "loop_idle_seconds",
        "Time in turns that did nothing, and asleep.",
        |row| seconds(row.idle_ns),
    ),
    counter(
        "loop_parks",
        "How often the arbiter's thread went to sleep.",
        |row| some(row.parks),
    ),
    counter("loop_dispatches", "Dispatches decided.", |row| {
        some(row.dispatches)
    }),
    counter(
        "loop_intake",
        "Submissions taken out of the rings.",
        |row| some(row.intake),
    ),
    counter("loop_letters", "Releases that came by mail.", |row| {
        some(row.letters)
    }),
    counter(
        "loop_stale",
        "Feedback, cancels and control calls that found nothing to do.",
        |row| some(row.stale),
    ),
];

pub(super) const INGRESS: &[Figure<IngressSnapshot>] = &[
    counter("ingress_accepted", "Requests that were accepted.", |row| {
        some(row.accepted)
    }),
    counter(
        "ingress_refused_full",
        "Requests that found no room.",
        |row| some(row.refused_full),
    ),
    counter(
        "ingress_refused_closed",
        "Requests that found the engine closed.",
        |row| some(row.refused_closed),
    ),
    counter(
        "ingress_refused_invalid",
        "Requests that can never be accepted.",
        |row| some(row.refused_invalid),
    ),
    counter(
        "ingress_cancels_by_mail",
        "Cancels that went by mail.",
        |row| some(row.cancels_by_mail),
    ),
    counter(
        "ingress_unknown_names",
        "Requests that named a class that there is not.",
        |row| some(row.unknown_names),
    ),
    gauge(
        "ingress_ring_length",
        "Records in the ring to the arbiter.",
        |row| some(row.ring_len),
    ),
    gauge(
        "ingress_ring_capacity",
        "The most records that the ring holds.",
        |row| some(row.ring_capacity),
    ),
];

pub(super) const EGRESS: &[Figure<EgressSnapshot>] = &[
    counter("egress_delivered", "Dispatches handed out.", |row| {
        some(row.delivered)
    }),
    counter("egress_outcomes", "Other fates handed out.", |row| {
        some(row.outcomes)
    }),
    counter(
        "egress_returned",
        "Payloads handed back without a fate.",
        |row| some(row.returned),
    ),
    counter(
        "egress_releases_by_mail",
        "Feedback that found no room in the ring.",
        |row| some(row.releases_by_mail),
    ),
    counter(
        "egress_outboxed",
        "Deliveries that found no room in the ring at first.",
        |row| some(row.outboxed),
    ),
    counter(
        "egress_reopenings",
        "How often workers behind a full ring were opened again.",
        |row| some(row.reopenings),
    ),
    counter(
        "egress_lost",
        "Dispatches that ended with the shard that ran them.",
        |row| some(row.lost),
    ),
    gauge(
        "egress_ring_length",
        "Deliveries in the ring from the arbiter.",
        |row| some(row.ring_len),
    ),
    gauge(
        "egress_ring_capacity",
        "The most deliveries that the ring holds.",
        |row| some(row.ring_capacity),
    ),
    gauge(
        "egress_outbox_length",
        "Deliveries that wait for room in the ring.",
        |row| some(row.outbox_len),
    ),
];

pub(super) const ROUTER: &[Figure<RouterFigures>] = &[
    gauge("open_requests", "Requests that have no end yet.", |row| {
        some(row.open)
    }),
    gauge("draining", "1: the router takes no new requests.", |row| {
        some(row.draining)
    }),
    gauge(
        "policy_generation",
        "Which policy is in force, from 1.",
        |row| some(row.generation),
    ),
    gauge("buffered_bytes", "Bytes of bodies that are held.", |row| {
        some(row.buffered_bytes)
    }),
    counter(
        "log_lines_lost",
        "Lines of the access log that found no room.",
        |row| some(row.log_lines_lost),
    ),
    gauge(
        "start_time_seconds",
        "When the router started, in seconds since 1970.",
        |row| some(row.start_seconds),
    ),
];

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
