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
    /// Opens once the server has seen itself answer.
    pub gate: Gate,
}

impl Registration {
    /// Registers, and keeps the registration for ever.
    pub async fn keep(mut self) {
        let mut enforcing = self.install().await;
        loop {
            match selfcheck::ask(&self.client, &self.namespace).await {
                Ok(()) if !enforcing => match self.apply(true).await {
                    Ok(()) => {
                        enforcing = true;
                        info!("seen answering through the API server: enforcing");
                        self.gate.ready();
                    }
                    Err(error) => self.pause("cannot switch to Fail", &k8s::error::message(&error)).await,
                },
                Ok(()) => {
                    self.gate.ready();
                    if !self.watch().await {
                        return;
                    }
                }
                Err(why) => self.pause("not seen answering through the API server", &why).await,
            }
        }
    }

    /// Makes the configurations, or takes over those that are there, with what is enforced already. Returns whether the
    /// required kinds are enforced.
    async fn install(&self) -> bool {
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
                Err(error) => self.pause("not registered", &k8s::error::message(&error)).await,
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

    async fn pause(&self, what: &str, why: &str) {
        warn!(why, "{what}; trying again");
        self.gate.not_ready(format!("{what}: {why}"));
        tokio::time::sleep(RETRY).await;
    }
}

fn is_enforcing(live: &ValidatingWebhookConfiguration) -> bool {
    live.webhooks
        .iter()
        .flatten()
        .any(|entry| entry.name == REQUIRED && entry.failure_policy.as_deref() == Some("Fail"))
}
