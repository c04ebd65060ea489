//! What the doorways know of a model: its policy and its workers, as an immutable value.
//!
//! Control calls have an effect at the arbiter first, then publish a new [`View`], then return. So a
//! submission that begins after a call returned is resolved and priced under what the call brought
//! about (S2.3). Each shard keeps the view that it used last and looks, at each submission, whether
//! there is a newer one: one atomic load.

use std::sync::Arc;

use arc_swap::ArcSwap;
use arrayvec::ArrayVec;
use tollgate_arbiter::{ClassIndex, CostSnapshot, Endpoint, WorkerId};
use tollgate_policy::Profile;

use crate::Worker;
use crate::request::{REQUIRED_TAINTS_MAX, Request};
use crate::wire::extension::{TaintId, UNKNOWN_TAINT};

/// One model as it stands.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Rises with every change.
    pub(crate) version: u64,
    pub(crate) profile: Arc<Profile>,
    /// By the profile's class: its place in the arbiter's tables.
    pub(crate) class_of: Arc<[ClassIndex]>,
    /// By id.
    workers: Arc<[Known]>,
    /// By name.
    taints: Arc<[(Arc<str>, TaintId)]>,
}

/// What matters of a worker to price a request.
#[derive(Clone, Debug)]
struct Known {
    id: WorkerId,
    first_rank: u32,
    ranks: u32,
    available: bool,
    /// Sorted.
    taints: Box<[TaintId]>,
}

pub(crate) type Taints = ArrayVec<TaintId, REQUIRED_TAINTS_MAX>;

impl View {
    pub(crate) fn new(profile: Arc<Profile>, class_of: Arc<[ClassIndex]>) -> Self {
        Self {
            version: 1,
            profile,
            class_of,
            workers: Arc::new([]),
            taints: Arc::new([]),
        }
    }

    /// The numbers of the taints that a request requires.
    pub(crate) fn required<P>(&self, request: &Request<'_, P>) -> Taints {
        let ids = request.require_taints.iter().map(|&name| self.taint(name));
        ids.take(REQUIRED_TAINTS_MAX).collect()
    }

    fn taint(&self, name: &str) -> TaintId {
        let found = self
            .taints
            .binary_search_by(|(known, _)| (**known).cmp(name));
        found.map_or(UNKNOWN_TAINT, |at| self.taints[at].1)
    }

    /// The price of a request (S2.1, S2.3).
    #[inline]
    pub(crate) fn snapshot<P>(&self, request: &Request<'_, P>, taints: &Taints) -> CostSnapshot {
        let raw = request.raw_tokens;
        let cached = match request.pin {
            None if request.hints.is_empty() => request.cached_tokens,
            None => self.best_hint(request, taints),
            Some(_) if request.cached_tokens == 0 && request.hints.is_empty() => 0,
            Some(pin) => self.cached_at_pin(pin, request, taints),
        };
        CostSnapshot {
            raw,
            cached: cached.min(raw),
        }
    }

    fn best_hint<P>(&self, request: &Request<'_, P>, taints: &Taints) -> u32 {
        let eligible = request
            .hints
            .iter()
            .filter(|hint| self.may_run(hint.endpoint, request, taints));
        eligible.map(|hint| hint.cached).max().unwrap_or(0)
    }

    fn cached_at_pin<P>(&self, pin: Endpoint, request: &Request<'_, P>, taints: &Taints) -> u32 {
        if !self.may_run(pin, request, taints) {
            return 0;
        }
        if request.hints.is_empty() {
            return request.cached_tokens;
        }
        let there = request.hints.iter().filter(|hint| hint.endpoint == pin);
        there.map(|hint| hint.cached).max().unwrap_or(0)
    }

    /// Whether an endpoint is eligible for a request, overload left aside.
    fn may_run<P>(&self, endpoint: Endpoint, request: &Request<'_, P>, taints: &Taints) -> bool {
        let allowed = |allow: &[WorkerId]| allow.contains(&endpoint.worker);
        let Ok(at) = self
            .workers
            .binary_search_by_key(&endpoint.worker, |known| known.id)
        else {
            return false;
        };
        let known = &self.workers[at];
        known.available
            && request.allow.is_none_or(allowed)
            && endpoint
                .rank
                .checked_sub(known.first_rank)
                .is_some_and(|rank| rank < known.ranks)
            && taints
                .iter()
                .all(|taint| known.taints.binary_search(taint).is_ok())
    }

    /// The class of a request, and whether the name is unknown (S3.4).
    #[inline]
    pub(crate) fn resolve(&self, family: Option<&str>, uncached: u32) -> (ClassIndex, bool) {
        let resolution = self.profile.resolve(family, u64::from(uncached));
        (self.class_of[resolution.class], resolution.unknown_name)
    }
}

/// The views of all models, as shards find them.
#[derive(Debug)]
pub(crate) struct Directory {
    models: Box<[Arc<ArcSwap<View>>]>,
}

impl Directory {
    pub(crate) fn new(views: impl IntoIterator<Item = View>) -> Self {
        let shared = |view| Arc::new(ArcSwap::from_pointee(view));
        let models = views.into_iter().map(shared).collect();
        Self { models }
    }

    pub(crate) fn len(&self) -> usize {
        self.models.len()
    }

    pub(crate) fn model(&self, model: usize) -> &Arc<ArcSwap<View>> {
        &self.models[model]
    }

    pub(crate) fn publish(&self, model: usize, view: View) {
        self.models[model].store(Arc::new(view));
    }
}

/// The names of all taints that workers ever carried, by number. Control's own.
#[derive(Debug, Default)]
pub(crate) struct TaintNames {
    by_name: Vec<(Arc<str>, TaintId)>,
}

/// How many different taint names workers may have carried over an engine's life.
pub(crate) const TAINT_NAMES_MAX: usize = UNKNOWN_TAINT as usize;

impl TaintNames {
    /// The numbers of a worker's taints, sorted; new names are appended to `fresh` in the order of
    /// their numbers. `None`: there are too many.
    fn intern(&mut self, taints: &[Box<str>], fresh: &mut Vec<Arc<str>>) -> Option<Box<[TaintId]>> {
        let mut ids = Vec::with_capacity(taints.len());
        for name in taints {
            let found = self
                .by_name
                .binary_search_by(|(known, _)| (**known).cmp(name));
            ids.push(match found {
                Ok(at) => self.by_name[at].1,
                Err(at) => {
                    let id = TaintId::try_from(self.by_name.len()).ok()?;
                    if usize::from(id) >= TAINT_NAMES_MAX {
                        return None;
                    }
                    let name: Arc<str> = Arc::from(&**name);
                    self.by_name.insert(at, (Arc::clone(&name), id));
                    fresh.push(name);
                    id
                }
            });
        }
        ids.sort_unstable();
        Some(ids.into())
    }
}

/// A change of a model's workers, ready to be published once the arbiter made it.
impl View {
    /// The view after an upsert; names that are new go to `fresh`. `None`: too many taint names.
    pub(crate) fn with_worker(
        &self,
        worker: &Worker,
        names: &mut TaintNames,
        fresh: &mut Vec<Arc<str>>,
    ) -> Option<Self> {
        let taints = names.intern(&worker.taints, fresh)?;
        let known = Known {
            id: worker.id,
            first_rank: worker.first_rank,
            ranks: worker.ranks,
            available: worker.available,
            taints,
        };
        let view = self.with(|workers| put(workers, known));
        Some(Self {
            taints: names.by_name.as_slice().into(),
            ..view
        })
    }

    /// The view after a worker left.
    pub(crate) fn without_worker(&self, id: WorkerId) -> Self {
        self.with(|workers| workers.retain(|known| known.id != id))
    }

    /// The view after a worker's availability changed.
    pub(crate) fn with_available(&self, id: WorkerId, available: bool) -> Self {
        self.with(|workers| {
            if let Some(known) = workers.iter_mut().find(|known| known.id == id) {
                known.available = available;
            }
        })
    }

    /// The view after a worker's taints changed.
    pub(crate) fn with_taints(
        &self,
        id: WorkerId,
        taints: &[Box<str>],
        names: &mut TaintNames,
        fresh: &mut Vec<Arc<str>>,
    ) -> Option<Self> {
        let ids = names.intern(taints, fresh)?;
        let view = self.with(|workers| {
            if let Some(known) = workers.iter_mut().find(|known| known.id == id) {
                known.taints = ids;
            }
        });
        Some(Self {
            taints: names.by_name.as_slice().into(),
            ..view
        })
    }

    /// The view after a reload.
    pub(crate) fn with_profile(&self, profile: Arc<Profile>, class_of: Arc<[ClassIndex]>) -> Self {
        Self {
            version: self.version + 1,
            profile,
            class_of,
            ..self.clone()
        }
    }

    fn with(&self, change: impl FnOnce(&mut Vec<Known>)) -> Self {
        let mut workers = self.workers.to_vec();
        change(&mut workers);
        Self {
            version: self.version + 1,
            workers: workers.into(),
            ..self.clone()
        }
    }
}

fn put(workers: &mut Vec<Known>, known: Known) {
    match workers.binary_search_by_key(&known.id, |known| known.id) {
        Ok(at) => workers[at] = known,
        Err(at) => workers.insert(at, known),
    }
}
