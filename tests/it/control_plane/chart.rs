//! The chart, installed by the real Helm into a real API server.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use etcd_warden::admission::tls::Bundle;
use etcd_warden::api::etcdcluster::{EtcdCluster, EtcdClusterSpec};
use etcd_warden::api::restorejob::{RestoreJob, RestoreJobSpec};

use crate::bed::control_plane::Options;
use crate::bed::stand_in::cert_manager::StandInCertManager;
use crate::bed::tools::{tool, tree};
use crate::bed::warden::served;
use crate::bed::{ControlPlane, Identity, Warden, wait_for};

const NAMESPACE: &str = "etcd-warden-system";
const SOON: Duration = Duration::from_secs(15);

fn helm(kubeconfig: &Path, arguments: &[&str]) {
    let output = Command::new(tool("helm"))
        .args(arguments)
        .arg("--namespace")
        .arg(NAMESPACE)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .output()
        .expect("run helm");
    assert!(output.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

async fn control_plane() -> ControlPlane {
    let controllers = ["garbage-collector-controller", "namespace-controller"].map(ToOwned::to_owned).to_vec();
    ControlPlane::start(Options { controllers, ..Options::default() }).await
}

/// Installs the chart. Its Pods never start: what runs them is tested on a node.
async fn install(bed: &ControlPlane, values: &[&str]) {
    let chart = tree().join("charts/etcd-warden");
    let command = ["install", "etcd-warden", chart.to_str().unwrap(), "--create-namespace"];
    helm(bed.kubeconfig(), &[&command, values].concat());
    served(bed).await;
}

async fn installed() -> ControlPlane {
    let bed = control_plane().await;
    install(&bed, &[]).await;
    bed
}

fn account() -> Identity {
    Identity::ServiceAccount { namespace: NAMESPACE.to_owned(), name: "etcd-warden".to_owned() }
}

/// One whose image ships no etcdutl to restore it with.
fn unrestorable() -> EtcdCluster {
    let mut old = cluster("old", 1);
    "3.4.23".clone_into(&mut old.spec.version);
    old.spec.bootstrap = serde_json::from_value(json!({"restore": {"source": {"s3": {
        "endpoint": "https://s3.example", "bucket": "b", "key": "k", "credentialsSecretRef": {"name": "c"}}}}}))
    .unwrap();
    old
}

fn cluster(name: &str, replicas: i32) -> EtcdCluster {
    let spec = EtcdClusterSpec { version: "3.6.16".to_owned(), replicas: Some(replicas), ..EtcdClusterSpec::default() };
    EtcdCluster::new(name, spec)
}

async fn create(client: &Client, namespace: &str, cluster: &EtcdCluster) -> Result<EtcdCluster, String> {
    let api: Api<EtcdCluster> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), cluster).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_account_may_do_what_serving_needs_and_uninstalling_leaves_nothing_that_blocks() {
    let bed = installed().await;
    let client = bed.client().await;
    let kubeconfig = bed.kubeconfig_as(&account()).await;
    let warden = Warden::start_as(&bed, &kubeconfig, NAMESPACE, &["--webhook-owner=etcd-warden"]);
    warden.wait_ready().await;
    warden.wait_enforced(&client).await;

    let tenant = bed.namespace("tenant").await;
    let refused = create(&client, &tenant, &unrestorable()).await.unwrap_err();
    assert!(refused.contains("required.etcd-warden.io"), "{refused}");
    create(&client, &tenant, &cluster("etcd", 3)).await.unwrap();
    let (leash, daemon) = warden.daemon();
    let log = std::fs::read_to_string(leash.log(daemon)).unwrap();
    let forbidden: Vec<&str> = log.lines().filter(|line| line.to_lowercase().contains("forbidden")).collect();
    assert!(forbidden.is_empty(), "{forbidden:#?}");

    let jobs: Api<RestoreJob> = Api::namespaced(client.clone(), &tenant);
    let spec = serde_json::from_value(json!({"backupRef": {"name": "b"}})).unwrap();
    jobs.create(&PostParams::default(), &RestoreJob::new("job", spec)).await.unwrap();

    // The worst order: nobody is there to answer any more, and the configurations still say Fail.
    leash.kill(daemon);
    what_must_go_on_does_and_the_guard_holds(&client, &tenant).await;
    helm(bed.kubeconfig(), &["uninstall", "etcd-warden"]);
    wait_for("the webhook configurations to go with the installation", SOON, async || {
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let all = ListParams::default();
        let left = validating.list(&all).await.map_err(|e| e.to_string())?.items.len()
            + mutating.list(&all).await.map_err(|e| e.to_string())?.items.len();
        if left == 0 { Ok(()) } else { Err(format!("{left} left")) }
    })
    .await;
    wait_for("EtcdClusters to be created as before", SOON, async || create(&client, &tenant, &cluster("new", 1)).await)
        .await;

    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in etcd_warden::api::crd::all() {
        definitions.get(&definition.metadata.name.unwrap()).await.expect("definitions stay");
    }
    let clusters: Api<EtcdCluster> = Api::namespaced(client, &tenant);
    assert!(clusters.get("etcd").await.unwrap().metadata.deletion_timestamp.is_none());
}

/// With nobody answering: statuses, metadata and finalizers can be written, and the guard refuses in its own words.
async fn what_must_go_on_does_and_the_guard_holds(client: &Client, tenant: &str) {
    let clusters: Api<EtcdCluster> = Api::namespaced(client.clone(), tenant);
    let jobs: Api<RestoreJob> = Api::namespaced(client.clone(), tenant);
    let edit = PatchParams::default();
    let refused = create(client, tenant, &cluster("other", 1)).await.unwrap_err();
    assert!(refused.contains("failed calling webhook"), "{refused}");
    let status = Patch::Merge(json!({"status": {"readyMembers": 2}}));
    let stored = clusters.patch_status("etcd", &edit, &status).await.unwrap();
    assert_eq!(stored.status.unwrap().ready_members, Some(2));
    for finalizers in [json!(["example.com/hold"]), json!(null)] {
        let metadata = json!({"metadata": {"finalizers": finalizers, "labels": {"a": "b"}}});
        clusters.patch("etcd", &edit, &Patch::Merge(metadata)).await.unwrap();
    }

    let guards = json!({"metadata": {"labels": {"etcd-warden.io/guards": "etcd"}}});
    jobs.patch("job", &edit, &Patch::Merge(guards)).await.unwrap();
    wait_for("the guard to refuse", SOON, async || {
        let refused = clusters.patch("etcd", &edit, &Patch::Merge(json!({"spec": {"replicas": 5}}))).await;
        let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
        if said.contains("RestoreJob job is restoring this EtcdCluster") { Ok(()) } else { Err(said) }
    })
    .await;
    clusters.patch_status("etcd", &edit, &status).await.unwrap();
    // Of a restore, too, the last finalizer can go.
    for finalizers in [json!(["etcd-warden.io/restore"]), json!(null)] {
        let metadata = json!({"metadata": {"finalizers": finalizers}});
        jobs.patch("job", &edit, &Patch::Merge(metadata)).await.unwrap();
    }
    jobs.delete("job", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn the_guard_holds_with_every_replica_dead() {
    let bed = installed().await;
    let client = bed.client().await;
    let tenant = bed.namespace("tenant").await;
    let elsewhere = bed.namespace("tenant").await;
    let jobs: Api<RestoreJob> = Api::namespaced(client.clone(), &tenant);
    let clusters: Api<EtcdCluster> = Api::namespaced(client.clone(), &tenant);
    let edit = PatchParams::default();
    create(&client, &tenant, &cluster("live", 1)).await.unwrap();

    // A job that guards nothing yet changes nothing.
    jobs.create(&PostParams::default(), &RestoreJob::new("job", RestoreJobSpec::default())).await.unwrap();
    create(&client, &tenant, &cluster("etcd", 1)).await.unwrap();
    clusters.delete("etcd", &DeleteParams::default()).await.unwrap();

    let guards = |name: Option<&str>| Patch::Merge(json!({"metadata": {"labels": {"etcd-warden.io/guards": name}}}));
    jobs.patch("job", &edit, &guards(Some("etcd"))).await.unwrap();
    let refused = wait_for("the guard to be enforced", SOON, async || {
        let refusal = create(&client, &tenant, &cluster("etcd", 1)).await;
        if refusal.is_ok() {
            clusters.delete("etcd", &DeleteParams::default()).await.map_err(|error| error.to_string())?;
        }
        refusal.err().ok_or_else(|| "it was admitted".to_owned())
    })
    .await;
    assert!(refused.contains("RestoreJob job is restoring this EtcdCluster"), "{refused}");
    assert!(refused.contains("etcd-warden.io/ignore-restore: job"), "{refused}");
    // Other names, other namespaces, and clusters that another job guards are free.
    create(&client, &tenant, &cluster("other", 1)).await.unwrap();
    create(&client, &elsewhere, &cluster("etcd", 1)).await.unwrap();

    // The restore itself passes, and what others may still do to its cluster is everything but changing its spec.
    create(&bed.client_as(&account()).await, &tenant, &cluster("etcd", 3)).await.unwrap();
    clusters.patch("etcd", &edit, &Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}))).await.unwrap();
    let grow = Patch::Merge(json!({"spec": {"replicas": 5}}));
    let refused = clusters.patch("etcd", &edit, &grow).await.unwrap_err().to_string();
    assert!(refused.contains("RestoreJob job"), "{refused}");
    let refused = clusters.patch_scale("etcd", &edit, &grow).await.unwrap_err().to_string();
    assert!(refused.contains("RestoreJob job"), "{refused}");

    // The two ways out: breaking the glass, and the end of the restore.
    let override_it =
        json!({"metadata": {"annotations": {"etcd-warden.io/ignore-restore": "job"}}, "spec": {"replicas": 5}});
    clusters.patch("etcd", &edit, &Patch::Merge(override_it)).await.unwrap();
    let of_another =
        json!({"metadata": {"annotations": {"etcd-warden.io/ignore-restore": "older"}}, "spec": {"replicas": 1}});
    clusters.patch("etcd", &edit, &Patch::Merge(of_another.clone())).await.unwrap_err();
    jobs.patch("job", &edit, &guards(None)).await.unwrap();
    wait_for("the guard to be lifted", SOON, async || {
        clusters.patch("etcd", &edit, &Patch::Merge(of_another.clone())).await.map_err(|error| error.to_string())
    })
    .await;
    clusters.delete("etcd", &DeleteParams::default()).await.unwrap();
}

/// The files of the Secret that the chart mounts for the server, as a kubelet would write them; the new ones appear at
/// once. Returns the Secret's certificate.
async fn mounted(client: &Client, directory: &Path, version: &str) -> Vec<u8> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let pod = deployments.get("etcd-warden").await.unwrap().spec.unwrap().template.spec.unwrap();
    let mut volumes = pod.volumes.unwrap().into_iter();
    let name = volumes.find_map(|volume| volume.secret?.secret_name).expect("a Secret is mounted");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let secret = wait_for(format!("Secret {name} to be signed"), SOON, async || {
        let secret = secrets.get(&name).await.map_err(|error| error.to_string())?;
        secret.data.filter(|data| data.contains_key("tls.crt")).ok_or_else(|| "no tls.crt in it".to_owned())
    })
    .await;
    let folder = directory.join(version);
    std::fs::create_dir(&folder).unwrap();
    for (file, bytes) in &secret {
        std::fs::write(folder.join(file), &bytes.0).unwrap();
        let link = directory.join(file);
        if !link.is_symlink() {
            symlink(format!("..data/{file}"), link).unwrap();
        }
    }
    let staged = directory.join("..data_tmp");
    symlink(version, &staged).unwrap();
    std::fs::rename(staged, directory.join("..data")).unwrap();
    secret["tls.crt"].0.clone()
}

/// The certificate that a server shows to somebody who asks for the Service and trusts this authority only.
async fn shown(warden: &Warden, authority: &str) -> Result<CertificateDer<'static>, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(warden.address()).await.map_err(|error| error.to_string())?;
    let name = ServerName::try_from(format!("etcd-warden.{NAMESPACE}.svc")).unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| error.to_string())?;
    let (_, connection) = stream.get_ref();
    Ok(connection.peer_certificates().expect("a certificate")[0].clone().into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cert_manager_signs_for_the_server_and_what_it_renews_is_taken_up() {
    let bed = control_plane().await;
    let signer = StandInCertManager::start(&bed).await;
    let source = "--set=webhook.certificate.source=cert-manager,webhook.certificate.certManager.issuerRef.name=corp";
    install(&bed, &[source]).await;
    let client = bed.client().await;
    let directory = tempfile::tempdir().unwrap();
    let first = mounted(&client, directory.path(), "first").await;

    // Pods would stand behind the chart's Service; a process of this host does here, under the Service's name.
    let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    services.delete("etcd-warden", &DeleteParams::default()).await.unwrap();
    let here =
        json!({"metadata": {"name": "etcd-warden"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    services.create(&PostParams::default(), &serde_json::from_value(here).unwrap()).await.unwrap();
    let kubeconfig = bed.kubeconfig_as(&account()).await;
    let files = format!("--certificate-dir={}", directory.path().display());
    let flags = [files.as_str(), "--webhook-owner=etcd-warden", "--certificate-times=86400,86400,2,1"];
    let warden = Warden::behind_service(&kubeconfig, NAMESPACE, "etcd-warden", &flags);
    warden.wait_ready().await;
    // Seen to answer through the API server: by the name in the certificate, and with the bundle that trusts its issuer.
    warden.wait_enforced(&client).await;

    let tenant = bed.namespace("tenant").await;
    let is_served = async |certificate: &[u8]| {
        let expected = CertificateDer::from_pem_slice(certificate).unwrap();
        wait_for("the Secret's certificate to be served", SOON, async || {
            let served = shown(&warden, signer.authority()).await?;
            if served == expected { Ok(()) } else { Err("another one is".to_owned()) }
        })
        .await;
        let live: ValidatingWebhookConfiguration = Api::all(client.clone()).get("etcd-warden").await.unwrap();
        let webhook = live.webhooks.unwrap().remove(0);
        assert_eq!(webhook.client_config.service.unwrap().name, "etcd-warden");
        let bundle = String::from_utf8(webhook.client_config.ca_bundle.unwrap().0).unwrap();
        let [bundle, authority] = [&bundle, signer.authority()].map(|pem| Bundle::parse(pem).unwrap());
        assert!(bundle.covers(&authority) && bundle.certificates().count() == 1);
        let refused = create(&client, &tenant, &unrestorable()).await.unwrap_err();
        assert!(refused.contains("required.etcd-warden.io") && refused.contains("etcdutl"), "{refused}");
    };
    is_served(&first).await;
    create(&client, &tenant, &cluster("etcd", 3)).await.unwrap();

    // Renewed: the same authority, another key.
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let name = secrets.list(&ListParams::default()).await.unwrap().items.into_iter().find_map(|secret| {
        let of_the_server = secret.data.as_ref()?.get("tls.crt")?.0 == first;
        of_the_server.then_some(secret.metadata.name).flatten()
    });
    secrets.delete(&name.unwrap(), &DeleteParams::default()).await.unwrap();
    let second = mounted(&client, directory.path(), "second").await;
    assert_ne!(first, second);
    is_served(&second).await;
    assert!(warden.log().contains("serving certificate renewed"), "{}", warden.log());
}
