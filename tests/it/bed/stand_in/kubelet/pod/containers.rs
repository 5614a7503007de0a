//! Starting, restarting and stopping a Pod's containers.

use super::probes::Probes;
use super::spec::{Making, key};
use super::track::{CREATING, Ended, State, Stop, Track};
use super::{Exit, Problem, RETRY, Stage, Told, Worker, status};
use crate::bed::stand_in::kubelet::context::Running;
use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// What is kept of a container's last words, and of its log where those stand in for them.
const WORDS: usize = 4096;
const LOG_WORDS: usize = 2048;

impl Worker {
    /// Brings the containers forward: init containers one after the other, then the others together.
    pub(super) async fn advance(&mut self) {
        let inits = self.tracks.iter().filter(|track| track.init).count();
        for index in 0..inits {
            self.bring_forward(index).await;
            let track = &self.tracks[index];
            if track.succeeded() {
                continue;
            }
            if matches!(track.state, State::Ended(_)) {
                self.stage = Stage::Ended(status::Verdict { phase: "Failed", reason: None, message: None });
                self.disconnect().await;
            }
            return;
        }
        for index in inits..self.tracks.len() {
            self.bring_forward(index).await;
        }
        let over = |track: &Track| matches!(track.state, State::Ended(_));
        if matches!(self.stage, Stage::Active) && self.tracks.iter().all(over) {
            self.stage = Stage::Ended(status::Verdict { phase: self.outcome(), reason: None, message: None });
            self.disconnect().await;
        }
    }

    async fn bring_forward(&mut self, index: usize) {
        let policy = self.pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref()).unwrap_or("Always");
        let track = &mut self.tracks[index];
        let again = match policy {
            "Never" => false,
            "Always" => !track.init || !track.succeeded(),
            _ => !track.succeeded(),
        };
        if again && matches!(track.state, State::Ended(_)) {
            track.back_off(Instant::now());
        }
        match track.state {
            State::Waiting { .. } => {
                if track.not_before.is_none_or(|at| at <= Instant::now()) {
                    self.start_container(index).await;
                }
            }
            State::Running { .. } => self.press(index).await,
            State::Ended(_) => {}
        }
    }

    async fn start_container(&mut self, index: usize) {
        let delay = self.context.delay(&self.pod.name_any(), &self.tracks[index].spec.name);
        let track = &mut self.tracks[index];
        if !delay.is_zero() && !std::mem::replace(&mut track.held_back, true) {
            track.wait(CREATING, None, Some(Instant::now() + delay));
            return;
        }
        let container = track.spec.clone();
        let later = Some(Instant::now() + RETRY);
        let (id, argv, started) = match self.try_start(index, &container).await {
            Ok(started) => started,
            Err(("", Problem::Wait(why))) => {
                return self.tracks[index].wait("CreateContainerConfigError", Some(why), later);
            }
            Err((reason, Problem::Wait(why))) => return self.tracks[index].wait(reason, Some(why), later),
            Err((_, Problem::Never(why))) => return self.refuse(why),
        };
        let now = Time(Timestamp::now());
        let track = &mut self.tracks[index];
        track.starts += 1;
        track.not_before = None;
        match started {
            Ok(exit) => {
                track.state = State::Running { id: id.clone(), since: now, at: Instant::now(), stop: Stop::No };
                self.context.started(key(&self.pod, &container), Running { id: id.clone(), argv });
                self.listen(index, &id, exit);
                self.watch_health(index, id);
            }
            Err(message) => {
                let exit = Exit { code: 128, signal: 0 };
                let reason = "StartError".to_owned();
                let ended = Ended { id, exit, reason, message: Some(message), since: None, until: now };
                track.end(ended, Instant::now());
                // Not by itself heard of: nothing was started whose end could be.
                self.retry_in(Duration::ZERO);
            }
        }
    }

    async fn try_start(
        &self,
        index: usize,
        container: &Container,
    ) -> Result<(String, Vec<String>, Result<tokio::sync::oneshot::Receiver<Exit>, String>), (&'static str, Problem)>
    {
        let image = self.context.image(container.image.as_deref().unwrap_or_default());
        let image = image.map_err(|why| ("ErrImagePull", Problem::Wait(why)))?;
        let attempt = format!("{}-{}", container.name, self.tracks[index].starts);
        let making = Making {
            context: &self.context,
            pod: &self.pod,
            container,
            image,
            volumes: &self.volumes,
            address: self.address.ok_or(("", Problem::wait("no address")))?,
            folder: &self.folder,
            attempt: &attempt,
        };
        let spec = making.spec().await.map_err(|problem| ("", problem))?;
        let id = format!("{}/{attempt}", self.pod.uid().unwrap_or_default());
        let started = self.context.runtime.run(&id, &spec).await;
        Ok((id, spec.argv, started))
    }

    fn watch_health(&mut self, index: usize, id: String) {
        let Some(address) = self.address else { return };
        let probes = Probes {
            container: self.tracks[index].spec.clone(),
            index,
            id,
            address,
            divisor: self.context.probe_divisor,
            to: self.outbox.clone(),
        };
        self.tracks[index].probes = Some(tokio::spawn(probes.run()).abort_handle());
    }

    /// Sends a container that is to stop the signal that is due.
    pub(super) async fn press(&mut self, index: usize) {
        let now = Instant::now();
        let State::Running { id, stop, .. } = &mut self.tracks[index].state else { return };
        let id = id.clone();
        let number = match *stop {
            Stop::Asked(grace) => {
                *stop = Stop::Terminated(now + grace);
                15
            }
            Stop::Terminated(until) if until <= now => {
                *stop = Stop::Killed;
                9
            }
            Stop::No | Stop::Terminated(_) | Stop::Killed => return,
        };
        if let Err(error) = self.context.runtime.signal(&id, number).await {
            self.note(format!("signal {number} could not be sent to {id}: {error}"));
        }
    }

    pub(super) fn exited(&mut self, index: usize, id: String, exit: Exit) {
        let container = self.tracks[index].spec.clone();
        self.context.ended(&key(&self.pod, &container), &id);
        let State::Running { id: current, since, .. } = &self.tracks[index].state else { return };
        if *current != id {
            return;
        }
        let since = Some(since.clone());
        let attempt = id.rsplit('/').next().unwrap_or_default();
        let mut words = tail(&self.folder.join("termination").join(attempt), WORDS);
        if words.is_empty()
            && exit.code != 0
            && container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError")
        {
            words = tail(&self.context.log(&key(&self.pod, &container)), LOG_WORDS);
        }
        let reason = if exit.code == 0 { "Completed" } else { "Error" }.to_owned();
        let message = (!words.is_empty()).then_some(words);
        let ended = Ended { id, exit, reason, message, since, until: Time(Timestamp::now()) };
        self.tracks[index].end(ended, Instant::now());
    }

    pub(super) fn told(&mut self, index: usize, id: &str, told: Told) {
        let pod_grace = self.pod.spec.as_ref().and_then(|s| s.termination_grace_period_seconds).unwrap_or(30);
        let track = &mut self.tracks[index];
        let State::Running { id: current, stop, .. } = &mut track.state else { return };
        if *current != id {
            return;
        }
        match told {
            Told::Started => track.started = true,
            Told::Ready(ready) => track.ready = ready,
            Told::Unhealthy if *stop == Stop::No => {
                let own = track.spec.liveness_probe.as_ref().and_then(|p| p.termination_grace_period_seconds);
                *stop = Stop::Asked(Duration::from_secs(u64::try_from(own.unwrap_or(pod_grace)).unwrap_or_default()));
            }
            Told::Unhealthy => {}
        }
    }
}

/// The last bytes of a file, from the start of a character on.
fn tail(file: &Path, bytes: usize) -> String {
    let content = std::fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&content[content.len().saturating_sub(bytes)..]).into_owned()
}
