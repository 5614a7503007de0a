//! `etcd-warden serve` as a process of this host, beside a control plane.

use super::balancer::Backend;
use super::leash::Leash;
use super::ports::Port;
use super::programs;
use super::{ControlPlane, wait_for};
use etcd_warden::api::crd;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::{Api, Client};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

const START_WITHIN: Duration = Duration::from_mins(1);
const DAEMON: &str = "etcd-warden";

/// A serving process that lives as long as this value.
#[derive(Debug)]
pub struct Warden {
    leash: Leash,
    webhook: Port,
    admin: Port,
}

impl Warden {
    /// Starts one as the control plane's administrator, in a namespace of its own, with these further flags. Returns as
    /// soon as it was started: see [`Warden::wait_ready`].
    pub async fn start(bed: &ControlPlane, flags: &[&str]) -> Self {
        let namespace = bed.namespace("warden").await;
        Self::start_as(bed, bed.kubeconfig(), &namespace, flags)
    }

    /// As [`Warden::start`], with a kubeconfig and a namespace of choice.
    pub fn start_as(bed: &ControlPlane, kubeconfig: &Path, namespace: &str, flags: &[&str]) -> Self {
        let this = Self::here();
        let own = [
            format!("--webhook-url={}", this.url()),
            format!("--authority-dir={}", bed.folder().join("warden-authority").display()),
            format!("--namespace={namespace}"),
            "--quiet-seconds=0".to_owned(),
        ];
        this.run(own.into_iter().chain(flags.iter().map(|&flag| flag.to_owned())), Some(kubeconfig));
        this
    }

    /// One of several replicas, which the API server reaches at `url`. They share an authority in a Secret, unless the
    /// flags say where else their certificates come from.
    pub fn replica(kubeconfig: &Path, namespace: &str, url: &str, flags: &[String]) -> Self {
        let this = Self::here();
        let own = [format!("--webhook-url={url}"), format!("--namespace={namespace}")];
        this.run(own.into_iter().chain(flags.iter().cloned()), Some(kubeconfig));
        this
    }

    /// One that the API server reaches through a Service of this name, on the port of [`Warden::address`].
    pub fn behind_service(kubeconfig: &Path, namespace: &str, service: &str, flags: &[&str]) -> Self {
        let this = Self::here();
        let own = [
            format!("--webhook-service={service}:{}", this.webhook.number()),
            format!("--namespace={namespace}"),
            "--quiet-seconds=0".to_owned(),
        ];
        this.run(own.into_iter().chain(flags.iter().map(|&flag| flag.to_owned())), Some(kubeconfig));
        this
    }

    /// One without a cluster.
    pub fn standalone(flags: &[&str]) -> Self {
        let this = Self::here();
        let own = [
            "--standalone".to_owned(),
            format!("--webhook-url={}", this.url()),
            format!("--authority-dir={}", this.leash.folder().join("authority").display()),
        ];
        this.run(own.into_iter().chain(flags.iter().map(|&flag| flag.to_owned())), None);
        this
    }

    /// One without a cluster, with certificates that somebody else makes.
    pub fn with_certificates(directory: &Path, flags: &[&str]) -> Self {
        let this = Self::here();
        let own = [
            "--standalone".to_owned(),
            format!("--webhook-url={}", this.url()),
            format!("--certificate-dir={}", directory.display()),
        ];
        this.run(own.into_iter().chain(flags.iter().map(|&flag| flag.to_owned())), None);
        this
    }

    fn here() -> Self {
        Self { leash: Leash::new("warden"), webhook: Port::take(), admin: Port::take() }
    }

    fn run(&self, flags: impl Iterator<Item = String>, kubeconfig: Option<&Path>) {
        let own = [
            "serve".to_owned(),
            format!("--webhook-address=127.0.0.1:{}", self.webhook.number()),
            format!("--admin-address=127.0.0.1:{}", self.admin.number()),
        ];
        let arguments: Vec<String> = own.into_iter().chain(flags).collect();
        let mut environment = vec!["RUST_BACKTRACE=1".to_owned()];
        environment.extend(kubeconfig.map(|file| format!("KUBECONFIG={}", file.display())));
        self.leash.start(DAEMON, &programs::server(), &arguments, &environment);
    }

    /// The authority of a standalone server, as a PEM file.
    pub fn own_authority(&self) -> PathBuf {
        self.leash.folder().join("authority/ca.crt")
    }

    /// Where it listens for admission.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.webhook.number()).into()
    }

    /// It, as a balancer knows it.
    pub fn backend(&self) -> Backend {
        Backend { address: self.address(), admin: (Ipv4Addr::LOCALHOST, self.admin.number()).into() }
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.leash.log(DAEMON)).unwrap_or_default()
    }

    /// The admission server's address.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.webhook.number())
    }

    /// The authority that signed the serving certificate, as a PEM file.
    pub fn authority(bed: &ControlPlane) -> PathBuf {
        bed.folder().join("warden-authority/ca.crt")
    }

    /// The process, to kill and restart it.
    pub fn daemon(&self) -> (&Leash, &'static str) {
        (&self.leash, DAEMON)
    }

    /// Waits until every part of it is ready.
    ///
    /// # Panics
    /// With what is missing.
    pub async fn wait_ready(&self) {
        wait_for("etcd-warden to be ready", START_WITHIN, async || {
            self.leash.check();
            let (status, body) = self.admin("/readyz").await?;
            if status == 200 { Ok(()) } else { Err(body) }
        })
        .await;
    }

    /// The configurations are installed as Ignore, and enforced as soon as the server has seen itself answer through the API
    /// server.
    pub async fn wait_enforced(&self, client: &Client) {
        let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let enforced: [(String, String); 2] =
            [("required.etcd-warden.io".into(), "Fail".into()), ("advisory.etcd-warden.io".into(), "Ignore".into())];
        wait_for("the required kinds to be enforced", Duration::from_secs(20), async || {
            self.leash.check();
            let live = configurations.get("etcd-warden").await.map_err(|error| error.to_string())?;
            let webhooks = live.webhooks.unwrap_or_default().into_iter();
            let policies: Vec<_> = webhooks.map(|w| (w.name, w.failure_policy.unwrap_or_default())).collect();
            if policies == enforced { Ok(()) } else { Err(format!("{policies:?}")) }
        })
        .await;
    }

    /// What an admin endpoint answers.
    pub async fn admin(&self, path: &str) -> Result<(u16, String), String> {
        let url = format!("http://127.0.0.1:{}{path}", self.admin.number());
        let answer = reqwest::get(url).await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        Ok((status, answer.text().await.map_err(|error| error.to_string())?))
    }
}

/// Installs our CustomResourceDefinitions and waits until the API server serves them.
pub async fn install_crds(bed: &ControlPlane) {
    let documents: Vec<String> = crd::all().iter().map(|crd| crd::to_yaml(crd).expect("YAML")).collect();
    let yaml = documents.join("---\n");
    bed.apply("", &yaml).await;
    served(bed).await;
}

/// Waits until the API server serves our CustomResourceDefinitions, whoever installs them.
pub async fn served(bed: &ControlPlane) {
    let client: Client = bed.client().await;
    for crd in crd::all() {
        let name = crd.metadata.name.expect("a CustomResourceDefinition has a name");
        let api: Api<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> =
            Api::all(client.clone());
        wait_for(format!("{name} to be served"), Duration::from_secs(20), async || {
            let live = api.get(&name).await.map_err(|error| error.to_string())?;
            let conditions = live.status.and_then(|status| status.conditions).unwrap_or_default();
            let is = |wanted: &str| conditions.iter().any(|c| c.type_ == wanted && c.status == "True");
            if is("Established") { Ok(()) } else { Err("not established".to_owned()) }
        })
        .await;
    }
}
