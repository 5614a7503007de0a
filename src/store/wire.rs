//! What goes over the wire to an S3 server below `object_store`: the conditions on the request that makes an object
//! visible, an end to retries at the deadline, and the store's own error code, which `object_store` keeps to itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use thiserror::Error;

use crate::net::{Fault, fault_of};

/// How long one request may take until its answer begins: enough for a part over a slow line.
const REQUEST_LIMIT: Duration = Duration::from_mins(2);

/// How long taking an upload back may take. It is tried after the deadline, too: it is the deadline's own consequence.
const WITHDRAWAL: Duration = Duration::from_secs(10);

/// How much of an error document is read.
const ERROR_LIMIT: usize = 64 << 10;

/// What must hold of the name when the object becomes visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// Nothing is there.
    Free,
    /// What is there has this entity tag.
    Unchanged(String),
    /// Anything may be there.
    Always,
}

/// A refusal, as the store worded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: String,
    pub(super) message: String,
}

/// What last went wrong: what a person wants to know when retries come to their end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The store answered, and refused.
    Refused(Refusal),
    /// The store was not reached.
    Unreachable(Fault, String),
}

/// The deadline passed before a request could begin.
#[derive(Debug, Error)]
#[error("the time given ran out")]
pub(super) struct DeadlinePassed;

#[derive(Debug)]
struct State {
    condition: Condition,
    trouble: Option<Trouble>,
}

/// The way to one S3 server. Clones share condition and last refusal.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    client: reqwest::Client,
    deadline: Option<Instant>,
    state: Arc<Mutex<State>>,
}

impl Wire {
    pub(super) fn new(client: reqwest::Client, deadline: Option<Instant>) -> Self {
        let state = State { condition: Condition::Always, trouble: None };
        Self { client, deadline, state: Arc::new(Mutex::new(state)) }
    }

    /// Sets the condition for what is made visible from now on.
    pub(super) fn require(&self, condition: Condition) {
        self.lock().condition = condition;
    }

    /// Takes what last went wrong.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.lock().trouble.take()
    }

    /// Time left for one request; `None` after the deadline.
    fn allowance(&self) -> Option<Duration> {
        match self.deadline {
            None => Some(REQUEST_LIMIT),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                (!left.is_zero()).then(|| left.min(REQUEST_LIMIT))
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let withdrawal = (*request.method() == Method::DELETE).then_some(WITHDRAWAL);
        let Some(allowance) = withdrawal.or_else(|| self.allowance()) else {
            return Err(HttpError::new(HttpErrorKind::Unknown, DeadlinePassed));
        };
        let error = match tokio::time::timeout(allowance, HttpService::call(&self.client, request)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(elapsed) => HttpError::new(HttpErrorKind::Timeout, elapsed),
        };
        let fault = fault_of(&error).unwrap_or(Fault::Connect);
        self.lock().trouble = Some(Trouble::Unreachable(fault, last_cause(&error)));
        // A handshake that failed fails again: it must not be repeated until the time is over.
        Err(if fault == Fault::Tls { HttpError::new(HttpErrorKind::Unknown, error) } else { error })
    }

    /// The header for the condition, where the request is the one that makes an object visible.
    fn condition_of(&self, request: &HttpRequest) -> Option<(HeaderName, HeaderValue)> {
        if !makes_visible(request) {
            return None;
        }
        match &self.lock().condition {
            Condition::Free => Some((IF_NONE_MATCH, HeaderValue::from_static("*"))),
            Condition::Unchanged(tag) => HeaderValue::from_str(tag).ok().map(|tag| (IF_MATCH, tag)),
            Condition::Always => None,
        }
    }
}

/// A plain PUT of the object, or the completion of a multipart upload; not a part, and not the beginning of an upload.
fn makes_visible(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let completes = *request.method() == Method::POST && query.contains("uploadId=");
    let puts = *request.method() == Method::PUT && !query.contains("partNumber=");
    completes || puts
}

#[async_trait]
impl HttpService for Wire {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let condition = self.condition_of(&request);
        let visible = makes_visible(&request);
        let mut first = request.clone();
        if let Some((name, value)) = &condition {
            first.headers_mut().insert(name, value.clone());
        }
        let mut answer = self.send(first).await?;
        if condition.is_some() && answer.status() == StatusCode::NOT_IMPLEMENTED {
            // A server without conditional writes says so; the name was looked at before, which must do.
            tracing::warn!("the store has no conditional writes: another writer in the same moment would not be seen");
            self.require(Condition::Always);
            answer = self.send(request).await?;
        }
        if answer.status().is_success() && !visible {
            return Ok(answer);
        }
        self.inspect(answer).await
    }
}

impl Wire {
    /// Remembers a refusal. S3 may begin a completion's answer with 200 and end it with an error: that is turned into
    /// the status it stands for, so that it is retried or not like any other.
    async fn inspect(&self, answer: HttpResponse) -> Result<HttpResponse, HttpError> {
        let (mut parts, body) = answer.into_parts();
        let text = read(body).await?;
        let document = String::from_utf8_lossy(&text);
        if parts.status.is_success() && document.contains("<Error>") {
            parts.status = match element(&document, "Code").as_deref() {
                Some("PreconditionFailed") => StatusCode::PRECONDITION_FAILED,
                Some("ConditionalRequestConflict") => StatusCode::CONFLICT,
                Some("NoSuchUpload") => StatusCode::NOT_FOUND,
                Some("AccessDenied") => StatusCode::FORBIDDEN,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
        }
        if !parts.status.is_success() {
            self.lock().trouble = Some(Trouble::Refused(Refusal {
                status: parts.status.as_u16(),
                code: element(&document, "Code").unwrap_or_default(),
                message: element(&document, "Message").unwrap_or_default(),
            }));
        }
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(text)))
    }
}

async fn read(body: HttpResponseBody) -> Result<Bytes, HttpError> {
    let mut stream = body.bytes_stream();
    let mut text = BytesMut::new();
    while let Some(piece) = stream.next().await {
        text.extend_from_slice(&piece?);
        if text.len() >= ERROR_LIMIT {
            text.truncate(ERROR_LIMIT);
            break;
        }
    }
    Ok(text.freeze())
}

/// The innermost cause in words. What lies around it repeats it, and names request URLs.
pub(super) fn last_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

/// The text of the first element of that name. Error documents are small and flat; this reads them wherever they
/// deviate from S3's schema, too.
fn element(document: &str, name: &str) -> Option<String> {
    let (_, rest) = document.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(text.trim().to_owned())
}

/// Hands `object_store` our way to the server.
#[derive(Debug)]
pub(super) struct Connector(pub(super) Wire);

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, uri: &str) -> HttpRequest {
        let mut request = HttpRequest::new(object_store::client::HttpRequestBody::empty());
        *request.method_mut() = method;
        *request.uri_mut() = uri.parse().unwrap();
        request
    }

    #[test]
    fn only_the_last_request_of_an_upload_makes_it_visible() {
        assert!(makes_visible(&request(Method::PUT, "https://s3/b/k")));
        assert!(makes_visible(&request(Method::POST, "https://s3/b/k?uploadId=1")));
        assert!(!makes_visible(&request(Method::POST, "https://s3/b/k?uploads=")));
        assert!(!makes_visible(&request(Method::PUT, "https://s3/b/k?partNumber=1&uploadId=1")));
        assert!(!makes_visible(&request(Method::DELETE, "https://s3/b/k?uploadId=1")));
        assert!(!makes_visible(&request(Method::HEAD, "https://s3/b/k")));
    }

    #[test]
    fn codes_are_read_from_error_documents() {
        let text = "<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>none</Message></Error>";
        assert_eq!(element(text, "Code").as_deref(), Some("NoSuchBucket"));
        assert_eq!(element("", "Code"), None);
    }
}
