//! Payloads that say where they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// The name of the thread that must never drop a payload.
pub(crate) const ARBITER: &str = "tollgate-arbiter";

/// Counts the drops of numbered payloads.
#[derive(Clone, Debug)]
pub(crate) struct Ledger(Arc<Books>);

#[derive(Debug)]
struct Books {
    drops: Box<[AtomicU32]>,
    on_arbiter: AtomicU32,
}

/// One numbered payload.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: usize,
    ledger: Ledger,
}

impl Ledger {
    pub(crate) fn new(payloads: usize) -> Self {
        Self(Arc::new(Books {
            drops: (0..payloads).map(|_| AtomicU32::new(0)).collect(),
            on_arbiter: AtomicU32::new(0),
        }))
    }

    /// The payload of this number; made once.
    pub(crate) fn entry(&self, id: usize) -> Entry {
        let ledger = self.clone();
        Entry { id, ledger }
    }

    /// How many payloads were dropped so far.
    pub(crate) fn dropped(&self) -> usize {
        let drops = self.0.drops.iter();
        drops.filter(|drops| drops.load(SeqCst) > 0).count()
    }

    /// The first `made` payloads were dropped once each, no other was, and none by the arbiter.
    #[track_caller]
    pub(crate) fn assert_settled(&self, made: usize) {
        for (id, drops) in self.0.drops.iter().enumerate() {
            let expected = u32::from(id < made);
            assert_eq!(drops.load(SeqCst), expected, "drops of payload {id}");
        }
        self.assert_none_on_arbiter();
    }

    #[track_caller]
    pub(crate) fn assert_none_on_arbiter(&self) {
        let on_arbiter = self.0.on_arbiter.load(SeqCst);
        assert_eq!(on_arbiter, 0, "payloads dropped on the arbiter's thread");
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let books = &*self.ledger.0;
        books.drops[self.id].fetch_add(1, SeqCst);
        if std::thread::current().name() == Some(ARBITER) {
            books.on_arbiter.fetch_add(1, SeqCst);
        }
    }
}

impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id)
    }
}
