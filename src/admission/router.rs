//! The two questions over HTTP: `/validate` and `/mutate`. Whatever is sent gets an answer, and before its time is up.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{Request as HttpRequest, State};
use axum::http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures::{FutureExt, StreamExt};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout_at;
use tracing::{error, info};

use super::check::check;
use super::defaults::defaults;
use super::live;
use super::metrics::Metrics;
use super::registration::self_check_question;
use super::review::Request;
use super::tls::chain;
use super::writers::Writers;
use crate::checks::{Change, Kind, Lookup, Verdict, judge};
use crate::policy::{Action, InForce};

/// Largest body that is read: a review can hold two objects of 3 MiB each.
pub(super) const BODY_LIMIT: usize = 7 * 1024 * 1024;
/// Bodies beyond the limit are read and thrown away up to here, so that the client reads our answer to them.
const DISCARD_LIMIT: usize = 4 * BODY_LIMIT;
/// A body has come by then, or its client is told that it is too slow.
const BODY_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of large bodies that are held at a time: one with much structure takes many times its size to judge.
const LARGE_AT_A_TIME: usize = 2 * BODY_LIMIT;
/// Requests that are judged at a time; further ones wait for their turn.
const JUDGED_AT_A_TIME: usize = 64;
/// Checks that are made at a time, for whoever asks. A place is held until the work ends, also when its caller is gone:
/// the API server's questions are answered by what is left of the machine.
const CHECKED_AT_A_TIME: usize = 2;
/// In what [`LARGE_AT_A_TIME`] is counted.
const KIB: usize = 1024;
/// What a caller that names no timeout gets.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bodies up to this size are judged where they were read; larger ones must not hold up others.
const INLINE: usize = 64 * 1024;

/// What both questions are answered with.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) policies: InForce,
    pub(super) lookup: Arc<dyn Lookup>,
    /// Asks the API server itself where a copy is not enough.
    pub(super) client: Option<kube::Client>,
    pub(super) writers: Arc<Writers>,
    pub(super) metrics: Metrics,
    pub(super) turns: Turns,
    /// Knows when the last request came, for a stop that drops nobody.
    pub(super) drain: Drain,
}

/// How much is done at a time.
#[derive(Clone)]
pub(super) struct Turns {
    /// Bytes of large bodies, in KiB.
    large: Arc<Semaphore>,
    /// The same of checks, which must not take it from the API server's reviews.
    large_checks: Arc<Semaphore>,
    judged: Arc<Semaphore>,
    checked: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            large: semaphore(LARGE_AT_A_TIME / KIB),
            large_checks: semaphore(BODY_LIMIT / KIB),
            judged: semaphore(JUDGED_AT_A_TIME),
            checked: semaphore(CHECKED_AT_A_TIME),
        }
    }
}

/// A body, and its place among the large ones while it is held.
struct Held {
    bytes: Bytes,
    _place: Option<OwnedSemaphorePermit>,
}

/// When the last request came, and whether we are about to stop.
#[derive(Clone, Default)]
pub(super) struct Drain(Arc<Mutex<Draining>>);

#[derive(Default)]
struct Draining {
    started: bool,
    last_request: Option<Instant>,
}

impl Drain {
    /// Notes a request; whether its client shall be told to connect anew next time.
    fn request(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.last_request = Some(Instant::now());
        state.started
    }

    /// Returns when no request came for this long.
    pub(super) async fn quiet_for(&self, quiet: Duration) {
        let started = Instant::now();
        loop {
            let last = {
                let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                state.started = true;
                state.last_request.map_or(started, |last| last.max(started))
            };
            let left = quiet.saturating_sub(last.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    Validate,
    Mutate,
    Check,
}

/// The routes, apart from any listener.
pub(super) fn router(service: Service) -> Router {
    Router::new()
        .route("/validate", post(|state, request| ask(state, request, Question::Validate)))
        .route("/mutate", post(|state, request| ask(state, request, Question::Mutate)))
        .route("/check", post(|state, request| ask(state, request, Question::Check)))
        .layer(from_fn_with_state(service.clone(), observed))
        .with_state(service)
}

/// Counts, and turns a panic into an answer.
async fn observed(State(service): State<Service>, request: HttpRequest, next: Next) -> Response {
    let path = match request.uri().path() {
        "/validate" => "/validate",
        "/mutate" => "/mutate",
        "/check" => "/check",
        _ => "other",
    };
    let in_flight = service.metrics.in_flight.with_label_values(&[path]);
    in_flight.inc();
    let started = Instant::now();
    let last = service.drain.request();
    let mut response = AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|_| {
        service.metrics.panics.inc();
        error!(path, "a review made us panic; answered with 500");
        (StatusCode::INTERNAL_SERVER_ERROR, "etcd-warden could not judge this request: internal error\n")
            .into_response()
    });
    in_flight.dec();
    if last {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    service.metrics.latency.with_label_values(&[path]).observe(started.elapsed().as_secs_f64());
    service.metrics.requests.with_label_values(&[path, response.status().as_str()]).inc();
    response
}

async fn ask(State(service): State<Service>, request: HttpRequest, question: Question) -> Response {
    let deadline = tokio::time::Instant::now() + answer_within(request.uri());
    match timeout_at(deadline, answer(&service, request, question)).await {
        Ok(Ok(review)) => Json(review).into_response(),
        Ok(Err(Refused(status, why))) => (status, format!("{why}\n")).into_response(),
        Err(_) => (StatusCode::GATEWAY_TIMEOUT, "etcd-warden could not judge this request in time; try again\n")
            .into_response(),
    }
}

/// A request that is no review, with the status to say so.
struct Refused(StatusCode, String);

async fn answer(service: &Service, request: HttpRequest, question: Question) -> Result<Value, Refused> {
    require_readable(request.headers(), question)?;
    let held = service.turns.read(request, question).await?;
    let size = held.bytes.len();
    if question == Question::Check {
        return answer_check(service, held).await;
    }
    // The semaphore is never closed; without a permit the work is done all the same.
    let _turn = service.turns.judged.acquire().await;
    let review = run(size, move || Request::parse(&held.bytes)).await;
    let review = review.map_err(|error| Refused(StatusCode::BAD_REQUEST, chain(&error)))?;
    let lookup = match question {
        Question::Validate => live::lookup(service.client.as_ref(), &service.lookup, &review).await,
        Question::Mutate | Question::Check => service.lookup.clone(),
    };
    let own = service.clone();
    Ok(run(size, move || own.decide(&review, question, &*lookup)).await)
}

/// A check may come from anybody, with templates of his own in it. It never runs where requests are read.
async fn answer_check(service: &Service, held: Held) -> Result<Value, Refused> {
    let place = service.turns.checked.clone().acquire_owned().await;
    let own = service.clone();
    let report = apart(move || {
        let report = check(&held.bytes, &own.policies.get(), &own.lookup, &own.writers, Timestamp::now());
        drop((held, place));
        report
    });
    report.await.map_err(|why| Refused(StatusCode::BAD_REQUEST, why))
}

/// Runs a judgement here if it is small, else on a thread of its own.
async fn run<T: Send + 'static>(size: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if size <= INLINE {
        return work();
    }
    apart(work).await
}

/// Runs a judgement on a thread of its own.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}

impl Turns {
    /// Reads a body. Of those that are not small, only so many are held at a time.
    async fn read(&self, request: HttpRequest, question: Question) -> Result<Held, Refused> {
        let told = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        let mut stream = request.into_body().into_data_stream();
        let (mut kept, mut seen, mut place) = (Vec::new(), 0usize, None);
        let mut patience = BODY_WITHIN;
        loop {
            // Only the client's own time is held against it, not the time that it waits for a place.
            let asked = Instant::now();
            let slow = |_| Refused(StatusCode::REQUEST_TIMEOUT, "the body did not come in time".to_owned());
            let Some(chunk) = tokio::time::timeout(patience, stream.next()).await.map_err(slow)? else { break };
            patience = patience.saturating_sub(asked.elapsed());
            let chunk = chunk.map_err(|error| Refused(StatusCode::BAD_REQUEST, chain(&error)))?;
            seen = seen.saturating_add(chunk.len());
            if seen > DISCARD_LIMIT {
                break;
            }
            if seen > BODY_LIMIT {
                (kept, place) = (Vec::new(), None);
                continue;
            }
            if seen > INLINE && place.is_none() {
                place = self.place(told.unwrap_or(BODY_LIMIT), question).await;
            }
            kept.extend_from_slice(&chunk);
        }
        if seen > BODY_LIMIT {
            return Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {BODY_LIMIT} bytes")));
        }
        Ok(Held { bytes: kept.into(), _place: place })
    }

    async fn place(&self, size: usize, question: Question) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(size.min(BODY_LIMIT).div_ceil(KIB)).unwrap_or(1);
        let places = match question {
            Question::Validate | Question::Mutate => &self.large,
            Question::Check => &self.large_checks,
        };
        places.clone().acquire_many_owned(kib).await.ok()
    }
}

impl Service {
    fn decide(&self, request: &Request, question: Question, lookup: &dyn Lookup) -> Value {
        if let Some(why) = &request.unreadable {
            let message = format!("the object cannot be read: {why}");
            return request.answer_refused(400, "BadRequest", &message);
        }
        let Some(kind) = Kind::of_resource(&request.resource.group, &request.resource.resource) else {
            return request.answer(&Verdict::default());
        };
        let change = Change {
            kind,
            operation: request.operation,
            subresource: &request.subresource,
            namespace: &request.namespace,
            name: &request.name,
            user: &request.user,
            identity: self.writers.identity(&request.user),
            object: request.object.as_ref(),
            old: request.old_object.as_ref(),
            now: Timestamp::now(),
        };
        if let (Question::Validate, Some(said)) = (question, self_check_question(request)) {
            return request.answer_refused(403, "Forbidden", &said);
        }
        match question {
            Question::Mutate => request.answer_with_patch(&defaults(&change, lookup)),
            Question::Validate | Question::Check => {
                let started = Instant::now();
                let verdict = judge(&change, &self.policies.get(), lookup);
                self.metrics.count(kind, change.operation, &verdict, started.elapsed().as_secs_f64());
                tell(request, &verdict);
                request.answer(&verdict)
            }
        }
    }
}

/// One line for each refusal: who, what and which rules, and nothing of the object's contents.
fn tell(request: &Request, verdict: &Verdict) {
    if verdict.allowed() {
        return;
    }
    let policies: Vec<&str> = verdict.with(Action::Deny).map(|finding| &*finding.policy).collect();
    info!(
        uid = request.uid,
        operation = request.operation.as_str(),
        kind = request.kind.kind,
        namespace = request.namespace,
        name = request.display_name(),
        user = request.user,
        dry_run = request.dry_run,
        policies = policies.join(","),
        "refused"
    );
}

/// Reviews are JSON. Whoever asks for a check may send YAML, whatever his tool calls it.
fn require_readable(headers: &HeaderMap, question: Question) -> Result<(), Refused> {
    if question == Question::Check {
        return Ok(());
    }
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = sent.split(';').next().unwrap_or_default().trim();
    if media.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let why = format!("content type {sent:?} is not handled: expected application/json");
    Err(Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
}

/// How long we may take: somewhat less than the caller will wait, so that it is our answer that it gets.
fn answer_within(uri: &Uri) -> Duration {
    let asked = uri
        .query()
        .into_iter()
        .flat_map(|query| query.split('&'))
        .find_map(|pair| pair.strip_prefix("timeout="))
        .and_then(seconds)
        .unwrap_or(DEFAULT_TIMEOUT);
    asked.mul_f64(0.9).max(Duration::from_millis(100))
}

/// The API server writes whole seconds (`10s`); webhooks' timeouts are 1 to 30.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    (0.0..=60.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
#[path = "operations_tests.rs"]
mod operations;
#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
