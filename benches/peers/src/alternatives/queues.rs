//! Queues: the incumbent's, a heap under a lock, and a channel for each class.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::Setting;
use super::work::{
    Alone, CLASSES, ENDPOINTS, Item, Items, Queue, Shared, WINDOW, across_two_threads,
    on_one_thread,
};
use crate::incumbent::{Incumbent, Stamped};
use crate::measure::time;
use crate::ours::Ours;
use crate::scheduler::{Arm, Ask, Local, Scheduler};
use crate::subject::{ClassPlan, Placement, Plan, Request, Subject, Ticks};

/// A side of the other comparisons: eight classes of quanta 1,024 to 8,192 in arrival order.
struct Standing<S>(S);

impl<S: Subject> Standing<S> {
    fn new() -> Self {
        let class = |index| ClassPlan {
            quantum: 1_024 * (u64::from(index) + 1),
            order: "fcfs",
        };
        Self(S::of(&Plan {
            classes: (0..CLASSES).map(class).collect(),
            endpoints: ENDPOINTS,
            capacity: WINDOW + 1,
            narrowed: false,
            page: false,
        }))
    }
}

impl<S: Subject> Queue for Standing<S> {
    fn put(&mut self, item: Item) {
        self.0.enqueue(&Request {
            id: item.id,
            class: usize::from(item.class),
            tokens: item.tokens,
            arrival: Ticks(item.id),
            jump: Ticks(0),
            strict_priority: 0,
            placement: Placement::Any,
        });
    }

    fn take(&mut self) -> Option<u32> {
        let id = self.0.pop();
        self.0.settle();
        id
    }
}

/// The incumbent's queue: one enqueue and one pop.
pub(super) fn policy_queue(setting: &Setting) -> f64 {
    on_one_thread(Standing::<Incumbent<Stamped>>::new(), setting.requests)
}

/// Tollgate's arbiter: submit, select, complete.
pub(super) fn arbiter(setting: &Setting) -> f64 {
    on_one_thread(Standing::<Ours>::new(), setting.requests)
}

/// The incumbent's scheduler: schedule one, free the oldest, while [`WINDOW`] are booked. It takes tens of
/// times as long as the others, so it is given fewer.
pub(super) fn scheduler(setting: &Setting) -> f64 {
    let steps = (setting.requests / 64).max(1);
    let mut local = Local::new(crate::scheduler::Plan {
        arm: Arm::Gated,
        endpoints: ENDPOINTS,
        classes: CLASSES,
    });
    let ask = |item: Item| Ask {
        id: u64::from(item.id),
        class: Some(u32::from(item.class)),
        tokens: item.tokens,
        hints: Vec::new(),
    };
    let mut requests = Items::new().map(|item| Local::request(&ask(item)));
    let (fill, timed): (Vec<_>, Vec<_>) = (
        requests.by_ref().take(WINDOW as usize).collect(),
        requests.take(steps as usize).collect(),
    );
    let mut booked = VecDeque::with_capacity(WINDOW as usize + 1);
    local.book(fill, &mut booked);
    let (_borrowed, nanos) = time(u64::from(steps), || local.steps(timed, &mut booked));
    // Each answer was awaited, and freeing one that is not booked fails: these must be the last.
    let last = (steps..steps + WINDOW).map(|id| id.to_string());
    assert!(booked.into_iter().eq(last), "each was booked once");
    nanos
}

/// The highest class first, in it the oldest.
type Ranked = (u8, Reverse<u32>);

/// A heap under a lock.
struct Locked(Mutex<BinaryHeap<Ranked>>);

impl Locked {
    fn new() -> Self {
        Self(Mutex::new(BinaryHeap::with_capacity(WINDOW as usize + 1)))
    }

    fn lock(&self) -> MutexGuard<'_, BinaryHeap<Ranked>> {
        self.0.lock().expect("nobody panics under the lock")
    }
}

impl Shared for Locked {
    fn put(&self, item: Item) {
        self.lock().push((item.class, Reverse(item.id)));
    }

    fn take(&self, _turn: &mut usize) -> Option<u32> {
        let (_class, Reverse(id)) = self.lock().pop()?;
        Some(id)
    }
}

/// One thread pushes and pops; nobody else wants the lock.
pub(super) fn locked_heap(setting: &Setting) -> f64 {
    on_one_thread(Alone::new(Locked::new()), setting.requests)
}

/// One thread pushes, another pops.
pub(super) fn locked_heap_across(setting: &Setting) -> f64 {
    across_two_threads(&Locked::new(), setting.requests, setting.cores)
}

/// A bounded channel for each class. A consumer asks the classes in turn, whatever their requests cost.
struct Channels(Vec<(Sender<u32>, Receiver<u32>)>);

impl Channels {
    /// Each class has room for the whole window, so that nobody blocks.
    fn new() -> Self {
        let channel = |_| bounded(WINDOW as usize + 1);
        Self((0..CLASSES).map(channel).collect())
    }
}

impl Shared for Channels {
    fn put(&self, item: Item) {
        let (sender, _) = &self.0[usize::from(item.class)];
        let sent = sender.try_send(item.id);
        sent.expect("there is room for the window in each");
    }

    fn take(&self, turn: &mut usize) -> Option<u32> {
        for _ in 0..self.0.len() {
            *turn = (*turn + 1) % self.0.len();
            if let Ok(id) = self.0[*turn].1.try_recv() {
                return Some(id);
            }
        }
        None
    }
}

/// One thread sends and receives.
pub(super) fn channels(setting: &Setting) -> f64 {
    on_one_thread(Alone::new(Channels::new()), setting.requests)
}

/// One thread sends, another receives.
pub(super) fn channels_across(setting: &Setting) -> f64 {
    across_two_threads(&Channels::new(), setting.requests, setting.cores)
}
