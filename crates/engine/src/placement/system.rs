//! What the operating system says about the calling thread, and what it is asked.

use super::{CoreId, CoreSet, PinError};

/// Asks for the calling thread to be on one core alone; whether the system took it.
///
/// The core must be in a mask that the system gave: numbers beyond the system's own make
/// `core_affinity` panic.
pub(super) fn set_mask_to(core: CoreId) -> bool {
    let id = usize::from(core.0);
    core_affinity::set_for_current(core_affinity::CoreId { id })
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod kernel {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

    use super::{CoreId, CoreSet, PinError};

    /// The calling thread's mask; none if the kernel knows more cores than fit a mask (1,024).
    pub(in super::super) fn mask() -> Option<CoreSet> {
        let mask = sched_getaffinity(None).ok()?;
        let numbers = (0..=u16::MAX).take(CpuSet::MAX_CPU);
        let members = numbers.filter(|&number| mask.is_set(usize::from(number)));
        Some(members.map(CoreId).collect())
    }

    /// Gives the calling thread a mask that it had before. If that is refused, the mask that the
    /// error of the failed pin names stays in effect.
    pub(in super::super) fn restore_mask(cores: &CoreSet) {
        let mut mask = CpuSet::new();
        for core in cores.iter() {
            mask.set(usize::from(core.0));
        }
        let _ = sched_setaffinity(None, &mask);
    }

    /// The core that the calling thread is on at this moment.
    pub(in super::super) fn running_on() -> Option<CoreId> {
        u16::try_from(sched_getcpu()).ok().map(CoreId)
    }

    /// Whether the calling thread is on a core and can be on no other.
    pub(in super::super) fn verify(core: CoreId) -> Result<(), PinError> {
        super::judge(core, mask(), running_on())
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod kernel {
    use super::{CoreId, CoreSet, PinError};

    /// The cores that the system offers to this process.
    pub(in super::super) fn mask() -> Option<CoreSet> {
        let offered = core_affinity::get_core_ids()?;
        let numbers = offered.iter().filter_map(|core| core.id.try_into().ok());
        Some(numbers.map(CoreId).collect())
    }

    /// Nothing was verified, so that nothing is to be undone.
    pub(in super::super) fn restore_mask(_cores: &CoreSet) {}

    /// The system does not tell.
    pub(in super::super) fn running_on() -> Option<CoreId> {
        None
    }

    /// The system does not tell; that it took the call is all there is.
    pub(in super::super) fn verify(_core: CoreId) -> Result<(), PinError> {
        Ok(())
    }
}

pub(super) use kernel::{mask, restore_mask, running_on, verify};

/// What the mask and the core that a thread was found with mean for its pin.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn judge(core: CoreId, mask: Option<CoreSet>, running_on: Option<CoreId>) -> Result<(), PinError> {
    let Some(mask) = mask else {
        return Err(PinError::Unverifiable { core });
    };
    if mask != CoreSet::from_iter([core]) {
        return Err(PinError::NotInEffect { core, mask });
    }
    match running_on {
        Some(found) if found == core => Ok(()),
        Some(found) => Err(PinError::RunsElsewhere { core, found }),
        None => Err(PinError::Unverifiable { core }),
    }
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use super::*;

    /// A kernel that takes a pin and does something else is hard to come by.
    #[test]
    fn a_pin_is_believed_only_if_mask_and_core_agree() {
        let core = CoreId(5);
        let mask = |list: &str| list.parse::<CoreSet>().ok();
        assert_eq!(judge(core, mask("5"), Some(core)), Ok(()));

        let wide = judge(core, mask("2,5"), Some(core)).expect_err("two cores");
        assert_eq!(
            wide.to_string(),
            "core 5 was asked for and the mask became 2,5"
        );
        let other = judge(core, mask("2"), Some(CoreId(2))).expect_err("another core");
        assert_eq!(
            other.to_string(),
            "core 5 was asked for and the mask became 2"
        );
        let elsewhere = judge(core, mask("5"), Some(CoreId(2))).expect_err("runs elsewhere");
        assert_eq!(
            elsewhere.to_string(),
            "core 5 was asked for and is the mask, yet the thread runs on core 2"
        );
        for (mask, running_on) in [(None, Some(core)), (mask("5"), None)] {
            let unknown = judge(core, mask, running_on);
            assert_eq!(unknown, Err(PinError::Unverifiable { core }));
        }
    }

    #[test]
    fn the_former_mask_can_be_given_back() {
        std::thread::scope(|scope| {
            let child = scope.spawn(|| {
                let former = mask().expect("the kernel tells the mask");
                let core = former.iter().next_back().expect("a thread has a core");
                assert!(set_mask_to(core));
                assert_eq!(mask(), Some(CoreSet::from_iter([core])));
                restore_mask(&former);
                assert_eq!(mask(), Some(former));
            });
            child.join().expect("no panic");
        });
    }
}
