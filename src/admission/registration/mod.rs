//! Registration with the API server: installed as `Ignore`, switched to `Fail` once the server has seen itself answer
//! through the API server, and kept as it should be from then on.
//!
//! Deleting the configuration is the way out in an emergency: it is not made again before the next start.

pub mod build;
mod selfcheck;

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client, Resource};
use tokio::sync::watch;
use tracing::{info, warn};

use self::build::{Endpoint, NAME, REQUIRED, Wanted};
use super::tls::Trust;
use crate::k8s;
use crate::runtime::readiness::Gate;

pub(super) use selfcheck::question as self_check_question;

/// Pause between two tries while something is not yet as it should be.
const RETRY: Duration = Duration::from_millis(500);
/// Pause between two looks while all is well.
const WATCH: Duration = Duration::from_mins(1);

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
    /// What callers have to trust.
    pub trust: watch::Receiver<Trust>,
    /// Opens once the live configurations trust us. Not only when the server has seen itself answer: the API server asks
    /// through a Service, and a Service knows nobody who is not ready.
    pub gate: Gate,
}

impl Registration {
    /// Registers, and keeps the registration for ever.
    pub async fn keep(mut self) {
        let mut enforcing = self.install().await;
        self.gate.ready();
        let mut told = String::new();
        loop {
            match selfcheck::ask(&self.client, &self.namespace).await {
                Ok(()) if !enforcing => match self.apply(true).await {
                    Ok(()) => {
                        enforcing = true;
                        info!("seen answering through the API server: enforcing");
                    }
                    Err(error) => pause("cannot switch to Fail", k8s::error::message(&error), &mut told).await,
                },
                Ok(()) => {
                    told.clear();
                    if !self.watch().await {
                        return;
                    }
                }
                Err(why) => pause("not seen answering through the API server", why, &mut told).await,
            }
        }
    }

    /// Makes the configurations, or takes over those that are there, with what is enforced already. Returns whether the
    /// required kinds are enforced.
    async fn install(&self) -> bool {
        let mut told = String::new();
        loop {
            let done = match self.live().await {
                Ok(live) => {
                    let enforcing = live.as_ref().is_some_and(is_enforcing);
                    self.apply(enforcing).await.map(|()| enforcing)
                }
                Err(error) => Err(error),
            };
            match done {
                Ok(enforcing) => return enforcing,
                Err(error) => {
                    let why = k8s::error::message(&error);
                    self.gate.not_ready(format!("not registered: {why}"));
                    pause("not registered", why, &mut told).await;
                }
            }
        }
    }

    /// Waits for a new bundle or the next look, and puts right what drifted. `false` when the configuration was
    /// deleted, and with it the wish to be asked.
    async fn watch(&mut self) -> bool {
        // Both branches only wait; a changed bundle stays readable in the channel.
        tokio::select! {
            changed = self.trust.changed() => if changed.is_err() { return false },
            () = tokio::time::sleep(WATCH) => {}
        }
        match self.live().await {
            Ok(None) => {
                warn!("the webhook configuration was deleted; it is not made again before the next start");
                false
            }
            Ok(Some(_)) => {
                if let Err(error) = self.apply(true).await {
                    warn!(error = k8s::error::message(&error), "webhook configuration not put right");
                }
                true
            }
            Err(error) => {
                warn!(error = k8s::error::message(&error), "webhook configuration not read");
                true
            }
        }
    }

    async fn live(&self) -> Result<Option<ValidatingWebhookConfiguration>, kube::Error> {
        Api::all(self.client.clone()).get_opt(NAME).await
    }

    async fn apply(&self, enforcing: bool) -> Result<(), kube::Error> {
        let owner = self.owner().await?;
        let wanted = Wanted {
            endpoint: self.endpoint.clone(),
            bundle: self.trust.borrow().bundle.clone(),
            enforcing,
            own_user: self.own_user.clone(),
            owner,
        };
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        k8s::apply::apply(&validating, &build::validating(&wanted)).await?;
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        k8s::apply::apply(&mutating, &build::mutating(&wanted)).await?;
        Ok(())
    }

    /// The owner as it is now. An installation without that role simply has nothing that the configurations go with.
    async fn owner(&self) -> Result<Option<OwnerReference>, kube::Error> {
        let Some(name) = &self.owner_role else { return Ok(None) };
        let role = Api::<ClusterRole>::all(self.client.clone()).get_opt(name).await?;
        Ok(role.and_then(|role| role.owner_ref(&())))
    }
}

/// Waits for the next try. What keeps failing in the same way is told once.
async fn pause(what: &str, why: String, told: &mut String) {
    if *told != why {
        warn!(why, "{what}; trying again");
        *told = why;
    }
    tokio::time::sleep(RETRY).await;
}

fn is_enforcing(live: &ValidatingWebhookConfiguration) -> bool {
    live.webhooks
        .iter()
        .flatten()
        .any(|entry| entry.name == REQUIRED && entry.failure_policy.as_deref() == Some("Fail"))
}
