//! A response's body that holds a permit.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::Permit;

pin_project! {
    /// The body of a response, with the permit of its request: the first data says that the prefill is
    /// done, and the end, or dropping the body, completes the request.
    #[derive(Debug)]
    pub struct PermitBody<B> {
        #[pin]
        inner: B,
        permit: Option<Permit>,
    }
}

impl<B: Body> PermitBody<B> {
    /// A body that has ended already holds no permit.
    pub(super) fn new(inner: B, permit: Option<Permit>) -> Self {
        let permit = permit.filter(|_| !inner.is_end_stream());
        Self { inner, permit }
    }
}

impl<B> PermitBody<B> {
    /// The body itself.
    pub const fn get_ref(&self) -> &B {
        &self.inner
    }

    /// The permit, until the body has ended; none where the request was not dispatched.
    pub const fn permit(&self) -> Option<&Permit> {
        self.permit.as_ref()
    }
}

impl<B: Body> Body for PermitBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(context));
        if let (Some(Ok(frame)), Some(permit)) = (&frame, this.permit.as_mut())
            && frame.is_data()
        {
            permit.prefill_done();
        }
        if !matches!(frame, Some(Ok(_))) || this.inner.is_end_stream() {
            *this.permit = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
