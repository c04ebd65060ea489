//! Another policy, between two selections (S3.7).

use std::sync::Arc;

use tollgate_policy::{Arbitration, Profile};

use crate::arbiter::mass::Changes;
use crate::arbiter::{Arbiter, fits};
use crate::class::Class;
use crate::order::{EPOCH_MAX, slot_of};
use crate::selector::{Standing, shipped};
use crate::{Full, Resource};

/// A policy was put in force.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// Which policy is in force: 1 is the one that the arbiter was built with.
    pub generation: u64,
    /// The policy of before, for whoever has the time to drop it.
    pub before: Arc<Profile>,
}

impl<P> Arbiter<P> {
    /// Puts `profile` in force. Classes match by name and keep queue, turn, place
    /// and counters; new ones join the ring's end; one that vanished takes no new requests and
    /// drains. Order keys are not recomputed, limits evict nobody.
    /// O(C x endpoints + waiting lanes).
    ///
    /// The profile of before comes back, so that it can be dropped where that does not matter; what
    /// else is freed here are names and a selector, if they change. A profile that does not fit is
    /// dropped: who must not do that here keeps another handle to it.
    ///
    /// # Errors
    /// Nothing is changed if the profile does not fit the capacities, those of its classes that
    /// drain included, or if a class's order changed more than 62 times while its entries waited.
    pub fn reload(&mut self, profile: Arc<Profile>) -> Result<Reloaded, Full> {
        self.check_reload(&profile)?;
        let restart = profile.arbitration() != self.profile.arbitration();
        let (kind, weight) = (self.profile.selector(), self.profile.decode_weight());
        let is_other_selector =
            !self.own_selector && (kind, weight) != (profile.selector(), profile.decode_weight());
        if is_other_selector {
            self.selector = shipped(profile.selector(), profile.decode_weight());
            self.follows_standing = self.selector.follows_standing();
            self.standing = Standing::of_kind(profile.selector(), profile.decode_weight());
        }
        let before = std::mem::replace(&mut self.profile, Arc::clone(&profile));
        self.is_exact = matches!(profile.arbitration(), Arbitration::Exact);
        let changes = Changes {
            thresholds: self.adopt_classes(&profile),
            overload: before.overload_action() != profile.overload_action(),
            scores: is_other_selector,
        };
        if restart {
            self.ring.restart(self.table.iter().copied());
        }
        self.settle_changes(changes);
        self.cut_to_dearest_heads(&profile);
        self.generation += 1;
        self.retire_drained();
        Ok(Reloaded {
            generation: self.generation,
            before,
        })
    }

    /// Whether classes that left the policy keep their places when they are empty: for as long as
    /// requests may still come that were resolved under a policy of before. Such a request enters its
    /// class (S3.7). At first they do not. Held ones count against
    /// [`Capacities::classes`](crate::Capacities::classes).
    pub fn hold_drained(&mut self, hold: bool) {
        self.holds_drained = hold;
        self.retire_drained();
    }

    fn check_reload(&self, profile: &Profile) -> Result<(), Full> {
        let named = |class: &Class| profile.classes().iter().find(|p| p.name == class.name);
        let in_use = || {
            self.table
                .iter()
                .map(|&class| &self.classes[class as usize])
        };
        let kept = in_use()
            .filter(|class| named(class).is_none() && (self.holds_drained || !class.is_idle()))
            .count();
        fits(profile, &self.capacities, kept)?;
        let worn = in_use().any(|class| {
            class.epoch == EPOCH_MAX
                && !class.is_idle()
                && named(class).is_some_and(|policy| policy.order != class.order)
        });
        if worn {
            let available = u64::from(EPOCH_MAX);
            return Err(Full {
                what: Resource::OrderChanges,
                required: available + 1,
                available,
            });
        }
        Ok(())
    }

    /// Matches the classes of a profile to those in use, by name (S3.7); whether some class's
    /// thresholds are new.
    pub(super) fn adopt_classes(&mut self, profile: &Profile) -> bool {
        let mut has_new_thresholds = false;
        for &class in &self.table {
            let class = &mut self.classes[class as usize];
            class.draining = !profile
                .classes()
                .iter()
                .any(|policy| policy.name == class.name);
        }
        self.draining = self.count_draining();
        // Idle ones leave now, so that their places serve the new ones.
        self.retire_drained();
        self.class_of.clear();
        for policy in profile.classes() {
            let known = self
                .table
                .iter()
                .copied()
                .find(|&class| self.classes[class as usize].name == policy.name);
            let class =
                known.unwrap_or_else(|| self.add_class(policy.name.clone(), policy.quantum));
            let settings = &mut self.classes[class as usize];
            if settings.is_idle() {
                settings.epoch = 0;
            } else if settings.order != policy.order {
                settings.epoch += 1;
            }
            has_new_thresholds |= known.is_none() || !settings.has_thresholds_of(policy);
            settings.configure(policy);
            self.ring.set_quantum(class as usize, policy.quantum);
            self.class_of.push(class);
        }
        has_new_thresholds
    }

    fn add_class(&mut self, name: Box<str>, quantum: u64) -> u16 {
        let place = self.classes.iter().position(|class| !class.in_use);
        let class = place.expect("the capacity was checked");
        let index = super::settle::index16(class);
        self.classes[class] = Class::named(name);
        self.table.push(index);
        self.ring.join(index, quantum);
        self.mark_dirty(class);
        index
    }

    /// A matched class keeps at most `new quantum + the dearest head of its lanes`.
    fn cut_to_dearest_heads(&mut self, profile: &Profile) {
        for at in 0..profile.classes().len() {
            let class = self.class_of[at] as usize;
            let node = self.ring.node(class);
            if node.deficit <= node.quantum {
                continue;
            }
            let kept = node.quantum.saturating_add(self.dearest_head(class));
            let deficit = node.deficit.min(kept);
            self.ring.set_deficit(class, deficit);
        }
    }

    fn dearest_head(&self, class: usize) -> u64 {
        self.heads(class)
            .map(|head| u64::from(self.slab[slot_of(head)].snapshot().cost()))
            .max()
            .unwrap_or(0)
    }

    pub(super) fn count_draining(&self) -> u32 {
        let draining = self
            .table
            .iter()
            .filter(|&&class| self.classes[class as usize].draining);
        u32::try_from(draining.count()).expect("bounded by CLASSES_MAX")
    }

    /// Gives up the classes that drained: they left the policy, and neither wait nor run (S3.7).
    #[inline]
    pub(super) fn retire_drained(&mut self) {
        if self.draining > 0 && !self.holds_drained {
            self.retire_idle();
        }
    }

    fn retire_idle(&mut self) {
        let Self {
            table,
            classes,
            ring,
            ..
        } = self;
        table.retain(|&class| {
            let settings = &mut classes[class as usize];
            let keep = !settings.draining || !settings.is_idle();
            if !keep {
                // The name stays until the place is taken again, by a reload: this may be the middle
                // of a turn, which frees nothing.
                ring.leave(class);
                settings.in_use = false;
            }
            keep
        });
        self.draining = self.count_draining();
    }
}
