//! By an actor: a task that owns the arbiter. Requests and releases come to it through one channel of
//! tokio's, dispatches go back through a one-shot channel each.

use std::hint::black_box;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};
use tollgate::Request as Ask;
use tollgate_arbiter::{
    Arbiter, Capacities, Endpoint, Event, Nanos, Options, Request, Sink, SlotPool, Ticket,
    WorkerRecord,
};

use super::{Load, rig};
use tollgate_harness::pipeline::{Asks, ENDPOINTS, workers};

/// Messages that the actor takes at one go.
const BATCH: usize = 64;
const SLOTS: u32 = 1 << 14;

/// What a task is told.
struct Grant {
    ticket: Ticket,
    attempt: u8,
    endpoint: Endpoint,
}

enum Message {
    Admit(Ask<'static, ()>, oneshot::Sender<Grant>),
    Complete(Ticket, u8),
}

/// Sends dispatches back.
struct Replies;

impl Sink<oneshot::Sender<Grant>> for Replies {
    fn event(&mut self, event: Event<oneshot::Sender<Grant>>) {
        if let Event::Dispatched(dispatch) = event {
            let grant = Grant {
                ticket: dispatch.ticket,
                attempt: dispatch.attempt,
                endpoint: dispatch.endpoint,
            };
            // A task that does not wait any more would be an error here: none goes away.
            let _ = dispatch.payload.send(grant);
        }
    }
}

fn arbiter() -> Arbiter<oneshot::Sender<Grant>> {
    let profile = rig(1).profile();
    let capacities = Capacities {
        slots: SLOTS,
        endpoints: u32::try_from(ENDPOINTS).expect("few"),
        ..Capacities::default()
    };
    let arbiter = Arbiter::build(&profile, capacities, Options::default());
    let mut arbiter = arbiter.expect("the rig is valid");
    for worker in workers() {
        let record = WorkerRecord {
            ranks: worker.ranks,
            ..WorkerRecord::new(worker.id.0)
        };
        arbiter.upsert_worker(&record).expect("there is room");
    }
    arbiter
}

async fn act(mut messages: mpsc::UnboundedReceiver<Message>) {
    let (mut arbiter, mut slots) = (arbiter(), SlotPool::new(SLOTS));
    let (mut batch, begun) = (Vec::with_capacity(BATCH), Instant::now());
    while messages.recv_many(&mut batch, BATCH).await > 0 {
        let elapsed = begun.elapsed().as_nanos();
        let now = Nanos(u64::try_from(elapsed).expect("less than 584 years"));
        arbiter.set_time(now);
        for message in batch.drain(..) {
            match message {
                Message::Admit(ask, reply) => {
                    let ticket = slots.take().expect("tasks are fewer");
                    let request = Request {
                        pin: ask.pin,
                        ..Request::new(ask.raw_tokens, now)
                    };
                    let submitted =
                        arbiter.submit(ticket, ask.family, &request, reply, &mut Replies);
                    assert!(submitted.is_ok(), "the arbiter is open");
                }
                Message::Complete(ticket, attempt) => {
                    arbiter.complete(ticket, attempt).expect("it is known");
                    slots.put(ticket);
                }
            }
        }
        arbiter.arbitrate(None, &mut Replies);
    }
}

async fn live(actor: mpsc::UnboundedSender<Message>, mut asks: Asks, lives: u64) {
    for _ in 0..lives {
        let (reply, told) = oneshot::channel();
        let sent = actor.send(Message::Admit(asks.ask(()), reply));
        assert!(sent.is_ok(), "the actor runs");
        let grant = told.await.expect("the actor answers");
        black_box(grant.endpoint);
        let sent = actor.send(Message::Complete(grant.ticket, grant.attempt));
        assert!(sent.is_ok(), "the actor runs");
    }
}

/// Lives a second: a message, an answer, and a message when it is over.
///
/// # Panics
/// If the arbiter cannot be built.
#[must_use]
pub fn by_actor(load: &Load) -> f64 {
    let (runtime, asks) = (load.runtime(), load.asks());
    let span = runtime.block_on(async {
        let (actor, messages) = mpsc::unbounded_channel();
        let acting = tokio::spawn(act(messages));
        let begun = Instant::now();
        let task = |number| {
            let actor = actor.clone();
            tokio::spawn(live(actor, asks.from(number), load.lives_each()))
        };
        let tasks: Vec<_> = (0..load.tasks).map(task).collect();
        for task in tasks {
            task.await.expect("it does not panic");
        }
        let span = begun.elapsed();
        drop(actor);
        acting.await.expect("it does not panic");
        span
    });
    load.rate(span)
}
