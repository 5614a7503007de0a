//! What is known of one container of a Pod.

use crate::bed::stand_in::kubelet::runtime::Exit;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The second restart in a row waits this long, each further one twice as long as the one before. Kubernetes begins with
/// 10 seconds.
const BACK_OFF: Duration = Duration::from_millis(250);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(4);
/// A container that ran for this long starts over with the back-off. Kubernetes takes 10 minutes.
const WELL_AFTER: Duration = Duration::from_secs(10);

/// Why a container whose turn has not come is waiting.
pub const CREATING: &str = "ContainerCreating";
/// The same while init containers run.
pub const INITIALISING: &str = "PodInitializing";
/// Why one that ended again and again is waiting.
pub const BACKING_OFF: &str = "CrashLoopBackOff";

/// A container over all of its restarts.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, most of which go on the wire as such")]
pub struct Track {
    pub spec: Container,
    pub init: bool,
    pub state: State,
    pub last: Option<Ended>,
    pub starts: u32,
    pub started: bool,
    pub ready: bool,
    /// When it may be started; at once if absent.
    pub not_before: Option<Instant>,
    /// Whether a start that a test slowed down has been held back already.
    pub held_back: bool,
    pub probes: Option<AbortHandle>,
    back_off: Option<Duration>,
}

/// What it is doing.
#[derive(Debug)]
pub enum State {
    /// Not running yet, or not again.
    Waiting { reason: &'static str, message: Option<String> },
    /// Running.
    Running { id: String, since: Time, at: Instant, stop: Stop },
    /// Over, perhaps only until the next start.
    Ended(Ended),
}

/// How far it is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// It may run.
    No,
    /// It is to get SIGTERM, and SIGKILL after this time.
    Asked(Duration),
    /// It got SIGTERM, and gets SIGKILL at this time.
    Terminated(Instant),
    /// It got SIGKILL.
    Killed,
}

/// How it ended.
#[derive(Clone, Debug)]
pub struct Ended {
    pub id: String,
    pub exit: Exit,
    pub reason: String,
    pub message: Option<String>,
    pub since: Option<Time>,
    pub until: Time,
}

impl Track {
    pub fn new(spec: Container, init: bool) -> Self {
        Self {
            spec,
            init,
            state: State::Waiting { reason: if init { CREATING } else { INITIALISING }, message: None },
            last: None,
            starts: 0,
            started: false,
            ready: false,
            not_before: None,
            held_back: false,
            probes: None,
            back_off: None,
        }
    }

    pub fn wait(&mut self, reason: &'static str, message: Option<String>, until: Option<Instant>) {
        self.state = State::Waiting { reason, message };
        self.not_before = until;
    }

    pub fn running(&self) -> Option<&str> {
        match &self.state {
            State::Running { id, .. } => Some(id),
            State::Waiting { .. } | State::Ended(_) => None,
        }
    }

    pub fn succeeded(&self) -> bool {
        matches!(&self.state, State::Ended(ended) if ended.exit.code == 0)
    }

    /// Takes note of an end.
    pub fn end(&mut self, ended: Ended, at: Instant) {
        if let State::Running { at: since, .. } = self.state
            && at - since > WELL_AFTER
        {
            self.back_off = None;
        }
        if let Some(probes) = self.probes.take() {
            probes.abort();
        }
        self.state = State::Ended(ended);
        self.started = false;
        self.ready = false;
        self.held_back = false;
    }

    /// Turns an end into waiting for the next start: at once for the first, with growing pauses for those after it.
    pub fn back_off(&mut self, now: Instant) {
        let State::Ended(ended) = &self.state else { return };
        let message = format!("the last run ended with exit code {}", ended.exit.code);
        self.last = Some(ended.clone());
        let pause = self.back_off;
        self.back_off = Some(pause.map_or(BACK_OFF, |pause| (pause * 2).min(LONGEST_BACK_OFF)));
        self.wait(BACKING_OFF, Some(message), pause.map(|pause| now + pause));
    }

    /// When something is to be done about it by itself.
    pub fn due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { .. } => self.not_before,
            State::Running { stop: Stop::Terminated(until), .. } => Some(until),
            State::Running { .. } | State::Ended(_) => None,
        }
    }

    pub fn status(&self) -> ContainerStatus {
        let id = match (&self.state, &self.last) {
            (State::Running { id, .. } | State::Ended(Ended { id, .. }), _) => Some(id),
            (State::Waiting { .. }, Some(last)) => Some(&last.id),
            (State::Waiting { .. }, None) => None,
        };
        let image = self.spec.image.clone().unwrap_or_default();
        ContainerStatus {
            name: self.spec.name.clone(),
            state: Some(self.wire_state()),
            last_state: self.last.as_ref().map(terminated),
            ready: if self.init { self.succeeded() } else { self.ready },
            started: Some(self.started),
            restart_count: i32::try_from(self.starts.saturating_sub(1)).unwrap_or(i32::MAX),
            image_id: format!("stand-in://{image}"),
            image,
            container_id: id.map(|id| format!("stand-in://{id}")),
            ..ContainerStatus::default()
        }
    }

    fn wire_state(&self) -> ContainerState {
        match &self.state {
            State::Waiting { reason, message } => ContainerState {
                waiting: Some(ContainerStateWaiting { reason: Some((*reason).to_owned()), message: message.clone() }),
                ..ContainerState::default()
            },
            State::Running { since, .. } => ContainerState {
                running: Some(ContainerStateRunning { started_at: Some(since.clone()) }),
                ..ContainerState::default()
            },
            State::Ended(ended) => terminated(ended),
        }
    }
}

fn terminated(ended: &Ended) -> ContainerState {
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            container_id: Some(format!("stand-in://{}", ended.id)),
            exit_code: ended.exit.code,
            signal: (ended.exit.signal != 0).then_some(ended.exit.signal),
            reason: Some(ended.reason.clone()),
            message: ended.message.clone(),
            started_at: ended.since.clone(),
            finished_at: Some(ended.until.clone()),
        }),
        ..ContainerState::default()
    }
}
