//! How often the rules' branches were taken.

use std::cell::Cell;
use std::fmt;

use super::{ClassId, Oracle};
use crate::protocol::Lane;

macro_rules! branches {
    ($($(#[doc = $text:literal])+ $name:ident,)+) => {
        /// A branch of the rules that a random run must take often to be worth something.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Branch {
            $($(#[doc = $text])+ $name,)+
        }

        impl Branch {
            /// Every branch, in the order of the rules.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// What happened, in words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($text),+),)+
                }
            }
        }
    };
}

branches! {
    /// S3.7 a reload while requests wait
    ReloadWithQueue,
    /// S3.7 the order of a class with waiting requests changes
    OrderChangedWithQueue,
    /// S3.7 the arbitration changes while requests wait
    ArbitrationChangedWithQueue,
    /// S3.7 a reload cuts a deficit
    ReloadCut,
    /// S3.7 a vanished class leaves after it has drained
    ClassRetired,
    /// S3.7 a vanished class that has drained is held
    ClassHeld,
    /// S5.3 an exact lane's gate opens or shuts under its head
    LaneFlip,
    /// S5.3 the ratio shuts a shared lane that has a free endpoint
    RatioShut,
    /// S5.4 a request fails at submission
    FailedAtSubmission,
    /// S5.4 a head waits though all its endpoints are overloaded
    OverloadedWaits,
    /// S5.5 a waiting request expires
    Expired,
    /// S5.5 a waiting head can run nowhere any more
    FailedWhileWaiting,
    /// S5.5 a second round of failures
    SecondRound,
    /// S5.6 an overloaded endpoint is held
    Held,
    /// S6.1 a dry selection while requests wait
    Dry,
    /// S6.1 a dry selection while a turn is open
    DryWithOpenTurn,
    /// S6.1 step 1 ends a turn that its candidate cannot be paid from
    TurnEndedUnaffordable,
    /// S6.1 step 2 passes a class over that has no candidate but waiting requests
    PassedOver,
    /// S6.1 step 3, the fast-forward
    FastForward,
    /// S6.2 a burst goes on
    BurstGoesOn,
    /// S6.3 a class becomes empty
    BecameEmpty,
    /// S6.5 a turn opens with credit left over
    OpenedWithCredit,
    /// S6.6 the remembered entry leaves without service
    RememberedLeft,
    /// S6.6 and its class's credit is cut
    Cut,
    /// S6.8 in page, the holder goes on
    PageHolderGoesOn,
    /// S6.8 in page, the fast-forward
    PageFastForward,
    /// S7.1 a limit makes selections run
    LimitSelects,
    /// S7.1 a limit refuses
    LimitRefuses,
    /// S7.2 a request that may not wait is refused
    Impatience,
    /// S8 an exact lane survives its worker's leaving and returning
    LaneSurvivesReturn,
    /// S9.1 the prefill of a live booking is over
    PrefillDone,
    /// S9.3 a rank goes away by an upsert
    RankDropped,
    /// S9.3 a worker with bookings is removed
    RemovedWithBookings,
    /// S9.3 a complete after the endpoint was removed
    CompletedLost,
    /// S9.3 something is stale
    Stale,
    /// S9.4 a requeue
    Requeue,
    /// S9.4 a requeue after the endpoint was removed
    RequeueLost,
    /// S9.4 the last attempt fails
    HandOff,
    /// S9.4 an endpoint is avoided while another is free
    Avoided,
    /// S9.4 nothing but avoided endpoints is free
    AllAvoided,
    /// S10.1 hints tell endpoints apart
    HintsDecide,
    /// S10.2 two endpoints are drawn
    Drawn,
    /// S11.2 a waiting request is cancelled
    Cancelled,
    /// S11.3 the drain's end answers a waiting request
    ShuttingDown,
    /// S5.1 an endpoint with waiting pins is shut or opened
    Egress,
    /// S5.1 a dispatch uses its egress group's room up
    GroupFull,
    /// S5.1 an egress group gets room while requests wait
    GroupOpens,
}

/// How often each [`Branch`] was taken.
#[derive(Clone, Debug)]
pub struct Coverage {
    hits: Vec<Cell<u64>>,
}

impl Default for Coverage {
    fn default() -> Self {
        Self {
            hits: vec![Cell::new(0); Branch::ALL.len()],
        }
    }
}

impl Coverage {
    pub(super) fn note(&self, branch: Branch) {
        let hits = &self.hits[branch as usize];
        hits.set(hits.get() + 1);
    }

    pub(super) fn note_if(&self, happened: bool, branch: Branch) {
        if happened {
            self.note(branch);
        }
    }

    /// How often a branch was taken.
    #[must_use]
    pub fn hits(&self, branch: Branch) -> u64 {
        self.hits[branch as usize].get()
    }

    /// Adds another run's counts.
    pub fn add(&self, other: &Self) {
        for (hits, more) in self.hits.iter().zip(&other.hits) {
            hits.set(hits.get() + more.get());
        }
    }
}

impl fmt::Display for Coverage {
    /// A table, a line for each branch.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &branch in Branch::ALL {
            writeln!(f, "{:>12} {}", self.hits(branch), branch.text().trim())?;
        }
        Ok(())
    }
}

impl Oracle {
    /// For each exact lane: its class, its head, and whether that may be dispatched.
    pub(super) fn exact_gates(&self) -> Vec<(ClassId, u64, bool)> {
        let lanes = self
            .class_order()
            .into_iter()
            .flat_map(|class| self.lanes(class));
        lanes
            .filter(|(lane, _)| matches!(lane, Lane::Exact(_)))
            .map(|(_, entries)| entries[0])
            .map(|head| (head.class, head.intake, self.is_dispatchable(head)))
            .collect()
    }

    /// Notes the gates that opened or shut under a head that stayed.
    pub(super) fn note_flips(&self, before: &[(ClassId, u64, bool)]) {
        for (class, head, open) in self.exact_gates() {
            let flipped = before.contains(&(class, head, !open));
            self.coverage.note_if(flipped, Branch::LaneFlip);
        }
    }
}
