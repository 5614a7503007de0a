//! The frame that every controller runs in: one reconcile at a time for each object and any number side by side,
//! retries that slow down, a deadline, a panic that ends one reconcile and nothing else, and controller-runtime's
//! metrics.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use kube::Resource;
use kube::runtime::controller::{Action, Config, Error as ApplierError, applier};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, debug, error, info, info_span, warn};

use super::metrics::{Outcome, ReconcileMetrics};
use crate::k8s::error::{Class, class, message};

/// The first pause after a failure; it doubles with every further one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The longest that one reconcile may take.
const DEADLINE: Duration = Duration::from_mins(1);
/// How long reconciles that are under way may go on once the controller was told to stop. Shorter than the time
/// between a leader that stops by itself and the moment when another may lead.
const GRACE: Duration = Duration::from_secs(1);

/// When an object is looked at again, if nothing changes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Only when something changes.
    OnChange,
    /// After this time at the latest.
    After(Duration),
}

/// What a reconcile may fail with.
pub trait Failure: StdError + Send + Sync + 'static {
    /// Whether another try may succeed with nothing changed. A failure that is not retried waits for a change.
    fn is_retried(&self) -> bool;
}

/// One controller: makes the world match objects of one kind.
pub trait Reconciler: Send + Sync + 'static {
    /// The kind.
    type Kind: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static;
    /// What a reconcile may fail with.
    type Error: Failure;
    /// The controller's name in metrics and logs, such as `etcdcluster`.
    const NAME: &'static str;

    /// Looks at one object, of which the frame hands in the newest known copy, and does what is due. May be stopped at
    /// any point: every step is safe to lose and to repeat.
    fn reconcile(&self, object: Arc<Self::Kind>) -> impl Future<Output = Result<Next, Self::Error>> + Send;
}

/// Why a reconcile did not end well.
#[derive(Debug, thiserror::Error)]
enum Broken<E: StdError + 'static> {
    #[error(transparent)]
    Failed(E),
    #[error("the reconcile did not end within {} s", DEADLINE.as_secs())]
    TooLong,
    #[error("the reconcile panicked: {0}")]
    Panicked(String),
}

impl<E: Failure> Broken<E> {
    fn is_retried(&self) -> bool {
        match self {
            Self::Failed(error) => error.is_retried(),
            Self::TooLong | Self::Panicked(_) => true,
        }
    }
}

struct Work<R: Reconciler>
where
    ObjectRef<R::Kind>: Hash + Eq,
{
    reconciler: R,
    metrics: ReconcileMetrics,
    failures: Mutex<HashMap<ObjectRef<R::Kind>, u32>>,
}

/// Runs a controller until `stop`, which also is the leadership that its writes are made under: from then on nothing
/// new is begun, and what is under way is dropped after a grace period of one second.
pub async fn run<R: Reconciler>(
    reconciler: R,
    store: Store<R::Kind>,
    triggers: impl Stream<Item = ObjectRef<R::Kind>> + Send + 'static,
    metrics: ReconcileMetrics,
    stop: CancellationToken,
) {
    let work = Arc::new(Work { reconciler, metrics, failures: Mutex::default() });
    let queue = triggers.map(Ok::<_, Infallible>).take_until(stop.clone().cancelled_owned());
    let results = applier(
        start::<R>,
        |object, error, work| pause(&object, error, &work),
        work.clone(),
        store,
        Box::pin(queue),
        Config::default(),
    );
    let drained = results.for_each(|result| {
        // A failure was told by the error policy; an object that is gone needs no more tries.
        if let Err(ApplierError::ObjectNotFound(gone)) = result {
            debug!(controller = R::NAME, object = %gone, "object is gone");
        }
        std::future::ready(())
    });
    info!(controller = R::NAME, "controller started");
    let give_up = stop.cancelled().then(|()| tokio::time::sleep(GRACE));
    // Dropping the stream aborts reconciles, which are made to be stopped anywhere.
    tokio::select! {
        () = drained => {}
        () = give_up => warn!(controller = R::NAME, "reconciles dropped at shutdown"),
    }
    info!(controller = R::NAME, "controller stopped");
}

/// Starts one reconcile as a task of its own, so that objects do not wait for each other.
fn start<R: Reconciler>(
    object: Arc<R::Kind>,
    work: Arc<Work<R>>,
) -> impl Future<Output = Result<Action, Broken<R::Error>>> + Unpin {
    let name = ObjectRef::from_obj(object.as_ref());
    let span =
        info_span!(parent: None, "reconcile", controller = R::NAME, namespace = name.namespace, name = name.name);
    AbortOnDropHandle::new(tokio::spawn(attempt(object, work).instrument(span))).map(|joined| match joined {
        Ok(result) => result,
        Err(error) => Err(Broken::Panicked(panic_text(error))),
    })
}

async fn attempt<R: Reconciler>(object: Arc<R::Kind>, work: Arc<Work<R>>) -> Result<Action, Broken<R::Error>> {
    let _active = work.metrics.begin();
    let started = Instant::now();
    let result = tokio::time::timeout(DEADLINE, work.reconciler.reconcile(object.clone())).await;
    work.metrics.took(started.elapsed());
    match result {
        Err(_) => Err(Broken::TooLong),
        Ok(Err(error)) => Err(Broken::Failed(error)),
        Ok(Ok(next)) => {
            lock(&work.failures).remove(&ObjectRef::from_obj(object.as_ref()));
            Ok(match next {
                Next::OnChange => {
                    work.metrics.count(Outcome::Success);
                    Action::await_change()
                }
                Next::After(pause) => {
                    work.metrics.count(Outcome::RequeueAfter);
                    Action::requeue(pause)
                }
            })
        }
    }
}

/// What follows a failure: counted, told, and tried again after a pause that grows.
fn pause<R: Reconciler>(object: &Arc<R::Kind>, broken: &Broken<R::Error>, work: &Work<R>) -> Action {
    let name = ObjectRef::from_obj(object.as_ref());
    let retried = broken.is_retried();
    work.metrics.count(Outcome::Error { retried, panicked: matches!(broken, Broken::Panicked(_)) });
    if !retried {
        error!(controller = R::NAME, object = %name, error = chain(broken), "reconcile failed; waiting for a change");
        return Action::await_change();
    }
    let pause = {
        let mut failures = lock(&work.failures);
        let count = failures.entry(name.clone()).or_default();
        let pause = backoff(*count);
        *count = count.saturating_add(1);
        pause
    };
    if is_conflict(broken) {
        debug!(controller = R::NAME, object = %name, error = chain(broken), retry_in = ?pause, "the object has changed");
    } else {
        warn!(controller = R::NAME, object = %name, error = chain(broken), retry_in = ?pause, "reconcile failed");
    }
    Action::requeue(pause)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn backoff(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures.min(16))).min(LONGEST_PAUSE)
}

/// Whether an error says no more than that somebody else wrote first: the ordinary way of things.
fn is_conflict(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(api) = error.downcast_ref::<kube::Error>() {
            return class(api) == Class::Conflict;
        }
        next = error.source();
    }
    false
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else { return "its task was cancelled".to_owned() };
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

/// An error and its sources in one line. A source whose text the line ends with already is not repeated.
#[must_use]
pub fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // What the API server said is one sentence; the client's own types around it are of no use to anybody.
        let api = cause.downcast_ref::<kube::Error>();
        let cause_text = api.map_or_else(|| cause.to_string(), message);
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = if api.is_some() { None } else { cause.source() };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_and_ends_growing() {
        assert_eq!(backoff(0), Duration::from_millis(200));
        assert_eq!(backoff(3), Duration::from_millis(1600));
        assert_eq!(backoff(8), LONGEST_PAUSE);
        assert_eq!(backoff(u32::MAX), LONGEST_PAUSE);
    }

    /// Hangs over one object, and says when it has seen another.
    struct Hangs(tokio::sync::mpsc::UnboundedSender<String>);

    impl Reconciler for Hangs {
        type Kind = k8s_openapi::api::core::v1::ConfigMap;
        type Error = crate::controller::writes::Error;
        const NAME: &'static str = "hangs";

        async fn reconcile(&self, object: Arc<Self::Kind>) -> Result<Next, Self::Error> {
            let name = object.metadata.name.clone().unwrap_or_default();
            if name.starts_with("broken") {
                std::future::pending::<()>().await;
            }
            self.0.send(name).unwrap();
            Ok(Next::OnChange)
        }
    }

    #[tokio::test]
    async fn n1_objects_that_get_no_answer_hold_up_no_other() {
        use kube::runtime::watcher::Event;

        let (store, mut writer) = kube::runtime::reflector::store();
        let names: Vec<String> = (0..50).map(|n| format!("broken-{n}")).chain(["healthy".to_owned()]).collect();
        let objects = names.iter().map(|name| {
            let mut object = k8s_openapi::api::core::v1::ConfigMap::default();
            object.metadata.name = Some(name.clone());
            object
        });
        let objects: Vec<_> = objects.collect();
        let events = objects.iter().cloned().map(Event::InitApply);
        for event in std::iter::once(Event::Init).chain(events).chain([Event::InitDone]) {
            writer.apply_watcher_event(&event);
        }
        let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
        let metrics = crate::runtime::metrics::Metrics::new("test", "1").unwrap();
        let metrics = crate::controller::metrics::ControllerMetrics::new(&metrics).unwrap().of("hangs");
        let all: Vec<_> = objects.iter().map(ObjectRef::from_obj).collect();
        let triggers = futures::stream::iter(all).chain(futures::stream::pending());
        let running = tokio::spawn(run(Hangs(sender), store, triggers, metrics, CancellationToken::new()));
        let seen = tokio::time::timeout(Duration::from_secs(5), told.recv()).await;
        assert_eq!(seen, Ok(Some("healthy".to_owned())));
        running.abort();
    }

    #[test]
    fn only_an_object_that_changed_is_no_failure_to_speak_of() {
        let answered = |code: u16, reason: &str| {
            let status = kube::core::Status { code, reason: reason.to_owned(), ..kube::core::Status::default() };
            let source = kube::Error::Api(Box::new(status));
            Broken::Failed(crate::controller::writes::Error::Api { doing: "write", source })
        };
        assert!(is_conflict(&answered(409, "Conflict")));
        assert!(!is_conflict(&answered(409, "AlreadyExists")));
        assert!(!is_conflict(&answered(403, "Forbidden")));
        assert!(!is_conflict(&Broken::<crate::controller::writes::Error>::TooLong));
    }

    #[test]
    fn a_chain_of_errors_is_one_line() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot write the file")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("disk full"));
        assert_eq!(chain(&error), "cannot write the file: disk full");
    }
}
