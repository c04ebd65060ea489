//! Tasks on tokio: asked of an actor that owns a binary heap, of one that owns Tollgate's arbiter, and of
//! Tollgate's permits. Each task has one request at a time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};
use tollgate_benches::tasks::{Load, by_actor, by_permits};

use super::Setting;
use super::work::{Item, Items};

/// Messages that the actor takes at one go.
const BATCH: usize = 64;

/// A request in the actor's heap: the highest class first, in it the oldest.
struct Waiting {
    rank: (u8, Reverse<u64>),
    id: u32,
    reply: oneshot::Sender<u32>,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}

type Message = (Item, oneshot::Sender<u32>);

/// The actor: orders what has come, and answers it all, since nobody is ever busy.
async fn act(mut messages: mpsc::UnboundedReceiver<Message>) {
    let (mut batch, mut heap) = (Vec::with_capacity(BATCH), BinaryHeap::new());
    let mut arrivals = 0;
    while messages.recv_many(&mut batch, BATCH).await > 0 {
        for (item, reply) in batch.drain(..) {
            arrivals += 1;
            heap.push(Waiting {
                rank: (item.class, Reverse(arrivals)),
                id: item.id,
                reply,
            });
        }
        while let Some(Waiting { id, reply, .. }) = heap.pop() {
            reply.send(id).expect("no task goes away");
        }
    }
}

async fn live(actor: mpsc::UnboundedSender<Message>, items: impl Iterator<Item = Item>) {
    for item in items {
        let (reply, told) = oneshot::channel();
        let sent = actor.send((item, reply));
        assert!(sent.is_ok(), "the actor runs");
        let id = told.await.expect("the actor answers");
        assert_eq!(id, item.id, "each request has its own answer");
    }
}

fn load(setting: &Setting, tasks: usize, threads: usize) -> Load {
    Load {
        lives: u64::from(setting.requests).max(tasks as u64),
        tasks,
        threads,
        is_pinned: false,
    }
}

/// An actor that owns a heap.
pub(super) fn over_a_heap<const TASKS: usize, const THREADS: usize>(setting: &Setting) -> f64 {
    let load = load(setting, TASKS, THREADS);
    let span = load.runtime().block_on(async {
        let (actor, messages) = mpsc::unbounded_channel();
        let acting = tokio::spawn(act(messages));
        let begun = Instant::now();
        let lives = usize::try_from(load.lives_each()).expect("a run is short");
        let task = |number| {
            let items = Items::numbered(number).take(lives);
            tokio::spawn(live(actor.clone(), items))
        };
        let tasks: Vec<_> = (0..TASKS).map(task).collect();
        for task in tasks {
            task.await.expect("it does not panic");
        }
        let span = begun.elapsed();
        drop(actor);
        acting.await.expect("it does not panic");
        span
    });
    1e9 / load.rate(span)
}

/// An actor that owns Tollgate's arbiter.
pub(super) fn over_the_arbiter<const TASKS: usize, const THREADS: usize>(setting: &Setting) -> f64 {
    1e9 / by_actor(&load(setting, TASKS, THREADS))
}

/// Permits. The engine has threads of its own beside that of the runtime.
pub(super) fn by_permit<const TASKS: usize>(setting: &Setting) -> f64 {
    1e9 / by_permits(&load(setting, TASKS, 1), setting.cores)
}
