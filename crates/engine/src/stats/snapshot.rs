//! What a reader of the statistics gets: plain values.

use std::sync::Arc;

use hdrhistogram::Histogram;
use tollgate_arbiter::{ClassGauges, ClassIndex, EndpointGauges, EndpointIndex};

/// Everything that is counted and measured, read by [`Stats::read`](super::Stats::read).
///
/// Counters start at 0 with the engine and never fall, but for `dispatched` and `charged_tokens` of a
/// class, from which a requeue takes a dispatch out again (S9.4). Numbers that are written by
/// different threads are not of one moment: a request may be delivered and not yet accepted.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// By model, in the order in which the engine was given them.
    pub models: Vec<ModelSnapshot>,
    /// The arbiter's thread.
    pub core: CoreSnapshot,
    /// By ingress shard.
    pub ingress: Vec<IngressSnapshot>,
    /// By egress shard.
    pub egress: Vec<EgressSnapshot>,
}

/// One model, as the core published it last.
///
/// While the core turns, it publishes a slice at least every millisecond: all classes of one model,
/// and some of its endpoints; the next model follows when all of them were. Before it sleeps, and when
/// it closes, it publishes everything, so what is read of a sleeping core is current.
#[derive(Clone, Debug)]
pub struct ModelSnapshot {
    /// Its name.
    pub name: Arc<str>,
    /// Its classes, by place; also those that drain (S3.7).
    pub classes: Vec<ClassSnapshot>,
    /// Its known endpoints, by place.
    pub endpoints: Vec<EndpointSnapshot>,
}

/// One class: all of one moment, but the name.
#[derive(Clone, Debug)]
pub struct ClassSnapshot {
    /// Its place in the arbiter's tables, as in a dispatch.
    pub index: ClassIndex,
    /// Its name. Known when the call that loads its policy returns; until then empty, or the name of
    /// the class that was at this place before.
    pub name: Arc<str>,
    /// What waits, what it has earned, its effective limits, what became of its requests.
    pub gauges: ClassGauges,
    /// How long its request that has waited longest has waited when this was read, in nanoseconds; 0
    /// if none waits. Requests are looked through little by little, so one that has been dispatched
    /// since may still count.
    pub oldest_wait_ns: u64,
    /// Its part of the service while it was backlogged.
    pub share: Share,
}

/// How a class was served while it was backlogged, against what its quantum entitles it to.
///
/// Counted over the intervals between two publications at whose both ends requests of the class
/// waited. In each, the tokens charged to all such classes are what there was to share; a class is
/// entitled to the part of them that its quantum is of all their quanta. Over all classes of a model
/// both numbers add up to the same, up to one token for each class. A class that is often blocked, or
/// waits for a few requests only, may be served less than it is entitled to: the arbiter promises
/// shares to classes that can be dispatched (S6.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Uncached tokens charged to it in those intervals; a dispatch that was withdrawn and repeated
    /// counts once.
    pub served_tokens: u64,
    /// Uncached tokens it was entitled to in those intervals.
    pub entitled_tokens: u64,
}

/// One endpoint: all of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointSnapshot {
    /// Its place in the arbiter's tables.
    pub index: EndpointIndex,
    /// Who it is, its load, what was sent to it, why nothing may be.
    pub gauges: EndpointGauges,
}

/// The core: the thread of the arbiters. Counted turn by turn; `parks` and `stale` with the slices of a
/// [`ModelSnapshot`].
#[derive(Clone, Debug)]
pub struct CoreSnapshot {
    /// Turns of its loop.
    pub turns: u64,
    /// Time in turns that did something, in nanoseconds.
    pub busy_ns: u64,
    /// Time in turns that did nothing, and asleep, in nanoseconds; a sleep counts when it ends.
    pub idle_ns: u64,
    /// How often it went to sleep.
    pub parks: u64,
    /// Dispatches decided.
    pub dispatches: u64,
    /// Submissions taken out of the ingress rings.
    pub intake: u64,
    /// Slots whose releases by mail were applied.
    pub letters: u64,
    /// Feedback, cancels and control calls that found nothing to do (S9.3).
    pub stale: u64,
    /// What one selection took; a sample of all selections.
    pub selection: Timing,
}

/// One ingress shard. Counted by the thread that submits, at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressSnapshot {
    /// Requests that were accepted; each has exactly one outcome (S8).
    pub accepted: u64,
    /// Requests that came back because there was no room.
    pub refused_full: u64,
    /// Requests that came back because the engine stops or stopped.
    pub refused_closed: u64,
    /// Requests that came back because they can never be accepted.
    pub refused_invalid: u64,
    /// Cancels that went by mail: the ring had no room, or another shard had submitted the request.
    pub cancels_by_mail: u64,
    /// Accepted requests that named a class or family that does not exist, and went to the default
    /// family (S3.4).
    pub unknown_names: u64,
    /// Records in the ring to the core, from 0 to `ring_capacity`; the core's, published with the
    /// slices of a [`ModelSnapshot`].
    pub ring_len: u64,
    /// The most records that the ring holds.
    pub ring_capacity: u64,
}

/// One egress shard. Counted by the thread that receives, at once, but for those that are the
/// core's, which it publishes with the slices of a [`ModelSnapshot`].
#[derive(Clone, Debug)]
pub struct EgressSnapshot {
    /// Dispatches handed out.
    pub delivered: u64,
    /// Fates handed out: requests that were not, or did not stay, dispatched (S8).
    pub outcomes: u64,
    /// Payloads handed back without a fate ([`Delivery::Returned`](crate::Delivery::Returned)).
    pub returned: u64,
    /// Feedback that found no room in the ring and went by mail.
    pub releases_by_mail: u64,
    /// From submission to dispatch, of the dispatches handed out. A requeued request counts again,
    /// from its submission.
    pub wait: Timing,
    /// From dispatch to hand-out, of the dispatches handed out.
    pub ring: Timing,
    /// Deliveries in the ring from the core, from 0 to `ring_capacity`: what the core says that it put
    /// there, less what the shard took out by now. So it is current where the core sleeps.
    pub ring_len: u64,
    /// The most deliveries that the ring holds.
    pub ring_capacity: u64,
    /// Deliveries that wait for room in the ring; the core's.
    pub outbox_len: u64,
    /// Deliveries that found no room in the ring at first; the core's.
    pub outboxed: u64,
    /// How often workers behind a ring that had been full were opened again (S5.1), counted for each
    /// model; the core's.
    pub reopenings: u64,
    /// Dispatches that were released because the shard was dropped while they ran; the core's.
    pub lost: u64,
}

/// Measured durations.
///
/// Counts are exact. A value that the histogram reports is at most 1/128 above the measured one, less
/// than 1 %. Durations from 2^40 ns (about 18 minutes) count as 2^40 - 1 ns.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Every sample, in nanoseconds. Histograms of several shards can be added up.
    pub histogram: Histogram<u64>,
    /// All samples together, in nanoseconds; up to 1,023 ns short.
    pub sum_ns: u128,
    /// The shortest sample, exactly, in nanoseconds; 0 if there is none.
    pub min_ns: u64,
    /// The longest sample, exactly, in nanoseconds; 0 if there is none.
    pub max_ns: u64,
    /// How many samples were longer than 2^40 - 1 ns.
    pub clamped: u64,
}
