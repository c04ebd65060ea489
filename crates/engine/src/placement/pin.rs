//! Pinning the calling thread, and reading back whether it took effect.

use std::fmt;

use super::{CoreId, CoreSet, IfUnpinnable, Machine, Placement, Role, system};

/// Why a thread could not be pinned. Its mask is what it was before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// The core is not one of those that the thread may run on.
    #[error("core {core} is outside the mask {mask} of this thread")]
    OutsideMask {
        /// The core asked for.
        core: CoreId,
        /// The thread's mask.
        mask: CoreSet,
    },
    /// The system refused: the core is offline, or a control group excludes it.
    #[error("the system refused core {core}; the mask of this thread is {mask}")]
    Refused {
        /// The core asked for.
        core: CoreId,
        /// The thread's mask.
        mask: CoreSet,
    },
    /// The system took the call and set another mask.
    #[error("core {core} was asked for and the mask became {mask}")]
    NotInEffect {
        /// The core asked for.
        core: CoreId,
        /// The mask that was found after the call.
        mask: CoreSet,
    },
    /// The mask is right and the thread is on another core.
    #[error("core {core} was asked for and is the mask, yet the thread runs on core {found}")]
    RunsElsewhere {
        /// The core asked for.
        core: CoreId,
        /// The core that the thread was found on after the call.
        found: CoreId,
    },
    /// The system does not tell the thread's mask or core, so that a pin cannot be verified.
    #[error("core {core} cannot be verified: the system does not tell this thread's mask and core")]
    Unverifiable {
        /// The core asked for.
        core: CoreId,
    },
}

/// Where a thread was put, for logs and status pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// No core was given for it; the system moves it about.
    NotPlaced,
    /// It runs on this core alone, by the system's word.
    On(CoreId),
    /// A core was given and could not be had; the system moves it about, as
    /// [`IfUnpinnable::RunUnpinned`] asks.
    Unpinned(PinError),
}

impl fmt::Display for Pinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPlaced => f.write_str("not placed"),
            Self::On(core) => write!(f, "on core {core}"),
            Self::Unpinned(error) => write!(f, "unpinned: {error}"),
        }
    }
}

/// Pins the calling thread to one core, and verifies it.
///
/// A pin only narrows: a core outside the thread's mask is refused, also where the kernel would
/// permit it, with the exception of isolated cores that [`Machine::pinnable`] explains. So a thread
/// cannot be pinned twice to different cores, and a thread inherits the pin of the one that started
/// it.
///
/// On Linux the mask and the core are read back. Elsewhere, that the system took the call is all
/// there is; on macOS it is a hint to the system and no more.
///
/// Meant for the start of a thread: it makes system calls, allocates, and may read files.
///
/// # Errors
/// [`PinError`] if the thread is not on that core alone; it then has its former mask.
///
/// ```
/// # use tollgate::placement::{CoreId, Machine, current_core, pin_current_thread};
/// let cores = Machine::read().allowed().cloned().unwrap_or_default();
/// let core = cores.iter().next().unwrap_or(CoreId(0));
/// let pinned = std::thread::scope(|scope| {
///     let thread = scope.spawn(|| pin_current_thread(core).map(|()| current_core()));
///     thread.join().expect("it does not panic")
/// });
/// # if cfg!(target_os = "linux") {
/// assert_eq!(pinned, Ok(Some(core)));
/// # }
/// ```
pub fn pin_current_thread(core: CoreId) -> Result<(), PinError> {
    let Some(mask) = system::mask() else {
        return Err(PinError::Unverifiable { core });
    };
    if !mask.contains(core) && !is_left_out_by_isolation(core) {
        return Err(PinError::OutsideMask { core, mask });
    }
    if !system::set_mask_to(core) {
        return Err(PinError::Refused { core, mask });
    }
    system::verify(core).inspect_err(|_| system::restore_mask(&mask))
}

/// Whether a core is outside the calling thread's mask only because it is isolated.
///
/// Where the kernel told a mask, all its cores fit one, these included.
fn is_left_out_by_isolation(core: CoreId) -> bool {
    let pinnable = Machine::read().pinnable();
    pinnable.is_some_and(|cores| cores.contains(core))
}

/// The core that the calling thread is on at this moment; none if the system does not tell.
///
/// Unless the thread is pinned, it may be on another one as soon as this returns.
///
/// ```
/// # use tollgate::placement::{Machine, current_core};
/// if let Some(core) = current_core() {
///     let machine = Machine::read();
///     assert!(machine.allowed().is_some_and(|cores| cores.contains(core)));
/// }
/// ```
#[must_use]
pub fn current_core() -> Option<CoreId> {
    system::running_on()
}

impl Placement {
    /// Pins the calling thread to the core that is given for a role, if there is one.
    ///
    /// The engine calls it on the arbiter's thread; shard threads are the embedder's, who calls it
    /// on them.
    ///
    /// # Errors
    /// Those of [`pin_current_thread`]. None with [`IfUnpinnable::RunUnpinned`]: the error is then
    /// in the [`Pinning`].
    ///
    /// ```
    /// # use tollgate::placement::{CoreId, IfUnpinnable, Pinning, Placement, Role};
    /// let mut placement = Placement { ingress: vec![CoreId(u16::MAX)], ..Placement::default() };
    /// assert_eq!(placement.pin_current_thread(Role::Arbiter), Ok(Pinning::NotPlaced));
    /// assert!(placement.pin_current_thread(Role::Ingress(0)).is_err());
    ///
    /// placement.if_unpinnable = IfUnpinnable::RunUnpinned;
    /// let pinning = placement.pin_current_thread(Role::Ingress(0))?;
    /// assert!(pinning.to_string().starts_with("unpinned: core 65535 is outside the mask "));
    /// # Ok::<(), tollgate::placement::PinError>(())
    /// ```
    pub fn pin_current_thread(&self, role: Role) -> Result<Pinning, PinError> {
        let Some(core) = self.core_of(role) else {
            return Ok(Pinning::NotPlaced);
        };
        match (pin_current_thread(core), self.if_unpinnable) {
            (Ok(()), _) => Ok(Pinning::On(core)),
            (Err(error), IfUnpinnable::Fail) => Err(error),
            (Err(error), IfUnpinnable::RunUnpinned) => Ok(Pinning::Unpinned(error)),
        }
    }
}
