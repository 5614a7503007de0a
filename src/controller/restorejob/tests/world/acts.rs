//! What actions and time make of the world.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::SignedDuration;
use kube::ResourceExt;
use serde_json::json;

use super::{HASH, OLD_REVISION, Turn, World, from, start, volume};
use crate::api::agent::Rehearsal;
use crate::api::names::warden;
use crate::checks::Known;
use crate::controller::restorejob::build;
use crate::controller::restorejob::decide::Action;
use crate::controller::restorejob::observe::volumes::Standing;
use crate::controller::restorejob::observe::{Rehearsed, Rehearsing, Remains};
use crate::controller::restorejob::records::{record, restore_uid};

impl World {
    /// What the API server would make of an action; what must never be asked of it, panics.
    pub(in super::super) fn act(&mut self, action: &Action) {
        self.log.push(action.word());
        if self.refused.contains(action.word()) {
            return;
        }
        match action {
            Action::Hold => self.job.finalizers_mut().push(warden::RESTORE_FINALIZER.to_owned()),
            Action::Release => {
                self.job.finalizers_mut().clear();
                self.job_gone = self.job.metadata.deletion_timestamp.is_some();
            }
            Action::Record(fact) => {
                let mut made = record(&self.job, fact);
                made.metadata.creation_timestamp = Some(Time(self.now));
                if !self.records.iter().any(|record| record.name_any() == made.name_any()) {
                    self.records.push(made);
                }
            }
            Action::StartPreflight(rehearse) => {
                let how = Rehearsing::Running(String::new());
                self.rehearsal = {
                    let version = Some(rehearse.cluster.spec.version.clone());
                    Known::Found(Rehearsed { bump: rehearse.bump, version, how })
                };
            }
            Action::TakeSnapshot(source) => self.snapshot = Some(build::safety_snapshot(&self.job, source)),
            Action::Guard => drop(self.job.labels_mut().insert(warden::GUARDS.to_owned(), "etcd".to_owned())),
            Action::Unguard => drop(self.job.labels_mut().remove(warden::GUARDS)),
            Action::Suspend(_) => self.release.as_mut().unwrap().suspend = Some(true),
            Action::Resume { suspend, .. } => self.release.as_mut().unwrap().suspend = *suspend,
            Action::KeepVolume(chosen) => {
                assert_eq!(**chosen, volume());
                assert!(self.has("purge-intent"), "nothing is taken from a member before the purge is decided");
                if self.volume == Standing::Owned {
                    self.volume = Standing::Kept;
                    self.remains.claims.clear();
                }
            }
            Action::ReturnVolume(_) => self.volume = Standing::Owned,
            Action::ExpireVolume { .. } => self.volume = Standing::Expiring,
            Action::DeleteCluster { uid, resource_version } => self.delete(uid, resource_version.as_deref()),
            Action::SpareCluster { uid } => {
                if let Some(cluster) =
                    self.cluster.as_mut().filter(|cluster| cluster.metadata.uid.as_ref() == Some(uid))
                {
                    cluster.metadata.resource_version = Some("spared".to_owned());
                    let uid = restore_uid(&self.job);
                    cluster.annotations_mut().insert(warden::SPARED_BY.to_owned(), uid);
                }
            }
            Action::FreeMember { member, .. } => self.remains.members.retain(|left| left.uid != member.uid),
            Action::CreateCluster { capture, start } => {
                let facts = self.facts();
                assert!(facts.purged.contains_key(&start.attempt), "{:?}", self.log);
                assert_eq!(self.remains, Remains::default(), "made beside what is left of the old one");
                assert!(self.volume != Standing::Gone || start.source.pvc.is_none());
                if self.cluster.is_none() {
                    let mut made = build::cluster(&self.job, capture, start).unwrap();
                    made.metadata.uid = Some(format!("new{}", start.attempt));
                    self.cluster = Some(made);
                }
            }
        }
    }

    fn delete(&mut self, uid: &str, resource_version: Option<&str>) {
        for fact in ["preflight", "safety-snapshot", "suspended", "capture", "purge-intent"] {
            assert!(self.has(fact), "deleted without {fact}: {:?}", self.log);
        }
        assert!(self.job.labels().contains_key(warden::GUARDS));
        assert!(self.release.as_ref().is_none_or(|release| release.suspend == Some(true)));
        assert!(!self.has("verified"), "a proven cluster is never deleted");
        if uid == "old" {
            assert!(self.has("kept") && self.volume != Standing::Owned, "deleted with its volume");
            assert!(resource_version.is_some(), "the old cluster is deleted only as it was captured");
        }
        let now = self.now;
        if let Some(cluster) = &mut self.cluster
            && cluster.metadata.uid.as_deref() == Some(uid)
            && resource_version.is_none_or(|version| cluster.metadata.resource_version.as_deref() == Some(version))
        {
            cluster.metadata.deletion_timestamp.get_or_insert(Time(now));
            self.deleted.push(uid.to_owned());
        }
    }

    /// The world moves on by one step.
    pub(in super::super) fn pass(&mut self) {
        self.now = self.now.checked_add(SignedDuration::from_secs(1)).unwrap();
        if let Known::Found(Rehearsed { bump, how, .. }) = &mut self.rehearsal
            && matches!(how, Rehearsing::Running(_))
        {
            *how = match &self.rehearsal_ends {
                Some(why) => Rehearsing::Failed(why.clone()),
                None => Rehearsing::Passed(Some(Rehearsal {
                    revision: 40 + *bump,
                    hash_revision: 40 + *bump,
                    hash_kv: HASH,
                    keys: 3,
                    db_bytes: 20_480,
                    ..Rehearsal::default()
                })),
            };
        }
        if let Some(snapshot) = &mut self.snapshot {
            let artifact = json!({"uri": "s3://bucket/folder/safety.db", "revision": OLD_REVISION,
                "sizeBytes": 9_000, "checksum": "sha256:cd"});
            snapshot.status = Some(from(json!({"phase": self.snapshot_ends, "artifact": artifact})));
        }
        let hopeless = self.cluster.as_ref().is_some_and(|cluster| self.turn(cluster) == Turn::Hopeless);
        let Some(cluster) = &mut self.cluster else { return };
        if let Some(since) = cluster.metadata.deletion_timestamp.as_ref() {
            if self.now.duration_since(since.0) >= SignedDuration::from_secs(self.goes.into()) {
                self.cluster = None;
                self.remains = Remains::default();
                if self.volume == Standing::Owned {
                    self.volume = Standing::Gone;
                }
            }
        } else if cluster.metadata.uid.as_deref() != Some("old")
            && cluster.annotations().contains_key(warden::RESTORED_BY)
        {
            let restored = cluster.data["status"]["restored"].clone();
            let (ready, status, reason) =
                if hopeless { (0, "False", "RestoreFailed") } else { (self.ready, "True", "QuorumHealthy") };
            cluster.data["status"] = json!({"restored": restored, "readyMembers": ready, "conditions": [{"type": "Available",
                "status": status, "reason": reason, "message": "", "lastTransitionTime": start()}]});
        }
    }
}
