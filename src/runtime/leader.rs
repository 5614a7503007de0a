//! Leadership by a Lease: at most one process at a time believes that it leads.
//!
//! A holder renews every [`Settings::retry`]; one that could not renew for [`Settings::renew_deadline`] stops leading by
//! itself, and that is earlier than [`Settings::lease_duration`], after which another may take over. The times of other
//! machines are never compared with ours: a candidate measures by its own clock how long the Lease has not changed.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Which Lease, and how patient everybody is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// What this process calls itself; unique among candidates.
    pub identity: String,
    /// How long a Lease that does not change is respected.
    pub lease_duration: Duration,
    /// How long a holder tries to renew before it stops leading.
    pub renew_deadline: Duration,
    /// Pause between two tries.
    pub retry: Duration,
}

impl Settings {
    /// Settings that let another process take over within 8 s of a crash, and at once after a clean stop.
    #[must_use]
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(7),
            renew_deadline: Duration::from_secs(5),
            retry: Duration::from_secs(1),
        }
    }
}

/// What a candidate saw of the Lease, and since when by its own clock.
struct Seen {
    version: Option<String>,
    since: Instant,
}

/// Waits until this process leads; `None` when it is told to stop before.
///
/// The token is cancelled when leadership is lost or the process stops; whoever writes under this leadership holds it.
/// Await [`Leadership::ended`] after the last write, and the Lease is given up for the next one.
pub async fn acquire(client: Client, settings: Settings, stop: CancellationToken) -> Option<Leadership> {
    let api: Api<Lease> = Api::namespaced(client, &settings.namespace);
    let mut seen = Seen { version: None, since: Instant::now() };
    loop {
        // A connection that has died silently would keep this process from ever leading again. What was written all the
        // same is found by the next try, under our own name.
        match tokio::time::timeout(settings.renew_deadline, try_acquire(&api, &settings, &mut seen)).await {
            Ok(Ok(true)) => break,
            Ok(Ok(false)) => {}
            Ok(Err(error)) => warn!(lease = settings.name, error = %error, "could not ask for leadership"),
            Err(_) => warn!(lease = settings.name, "asked for leadership and got no answer"),
        }
        // Waiting is all that both branches do.
        tokio::select! {
            () = tokio::time::sleep(settings.retry) => {}
            () = stop.cancelled() => return None,
        }
    }
    info!(lease = settings.name, identity = settings.identity, "leading");
    let lost = stop.child_token();
    let renewer = tokio::spawn(renew(api.clone(), settings.clone(), lost.clone()));
    Some(Leadership { api, settings, lost, renewer })
}

/// A leadership that is held.
pub struct Leadership {
    api: Api<Lease>,
    settings: Settings,
    lost: CancellationToken,
    renewer: tokio::task::JoinHandle<()>,
}

impl Leadership {
    /// Cancelled when leadership is lost or the process stops.
    #[must_use]
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Gives the Lease up, if it is still ours, so that the next one need not wait for it to run out.
    pub async fn ended(self) {
        self.lost.cancel();
        if self.renewer.await.is_err() {
            warn!(lease = self.settings.name, "the task that renews the lease had failed");
        }
        let released = tokio::time::timeout(self.settings.renew_deadline, release(&self.api, &self.settings)).await;
        let failure = match released {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        warn!(
            lease = self.settings.name,
            error = failure,
            "lease not given up; the next leader waits for it to run out"
        );
    }
}

async fn try_acquire(api: &Api<Lease>, settings: &Settings, seen: &mut Seen) -> Result<bool, kube::Error> {
    let Some(mut lease) = api.get_opt(&settings.name).await? else {
        let mut lease = Lease::default();
        lease.metadata.name = Some(settings.name.clone());
        lease.spec = Some(held(settings, None, 0));
        return won(api.create(&PostParams::default(), &lease).await);
    };
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    if !holder.is_empty() && holder != settings.identity {
        if seen.version != lease.resource_version() {
            *seen = Seen { version: lease.resource_version(), since: Instant::now() };
        }
        let respected = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(settings.lease_duration, Duration::from_secs);
        if seen.since.elapsed() < respected {
            return Ok(false);
        }
    }
    let same = holder == settings.identity;
    let transitions = spec.lease_transitions.unwrap_or(0) + i32::from(!same);
    lease.spec = Some(held(settings, spec.acquire_time.filter(|_| same), transitions));
    won(api.replace(&settings.name, &PostParams::default(), &lease).await)
}

/// A conflict means that another candidate was faster.
fn won(answer: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

fn held(settings: &Settings, acquired: Option<MicroTime>, transitions: i32) -> LeaseSpec {
    let now = MicroTime(Timestamp::now());
    LeaseSpec {
        holder_identity: Some(settings.identity.clone()),
        lease_duration_seconds: i32::try_from(settings.lease_duration.as_secs()).ok(),
        acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
        renew_time: Some(now),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

async fn renew(api: Api<Lease>, settings: Settings, lost: CancellationToken) {
    let mut renewed = Instant::now();
    loop {
        // Waiting is all that both branches do.
        tokio::select! {
            () = tokio::time::sleep(settings.retry) => {}
            () = lost.cancelled() => return,
        }
        let left = settings.renew_deadline.saturating_sub(renewed.elapsed());
        let started = Instant::now();
        match tokio::time::timeout(left, renew_once(&api, &settings)).await {
            Ok(Ok(true)) => renewed = started,
            Ok(Ok(false)) => {
                warn!(lease = settings.name, "another process holds the lease now");
                return lost.cancel();
            }
            Ok(Err(error)) => warn!(lease = settings.name, error = %error, "lease not renewed"),
            Err(_) => {}
        }
        if renewed.elapsed() >= settings.renew_deadline {
            warn!(lease = settings.name, "lease could not be renewed in time; no longer leading");
            return lost.cancel();
        }
    }
}

/// `false` when the Lease is no longer ours.
async fn renew_once(api: &Api<Lease>, settings: &Settings) -> Result<bool, kube::Error> {
    let mut lease = api.get(&settings.name).await?;
    let spec = lease.spec.clone().unwrap_or_default();
    if spec.holder_identity.as_deref() != Some(&settings.identity) {
        return Ok(false);
    }
    lease.spec = Some(held(settings, spec.acquire_time, spec.lease_transitions.unwrap_or(0)));
    won(api.replace(&settings.name, &PostParams::default(), &lease).await)
}

async fn release(api: &Api<Lease>, settings: &Settings) -> Result<(), kube::Error> {
    let mut lease = api.get(&settings.name).await?;
    let Some(spec) = lease.spec.as_mut() else { return Ok(()) };
    if spec.holder_identity.as_deref() == Some(&settings.identity) {
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(1);
        api.replace(&settings.name, &PostParams::default(), &lease).await?;
    }
    Ok(())
}
