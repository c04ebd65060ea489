//! Engines that give permits.

use super::{BuildError, BuildErrors, Builder};
use crate::admission::{self, Waiter};
use crate::engine::{AdmissionByHand, BuiltAdmission, Engine};
use crate::placement::Machine;

/// Futures and permits of one engine.
const ENTRIES_MAX: usize = 1 << 30;

impl Builder {
    /// How many futures of an [`Admission`](crate::Admission) may wait for room in the engine at one time, beside those that
    /// have a slot: 0 to 2^24, split evenly over the ingress shards. A future more is refused. Each takes
    /// 192 bytes, as does each slot. Default 65,536; of no use to other engines.
    pub const fn room_waiters(mut self, futures: usize) -> Self {
        self.room_waiters = futures;
        self
    }

    /// Builds an engine that gives permits to tasks of any async runtime, and starts the arbiter's thread
    /// and one for each egress shard ([`Courier`](crate::Courier)), pinned where the placement says so.
    ///
    /// There should be as many ingress shards as the runtime has threads; their cores in the placement are
    /// of no use.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_admission(self) -> Result<BuiltAdmission, BuildErrors> {
        let machine = Machine::read();
        let (placement, roles) = (self.placement.clone(), self.roles());
        let by_hand = self.open(Some(&machine))?;
        let mut engine = Engine::start(by_hand.core, by_hand.handles).map_err(BuildError::Start)?;
        for (shard, courier) in by_hand.couriers.into_iter().enumerate() {
            engine
                .start_courier(courier, shard)
                .map_err(BuildError::Start)?;
        }
        Ok(BuiltAdmission {
            engine,
            admission: by_hand.admission,
            warnings: placement.warnings(&machine, roles),
        })
    }

    /// The same without threads, for whoever turns the core and the couriers.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_admission_by_hand(self) -> Result<AdmissionByHand, BuildErrors> {
        self.open(None)
    }

    fn open(self, machine: Option<&Machine>) -> Result<AdmissionByHand, BuildErrors> {
        let room_waiters = self.room_waiters;
        let mut by_hand = self.assemble::<Waiter>(machine)?;
        let settings = by_hand.handles.settings();
        let slots = settings.slots_per_shard as usize * settings.models.len();
        let per_front = slots + room_waiters.div_ceil(settings.ingress_shards);
        let found = per_front.saturating_mul(settings.ingress_shards);
        let entries = u32::try_from(per_front).ok();
        let entries = entries.filter(|_| found <= ENTRIES_MAX);
        let entries = entries.ok_or(BuildError::OutOfRange {
            what: "slots of all models and room_waiters together",
            min: 1,
            max: ENTRIES_MAX,
            found,
        })?;
        let bells = by_hand.core.tell_of_room();
        let shared = by_hand.handles.shared();
        let (ingress, egress) = (by_hand.ingress, by_hand.egress);
        let (admission, couriers) = admission::open(shared, ingress, egress, entries, bells);
        Ok(AdmissionByHand {
            core: by_hand.core,
            handles: by_hand.handles,
            admission,
            couriers,
        })
    }
}
