//! A request on its way through the admission and the inner service.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request as HttpRequest, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{AsRequest, Granted, PermitBody};
use crate::admission::Passage;
use crate::{AdmitError, Permit};

pin_project! {
    /// What [`AdmissionService`](super::AdmissionService) answers with. Dropping it cancels the request,
    /// or completes it if it was dispatched.
    #[must_use = "a future does nothing until it is polled"]
    pub struct ResponseFuture<S, B, M, R>
    where
        S: Service<HttpRequest<B>>,
    {
        // None: the inner service was called.
        waiting: Option<Waiting<S, B, M, R>>,
        permit: Option<Permit>,
        #[pin]
        answer: Option<S::Future>,
    }
}

/// What a request needs until it is dispatched.
struct Waiting<S, B, M, R> {
    inner: S,
    request: HttpRequest<B>,
    metadata: M,
    passage: Passage,
    respond: R,
}

impl<S: Service<HttpRequest<B>>, B, M, R> ResponseFuture<S, B, M, R> {
    pub(super) const fn new(
        inner: S,
        request: HttpRequest<B>,
        metadata: M,
        passage: Passage,
        respond: R,
    ) -> Self {
        let waiting = Waiting {
            inner,
            request,
            metadata,
            passage,
            respond,
        };
        Self {
            waiting: Some(waiting),
            permit: None,
            answer: None,
        }
    }
}

impl<S, B, M, R, ResBody> Future for ResponseFuture<S, B, M, R>
where
    S: Service<HttpRequest<B>, Response = Response<ResBody>>,
    M: AsRequest,
    R: Fn(&AdmitError) -> Response<ResBody>,
    ResBody: http_body::Body,
{
    type Output = Result<Response<PermitBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(waiting) = this.waiting {
            if this.permit.is_none() {
                let request = waiting.metadata.as_request();
                match ready!(waiting.passage.poll(&request, context)) {
                    Ok(permit) => *this.permit = Some(permit),
                    Err(error) => {
                        let response = (waiting.respond)(&error);
                        return Poll::Ready(Ok(response.map(|body| PermitBody::new(body, None))));
                    }
                }
            }
            ready!(waiting.inner.poll_ready(context))?;
        }
        if let (Some(mut waiting), Some(permit)) = (this.waiting.take(), &*this.permit) {
            let extensions = waiting.request.extensions_mut();
            extensions.insert(Granted::of(permit));
            let answer = waiting.inner.call(waiting.request);
            this.answer.set(Some(answer));
        }
        let answer = this.answer.as_mut().as_pin_mut();
        let response = ready!(answer.expect("it was called").poll(context))?;
        let permit = this.permit.take();
        Poll::Ready(Ok(response.map(|body| PermitBody::new(body, permit))))
    }
}

impl<S: Service<HttpRequest<B>>, B, M, R> fmt::Debug for ResponseFuture<S, B, M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture")
            .field("permit", &self.permit)
            .field("is_called", &self.waiting.is_none())
            .finish_non_exhaustive()
    }
}
