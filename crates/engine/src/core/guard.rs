//! A selector of the embedder's own, kept from unwinding through an arbiter.
//!
//! A selector is called in the middle of what an arbiter does: a dispatch, a submission that meets a
//! limit, a booking that is released. If a panic went on from there, it would drop the payload in hand
//! on the core's thread, and leave the arbiter in no state to answer what it holds. So the panic is
//! caught at the border and handed to the core, which goes on with it once its turn is complete. Until
//! then, and when the core closes, the first free endpoint is chosen, and the selector is not asked
//! again.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crossbeam_channel::Sender;
use tollgate_arbiter::EndpointIndex;
use tollgate_arbiter::selector::{Activity, Draws, Pool, Selector};

/// What a panic carries.
pub(crate) type Panic = Box<dyn Any + Send>;

/// The selector and where its panic goes.
#[derive(Debug)]
pub(crate) struct Guard {
    selector: Box<dyn Selector + Send>,
    alarm: Sender<Panic>,
    has_failed: Cell<bool>,
}

impl Guard {
    pub(crate) fn new(selector: Box<dyn Selector + Send>, alarm: Sender<Panic>) -> Self {
        Self {
            selector,
            alarm,
            has_failed: Cell::new(false),
        }
    }

    fn fail(&self, panic: Panic) {
        self.has_failed.set(true);
        // The first one counts; the channel has room for it.
        let _ = self.alarm.try_send(panic);
    }
}

impl Selector for Guard {
    fn standing(&self, activity: Activity) -> u128 {
        if self.has_failed.get() {
            return 0;
        }
        let asked = AssertUnwindSafe(|| self.selector.standing(activity));
        catch_unwind(asked).unwrap_or_else(|panic| {
            self.fail(panic);
            0
        })
    }

    fn follows_standing(&self) -> bool {
        self.selector.follows_standing()
    }

    fn choose(&mut self, pool: &Pool<'_>, draws: &mut Draws) -> EndpointIndex {
        if !self.has_failed.get() {
            let selector = &mut self.selector;
            let asked = AssertUnwindSafe(|| {
                let chosen = selector.choose(pool, draws);
                let is_free = pool.contains(chosen);
                assert!(is_free, "a selector chose an endpoint that is not free");
                chosen
            });
            match catch_unwind(asked) {
                Ok(chosen) => return chosen,
                Err(panic) => self.fail(panic),
            }
        }
        let first = pool.iter().next();
        first.expect("a pool is never empty")
    }
}
