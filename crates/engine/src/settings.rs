//! The settings in effect, after everything was checked and rounded.

use std::fmt;
use std::time::Duration;

use crate::idle::Idle;
use crate::placement::Placement;

/// What an engine was built with, in effect. Its existence proves that it was valid; `Display` prints
/// one setting a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Names of the models, by [`ModelIndex`](crate::ModelIndex).
    pub models: Vec<Box<str>>,
    /// Ingress shards.
    pub ingress_shards: usize,
    /// Egress shards.
    pub egress_shards: usize,
    /// Live requests of one model from one ingress shard: what was asked for, split over the shards
    /// and rounded up to a power of two.
    pub slots_per_shard: u32,
    /// Live requests of one model.
    pub slots_per_model: u32,
    /// Records in an ingress ring.
    pub ring: usize,
    /// Deliveries in an egress ring.
    pub dispatch_ring: usize,
    /// Records in a feedback ring.
    pub feedback_ring: usize,
    /// 64-byte blocks in a ring for hints, allow-lists and taints.
    pub extension_ring: usize,
    /// 64-byte blocks that live requests of one model and ingress shard may hold.
    pub extension_blocks_per_shard: u32,
    /// Classes of one model at one time, those that drain after a reload included.
    pub classes: u32,
    /// Known workers of one model.
    pub workers: u32,
    /// Endpoints of one model.
    pub endpoints: u32,
    /// The largest `max_attempts` that a policy may ask for (S9.4): 3, or what the policies at the
    /// start ask for.
    pub attempts: u8,
    /// Bytes of a payload.
    pub payload_bytes: usize,
    /// Bytes of a record in an ingress ring; 64 is a cache line.
    pub ingress_record_bytes: usize,
    /// Bytes of a delivery in an egress ring.
    pub delivery_bytes: usize,
    /// How threads wait.
    pub idle: Idle,
    /// How long [`Engine::stop`](crate::Engine::stop) dispatches on.
    pub drain: Duration,
    /// Seed of `power_of_two` (S10.2).
    pub seed: u64,
    /// Where threads run.
    pub placement: Placement,
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: &dyn fmt::Display| writeln!(f, "{name:27}{value}");
        line("models", &self.models.join(", "))?;
        line("ingress_shards", &self.ingress_shards)?;
        line("egress_shards", &self.egress_shards)?;
        line("slots_per_shard", &self.slots_per_shard)?;
        line("slots_per_model", &self.slots_per_model)?;
        line("ring", &self.ring)?;
        line("dispatch_ring", &self.dispatch_ring)?;
        line("feedback_ring", &self.feedback_ring)?;
        line("extension_ring", &self.extension_ring)?;
        line(
            "extension_blocks_per_shard",
            &self.extension_blocks_per_shard,
        )?;
        line("classes", &self.classes)?;
        line("workers", &self.workers)?;
        line("endpoints", &self.endpoints)?;
        line("attempts", &self.attempts)?;
        line("payload_bytes", &self.payload_bytes)?;
        line("ingress_record_bytes", &self.ingress_record_bytes)?;
        line("delivery_bytes", &self.delivery_bytes)?;
        line("idle", &self.idle)?;
        line("drain", &format_args!("{:?}", self.drain))?;
        line("seed", &self.seed)?;
        let cores = |cores: &[crate::placement::CoreId]| {
            let names: Vec<String> = cores.iter().map(ToString::to_string).collect();
            if names.is_empty() {
                "not placed".to_owned()
            } else {
                names.join(", ")
            }
        };
        line("arbiter_core", &cores(self.placement.arbiter.as_slice()))?;
        line("ingress_cores", &cores(&self.placement.ingress))?;
        line("egress_cores", &cores(&self.placement.egress))
    }
}
