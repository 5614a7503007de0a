//! Registration with the API server: installed as `Ignore`, switched to `Fail` once the server has seen itself answer
//! through the API server, and kept as it should be from then on.
//!
//! Deleting the configuration is the way out in an emergency: it is not made again before the next rollout.

pub mod build;
mod bundles;
mod rollout;
mod selfcheck;

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, Resource, ResourceExt};
use prometheus::IntGauge;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use self::build::{Endpoint, NAME, REQUIRED, Wanted};
use self::bundles::{Others, bundle_of};
use super::tls::{Times, Trust, Trusted};
use crate::k8s;
use crate::runtime::readiness::Gate;

pub use rollout::Rollout;
pub(super) use selfcheck::question as self_check_question;

/// Pause between two tries while something is not yet as it should be.
const RETRY: Duration = Duration::from_millis(500);
/// What the API server names when it refuses because it has not found the kind of a policy's parameters.
const PARAMETERS: &str = "paramKind";
/// How long the API server may take to find a kind that a policy asks about: it looks twice a minute.
const FIND: Duration = Duration::from_secs(75);
/// Looks at the source of the certificate between two looks at the configurations while all is well.
const WATCH: u32 = 6;

/// What registration needs.
pub struct Registration {
    /// Writes the configurations.
    pub client: Client,
    /// How the API server reaches us.
    pub endpoint: Endpoint,
    /// Our own service account's user name.
    pub own_user: Option<String>,
    /// Name of the ClusterRole that owns the configurations, so that they go when the installation goes.
    pub owner_role: Option<String>,
    /// Namespace in which the self-check asks.
    pub namespace: String,
    /// The rollout that this process belongs to, if it belongs to one.
    pub rollout: Option<String>,
    /// What callers have to trust.
    pub trust: watch::Receiver<Trust>,
    /// Told what the live configurations trust.
    pub trusted: watch::Sender<Trusted>,
    /// How long it takes until every API server knows what one was told, and how long leaves live.
    pub times: Times,
    /// Told whether the required kinds are refused while nobody answers.
    pub enforcing: IntGauge,
    /// Opens once the live configurations trust us. Not only when the server has seen itself answer: the API server asks
    /// through a Service, and a Service knows nobody who is not ready.
    pub gate: Gate,
}

/// How the live configuration was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// As it should be, with this failure policy of the required kinds.
    Kept { enforcing: bool },
    /// Somebody deleted it, and with it the wish to be asked.
    Deleted,
}

impl Registration {
    /// Registers, and keeps the registration until somebody deletes it.
    pub async fn keep(mut self) {
        let mut others = Others::default();
        let (mut told, mut again) = (String::new(), false);
        let mut state = self.install(&mut others).await;
        if matches!(state, State::Kept { .. }) {
            self.await_guard().await;
        }
        self.gate.ready();
        let mut applied = Instant::now();
        while let State::Kept { enforcing } = state {
            let seen = selfcheck::ask(&self.client, &self.namespace).await;
            self.enforcing.set((enforcing && seen.is_ok()).into());
            let next = match seen {
                Ok(()) if !enforcing => self.put_right(true, &mut others).await.inspect(|state| {
                    if *state != State::Deleted {
                        info!("seen answering through the API server: enforcing");
                    }
                }),
                Ok(()) => {
                    told.clear();
                    // What could not be put right is not left for the next look.
                    if !std::mem::take(&mut again) {
                        self.wait().await;
                    }
                    self.put_right(true, &mut others).await
                }
                Err(why) => {
                    tell("not seen answering through the API server", why, &mut told);
                    // It may be what somebody wrote into the configuration that keeps us from being asked.
                    if applied.elapsed() >= self.times.recheck * WATCH {
                        applied = Instant::now();
                        self.put_right(enforcing, &mut others).await
                    } else {
                        self.follow(enforcing, &mut others).await
                    }
                }
            };
            match next {
                Ok(next) => state = next,
                Err(error) => {
                    again = true;
                    tell("webhook configuration not put right", k8s::error::message(&error), &mut told);
                }
            }
            if !told.is_empty() {
                tokio::time::sleep(RETRY).await;
            }
        }
        warn!("the webhook configuration was deleted; it is not made again before the next rollout");
        self.enforcing.set(0);
        self.trusted.send_replace(Trusted::Nobody);
    }

    /// Makes the configurations, or takes over those that are there, with what is enforced already.
    async fn install(&self, others: &mut Others) -> State {
        let mut told = String::new();
        loop {
            match self.try_install(others).await {
                Ok(state) => return state,
                Err(error) => {
                    let why = k8s::error::message(&error);
                    self.gate.not_ready(format!("not registered: {why}"));
                    tell("not registered", why, &mut told);
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Right after an installation the API server refuses every EtcdCluster, until it has found the kind that the guard's
    /// policy asks about. Whoever waits for us to be ready shall not meet that; but what else is asked of us does not wait
    /// for ever for a policy that cannot work.
    async fn await_guard(&self) {
        let until = Instant::now() + FIND;
        let mut told = String::new();
        while let Err(why) = selfcheck::ask(&self.client, &self.namespace).await
            && why.contains(PARAMETERS)
            && Instant::now() < until
        {
            self.gate.not_ready(format!("EtcdClusters are refused before we are asked: {why}"));
            tell("EtcdClusters are refused before we are asked", why, &mut told);
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn try_install(&self, others: &mut Others) -> Result<State, kube::Error> {
        let owner = self.owner().await?;
        let rollout = Rollout::new(&self.client, &self.namespace, self.rollout.as_deref(), owner.as_ref());
        let live = self.live().await?;
        if live.is_none() && rollout.has_registered().await? {
            return Ok(State::Deleted);
        }
        let enforcing = live.as_ref().is_some_and(is_enforcing);
        let known = live.as_ref().map(bundle_of);
        self.apply(live.as_ref(), owner, enforcing, others).await?;
        rollout.remember().await?;
        // Whoever asks with the bundle of a moment ago would not trust us yet.
        if known.is_some_and(|known| !known.covers(&self.trust.borrow().bundle)) {
            tokio::time::sleep(self.times.spread).await;
        }
        Ok(State::Kept { enforcing })
    }

    /// Waits for a new bundle or the next look.
    async fn wait(&mut self) {
        let pause = self.times.recheck * WATCH;
        // Both branches only wait; a changed bundle stays readable in the channel.
        tokio::select! {
            changed = self.trust.changed() => if changed.is_err() { tokio::time::sleep(pause).await },
            () = tokio::time::sleep(pause) => {}
        }
    }

    /// Undoes what drifted; what was deleted stays deleted.
    async fn put_right(&self, enforcing: bool, others: &mut Others) -> Result<State, kube::Error> {
        let Some(live) = self.live().await? else { return Ok(State::Deleted) };
        self.apply(Some(&live), self.owner().await?, enforcing, others).await?;
        Ok(State::Kept { enforcing })
    }

    /// While nobody asks us yet: only what they have to trust is kept up to date.
    async fn follow(&self, enforcing: bool, others: &mut Others) -> Result<State, kube::Error> {
        let Some(live) = self.live().await? else { return Ok(State::Deleted) };
        if bundle_of(&live).covers(&self.trust.borrow().bundle) {
            return Ok(State::Kept { enforcing });
        }
        self.apply(Some(&live), self.owner().await?, enforcing, others).await?;
        Ok(State::Kept { enforcing })
    }

    async fn live(&self) -> Result<Option<ValidatingWebhookConfiguration>, kube::Error> {
        Api::all(self.client.clone()).get_opt(NAME).await
    }

    async fn apply(
        &self,
        live: Option<&ValidatingWebhookConfiguration>,
        owner: Option<OwnerReference>,
        enforcing: bool,
        others: &mut Others,
    ) -> Result<(), kube::Error> {
        let own = self.trust.borrow().bundle.clone();
        let there = live.map(bundle_of).unwrap_or_default();
        let bundle = own.clone().and(&others.still_in_use(&own, &there, self.times.leaf, Timestamp::now()));
        let wanted = Wanted {
            endpoint: self.endpoint.clone(),
            bundle: bundle.pem(),
            enforcing,
            own_user: self.own_user.clone(),
            owner,
            // What another replica wrote since, or a deletion, is a conflict and no loss.
            version: live.and_then(ResourceExt::resource_version),
        };
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let applied = k8s::apply::apply(&validating, &build::validating(&wanted)).await?;
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        k8s::apply::apply(&mutating, &build::mutating(&wanted)).await?;
        let trusted = Trusted::Bundle(bundle_of(&applied));
        self.trusted.send_if_modified(|known| std::mem::replace(known, trusted.clone()) != trusted);
        Ok(())
    }

    /// The owner as it is now. An installation without that role simply has nothing that the configurations go with.
    async fn owner(&self) -> Result<Option<OwnerReference>, kube::Error> {
        let Some(name) = &self.owner_role else { return Ok(None) };
        let role = Api::<ClusterRole>::all(self.client.clone()).get_opt(name).await?;
        Ok(role.and_then(|role| role.owner_ref(&())))
    }
}

/// What keeps failing in the same way is told once.
fn tell(what: &str, why: String, told: &mut String) {
    if *told != why {
        warn!(why, "{what}; trying again");
        *told = why;
    }
}

fn is_enforcing(live: &ValidatingWebhookConfiguration) -> bool {
    let required: BTreeSet<Option<&str>> = live
        .webhooks
        .iter()
        .flatten()
        .filter(|entry| entry.name == REQUIRED)
        .map(|entry| entry.failure_policy.as_deref())
        .collect();
    required.contains(&Some("Fail"))
}
