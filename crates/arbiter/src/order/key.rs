//! Order keys: everything that decides who goes first, in one integer (S4.2, S4.3).
//!
//! From the top bit down: strict priority (32), epoch (6, inverted), policy key (66, larger is
//! better), slot (24). Larger is better; 0 is no entry. Keys with equal upper 104 bits are told
//! apart by the slots' intake numbers, so the slot only says where to look.

use tollgate_policy::OrderPolicy;

use crate::{CostSnapshot, InvalidRequest, Nanos};

/// An order key with its slot; larger is better, 0 is none.
pub(crate) type Rank = u128;

/// No entry: goes after every entry.
pub(crate) const NO_KEY: Rank = 0;
/// Width of the slot in a rank.
pub(crate) const SLOT_BITS: u32 = 24;
/// The last epoch. Its inverse is 1, so that no entry's upper bits are all 0.
pub(crate) const EPOCH_MAX: u8 = 62;

const POLICY_BITS: u32 = 66;
const POLICY_MAX: u128 = (1 << POLICY_BITS) - 1;
const SLOT_MASK: u128 = (1 << SLOT_BITS) - 1;
/// The largest head start, in nanoseconds: added so that `arrival - jump` is never negative.
const JUMP_MAX: u128 = 1_000_000_000_000_000_000;
const JUMP_MAX_SECONDS: f64 = 1e9;
const NANOS_PER_SECOND: f64 = 1e9;

/// What a key is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyParts {
    pub(crate) strict_priority: u32,
    pub(crate) epoch: u8,
    pub(crate) arrival: Nanos,
    pub(crate) jump: Nanos,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) snapshot: CostSnapshot,
}

/// A head start in whole nanoseconds: negative is 0, above 10^9 s is 10^9 s, half up (S4.3).
#[inline]
pub(crate) fn jump_nanos(seconds: f64) -> Result<Nanos, InvalidRequest> {
    if seconds == 0.0 {
        return Ok(Nanos(0));
    }
    rounded_nanos(seconds)
}

fn rounded_nanos(seconds: f64) -> Result<Nanos, InvalidRequest> {
    if !seconds.is_finite() {
        return Err(InvalidRequest::JumpNotFinite { found: seconds });
    }
    let nanos = (seconds.clamp(0.0, JUMP_MAX_SECONDS) * NANOS_PER_SECOND).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0 ..= 10^18, whole"
    )]
    Ok(Nanos(nanos as u64))
}

/// The rank of `slot` in a class that orders by `policy`.
pub(crate) fn encode(policy: OrderPolicy, parts: &KeyParts, slot: u32) -> Rank {
    let arrival = u128::from(parts.arrival.0);
    let jump = u128::from(parts.jump.0);
    let from_epoch_start = arrival + JUMP_MAX - jump;
    let policy_key = match policy {
        OrderPolicy::Fcfs => POLICY_MAX - from_epoch_start,
        OrderPolicy::Lcfs => arrival + jump,
        OrderPolicy::Edf => match parts.deadline {
            Some(deadline) => POLICY_MAX - u128::from(deadline.0),
            None => POLICY_MAX - ((1 << (POLICY_BITS - 1)) + from_epoch_start),
        },
        OrderPolicy::Wspt => u128::from(wspt(parts.jump, parts.snapshot).to_bits()),
    };
    debug_assert!(policy_key <= POLICY_MAX && parts.epoch <= EPOCH_MAX);
    u128::from(parts.strict_priority) << 96
        | u128::from(EPOCH_MAX + 1 - parts.epoch) << (SLOT_BITS + POLICY_BITS)
        | policy_key << SLOT_BITS
        | u128::from(slot)
}

/// `(1 + jump) / cost`; positive, so that its bits order as its value does.
#[expect(clippy::cast_precision_loss, reason = "the rule asks for f64 (S4.2)")]
fn wspt(jump: Nanos, snapshot: CostSnapshot) -> f64 {
    (1.0 + jump.0 as f64 / NANOS_PER_SECOND) / f64::from(snapshot.cost())
}

/// The slot of a rank.
#[inline]
pub(crate) const fn slot_of(rank: Rank) -> u32 {
    (rank & SLOT_MASK) as u32
}
