//! The incumbent's side: `LocalScheduler` of `dynamo-kv-router` 1.6.1.
//!
//! The crate has no selection policy of its own for hosts; what it calls its native reference, and
//! measures in its own benches, is behind its feature `bench`. That feature adds nothing to the paths
//! that are timed here.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dynamo_kv_router::protocols::{
    RoutingConstraints, WorkerConfigLike, WorkerId, WorkerWithDpRank,
};
use dynamo_kv_router::scheduling::{
    OverlapSignals, RouterPolicyConfig, ScheduleMode, ScheduleRequest,
};
use dynamo_kv_router::selector::WorkerSelectionPolicy;
use dynamo_kv_router::{
    ActiveSequencesMultiWorker, KvRouterConfig, LocalScheduler, NoopSequencePublisher,
    RouterQueuePolicy,
};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Ask, BLOCK_TOKENS, Plan, Scheduler};

pub(super) const NAME: &str = "dynamo-kv-router 1.6.1";
/// What its log lines call the pool of workers.
const POOL: &str = "decode";

/// A worker of one rank, with room for any prompt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Config;

impl WorkerConfigLike for Config {
    fn data_parallel_start_rank(&self) -> u32 {
        0
    }

    fn data_parallel_size(&self) -> u32 {
        1
    }

    fn max_num_batched_tokens(&self) -> Option<u64> {
        None
    }

    fn total_kv_blocks(&self) -> Option<u64> {
        Some(131_072)
    }
}

pub(crate) struct Local {
    runtime: Runtime,
    scheduler: LocalScheduler<NoopSequencePublisher, Config>,
    /// Told of no change; the scheduler ends without it.
    _workers: watch::Sender<HashMap<WorkerId, Config>>,
    stops: CancellationToken,
}

impl Scheduler for Local {
    type Request = ScheduleRequest;
    type Booking = String;

    fn new(plan: Plan) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime of one thread needs nothing");
        let ids = || 0..u64::from(plan.endpoints);
        let slots = Arc::new(ActiveSequencesMultiWorker::new(
            NoopSequencePublisher,
            BLOCK_TOKENS as usize,
            ids().map(|id| (id, (0, 1))).collect(),
            false,
            0,
            POOL,
        ));
        let (workers, known) = watch::channel(ids().map(|id| (id, Config)).collect());
        let profile = RouterPolicyConfig::from_yaml(&plan.yaml())
            .expect("the plan writes a valid policy file")
            .resolve_profile(None, None, RouterQueuePolicy::Fcfs);
        let config = KvRouterConfig {
            decode_active_request_weight: f64::from(plan.active_blocks()),
            ..KvRouterConfig::default()
        };
        let stops = CancellationToken::new();
        // It starts its tasks on the runtime that it is made on.
        let scheduler = runtime.block_on(async {
            LocalScheduler::new(
                slots,
                known,
                profile,
                BLOCK_TOKENS,
                WorkerSelectionPolicy::reference(config, POOL),
                None,
                None,
                None,
                None,
                // Its default.
                Duration::from_secs(60),
                true,
                stops.clone(),
                POOL,
                true,
            )
        });
        Self {
            runtime,
            scheduler,
            _workers: workers,
            stops,
        }
    }

    fn request(ask: &Ask) -> ScheduleRequest {
        let endpoint = |id: u32| WorkerWithDpRank::new(u64::from(id), 0);
        let mut overlap = OverlapSignals::default();
        for &(id, tokens) in &ask.hints {
            let blocks = tokens / BLOCK_TOKENS;
            overlap
                .tier_overlap_blocks
                .device
                .insert(endpoint(id), blocks as usize);
            overlap
                .effective_overlap_blocks
                .insert(endpoint(id), f64::from(blocks));
            overlap
                .effective_cached_tokens
                .insert(endpoint(id), tokens as usize);
        }
        ScheduleRequest {
            mode: ScheduleMode::Tracked {
                request_id: ask.id.to_string(),
            },
            token_seq: None,
            block_hashes: None,
            isl_tokens: ask.tokens as usize,
            lora_name: None,
            expected_output_tokens: None,
            affinity_target: None,
            pinned_worker: None,
            allowed_worker_ids: None,
            routing_constraints: RoutingConstraints::default(),
            router_config_override: None,
            priority_jump: 0.0,
            strict_priority: 0,
            policy_class: ask.class.map(|class| format!("family{class}")),
            session_context: None,
            overlap,
            kv_transfer_candidates: None,
            retain_kv_transfer_chain: false,
            shared_cache_hits: None,
        }
    }

    fn steps(
        &mut self,
        requests: Vec<ScheduleRequest>,
        booked: &mut VecDeque<String>,
    ) -> Vec<ScheduleRequest> {
        let Self {
            runtime, scheduler, ..
        } = self;
        runtime.block_on(async {
            for request in requests {
                booked.push_back(scheduled(scheduler, request).await);
                let oldest = booked.pop_front().expect("one was just booked");
                scheduler.free(&oldest).await.expect("freed once");
            }
        });
        Vec::new()
    }

    fn book(&mut self, requests: Vec<ScheduleRequest>, booked: &mut VecDeque<String>) {
        let Self {
            runtime, scheduler, ..
        } = self;
        runtime.block_on(async {
            for request in requests {
                booked.push_back(scheduled(scheduler, request).await);
            }
        });
    }
}

/// Schedules a request; its id, by which it is freed.
async fn scheduled(
    scheduler: &LocalScheduler<NoopSequencePublisher, Config>,
    request: ScheduleRequest,
) -> String {
    let id = match &request.mode {
        ScheduleMode::Tracked { request_id } => request_id.clone(),
        _ => unreachable!("all requests are tracked"),
    };
    let response = scheduler.schedule_request(request).await;
    response.expect("every worker takes any request");
    id
}

impl Drop for Local {
    fn drop(&mut self) {
        self.stops.cancel();
    }
}
