//! From an unscheduled Pod to one whose volumes and network are there.

use super::{Event, Problem, RETRY, Stage, Worker, probes, spec, volumes};
use crate::bed::stand_in::kubelet::node;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::PostParams;
use kube::runtime::reflector::ObjectRef;
use std::time::Duration;
use tokio::time::Instant;

/// How often a Pod that waits for its claims looks at the cache.
const CLAIMS: Duration = Duration::from_millis(10);

impl Worker {
    /// Puts the Pod on the node when nothing speaks against it.
    pub(super) async fn schedule(&mut self) {
        let Some(spec) = &self.pod.spec else { return };
        if spec.node_name.as_deref() == Some(node::NAME) {
            self.stage = Stage::Preparing;
            return;
        }
        if spec.node_name.is_some() || spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()) {
            return;
        }
        if let Some(obstacle) = self.obstacle() {
            self.stage = Stage::Unscheduled(obstacle);
            self.retry_in(CLAIMS);
            return;
        }
        let binding = Binding {
            metadata: ObjectMeta { name: Some(self.pod.name_any()), uid: self.pod.uid(), ..ObjectMeta::default() },
            target: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node::NAME.to_owned()),
                ..ObjectReference::default()
            },
        };
        let name = self.pod.name_any();
        let bound: Result<serde_json::Value, _> =
            self.pods().create_subresource("binding", &name, &PostParams::default(), &binding).await;
        match bound {
            Ok(_) => {
                if let Some(spec) = &mut self.pod.spec {
                    spec.node_name = Some(node::NAME.to_owned());
                }
                self.stage = Stage::Preparing;
            }
            // Gone, replaced, or bound already: the watch will say which.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => {
                self.note(format!("it could not be bound: {error}"));
                self.retry_in(RETRY);
            }
        }
    }

    /// What keeps the Pod from the node.
    fn obstacle(&self) -> Option<String> {
        let spec = self.pod.spec.as_ref()?;
        let labels = [("kubernetes.io/hostname", node::NAME), ("kubernetes.io/os", "linux")];
        for (key, value) in spec.node_selector.iter().flatten() {
            if !labels.contains(&(key, value)) {
                return Some(format!("0/1 nodes are available: the node does not have the label {key}={value}"));
            }
        }
        let namespace = self.pod.namespace().unwrap_or_default();
        let claims = spec.volumes.iter().flatten().filter_map(|v| v.persistent_volume_claim.as_ref());
        for claim in claims {
            let key = ObjectRef::<PersistentVolumeClaim>::new(&claim.claim_name).within(&namespace);
            let found = self.context.claims.get(&key);
            let why = match found.as_ref().and_then(|c| c.status.as_ref()?.phase.as_deref()) {
                Some("Bound") if found.as_ref().is_some_and(|c| c.metadata.deletion_timestamp.is_some()) => {
                    "is being deleted"
                }
                Some("Bound") => continue,
                Some(_) => "is not bound",
                None => "not found",
            };
            return Some(format!("0/1 nodes are available: persistentvolumeclaim {:?} {why}", claim.claim_name));
        }
        None
    }

    /// Makes network and volumes.
    pub(super) async fn prepare(&mut self) {
        self.since.get_or_insert_with(|| (Time(Timestamp::now()), Instant::now()));
        match self.try_prepare().await {
            Ok(()) => self.stage = Stage::Active,
            Err(Problem::Wait(why)) => {
                for track in self.tracks.iter_mut().filter(|track| !track.init) {
                    track.wait(super::track::CREATING, Some(why.clone()), None);
                }
                self.retry_in(RETRY);
            }
            Err(Problem::Never(why)) => self.refuse(why),
        }
    }

    async fn try_prepare(&mut self) -> Result<(), Problem> {
        if let Some(what) = unknown(&self.pod) {
            return Err(Problem::never(format!("the stand-in kubelet does not know {what}")));
        }
        if !self.connected {
            let address = match self.address {
                Some(address) => address,
                None => self.context.take_address().ok_or_else(|| Problem::wait("no Pod address is free"))?,
            };
            self.address = Some(address);
            let uid = self.pod.uid().unwrap_or_default();
            self.context.runtime.network(&uid, address).await.map_err(Problem::wait)?;
            self.connected = true;
            let server = self.context.runtime.address();
            spec::write_etc(&self.pod, &self.folder, address, server).map_err(Problem::wait)?;
        }
        // A memory volume that was made by a try before this one must not be made again.
        if self.volumes.memory.is_empty() {
            let folder = self.folder.join("volumes");
            self.volumes = volumes::prepare(&self.context, &self.pod, &folder).await?;
        }
        Ok(())
    }

    /// Lets a container's end and its probes be heard of.
    pub(super) fn listen(&self, index: usize, id: &str, exit: tokio::sync::oneshot::Receiver<super::Exit>) {
        let (outbox, id) = (self.outbox.clone(), id.to_owned());
        tokio::spawn(async move {
            // Without an answer the whole node is gone, and this process is on its way out.
            if let Ok(exit) = exit.await {
                let _ = outbox.send(Event::Exited { index, id, exit });
            }
        });
    }
}

/// What of a Pod is beyond this stand-in. Better refused than ignored.
fn unknown(pod: &Pod) -> Option<&'static str> {
    let spec = pod.spec.as_ref()?;
    if spec.host_network == Some(true) || spec.host_pid == Some(true) || spec.host_ipc == Some(true) {
        return Some("the host's namespaces");
    }
    if spec.init_containers.iter().flatten().any(|container| container.restart_policy.is_some()) {
        return Some("sidecars (init containers with a restartPolicy)");
    }
    spec.init_containers.iter().flatten().chain(&spec.containers).find_map(probes::unknown)
}
