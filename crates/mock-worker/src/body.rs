//! The bodies of answers: whole, by frames, or broken on request.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::fault::Fault;
use crate::frames::{Cue, Frames};
use crate::job::Job;
use crate::wire::{Break, Switch};

/// A frame of a stream that is not JSON.
const GARBAGE_FRAME: &[u8] = b"data: {\"id\": nonsense\n\n";

/// The body of an answer.
#[derive(Debug)]
pub(crate) struct Body(Kind);

#[derive(Debug)]
enum Kind {
    Whole(Option<Bytes>),
    /// The first half of a body; the rest never comes. The job is over when the client leaves.
    Half {
        half: Option<Bytes>,
        declared: usize,
        _job: Box<Job>,
    },
    Stream(Box<Stream>),
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Whole(Some(bytes.into())))
    }

    /// Half of a body whose whole length is declared.
    pub(crate) fn half(whole: &Bytes, job: Job) -> Self {
        Self(Kind::Half {
            half: Some(whole.slice(..whole.len() / 2)),
            declared: whole.len(),
            _job: Box::new(job),
        })
    }

    /// A frame a token, as the job's tokens come out.
    pub(crate) fn stream(job: Job, frames: Frames, switch: Switch) -> Self {
        Self(Kind::Stream(Box::new(Stream {
            job,
            frames,
            switch,
            is_broken: false,
        })))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match &mut self.0 {
            Kind::Whole(whole) => whole.take(),
            Kind::Half { half, .. } => match half.take() {
                Some(half) => Some(half),
                None => return Poll::Pending,
            },
            Kind::Stream(stream) => ready!(stream.poll_next(cx)),
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(whole) => SizeHint::with_exact(whole.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Half { declared, .. } => SizeHint::with_exact(*declared as u64),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}

#[derive(Debug)]
struct Stream {
    job: Job,
    frames: Frames,
    switch: Switch,
    is_broken: bool,
}

impl Stream {
    /// The next frame, when its token is out.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.is_broken {
            return Poll::Pending;
        }
        let Some(frame) = self.frames.current() else {
            return Poll::Ready(None);
        };
        match frame.cue() {
            Cue::Nothing => {}
            Cue::Token(index) => {
                if let Some(fault) = self.fault_at(index) {
                    return self.poll_break(fault, index, cx);
                }
                ready!(self.job.poll_token(index, cx));
            }
            Cue::End => ready!(self.job.poll_end(cx)),
        }
        let bytes = match self.job.fault() {
            Some(Fault::GarbageBody) => Bytes::from_static(GARBAGE_FRAME),
            _ => self.frames.build(frame, self.job.cached_tokens()),
        };
        self.frames.advance();
        Poll::Ready(Some(bytes))
    }

    /// The fault that keeps a token from being sent.
    fn fault_at(&self, index: u32) -> Option<Fault> {
        let breaks = |fault: &Fault| matches!(fault, Fault::Stall | Fault::Cut | Fault::ResetAfter);
        let is_second_half = index >= self.job.output_tokens() / 2;
        self.job
            .fault()
            .filter(|fault| is_second_half && breaks(fault))
    }

    /// Breaks the stream off where the frame of a token should go. After that nothing comes any more.
    fn poll_break(
        &mut self,
        fault: Fault,
        index: u32,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Bytes>> {
        if fault == Fault::Stall {
            return Poll::Pending;
        }
        ready!(self.job.poll_due(index, cx));
        self.is_broken = true;
        self.job.fail();
        if fault == Fault::ResetAfter {
            // Hyper flushes after it has looked here, and finds the switch.
            self.switch.arm(Break::Reset);
            return Poll::Pending;
        }
        self.switch.arm(Break::Close);
        let frame = self.frames.current().expect("a frame is to be sent");
        let whole = self.frames.build(frame, 0);
        Poll::Ready(Some(whole.slice(..whole.len() / 2)))
    }
}
