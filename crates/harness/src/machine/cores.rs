//! Who runs where.

use tollgate::placement::{CoreId, Machine, pin_current_thread};

/// Two cores: one for the arbiter, and one for everybody else.
///
/// Without two cores to pin to, nobody is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The arbiter's.
    pub arbiter: Option<CoreId>,
    /// That of the threads that submit and receive.
    pub shards: Option<CoreId>,
}

impl Cores {
    /// Nobody is pinned.
    pub const NOBODY: Self = Self {
        arbiter: None,
        shards: None,
    };

    /// The last core that this process may use is the arbiter's, since the first one often serves
    /// interrupts; the last but one is that of the shards.
    #[must_use]
    pub fn choose() -> Self {
        let pinnable = Machine::read().pinnable().unwrap_or_default();
        let mut last = pinnable.iter().rev();
        match (last.next(), last.next()) {
            (Some(arbiter), Some(shards)) => Self {
                arbiter: Some(arbiter),
                shards: Some(shards),
            },
            _ => Self::NOBODY,
        }
    }

    /// These two, by their numbers.
    ///
    /// # Errors
    /// If they are one core, or the process may not use one of them.
    pub fn pinned(arbiter: u16, shards: u16) -> Result<Self, String> {
        let (arbiter, shards) = (CoreId(arbiter), CoreId(shards));
        if arbiter == shards {
            return Err(format!(
                "core {arbiter} twice: two threads that spin need a core each"
            ));
        }
        let pinnable = Machine::read().pinnable().unwrap_or_default();
        for core in [arbiter, shards] {
            if !pinnable.contains(core) {
                return Err(format!(
                    "this process may not use core {core}; it may use {pinnable}"
                ));
            }
        }
        Ok(Self {
            arbiter: Some(arbiter),
            shards: Some(shards),
        })
    }
}

impl std::fmt::Display for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.arbiter, self.shards) {
            (Some(arbiter), Some(shards)) => {
                write!(
                    f,
                    "arbiter on core {arbiter}, everybody else on core {shards}"
                )
            }
            _ => f.write_str("fewer than two cores: nobody is pinned"),
        }
    }
}

/// Runs `work` on a thread of its own, pinned to a core if there is one. The caller stays where it is:
/// a pin only narrows, and threads inherit it.
///
/// # Panics
/// If the core cannot be had, or `work` panics.
pub fn on_core<R: Send>(core: Option<CoreId>, work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin(core);
            work()
        });
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Pins the calling thread, if there is a core for it.
///
/// # Panics
/// If the core cannot be had.
pub fn pin(core: Option<CoreId>) {
    if let Some(core) = core {
        pin_current_thread(core).expect("the core is one that this process may use");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_twice_and_a_core_that_is_not_there_are_refused() {
        let twice = Cores::pinned(0, 0);
        assert!(twice.is_err_and(|why| why.contains("twice")));
        let absent = Cores::pinned(0, 4_000);
        assert!(absent.is_err_and(|why| why.contains("may not use core")));
    }
}
