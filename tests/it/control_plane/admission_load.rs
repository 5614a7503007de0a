//! Two replicas behind what stands for a Service, asked without a pause by a real API server that refuses whatever they
//! do not answer: nothing that happens to certificates or processes may fail a single request.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use etcd_warden::admission::tls::{Authority, Bundle};
use k8s_openapi::jiff::Timestamp;

use crate::bed::creates::Creates;
use crate::bed::warden::install_crds;
use crate::bed::{Balancer, ControlPlane, Warden, wait_for};

const SECRET: &str = "etcd-warden-webhook";
/// Seconds: life of an authority and of a leaf, spread, recheck.
const SHORT_LIVES: &str = "--certificate-times=24,9,2,1";
const LONG_LIVES: &str = "--certificate-times=86400,86400,2,1";

/// Two replicas, enforced.
struct Installation {
    bed: ControlPlane,
    client: Client,
    namespace: String,
    balancer: Balancer,
    replicas: Vec<Warden>,
}

impl Installation {
    async fn start(flags: impl Fn(usize) -> Vec<String>) -> Self {
        let bed = ControlPlane::start(crate::bed::control_plane::Options::default()).await;
        install_crds(&bed).await;
        let (client, namespace) = (bed.client().await, bed.namespace("warden").await);
        let mut this = Self { bed, client, namespace, balancer: Balancer::start().await, replicas: Vec::new() };
        for at in 0..2 {
            this.add(&flags(at)).await;
        }
        this.replicas[0].wait_enforced(&this.client).await;
        this
    }

    async fn add(&mut self, flags: &[String]) {
        let replica = Warden::replica(self.bed.kubeconfig(), &self.namespace, &self.balancer.url(), flags);
        self.balancer.add(replica.backend());
        replica.wait_ready().await;
        self.replicas.push(replica);
    }

    async fn load(&self) -> Creates {
        Creates::start(&self.client, &self.bed.namespace("tenant").await)
    }

    fn secret(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// How often a replica has changed its certificate.
    fn renewals(&self) -> Vec<usize> {
        self.replicas.iter().map(|replica| replica.log().matches("serving certificate renewed").count()).collect()
    }

    async fn bundle(&self) -> Bundle {
        let live: ValidatingWebhookConfiguration = Api::all(self.client.clone()).get("etcd-warden").await.unwrap();
        let webhooks = live.webhooks.unwrap();
        let bundle = webhooks[0].client_config.ca_bundle.as_ref().unwrap();
        Bundle::parse(std::str::from_utf8(&bundle.0).unwrap()).unwrap()
    }
}

#[tokio::test]
async fn authorities_and_leaves_are_renewed_under_load_without_a_failed_request() {
    let installation = Installation::start(|_| vec![SHORT_LIVES.to_owned()]).await;
    let first = installation.bundle().await;
    let load = installation.load().await;
    // Authorities are succeeded after sixteen seconds.
    wait_for("two more authorities, and both replicas to follow", Duration::from_mins(2), async || {
        let bundle = installation.bundle().await;
        let renewals = installation.renewals();
        let gone = !first.certificates().any(|old| bundle.certificates().any(|live| live == old));
        if gone && renewals.iter().all(|count| *count >= 8) {
            Ok(())
        } else {
            Err(format!("renewals {renewals:?}, {} authorities in the bundle", bundle.certificates().count()))
        }
    })
    .await;
    let asked = load.end().await;
    assert!(asked > 500, "{asked}");
    assert!(installation.bundle().await.certificates().count() <= 4, "those that have ended leave");
}

#[tokio::test]
async fn whatever_is_done_to_the_shared_secret_no_request_fails() {
    let installation = Installation::start(|_| vec![LONG_LIVES.to_owned()]).await;
    let (secret, first) = (installation.secret(), installation.bundle().await);
    let before = secret.get(SECRET).await.unwrap();
    let load = installation.load().await;

    // Deleted: put back as it was.
    secret.delete(SECRET, &DeleteParams::default()).await.unwrap();
    wait_for("the Secret to be put back", Duration::from_secs(10), async || {
        let now = secret.get(SECRET).await.map_err(|error| error.to_string())?;
        if now.data == before.data && now.uid() != before.uid() { Ok(()) } else { Err("another one".to_owned()) }
    })
    .await;

    // Damaged: likewise.
    let spoil = json!({"data": {"tls.key": ByteString(b"nonsense".to_vec())}});
    secret.patch(SECRET, &PatchParams::default(), &Patch::Merge(spoil)).await.unwrap();
    wait_for("the Secret to be repaired", Duration::from_secs(10), async || {
        let now = secret.get(SECRET).await.map_err(|error| error.to_string())?;
        if now.data == before.data { Ok(()) } else { Err("damaged".to_owned()) }
    })
    .await;
    assert_eq!(installation.bundle().await, first);

    // Replaced by somebody who did not think of the old one: taken over, the old one trusted meanwhile.
    let other = Authority::generate(Timestamp::now(), Duration::from_hours(24)).unwrap();
    let pem = |text: &str| ByteString(text.as_bytes().to_vec());
    let replace = json!({"data": {"tls.crt": pem(other.certificate_pem()), "ca.crt": pem(other.certificate_pem()),
        "tls.key": pem(other.key_pem())}});
    let renewals = installation.renewals();
    secret.patch(SECRET, &PatchParams::default(), &Patch::Merge(replace)).await.unwrap();
    wait_for("both replicas to serve with the other authority", Duration::from_secs(30), async || {
        let now = installation.renewals();
        if now.iter().zip(&renewals).all(|(now, then)| now > then) { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let bundle = installation.bundle().await;
    assert!(bundle.covers(&first) && bundle.covers(&Bundle::parse(other.certificate_pem()).unwrap()));
    assert!(load.end().await > 100);
}

/// Writes a certificate as a kubelet does: into a folder of its own, to which a link is turned.
fn mount(directory: &Path, version: &str, authority: &Authority) {
    let leaf = authority.issue(&["127.0.0.1".to_owned()], Timestamp::now(), Duration::from_hours(1)).unwrap();
    let folder = directory.join(version);
    std::fs::create_dir_all(&folder).unwrap();
    let files = [
        ("tls.crt", leaf.certificate_pem.as_str()),
        ("tls.key", &leaf.key_pem),
        ("ca.crt", authority.certificate_pem()),
    ];
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
        let link = directory.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(format!("..data/{name}"), link).unwrap();
        }
    }
    let (staged, data) = (directory.join("..data_tmp"), directory.join("..data"));
    std::os::unix::fs::symlink(version, &staged).unwrap();
    std::fs::rename(staged, data).unwrap();
}

#[tokio::test]
async fn given_certificates_of_another_authority_reach_replicas_one_after_the_other_without_a_failed_request() {
    let folder = tempfile::tempdir().unwrap();
    let directories = [folder.path().join("one"), folder.path().join("two")];
    let generate = || Authority::generate(Timestamp::now(), Duration::from_hours(24)).unwrap();
    let (old, new) = (generate(), generate());
    for directory in &directories {
        std::fs::create_dir_all(directory).unwrap();
        std::os::unix::fs::symlink("first", directory.join("..data")).unwrap();
        mount(directory, "first", &old);
    }
    let flags = |at: usize| {
        let directory: &Path = &directories[at];
        vec![format!("--certificate-dir={}", directory.display()), LONG_LIVES.to_owned()]
    };
    let mut installation = Installation::start(flags).await;
    let load = installation.load().await;
    for (at, directory) in directories.iter().enumerate() {
        mount(directory, "second", &new);
        wait_for("the replica to serve its new certificate", Duration::from_secs(30), async || {
            let renewals = installation.renewals();
            if renewals[at] == 1 { Ok(()) } else { Err(format!("{renewals:?}")) }
        })
        .await;
        // A kubelet may be minutes behind the other.
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
    let both = Bundle::parse(old.certificate_pem()).unwrap().and(&Bundle::parse(new.certificate_pem()).unwrap());
    assert!(installation.bundle().await.covers(&both));
    // A replica that starts now serves with what it finds, and is ready when it is trusted.
    installation.add(&flags(0)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(load.end().await > 100);
}

#[tokio::test]
async fn replicas_are_replaced_one_after_the_other_without_a_failed_request() {
    let mut installation = Installation::start(|_| vec![LONG_LIVES.to_owned(), "--quiet-seconds=2".to_owned()]).await;
    let load = installation.load().await;
    for _ in 0..2 {
        installation.add(&[LONG_LIVES.to_owned(), "--quiet-seconds=2".to_owned()]).await;
        let old = installation.replicas.remove(0);
        let (leash, daemon) = old.daemon();
        leash.signal(daemon, 15);
        wait_for("the old replica to end", Duration::from_secs(40), async || {
            leash.ended(daemon).ok_or_else(|| "it runs".to_owned())
        })
        .await;
        assert!(old.log().contains("admission is quiet"), "{}", old.log());
        installation.balancer.remove(old.backend());
    }
    assert!(load.end().await > 100);
}

#[tokio::test]
async fn a_deleted_configuration_stays_away_until_the_next_rollout() {
    let bed = ControlPlane::start(crate::bed::control_plane::Options::default()).await;
    install_crds(&bed).await;
    let client = bed.client().await;
    let namespace = bed.namespace("warden").await;
    let start = |rollout: &str| {
        let flags = [format!("--rollout={rollout}"), "--certificate-times=12,12,0,1".to_owned()];
        Warden::start_as(&bed, bed.kubeconfig(), &namespace, &flags.each_ref().map(String::as_str))
    };
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let there = async || configurations.get_opt("etcd-warden").await.unwrap().is_some();
    let first = start("aaa");
    first.wait_ready().await;
    first.wait_enforced(&client).await;

    configurations.delete("etcd-warden", &DeleteParams::default()).await.unwrap();
    // A running server has a reason to write: its certificate is renewed again and again.
    wait_for("the server to notice", Duration::from_secs(20), async || {
        let (_, metrics) = first.admin("/metrics").await?;
        let line = metrics.lines().find(|line| line.starts_with("etcd_warden_webhook_enforcing "));
        if line.is_some_and(|line| line.ends_with(" 0")) { Ok(()) } else { Err(format!("{line:?}")) }
    })
    .await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!there().await);

    // Nor does one of the same rollout that crashed and starts again.
    let (leash, daemon) = first.daemon();
    leash.kill(daemon);
    leash.restart(daemon);
    first.wait_ready().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!there().await);
    assert!(first.log().contains("not made again before the next rollout"), "{}", first.log());

    let second = start("bbb");
    second.wait_ready().await;
    second.wait_enforced(&client).await;
}
