//! Connections: how many there may be, and how long somebody may take over a request on one of them. A client that is
//! slow on purpose must not keep others from being answered.
//!
//! An idle connection is left alone for as long as the server's idle time says; the deadlines here run from the first
//! byte of a request's head to its last, and while a client does not take its answer. Once there are as many connections
//! as there may be, the one on which nothing was asked for the longest time makes room for the next: whoever opens them
//! only to hold them holds nobody up.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::accept::Accept;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep, timeout};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower::Service;

use super::metrics::Metrics;

/// Nothing is being asked.
const IDLE: u8 = 0;
/// The head of a request is being read.
const HEAD: u8 = 1;
/// A request is being answered; its handler has deadlines of its own.
const ASKED: u8 = 2;

/// A connection that was told to make room is gone within this, or its place is not waited for.
const ROOM_WITHIN: Duration = Duration::from_secs(1);

/// Accepts connections for an inner acceptor, up to a number.
#[derive(Clone)]
pub(super) struct Guarded<A> {
    inner: A,
    lines: Arc<Lines>,
    within: Duration,
}

impl<A> Guarded<A> {
    /// At most this many connections; heads are read and answers taken within this time.
    pub(super) fn new(inner: A, connections: usize, within: Duration, metrics: Metrics) -> Self {
        let free = Arc::new(Semaphore::new(connections));
        let lines = Lines { free, open: Mutex::default(), clock: AtomicU64::default(), metrics };
        Self { inner, lines: Arc::new(lines), within }
    }
}

/// All connections.
struct Lines {
    free: Arc<Semaphore>,
    open: Mutex<Vec<Arc<Line>>>,
    /// Counts what happens on any connection: what happened earlier has the smaller number.
    clock: AtomicU64,
    metrics: Metrics,
}

/// One connection, from before its handshake.
#[derive(Default)]
struct Line {
    phase: AtomicU8,
    /// When it was opened, or when something was last asked on it.
    last: AtomicU64,
    /// Told to make room.
    close: CancellationToken,
}

impl Lines {
    /// A place, for which another connection may have to go.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = self.free.clone().try_acquire_owned() {
            return Some(permit);
        }
        if self.make_room()
            && let Ok(Ok(permit)) = timeout(ROOM_WITHIN, self.free.clone().acquire_owned()).await
        {
            return Some(permit);
        }
        self.metrics.connections_refused.inc();
        None
    }

    /// Tells the connection to go on which nothing was asked for the longest time; whether there is one.
    fn make_room(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = open.iter().filter(|line| line.phase.load(Ordering::Acquire) != ASKED && !line.close.is_cancelled());
        let Some(longest) = idle.min_by_key(|line| line.last.load(Ordering::Acquire)) else { return false };
        longest.close.cancel();
        self.metrics.connections_evicted.inc();
        true
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::AcqRel)
    }
}

impl<A, I, S> Accept<I, S> for Guarded<A>
where
    A: Accept<I, S> + Clone + Send + Sync + 'static,
    A::Future: Send + 'static,
    I: Send + 'static,
    S: Send + 'static,
{
    type Stream = GuardedStream<A::Stream>;
    type Service = GuardedService<A::Service>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let (acceptor, lines, within) = (self.inner.clone(), self.lines.clone(), self.within);
        Box::pin(async move {
            let Some(permit) = lines.place().await else { return Err(io::Error::other("too many connections")) };
            let open = Open::new(permit, &lines);
            let line = open.line.clone();
            // Whoever is told to make room is given up, in the middle of a handshake too.
            let (inner, service) = tokio::select! {
                accepted = acceptor.accept(stream, service) => accepted?,
                () = line.close.cancelled() => return Err(made_room()),
            };
            let closed = Box::pin(line.close.clone().cancelled_owned());
            let stream = GuardedStream { inner, within, reading: None, writing: None, closed, open };
            Ok((stream, GuardedService { inner: service, line, lines }))
        })
    }
}

fn made_room() -> io::Error {
    io::Error::other("closed to make room for another connection")
}

/// A connection's place among those that are allowed.
struct Open {
    _permit: OwnedSemaphorePermit,
    line: Arc<Line>,
    lines: Arc<Lines>,
}

impl Open {
    fn new(permit: OwnedSemaphorePermit, lines: &Arc<Lines>) -> Self {
        let line = Arc::new(Line { last: lines.tick().into(), ..Line::default() });
        lines.open.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
        lines.metrics.connections.inc();
        Self { _permit: permit, line, lines: lines.clone() }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.lines.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|line| !Arc::ptr_eq(line, &self.line));
        self.lines.metrics.connections.dec();
    }
}

/// A connection's bytes, with deadlines.
pub(super) struct GuardedStream<I> {
    inner: I,
    within: Duration,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    open: Open,
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
            if buffer.filled().len() > before && this.open.line.phase.load(Ordering::Acquire) == IDLE {
                this.open.line.phase.store(HEAD, Ordering::Release);
                this.reading = Some(Box::pin(sleep(this.within)));
            }
            return polled;
        }
        // A request that came just now is still answered.
        if this.open.line.phase.load(Ordering::Acquire) != ASKED && this.closed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(made_room()));
        }
        match &mut this.reading {
            Some(deadline) if this.open.line.phase.load(Ordering::Acquire) == HEAD => {
                match deadline.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Err(late("the head of a request did not come in time"))),
                    Poll::Pending => Poll::Pending,
                }
            }
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
    line: Arc<Line>,
    lines: Arc<Lines>,
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
        self.line.phase.store(ASKED, Ordering::Release);
        self.line.last.store(self.lines.tick(), Ordering::Release);
        Asked { inner: Box::pin(self.inner.call(request)), line: self.line.clone() }
    }
}

/// A request that is being answered.
pub(super) struct Asked<F> {
    inner: Pin<Box<F>>,
    line: Arc<Line>,
}

impl<F: Future> Future for Asked<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let polled = self.inner.as_mut().poll(cx);
        if polled.is_ready() {
            self.line.phase.store(IDLE, Ordering::Release);
        }
        polled
    }
}
