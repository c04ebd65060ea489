//! Which worker a session stays with.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use tollgate::Endpoint;

use crate::config::Affinity;

/// The sessions of a model. Bounded: the session that was used longest ago makes room.
#[derive(Debug)]
pub(crate) struct Sessions {
    ttl: Duration,
    known: Mutex<LruCache<Box<str>, Session>>,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    endpoint: Endpoint,
    used: Instant,
}

impl Sessions {
    pub(crate) fn new(affinity: &Affinity) -> Self {
        let capacity = NonZeroUsize::new(affinity.capacity).unwrap_or(NonZeroUsize::MIN);
        // Grows as it is used.
        let mut known = LruCache::unbounded();
        known.resize(capacity);
        Self {
            ttl: affinity.ttl,
            known: Mutex::new(known),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<Box<str>, Session>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a session stays, if it was heard of within its time; it is now.
    pub(crate) fn find(&self, name: &str, now: Instant) -> Option<Endpoint> {
        let mut known = self.lock();
        let session = known.get_mut(name)?;
        if now.saturating_duration_since(session.used) < self.ttl {
            session.used = now;
            return Some(session.endpoint);
        }
        known.pop(name);
        None
    }

    /// A session's request went there.
    pub(crate) fn went(&self, name: &str, endpoint: Endpoint, now: Instant) {
        let session = Session {
            endpoint,
            used: now,
        };
        self.lock().push(name.into(), session);
    }

    /// A session's worker is gone: the next request is free, unless another one has settled it meanwhile.
    pub(crate) fn forget(&self, name: &str, endpoint: Endpoint) {
        let mut known = self.lock();
        if known
            .peek(name)
            .is_some_and(|session| session.endpoint == endpoint)
        {
            known.pop(name);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use tollgate::WorkerId;

    use super::*;

    fn sessions(capacity: usize) -> Sessions {
        Sessions::new(&Affinity {
            capacity,
            ttl: Duration::from_secs(10),
            ..Affinity::default()
        })
    }

    fn endpoint(worker: u64) -> Endpoint {
        Endpoint {
            worker: WorkerId(worker),
            rank: 0,
        }
    }

    #[test]
    fn a_session_is_kept_as_long_as_it_is_heard_of() {
        let sessions = sessions(8);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        sessions.went("a", endpoint(1), start);
        assert_eq!(sessions.find("a", at(9)), Some(endpoint(1)));
        assert_eq!(sessions.find("a", at(18)), Some(endpoint(1)));
        assert_eq!(sessions.find("a", at(28)), None);
        assert_eq!(sessions.len(), 0);
    }

    #[test]
    fn mem_120_a_hundred_thousand_names_take_no_more_room_than_the_capacity() {
        let sessions = sessions(100);
        let now = Instant::now();
        for name in 0..100_000 {
            sessions.went(&name.to_string(), endpoint(1), now);
        }
        assert_eq!(sessions.len(), 100);
        assert_eq!(sessions.find("99999", now), Some(endpoint(1)));
        assert_eq!(sessions.find("0", now), None);
    }

    #[test]
    fn forgetting_a_lost_worker_leaves_a_session_that_has_settled_elsewhere() {
        let sessions = sessions(8);
        let now = Instant::now();
        sessions.went("a", endpoint(2), now);
        sessions.forget("a", endpoint(1));
        assert_eq!(sessions.find("a", now), Some(endpoint(2)));
        sessions.forget("a", endpoint(2));
        assert_eq!(sessions.find("a", now), None);
    }
}
