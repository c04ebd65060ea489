//! The task that owns the model and moves it along the clock.
//!
//! 1. A request's handler hands a [`Submission`] over and gets [`Reports`].
//! 2. The driver sleeps until the model's next step is due or a command comes.
//! 3. It first plays what was due, each thing at its own time however late the timer was, and then the
//!    commands, at the time it is now. So lateness of the real clock does not add up.
//! 4. It tells a request's handler twice: when the prefill is done, and when the last token is out. The
//!    tokens between are the handler's own affair, so that a token costs the driver nothing.
//!
//! A request whose fault decides about its end holds its sequence: the model takes it for one that never
//! ends, and its handler ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;
use tollgate_arbiter::Nanos;
use tollgate_sim::worker::{Job, Pool, Step, WorkerModel};

use crate::clock::Clock;
use crate::counters::Board;
use crate::desk::{Desk, Fate, Prefill};
use crate::prompt::Prompt;

/// A request for the model.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) prompt: Prompt,
    pub(crate) output_tokens: u32,
    /// It never ends by itself.
    pub(crate) holds_its_sequence: bool,
}

/// What handlers tell the driver.
#[derive(Debug)]
pub(crate) enum Command {
    Submit {
        request: u32,
        submission: Submission,
        prefill: oneshot::Sender<Prefill>,
        last_token: oneshot::Sender<()>,
    },
    End {
        request: u32,
        fate: Fate,
    },
}

/// What reports on a submitted request.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(crate) request: u32,
    pub(crate) prefill: oneshot::Receiver<Prefill>,
    pub(crate) last_token: oneshot::Receiver<()>,
}

/// The driver as handlers know it. It ends with the last of its handles.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    commands: mpsc::UnboundedSender<Command>,
    next_request: Arc<AtomicU32>,
    board: Board,
}

impl Handle {
    pub(crate) fn submit(&self, submission: Submission) -> Reports {
        // ORDERING: Relaxed; the numbers only have to differ, which they do for 2³² requests in a row.
        let request = self.next_request.fetch_add(1, Ordering::Relaxed);
        let (prefill, prefill_done) = oneshot::channel();
        let (last_token, last_token_out) = oneshot::channel();
        self.board.update(|counters| {
            counters.received += 1;
            counters.waiting += 1;
        });
        self.send(Command::Submit {
            request,
            submission,
            prefill,
            last_token,
        });
        Reports {
            request,
            prefill: prefill_done,
            last_token: last_token_out,
        }
    }

    /// Ends a request before the model does; nothing if that was quicker.
    pub(crate) fn end(&self, request: u32, fate: Fate) {
        self.send(Command::End { request, fate });
    }

    fn send(&self, command: Command) {
        // A driver is gone only with its runtime, and with it whoever waits for its reports.
        let _ = self.commands.send(command);
    }
}

/// Starts the driver of one worker on the runtime that the caller is on.
pub(crate) fn start(model: WorkerModel, clock: Clock, board: Board) -> Handle {
    let (commands, received) = mpsc::unbounded_channel();
    let driver = Driver {
        pool: Pool::new(model, 1),
        decode_step: model.decode_step,
        clock,
        desk: Desk::new(board.clone()),
    };
    tokio::spawn(driver.run(received));
    Handle {
        commands,
        next_request: Arc::default(),
        board,
    }
}

struct Driver {
    pool: Pool<Arc<[u64]>>,
    decode_step: Nanos,
    clock: Clock,
    desk: Desk,
}

impl Driver {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        loop {
            let next = self.pool.next_at();
            let command = match next.map(|at| self.clock.at(at)) {
                None => Wakeup::from(commands.recv().await),
                Some(at) => tokio::select! {
                    command = commands.recv() => Wakeup::from(command),
                    () = sleep_until(at) => Wakeup::Due,
                },
            };
            let now = self.clock.now();
            self.catch_up(now);
            match command {
                Wakeup::Command(command) => self.obey(command, now),
                Wakeup::Due => {}
                Wakeup::Over => return,
            }
            while let Ok(command) = commands.try_recv() {
                self.obey(command, now);
            }
            self.begin(now);
        }
    }

    /// Plays what was due by `now`, each moment at its own time.
    fn catch_up(&mut self, now: Nanos) {
        while let Some(at) = self.pool.next_at().filter(|at| *at <= now) {
            while let Some(step) = self.pool.step(at) {
                match step {
                    Step::PrefillDone { request } => self.desk.prefill_done(request, at),
                    Step::Complete { request } => self.desk.complete(request),
                }
            }
            self.begin(at);
        }
    }

    fn begin(&mut self, now: Nanos) {
        let desk = &mut self.desk;
        self.pool.start(now, &mut |batch| desk.begin(&batch));
    }

    fn obey(&mut self, command: Command, now: Nanos) {
        match command {
            Command::Submit {
                request,
                submission,
                prefill,
                last_token,
            } => {
                let output_tokens = submission.output_tokens;
                let modelled_tokens = if submission.holds_its_sequence {
                    u32::MAX
                } else {
                    output_tokens
                };
                self.pool.hand_over(
                    0,
                    Job {
                        request,
                        prompt_tokens: submission.prompt.tokens,
                        cached_tokens: 0,
                        blocks: submission.prompt.blocks,
                        output_tokens: modelled_tokens,
                    },
                );
                self.desk.enter(request, output_tokens, prefill, last_token);
            }
            Command::End { request, fate } => {
                if self.pool.cancel(request) {
                    self.desk.end(request, fate, now, self.decode_step);
                }
            }
        }
    }
}

/// Why the driver wakes up.
enum Wakeup {
    Due,
    Command(Command),
    /// Nobody can send a command any more.
    Over,
}

impl From<Option<Command>> for Wakeup {
    fn from(received: Option<Command>) -> Self {
        received.map_or(Self::Over, Self::Command)
    }
}
