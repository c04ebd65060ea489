//! The checks of everything that a builder collected, all at once.

use tollgate_arbiter::{CLASSES_MAX, ENDPOINTS_MAX, SLOTS_MAX, WORKERS_MAX};

use super::{BuildError, BuildErrors, Builder};
use crate::journal::{JOURNAL_BYTES_MAX, JOURNAL_BYTES_MIN};
use crate::placement::{Machine, Roles};
use crate::settings::Settings;
use crate::wire::extension::BLOCKS_PER_REQUEST_MAX;
use crate::wire::{Intake, Parcel};

const SHARDS_MAX: usize = 64;
const MODELS_MAX: usize = 256;
const RING_MAX: usize = 1 << 20;
const EXTENSION_BLOCKS_MAX: usize = 1 << 26;

impl Builder {
    pub(super) const fn roles(&self) -> Roles {
        Roles {
            arbiter_spins: self.idle.spins(),
            ingress_shards: self.ingress_shards,
            ingress_spins: false,
            egress_shards: self.egress_shards,
            egress_spins: self.idle.spins(),
        }
    }

    /// The settings in effect; without a machine, there is no thread to be placed.
    pub(super) fn check<P>(&self, machine: Option<&Machine>) -> Result<Settings, BuildErrors> {
        let mut errors = self.out_of_range();
        errors.extend(self.duplicate_models());
        let shards = self.ingress_shards.clamp(1, SHARDS_MAX);
        let per_shard = self.slots.div_ceil(shards).max(1);
        let per_shard = per_shard.checked_next_power_of_two().unwrap_or(usize::MAX);
        let per_model = per_shard.saturating_mul(shards);
        // All models' places are numbered in 32 bits.
        let places_max = (u32::MAX as usize) / self.models.len().next_power_of_two();
        let max = places_max.min(SLOTS_MAX as usize);
        let is_sane = self.slots <= SLOTS_MAX as usize;
        if is_sane
            && per_model
                .checked_next_power_of_two()
                .is_none_or(|slots| slots > max)
        {
            errors.push(BuildError::TooManySlots {
                shards,
                per_shard,
                found: per_model.checked_next_power_of_two().unwrap_or(usize::MAX),
                max,
            });
        }
        if let Some(machine) = machine {
            let wrong = self.placement.check(machine, self.roles());
            errors.extend(wrong.into_iter().map(BuildError::from));
        }
        BuildErrors::none_of(errors)?;
        Ok(self.settings::<P>(per_shard, per_model))
    }

    fn settings<P>(&self, per_shard: usize, per_model: usize) -> Settings {
        let number = |number: usize| u32::try_from(number).expect("checked");
        let most = |of: fn(&super::Model) -> usize| self.models.iter().map(of).max().unwrap_or(0);
        let attempts = self.models.iter().map(|model| model.profile.max_attempts());
        Settings {
            models: self.models.iter().map(|model| model.name.clone()).collect(),
            ingress_shards: self.ingress_shards,
            egress_shards: self.egress_shards,
            slots_per_shard: number(per_shard),
            slots_per_model: number(per_model),
            ring: self.ring,
            dispatch_ring: self.dispatch_ring,
            feedback_ring: self.feedback_ring,
            extension_ring: self.extension_ring,
            extension_blocks_per_shard: number(self.extension_blocks.div_ceil(self.ingress_shards)),
            classes: number(
                self.classes
                    .max(most(|model| model.profile.classes().len())),
            ),
            workers: number(self.worker_capacity),
            endpoints: number(self.endpoints),
            attempts: attempts.max().unwrap_or(0).max(ATTEMPTS),
            payload_bytes: size_of::<P>(),
            ingress_record_bytes: size_of::<Intake<P>>(),
            delivery_bytes: size_of::<Parcel<P>>(),
            idle: self.idle,
            drain: self.drain,
            seed: self.seed,
            placement: self.placement.clone(),
        }
    }

    fn out_of_range(&self) -> Vec<BuildError> {
        let ranges = [
            ("models", self.models.len(), 1, MODELS_MAX),
            ("ingress_shards", self.ingress_shards, 1, SHARDS_MAX),
            ("egress_shards", self.egress_shards, 1, SHARDS_MAX),
            ("slots", self.slots, 1, SLOTS_MAX as usize),
            ("ring", self.ring, 2, RING_MAX),
            ("dispatch_ring", self.dispatch_ring, 4, RING_MAX),
            ("feedback_ring", self.feedback_ring, 2, RING_MAX),
            (
                "extension_ring",
                self.extension_ring,
                BLOCKS_PER_REQUEST_MAX,
                RING_MAX,
            ),
            (
                "extension_blocks",
                self.extension_blocks,
                0,
                EXTENSION_BLOCKS_MAX,
            ),
            ("classes", self.classes, 1, CLASSES_MAX as usize),
            ("workers", self.worker_capacity, 1, WORKERS_MAX as usize),
            ("endpoints", self.endpoints, 1, ENDPOINTS_MAX as usize),
            ("room_waiters", self.room_waiters, 0, SLOTS_MAX as usize),
            (
                "journal",
                self.journal.unwrap_or(JOURNAL_BYTES_MIN),
                JOURNAL_BYTES_MIN,
                JOURNAL_BYTES_MAX,
            ),
        ];
        let wrong = ranges
            .into_iter()
            .filter(|(_, found, min, max)| !(min..=max).contains(&found));
        wrong
            .map(|(what, found, min, max)| BuildError::OutOfRange {
                what,
                min,
                max,
                found,
            })
            .collect()
    }

    fn duplicate_models(&self) -> Vec<BuildError> {
        let named = self.models.iter().enumerate();
        let again = named.filter(|(at, model)| {
            let before = &self.models[..*at];
            before.iter().any(|known| known.name == model.name)
        });
        again
            .map(|(_, model)| BuildError::DuplicateModel {
                name: model.name.clone(),
            })
            .collect()
    }
}

/// Hand-overs that slots have room for, whatever the policies at the start ask for.
const ATTEMPTS: u8 = 3;
