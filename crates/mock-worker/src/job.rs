//! A request in the model, as its handler sees it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep_until};
use tollgate_arbiter::Nanos;

use crate::clock::Clock;
use crate::desk::{Fate, Prefill};
use crate::driver::{Handle, Reports, Submission};
use crate::fault::Fault;

/// How much later the first token of a slow request is.
const SLOW: u64 = 10;

/// Says when a request's tokens are out. Dropped before the last one, it cancels the request.
#[derive(Debug)]
pub(crate) struct Job {
    lease: Lease,
    clock: Clock,
    decode_step: Nanos,
    submitted: Nanos,
    output_tokens: u32,
    fault: Option<Fault>,
    prefill: oneshot::Receiver<Prefill>,
    last_token: oneshot::Receiver<()>,
    /// Known from the first token on.
    done: Option<Prefill>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Job {
    /// Hands a request over to the model.
    pub(crate) fn submit(
        driver: &Handle,
        clock: Clock,
        decode_step: Nanos,
        submission: Submission,
        fault: Option<Fault>,
    ) -> Self {
        let output_tokens = submission.output_tokens;
        let submitted = clock.now();
        let reports = driver.submit(submission);
        let Reports {
            request,
            prefill,
            last_token,
        } = reports;
        Self {
            lease: Lease {
                driver: driver.clone(),
                request,
                fate: Some(Fate::Cancelled),
            },
            clock,
            decode_step,
            submitted,
            output_tokens,
            fault,
            prefill,
            last_token,
            done: None,
            timer: None,
        }
    }

    pub(crate) const fn output_tokens(&self) -> u32 {
        self.output_tokens
    }

    pub(crate) const fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Prompt tokens that were found in the cache; 0 before the first token.
    pub(crate) fn cached_tokens(&self) -> u32 {
        self.done.map_or(0, |prefill| prefill.cached_tokens)
    }

    /// Whether a token, from 0, is out.
    pub(crate) fn poll_token(&mut self, index: u32, cx: &mut Context<'_>) -> Poll<()> {
        if index + 1 >= self.output_tokens {
            return self.poll_end(cx);
        }
        self.poll_due(index, cx)
    }

    /// Whether all tokens are out; then the request is over.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.lease.fate.is_none() {
            return Poll::Ready(());
        }
        let prefill = ready!(self.poll_prefill(cx));
        if self.fault.is_some_and(Fault::holds_its_sequence) {
            let last = self.output_tokens.saturating_sub(1);
            ready!(self.poll_decoded(prefill, last, cx));
            self.lease.end(Fate::Completed);
            return Poll::Ready(());
        }
        match ready!(Pin::new(&mut self.last_token).poll(cx)) {
            Ok(()) => {
                // The model has ended it itself.
                self.lease.fate = None;
                Poll::Ready(())
            }
            // The worker stops, and this connection with it.
            Err(_) => Poll::Pending,
        }
    }

    /// Waits until all tokens are out, without ending the request.
    pub(crate) async fn all_tokens(&mut self) {
        let last = self.output_tokens.saturating_sub(1);
        std::future::poll_fn(|cx| self.poll_due(last, cx)).await;
    }

    /// Whether it is time for a token, without ending the request.
    pub(crate) fn poll_due(&mut self, index: u32, cx: &mut Context<'_>) -> Poll<()> {
        let prefill = ready!(self.poll_prefill(cx));
        self.poll_decoded(prefill, index, cx)
    }

    /// From now on its end counts as a failure.
    pub(crate) fn fail(&mut self) {
        if let Some(fate) = &mut self.lease.fate {
            *fate = Fate::Failed;
        }
    }

    fn poll_prefill(&mut self, cx: &mut Context<'_>) -> Poll<Prefill> {
        if let Some(prefill) = self.done {
            return Poll::Ready(prefill);
        }
        match ready!(Pin::new(&mut self.prefill).poll(cx)) {
            Ok(mut prefill) => {
                if self.fault == Some(Fault::Slow) {
                    let took = prefill.done.saturating_sub(self.submitted).0;
                    let late = Nanos(took.saturating_mul(SLOW));
                    prefill.done = self.submitted.saturating_add(late);
                }
                self.done = Some(prefill);
                Poll::Ready(prefill)
            }
            Err(_) => Poll::Pending,
        }
    }

    /// Whether it is time for a token after the prefill.
    fn poll_decoded(&mut self, prefill: Prefill, index: u32, cx: &mut Context<'_>) -> Poll<()> {
        let steps = self.decode_step.0.saturating_mul(index.into());
        let out = prefill.done.saturating_add(Nanos(steps));
        if self.clock.now() >= out {
            return Poll::Ready(());
        }
        let at = self.clock.at(out);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() != at {
            timer.as_mut().reset(at);
        }
        timer.as_mut().poll(cx)
    }
}

/// The request's place in the model; given back when it is dropped.
#[derive(Debug)]
struct Lease {
    driver: Handle,
    request: u32,
    /// How it ends when it is dropped; `None` when it is over.
    fate: Option<Fate>,
}

impl Lease {
    fn end(&mut self, fate: Fate) {
        if self.fate.take().is_some() {
            self.driver.end(self.request, fate);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(fate) = self.fate {
            self.end(fate);
        }
    }
}
