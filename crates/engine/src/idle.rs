//! What a thread of the engine does when it has nothing to do.

/// How the arbiter's thread, and a thread in [`EgressShard::recv`](crate::EgressShard::recv), wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Looks again and again, and offers its core to others now and then: the shortest way, for a core
    /// of its own.
    Spin,
    /// Looks `spins` times, then `yields` times with an offer of its core after each, then sleeps until
    /// it is woken. The default, with 1,000 and 10: some 100 us.
    SpinThenPark {
        /// Looks before the first offer.
        spins: u32,
        /// Looks with an offer of the core after each.
        yields: u32,
    },
    /// Sleeps at once.
    Park,
}

impl Default for Idle {
    fn default() -> Self {
        Self::SpinThenPark {
            spins: 1_000,
            yields: 10,
        }
    }
}

impl Idle {
    /// Whether it takes a whole core while it waits.
    pub(crate) const fn spins(self) -> bool {
        matches!(self, Self::Spin)
    }
}

impl std::fmt::Display for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Spin => f.write_str("spin"),
            Self::SpinThenPark { spins, yields } => {
                write!(f, "spin {spins}, yield {yields}, then park")
            }
            Self::Park => f.write_str("park"),
        }
    }
}

/// A spinning thread offers its core after so many looks, lest it keep those whom it waits for from
/// running where cores are few.
const LOOKS_PER_OFFER: u32 = 1_024;

/// How far one wait has come.
#[derive(Debug)]
pub(crate) struct Patience {
    idle: Idle,
    looks: u32,
}

impl Patience {
    pub(crate) const fn new(idle: Idle) -> Self {
        Self { idle, looks: 0 }
    }

    /// Waits a little; false: it is time to sleep.
    pub(crate) fn wait(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        match self.idle {
            Idle::Spin if self.looks.is_multiple_of(LOOKS_PER_OFFER) => std::thread::yield_now(),
            Idle::Spin => std::hint::spin_loop(),
            Idle::SpinThenPark { spins, .. } if self.looks <= spins => std::hint::spin_loop(),
            Idle::SpinThenPark { spins, yields } if self.looks - spins <= yields => {
                std::thread::yield_now();
            }
            Idle::SpinThenPark { .. } | Idle::Park => return false,
        }
        true
    }
}
