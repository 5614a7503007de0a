//! Reads what each member says of itself.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;

use super::decide::{Facts, Refusal};
use crate::agent::failure::Failure;
use crate::agent::settings::SnapshotSettings;
use crate::api::agent::Reason;
use crate::etcd::wire::{AlarmType, StatusResponse};
use crate::etcd::{self, Client, Error, Options};

/// How long a member that was only found in the member list may take to accept a connection.
const NEIGHBOUR: Duration = Duration::from_secs(3);

/// A member that answered.
pub(super) struct Source {
    pub(super) client: Client,
    pub(super) status: StatusResponse,
    corrupt: bool,
}

/// All that was asked, and what came of it.
pub(super) struct Observed {
    sources: Vec<Source>,
    errors: Vec<Error>,
}

/// Asks the configured endpoints, and then the members that they name: behind one address of a Service stand several
/// members, and the best of them is wanted. A member that cannot be reached under its own address is no failure.
pub(super) async fn members(settings: &SnapshotSettings) -> Observed {
    let mut observed = Observed { sources: Vec::new(), errors: Vec::new() };
    for answer in join_all(settings.endpoints.iter().map(|endpoint| ask(endpoint, &settings.options))).await {
        match answer {
            Ok(source) => observed.sources.push(source),
            Err(error) => observed.errors.push(error),
        }
    }
    // A learner does not tell the members.
    let Some(first) = observed.sources.iter().find(|source| !source.status.is_learner) else { return observed };
    let cluster = first.cluster_id();
    let known: BTreeSet<&str> = settings.endpoints.iter().map(String::as_str).collect();
    let neighbours: Vec<String> = match first.client.member_list(false).await {
        Ok(members) => members
            .into_iter()
            .filter(|member| observed.sources.iter().all(|source| source.member_id() != member.id))
            .flat_map(|member| member.client_urls)
            .filter(|url| !known.contains(url.as_str()))
            .collect(),
        Err(error) => {
            tracing::info!(%error, "the members' own addresses are not known");
            Vec::new()
        }
    };
    let options = Options { connect_timeout: Some(NEIGHBOUR), ..settings.options.clone() };
    for answer in join_all(neighbours.iter().map(|endpoint| ask(endpoint, &options))).await {
        match answer {
            Ok(source) if source.cluster_id() == cluster => observed.sources.push(source),
            Ok(source) => tracing::info!(endpoint = source.client.endpoint(), "belongs to another cluster"),
            Err(error) => tracing::info!(%error, "a member cannot be asked under its own address"),
        }
    }
    observed
}

async fn ask(endpoint: &str, options: &Options) -> Result<Source, Error> {
    let client = etcd::dial(&[endpoint.to_owned()], options).await?;
    let status = client.status().await?;
    // A learner is not asked for alarms, and would not answer.
    let corrupt = !status.is_learner && is_corrupt(&client, &status).await?;
    Ok(Source { client, status, corrupt })
}

/// Whether the member has a CORRUPT alarm. The list of alarms is read through the quorum; without one, the member's own
/// status repeats those that it knows.
async fn is_corrupt(client: &Client, status: &StatusResponse) -> Result<bool, Error> {
    let own = status.header.map_or(0, |header| header.member_id);
    match client.alarms().await {
        Ok(alarms) => {
            Ok(alarms.iter().any(|alarm| alarm.alarm == i32::from(AlarmType::Corrupt) && alarm.member_id == own))
        }
        Err(error) if error.is_retryable() => {
            let own = format!("memberID:{own} alarm:CORRUPT");
            Ok(status.errors.iter().any(|told| told.contains(&own)))
        }
        Err(error) => Err(error),
    }
}

impl Source {
    pub(super) fn member_id(&self) -> u64 {
        self.status.header.map_or(0, |header| header.member_id)
    }

    pub(super) fn cluster_id(&self) -> u64 {
        self.status.header.map_or(0, |header| header.cluster_id)
    }

    fn facts(&self) -> Facts {
        Facts {
            member: self.member_id(),
            learner: self.status.is_learner,
            corrupt: self.corrupt,
            has_leader: self.status.leader != 0,
            is_leader: self.status.leader == self.member_id(),
            revision: self.status.header.map_or(0, |header| header.revision),
            applied: self.status.raft_applied_index,
        }
    }
}

impl Observed {
    pub(super) fn facts(&self) -> Vec<Facts> {
        self.sources.iter().map(Source::facts).collect()
    }

    pub(super) fn into_source(mut self, index: usize) -> Source {
        self.sources.swap_remove(index)
    }

    /// Why there is no source. Where nobody answered, the first endpoint's own error is the reason.
    pub(super) fn explain(self, refusal: Refusal) -> Failure {
        match (refusal, self.errors.into_iter().next()) {
            (Refusal::NobodyAnswered, Some(error)) => error.into(),
            (refusal, _) => Failure::new(Reason::NoSnapshotSource, refusal.to_string()),
        }
    }
}
