//! Connections: how many there may be, and how long somebody may take over a request on one of them. A client that is
//! slow on purpose must not keep others from being answered.
//!
//! An idle connection is left alone for as long as the server's idle time says; the deadlines here run from the first
//! byte of a request's head to its last, and while a client does not take its answer.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::accept::Accept;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tower::Service;

use super::metrics::Metrics;

/// Nothing is being asked.
const IDLE: u8 = 0;
/// The head of a request is being read.
const HEAD: u8 = 1;
/// A request is being answered; its handler has deadlines of its own.
const ASKED: u8 = 2;

/// Accepts connections for an inner acceptor, up to a number.
#[derive(Clone)]
pub(super) struct Guarded<A> {
    inner: A,
    free: Arc<Semaphore>,
    within: Duration,
    metrics: Metrics,
}

impl<A> Guarded<A> {
    /// At most this many connections; heads are read and answers taken within this time.
    pub(super) fn new(inner: A, connections: usize, within: Duration, metrics: Metrics) -> Self {
        Self { inner, free: Arc::new(Semaphore::new(connections)), within, metrics }
    }
}

impl<A, I, S> Accept<I, S> for Guarded<A>
where
    A: Accept<I, S>,
    A::Future: Send + 'static,
{
    type Stream = GuardedStream<A::Stream>;
    type Service = GuardedService<A::Service>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let Ok(permit) = self.free.clone().try_acquire_owned() else {
            self.metrics.connections_refused.inc();
            return Box::pin(async { Err(io::Error::other("too many connections")) });
        };
        let open = Open::new(permit, &self.metrics);
        let (accepted, within) = (self.inner.accept(stream, service), self.within);
        Box::pin(async move {
            let (inner, service) = accepted.await?;
            let phase = Arc::new(AtomicU8::new(IDLE));
            let stream =
                GuardedStream { inner, phase: phase.clone(), within, reading: None, writing: None, _open: open };
            Ok((stream, GuardedService { inner: service, phase }))
        })
    }
}

/// A connection's place among those that are allowed.
struct Open {
    _permit: OwnedSemaphorePermit,
    metrics: Metrics,
}

impl Open {
    fn new(permit: OwnedSemaphorePermit, metrics: &Metrics) -> Self {
        metrics.connections.inc();
        Self { _permit: permit, metrics: metrics.clone() }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.metrics.connections.dec();
    }
}

/// A connection's bytes, with deadlines.
pub(super) struct GuardedStream<I> {
    inner: I,
    phase: Arc<AtomicU8>,
    within: Duration,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
    _open: Open,
}

impl<I> GuardedStream<I> {
    /// Fails what cannot go on when its time is up; the time starts when it first could not.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.writing = None;
            return polled;
        }
        let within = self.within;
        let deadline = self.writing.get_or_insert_with(|| Box::pin(sleep(within)));
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(late("the answer was not taken in time"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn late(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<I: AsyncRead + Unpin> AsyncRead for GuardedStream<I> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.inner).poll_read(cx, buffer);
        if polled.is_ready() {
            if buffer.filled().len() > before && this.phase.load(Ordering::Acquire) == IDLE {
                this.phase.store(HEAD, Ordering::Release);
                this.reading = Some(Box::pin(sleep(this.within)));
            }
            return polled;
        }
        match &mut this.reading {
            Some(deadline) if this.phase.load(Ordering::Acquire) == HEAD => match deadline.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(late("the head of a request did not come in time"))),
                Poll::Pending => Poll::Pending,
            },
            _ => Poll::Pending,
        }
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for GuardedStream<I> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_write(cx, bytes);
        this.bounded(cx, polled)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_flush(cx);
        this.bounded(cx, polled)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_shutdown(cx);
        this.bounded(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_write_vectored(cx, slices);
        this.bounded(cx, polled)
    }
}

/// What answers a connection's requests; tells the stream which part of one is on.
#[derive(Clone)]
pub(super) struct GuardedService<S> {
    inner: S,
    phase: Arc<AtomicU8>,
}

impl<S, R> Service<R> for GuardedService<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Asked<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.phase.store(ASKED, Ordering::Release);
        Asked { inner: Box::pin(self.inner.call(request)), phase: self.phase.clone() }
    }
}

/// A request that is being answered.
pub(super) struct Asked<F> {
    inner: Pin<Box<F>>,
    phase: Arc<AtomicU8>,
}

impl<F: Future> Future for Asked<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let polled = self.inner.as_mut().poll(cx);
        if polled.is_ready() {
            self.phase.store(IDLE, Ordering::Release);
        }
        polled
    }
}
