//! Deliberate faults.

/// One deliberate fault of an [`Oracle`](super::Oracle).
///
/// A comparison of two machines is worth something only if it finds these; each breaks one rule in a
/// way that implementations have broken it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// A dry selection grants a quantum to every class that has work (against S6.1).
    CreditOnDry,
    /// The fast-forward gives all rounds at once instead of one fewer (against S6.1).
    FastForwardAllRounds,
    /// A turn that opens for a class that can pay already gets no quantum (against S6.5).
    GrantSkipped,
    /// Of equal keys, the later entry goes first (against S4.2).
    TieBreakReversed,
    /// An expired entry goes on counting as waiting (against S5.5).
    CountLeakedOnExpiry,
    /// The turn goes on after a hand-over that failed (against S9.4).
    TurnKeptAfterRequeue,
    /// Lanes are compared by their oldest entry instead of their best one (against S4.4).
    StaleLaneHead,
    /// Pinned dispatches take no room of their egress group (against S5.1).
    PinsTakeNoRoom,
}

impl Mutation {
    /// Every fault.
    pub const ALL: [Self; 8] = [
        Self::CreditOnDry,
        Self::FastForwardAllRounds,
        Self::GrantSkipped,
        Self::TieBreakReversed,
        Self::CountLeakedOnExpiry,
        Self::TurnKeptAfterRequeue,
        Self::StaleLaneHead,
        Self::PinsTakeNoRoom,
    ];
}
