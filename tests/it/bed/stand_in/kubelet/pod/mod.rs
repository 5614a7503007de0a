//! One Pod from its creation to its end: a task that hears of everything in one queue, does what is due, and writes the
//! status when it has changed.

mod containers;
mod probes;
mod schedule;
mod spec;
mod status;
mod track;
mod volumes;

use super::context::Context;
use super::runtime::Exit;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use std::fmt::Display;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use track::{State, Stop, Track};
use volumes::Volumes;
pub use volumes::bytes;

/// The next try of what could not be done: an image, a Secret, a volume, a write.
const RETRY: Duration = Duration::from_millis(200);
/// What containers get between SIGTERM and SIGKILL when the Pod's object has gone by force.
const FORCED_GRACE: Duration = Duration::from_secs(1);
const FAR: Duration = Duration::from_hours(1);

/// What a Pod's task hears of.
#[derive(Debug)]
pub enum Event {
    /// The object, new or changed.
    Changed(Box<Pod>),
    /// The object is gone.
    Gone,
    /// A container's process has ended.
    Exited {
        /// Which container.
        index: usize,
        /// Which process of it.
        id: String,
        /// How.
        exit: Exit,
    },
    /// A container's probes have something to tell.
    Told {
        /// Which container.
        index: usize,
        /// Which process of it.
        id: String,
        /// What.
        told: Told,
    },
}

/// What probes tell.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    /// The startup probe has succeeded.
    Started,
    /// What the readiness probe says has changed.
    Ready(bool),
    /// The startup or liveness probe has failed.
    Unhealthy,
}

/// Why something cannot be done.
#[derive(Clone, Debug)]
pub enum Problem {
    /// It may work later.
    Wait(String),
    /// It is beyond this stand-in.
    Never(String),
}

impl Problem {
    fn wait(why: impl Display) -> Self {
        Self::Wait(why.to_string())
    }

    fn never(why: impl Display) -> Self {
        Self::Never(why.to_string())
    }
}

/// Where a Pod is.
#[derive(Clone, Debug)]
enum Stage {
    /// Not on a node yet; why.
    Unscheduled(String),
    /// Volumes and network are being made.
    Preparing,
    /// Containers run.
    Active,
    /// Containers are being stopped, for a reason.
    Stopping(Reason),
    /// No container will run again.
    Ended(status::Verdict),
}

#[derive(Clone, Debug)]
enum Reason {
    /// The object is being deleted.
    Deleted,
    /// The object is gone.
    Gone,
    /// To fail with this verdict.
    Failed(status::Verdict),
}

/// The task's state.
pub struct Worker {
    context: Context,
    pod: Pod,
    gone: bool,
    inbox: UnboundedReceiver<Event>,
    outbox: UnboundedSender<Event>,
    stage: Stage,
    tracks: Vec<Track>,
    volumes: Volumes,
    address: Option<Ipv4Addr>,
    connected: bool,
    folder: PathBuf,
    since: Option<(Time, Instant)>,
    retry: Option<Instant>,
    written: Option<PodStatus>,
}

impl Worker {
    /// Starts the task of a Pod; what is sent to it are the events of the object.
    pub fn start(context: Context, pod: Pod) -> UnboundedSender<Event> {
        let (outbox, inbox) = unbounded_channel();
        let spec = pod.spec.clone().unwrap_or_default();
        let mut tracks: Vec<Track> =
            spec.init_containers.into_iter().flatten().map(|container| Track::new(container, true)).collect();
        tracks.extend(spec.containers.into_iter().map(|container| Track::new(container, false)));
        let folder = context.runtime.folder().join("pods").join(pod.uid().unwrap_or_default());
        let worker = Self {
            context,
            pod,
            gone: false,
            inbox,
            outbox: outbox.clone(),
            stage: Stage::Unscheduled(String::new()),
            tracks,
            volumes: Volumes::default(),
            address: None,
            connected: false,
            folder,
            since: None,
            retry: None,
            written: None,
        };
        tokio::spawn(worker.run());
        outbox
    }

    async fn run(mut self) {
        loop {
            if !matches!(self.stage, Stage::Unscheduled(_)) {
                self.context.resumed().await;
            }
            while let Ok(event) = self.inbox.try_recv() {
                self.hear(event);
            }
            self.retry = None;
            if self.step().await {
                return;
            }
            self.publish().await;
            let due = self.due();
            // Receiving is safe to give up: an event that was not returned is still in the queue.
            if let Ok(Some(event)) = tokio::time::timeout_at(due, self.inbox.recv()).await {
                if !matches!(self.stage, Stage::Unscheduled(_)) {
                    self.context.resumed().await;
                }
                self.hear(event);
            }
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Changed(pod) => self.pod = *pod,
            Event::Gone => self.gone = true,
            Event::Exited { index, id, exit } => self.exited(index, id, exit),
            Event::Told { index, id, told } => self.told(index, &id, told),
        }
    }

    /// Does what can be done now; true at the very end.
    async fn step(&mut self) -> bool {
        if self.gone && !matches!(self.stage, Stage::Stopping(Reason::Gone)) {
            self.stop_all(FORCED_GRACE);
            self.stage = Stage::Stopping(Reason::Gone);
        } else if self.to_be_deleted() {
            let grace = self.pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
            self.stop_all(Duration::from_secs(u64::try_from(grace).unwrap_or_default()));
            self.stage = Stage::Stopping(Reason::Deleted);
        } else if self.overdue() {
            let message = Some("Pod was active on the node longer than the specified deadline".to_owned());
            self.fail(status::Verdict { phase: "Failed", reason: Some("DeadlineExceeded"), message });
        }
        if matches!(self.stage, Stage::Unscheduled(_)) {
            self.schedule().await;
            if matches!(self.stage, Stage::Preparing) {
                self.context.resumed().await;
            }
        }
        if matches!(self.stage, Stage::Preparing) {
            self.prepare().await;
        }
        if matches!(self.stage, Stage::Active) {
            self.advance().await;
        }
        match self.stage.clone() {
            Stage::Stopping(reason) => self.stop(reason).await,
            Stage::Unscheduled(_) | Stage::Preparing | Stage::Active | Stage::Ended(_) => false,
        }
    }

    fn to_be_deleted(&self) -> bool {
        let begun = match self.stage {
            // Never on a node: the API server removes it by itself.
            Stage::Unscheduled(_) | Stage::Stopping(Reason::Deleted | Reason::Gone) => true,
            Stage::Preparing | Stage::Active | Stage::Ended(_) | Stage::Stopping(Reason::Failed(_)) => false,
        };
        self.pod.metadata.deletion_timestamp.is_some() && !begun
    }

    fn deadline(&self) -> Option<Instant> {
        if !matches!(self.stage, Stage::Preparing | Stage::Active) {
            return None;
        }
        let seconds = self.pod.spec.as_ref()?.active_deadline_seconds?;
        Some(self.since.as_ref()?.1 + Duration::from_secs(u64::try_from(seconds).ok()?))
    }

    fn overdue(&self) -> bool {
        self.deadline().is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn fail(&mut self, verdict: status::Verdict) {
        let grace = self.pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds).unwrap_or(30);
        self.stop_all(Duration::from_secs(u64::try_from(grace).unwrap_or_default()));
        self.stage = Stage::Stopping(Reason::Failed(verdict));
    }

    fn refuse(&mut self, message: String) {
        self.fail(status::Verdict { phase: "Failed", reason: Some("BeyondStandIn"), message: Some(message) });
    }

    fn stop_all(&mut self, grace: Duration) {
        for track in &mut self.tracks {
            if let State::Running { stop, .. } = &mut track.state {
                *stop = match *stop {
                    Stop::No | Stop::Asked(_) => Stop::Asked(grace),
                    Stop::Terminated(until) => Stop::Terminated(until.min(Instant::now() + grace)),
                    Stop::Killed => Stop::Killed,
                };
            }
        }
    }

    /// Stops what runs, and when nothing does, ends the Pod; true when its object needs nothing more.
    async fn stop(&mut self, reason: Reason) -> bool {
        for index in 0..self.tracks.len() {
            self.press(index).await;
        }
        if self.tracks.iter().any(|track| track.running().is_some()) {
            return false;
        }
        self.disconnect().await;
        match reason {
            Reason::Failed(verdict) => {
                self.stage = Stage::Ended(verdict);
                false
            }
            Reason::Gone => {
                self.clean();
                true
            }
            Reason::Deleted => {
                self.publish().await;
                self.clean();
                self.delete().await
            }
        }
    }

    /// Network and memory volumes end with the last container.
    async fn disconnect(&mut self) {
        if !std::mem::take(&mut self.connected) {
            return;
        }
        let uid = self.pod.uid().unwrap_or_default();
        if let Err(error) = self.context.runtime.release(&uid, &self.volumes.memory).await {
            self.note(format!("its network could not be released: {error}"));
        }
        if let Some(address) = self.address {
            self.context.give_back(address);
        }
    }

    fn clean(&self) {
        // Absent if nothing was prepared.
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    async fn delete(&mut self) -> bool {
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: self.pod.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        match self.pods().delete(&self.pod.name_any(), &now).await {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => true,
            Err(_) => {
                self.retry_in(RETRY);
                false
            }
        }
    }

    fn retry_in(&mut self, pause: Duration) {
        let at = Instant::now() + pause;
        self.retry = Some(self.retry.map_or(at, |retry| retry.min(at)));
    }

    fn due(&self) -> Instant {
        let mut due = self.retry.unwrap_or_else(|| Instant::now() + FAR);
        if matches!(self.stage, Stage::Active | Stage::Stopping(_)) {
            due = self.tracks.iter().filter_map(Track::due).fold(due, Instant::min);
        }
        self.deadline().map_or(due, |deadline| due.min(deadline))
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.context.client.clone(), &self.pod.namespace().unwrap_or_default())
    }

    /// Writes the status if it differs from what was written last.
    async fn publish(&mut self) {
        if self.gone {
            return;
        }
        let verdict = match &self.stage {
            Stage::Ended(verdict) => Some(verdict.clone()),
            // Only ever written when nothing runs any more, right before the object goes.
            Stage::Stopping(Reason::Deleted) if self.tracks.iter().all(|t| t.running().is_none()) => {
                Some(status::Verdict { phase: self.outcome(), reason: None, message: None })
            }
            _ => None,
        };
        let scheduled = match &self.stage {
            Stage::Unscheduled(why) if why.is_empty() => return,
            Stage::Unscheduled(why) => Err(why.clone()),
            _ => Ok(()),
        };
        let now = Time(Timestamp::now());
        let known = status::Known {
            pod: &self.pod,
            tracks: &self.tracks,
            verdict: verdict.as_ref(),
            scheduled,
            address: self.address,
            node: self.context.runtime.address(),
            since: self.since.as_ref().map(|(since, _)| since),
            now: &now,
            before: self.written.as_ref().or(self.pod.status.as_ref()),
        };
        let status = known.status();
        if self.written.as_ref() == Some(&status) {
            return;
        }
        let patch = serde_json::json!({"metadata": {"uid": self.pod.uid()}, "status": status});
        // Strategic, like the kubelet's: conditions of others stay.
        match self.pods().patch_status(&self.pod.name_any(), &PatchParams::default(), &Patch::Strategic(&patch)).await {
            Ok(_) => self.written = Some(status),
            // Gone or replaced; the watch will say so.
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => {}
            Err(error) => {
                self.note(format!("its status could not be written: {error}"));
                self.retry_in(RETRY);
            }
        }
    }

    fn note(&self, what: impl Display) {
        self.context.note(format!("Pod {}/{}: {what}", self.pod.namespace().unwrap_or_default(), self.pod.name_any()));
    }

    fn outcome(&self) -> &'static str {
        if self.tracks.iter().filter(|t| !t.init).all(Track::succeeded) { "Succeeded" } else { "Failed" }
    }
}
