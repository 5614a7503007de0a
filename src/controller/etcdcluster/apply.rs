//! Carries a cluster's plan out. No decisions: each step is done as it stands, and doing it twice does no harm.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, PropagationPolicy};
use kube::{Api, ResourceExt};
use serde_json::json;
use tonic::Code;

use super::certificates::{self, Role};
use super::decide::{Planned, Step};
use super::observe::{self, Observed};
use super::{Error, Reader, build};
use crate::api::certmanager::Certificate;
use crate::api::etcdmember::EtcdMember;
use crate::controller::{access, shape};
use crate::etcd::Credentials;
use crate::k8s::apply::{apply as server_side_apply, create, merge_into};
use crate::k8s::delete::{Target, delete};
use crate::k8s::error::{Class, class};
use crate::k8s::owner;

/// How a plan went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All steps are done.
    Done,
    /// etcd will not do a step yet, and why; nothing is wrong.
    NotYet(String),
}

/// Does the steps in their order; the first that cannot be done ends it. Also gives how many are done.
pub(super) async fn apply(reader: &Reader, seen: &Observed, steps: &[Planned]) -> (usize, Result<Outcome, Error>) {
    for (done, planned) in steps.iter().enumerate() {
        match step(reader, seen, &planned.step).await {
            Ok(Outcome::Done) => tracing::info!(step = ?planned.step, because = planned.because, "done"),
            Ok(Outcome::NotYet(why)) => {
                tracing::debug!(step = ?planned.step, why, "not yet");
                return (done, Ok(Outcome::NotYet(why)));
            }
            Err(error) => return (done, Err(error)),
        }
    }
    (steps.len(), Ok(Outcome::Done))
}

async fn step(reader: &Reader, seen: &Observed, step: &Step) -> Result<Outcome, Error> {
    let cluster = &seen.cluster;
    match step {
        Step::ApplyService(role) => {
            let service = build::service(cluster, *role);
            let api: Api<Service> = reader.api(cluster.as_ref());
            done("make a Service", server_side_apply(&api, &service).await)
        }
        Step::ApplyCertificate(role) => apply_certificate(reader, seen, *role).await,
        Step::ApplyBudget { min_available } => {
            let budget = build::budget(cluster, *min_available);
            let api: Api<PodDisruptionBudget> = reader.api(cluster.as_ref());
            done("make the disruption budget", server_side_apply(&api, &budget).await)
        }
        Step::DeleteBudget => delete_budget(reader, seen).await,
        Step::CreateSeed { name } => create_member(reader, seen, build::seed(cluster, name)).await,
        Step::CreateMember { name } => create_member(reader, seen, build::member(cluster, name)).await,
        Step::AdmitSeed { name } => {
            let Some(member) = found(seen, name) else { return Ok(Outcome::Done) };
            patch(reader, member, json!({"initialCluster": build::initial_cluster_of_seed(member)}), "admit the seed")
                .await
        }
        Step::Admit { name, initial_cluster } => {
            let Some(member) = found(seen, name) else { return Ok(Outcome::Done) };
            patch(reader, member, json!({ "initialCluster": initial_cluster }), "admit a member").await
        }
        Step::Pause { name } => {
            let Some(member) = found(seen, name) else { return Ok(Outcome::Done) };
            patch(reader, member, json!({"dormant": true}), "pause the member").await
        }
        Step::Wake { name } => {
            let Some(member) = found(seen, name) else { return Ok(Outcome::Done) };
            patch(reader, member, json!({"dormant": false}), "wake the member").await
        }
        Step::AddLearner { peer_url, .. } => {
            let client = observe::dial_voter(reader, seen).await?;
            membership(client.member_add(vec![peer_url.clone()], true).await.map(drop))
        }
        Step::Promote { id, .. } => {
            let client = observe::dial_voter(reader, seen).await?;
            membership(client.member_promote(*id).await.map(drop))
        }
        Step::RemoveMember { name } | Step::RemakeSeed { name } => remove_member(reader, seen, name).await,
        Step::EnableAuth => enable_auth(reader, seen).await,
    }
}

fn done<T>(doing: &'static str, result: Result<T, kube::Error>) -> Result<Outcome, Error> {
    result.map(|_| Outcome::Done).map_err(|source| Error::Api { doing, source })
}

fn found<'a>(seen: &'a Observed, name: &str) -> Option<&'a EtcdMember> {
    seen.members.iter().map(|member| member.member.as_ref()).find(|member| member.name_any() == name)
}

async fn patch(
    reader: &Reader,
    member: &EtcdMember,
    spec: serde_json::Value,
    doing: &'static str,
) -> Result<Outcome, Error> {
    let api: Api<EtcdMember> = reader.api(member);
    done(doing, merge_into(&api, member, json!({ "spec": spec })).await)
}

/// etcd refuses a change that it finds unsafe at the moment: a learner that lags, another learner, a peer that it has
/// not been connected to for long enough. All of that passes. `FailedPrecondition` also says that the change was made
/// already; the next look finds it.
fn membership(result: Result<(), crate::etcd::Error>) -> Result<Outcome, Error> {
    match result {
        Ok(()) => Ok(Outcome::Done),
        Err(error) if matches!(error.code(), Some(Code::FailedPrecondition | Code::Unavailable | Code::NotFound)) => {
            Ok(Outcome::NotYet(crate::controller::frame::chain(&error)))
        }
        Err(error) => Err(Error::Etcd(error.into())),
    }
}

/// Made only if the members are still those that the decision was made on: the local copy may be behind, and a second
/// seed would be a second cluster. The name follows from what was seen, so that another process which saw the same
/// makes the same name, and one of the two creations fails.
async fn create_member(reader: &Reader, seen: &Observed, member: EtcdMember) -> Result<Outcome, Error> {
    let api: Api<EtcdMember> = reader.api(seen.cluster.as_ref());
    let selector = ListParams::default().labels(&shape::cluster_selector(&seen.cluster.name_any()));
    let live = api.list(&selector).await.map_err(|source| Error::Api { doing: "list members", source })?;
    let cluster_uid = seen.cluster.metadata.uid.as_deref().unwrap_or_default();
    let mut now: Vec<String> = live
        .iter()
        .filter(|member| owner::is_controlled_by(&member.metadata, cluster_uid))
        .filter_map(ResourceExt::uid)
        .collect();
    let mut then: Vec<String> = seen.members.iter().filter_map(|member| member.member.uid()).collect();
    now.sort();
    then.sort();
    if now != then {
        return Ok(Outcome::NotYet("the members have changed since they were looked at".to_owned()));
    }
    match create(&api, &member).await {
        Ok(_) => Ok(Outcome::Done),
        Err(error) if class(&error) == Class::AlreadyExists => {
            Ok(Outcome::NotYet(format!("member {} exists already", member.name_any())))
        }
        Err(source) => Err(Error::Api { doing: "make a member", source }),
    }
}

/// Each call finds done what an earlier try did: a user that exists is no failure, and a cluster that asks for a
/// password has authentication on already, whether we did it or the snapshot that it was restored from.
async fn enable_auth(reader: &Reader, seen: &Observed) -> Result<Outcome, Error> {
    let root = access::root(&reader.context.client, &seen.cluster).await?;
    let client = observe::dial_voter(reader, seen).await?;
    let made = async {
        exists_is_fine(client.user_add(&root.user, &root.password).await)?;
        client.user_grant_role(&root.user, "root").await?;
        client.auth_enable().await
    };
    match made.await {
        Ok(()) => Ok(Outcome::Done),
        Err(error) if access::asks_for_password(&error) => check_password(reader, seen, root).await,
        Err(error) => Err(Error::Etcd(error.into())),
    }
}

/// Authentication that is on already counts only if our password opens it.
async fn check_password(reader: &Reader, seen: &Observed, root: Credentials) -> Result<Outcome, Error> {
    observe::dial_voter_as(reader, seen, root).await.map(|_| Outcome::Done).map_err(Error::Etcd)
}

fn exists_is_fine(result: Result<(), crate::etcd::Error>) -> Result<(), crate::etcd::Error> {
    match result {
        Err(error) if error.code() == Some(Code::FailedPrecondition) => Ok(()),
        other => other,
    }
}

async fn apply_certificate(reader: &Reader, seen: &Observed, role: Role) -> Result<Outcome, Error> {
    let wanted = certificates::wanted(&seen.cluster, &seen.cluster_domain);
    let Some((_, certificate)) = wanted.into_iter().find(|(of, _)| *of == role) else { return Ok(Outcome::Done) };
    let api: Api<Certificate> = reader.api(seen.cluster.as_ref());
    done("make a Certificate", server_side_apply(&api, &certificate).await)
}

async fn remove_member(reader: &Reader, seen: &Observed, name: &str) -> Result<Outcome, Error> {
    let Some(member) = found(seen, name) else { return Ok(Outcome::Done) };
    let (uid, version) = (member.uid().unwrap_or_default(), member.resource_version());
    let api: Api<EtcdMember> = reader.api(member);
    let target = Target { name, uid: &uid, resource_version: version.as_deref() };
    done("delete a member", delete(&api, &target, PropagationPolicy::Background).await)
}

async fn delete_budget(reader: &Reader, seen: &Observed) -> Result<Outcome, Error> {
    let Some(budget) = seen.budget.ours() else { return Ok(Outcome::Done) };
    let (name, uid) = (budget.name_any(), budget.uid().unwrap_or_default());
    let api: Api<PodDisruptionBudget> = reader.api(seen.cluster.as_ref());
    let target = Target { name: &name, uid: &uid, resource_version: None };
    done("delete the disruption budget", delete(&api, &target, PropagationPolicy::Background).await)
}
