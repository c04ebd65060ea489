//! S3.7: a new profile.

use tollgate_policy::{ClassPolicy, Profile};

use super::{Branch, Class, ClassId, Oracle, Usage};
use crate::protocol::OutcomeCounts;

impl Oracle {
    /// A class joins the end of table and ring.
    pub(super) fn join(&mut self, policy: ClassPolicy) {
        let id = self.class_ids;
        self.class_ids += 1;
        self.classes.push(Class {
            id,
            policy,
            vanished: false,
            epoch: 0,
            deficit: 0,
            turn_open: false,
            remembered: None,
            dispatched: 0,
            charged_tokens: 0,
            outcomes: OutcomeCounts::default(),
            leaked: Usage::default(),
        });
        self.ring.push(id);
    }

    /// S3.7: classes match by name, new ones join, the others drain.
    pub(super) fn take_over(&mut self, profile: &Profile) {
        let mode_changes = self.profile.arbitration() != profile.arbitration();
        let waits = self.waiting().next().is_some();
        self.coverage.note_if(waits, Branch::ReloadWithQueue);
        self.coverage
            .note_if(waits && mode_changes, Branch::ArbitrationChangedWithQueue);
        self.profile = profile.clone();
        for class in self.class_order() {
            let name = self.class(class).policy.name.clone();
            match profile.classes().iter().find(|policy| policy.name == name) {
                Some(policy) => self.change(class, policy),
                None => self.class_mut(class).vanished = true,
            }
        }
        // Those that have nothing left leave before new ones join.
        self.drop_finished_classes();
        for policy in profile.classes() {
            if self
                .classes
                .iter()
                .all(|class| class.policy.name != policy.name)
            {
                self.join(policy.clone());
            }
        }
        if self.classes.iter().all(|class| class.id != self.cursor) {
            self.cursor = self.classes[0].id;
        }
        if mode_changes {
            self.change_mode();
        }
    }

    /// S3.7: a matched class; its credit is cut to what its dearest head may need.
    fn change(&mut self, id: ClassId, policy: &ClassPolicy) {
        let heads = self
            .lanes(id)
            .into_iter()
            .map(|(_, entries)| entries[0].cost);
        let dearest = heads.max().unwrap_or(0);
        let before = self.class(id);
        let reorders = before.policy.order != policy.order && !self.is_empty(id);
        self.coverage
            .note_if(reorders, Branch::OrderChangedWithQueue);
        let cuts = before.deficit > policy.quantum.saturating_add(dearest);
        self.coverage.note_if(cuts, Branch::ReloadCut);
        let class = self.class_mut(id);
        class.epoch += u64::from(class.policy.order != policy.order);
        class.policy = policy.clone();
        class.vanished = false;
        class.deficit = class.deficit.min(policy.quantum.saturating_add(dearest));
    }

    /// The other arbitration starts with everything in class order and nobody's turn.
    fn change_mode(&mut self) {
        self.ring = self.class_order();
        self.holder = None;
        self.cursor = self.ring[0];
        for class in &mut self.classes {
            class.turn_open = false;
            class.remembered = None;
        }
    }

    /// S3.7: a vanished class leaves as soon as nothing of it is left.
    pub(super) fn drop_finished_classes(&mut self) {
        for id in self.class_order() {
            let is_used = self.requests.iter().any(|request| request.class == id);
            if !self.class(id).vanished || is_used {
                continue;
            }
            if self.holds_drained {
                self.coverage.note(Branch::ClassHeld);
                continue;
            }
            self.coverage.note(Branch::ClassRetired);
            if self.cursor == id {
                self.cursor = self.class_after(id);
            }
            if self.holder == Some(id) {
                self.holder = None;
            }
            self.classes.retain(|class| class.id != id);
            self.ring.retain(|class| *class != id);
        }
    }
}
