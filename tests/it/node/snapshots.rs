//! A snapshot of a cluster with TLS and passwords, stored in an S3 server with a private authority, and another cluster
//! that starts from it in another namespace, with a newer etcd.

use std::path::Path;

use etcd_warden::api::etcdsnapshot::EtcdSnapshot;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, LogParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::scene::{Access, READY_WITHIN, Scene};
use crate::bed::etcd::Version;
use crate::bed::node::HOST_NAME;
use crate::bed::pki::Authority;
use crate::bed::s3::OWNER;
use crate::bed::wait_for;

fn secret(name: &str, type_: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": type_, "stringData": data})
}

/// A scene with the Secrets for TLS, passwords and S3 in it, and the way for etcdctl to go.
async fn prepared(authority: &Authority, folder: &Path) -> Scene {
    let mut scene = Scene::empty().await;
    let members = format!("*.c.{}.svc", scene.namespace);
    let service = format!("c-client.{}.svc", scene.namespace);
    // The Pods' addresses are in it for the sake of this test only, which knows no names of the cluster.
    let network = network(&scene);
    let places = (64..66).flat_map(|third| (1..255).map(move |last| (third, last)));
    let range: Vec<String> = places.map(|(third, last)| format!("{network}.{third}.{last}")).collect();
    let names: Vec<&str> =
        [members.as_str(), &service, "localhost"].into_iter().chain(range.iter().map(String::as_str)).collect();
    let server = authority.issue("c", None, &names);
    let pair = json!({"tls.crt": server.certificate, "tls.key": server.key, "ca.crt": authority.pem()});
    let s3 = scene.node.s3().await;
    for object in [
        secret("server", "Opaque", &pair),
        secret("root", "kubernetes.io/basic-auth", &json!({"username": "root", "password": "secret of root"})),
        secret("s3", "Opaque", &json!({"AWS_ACCESS_KEY_ID": OWNER.access, "AWS_SECRET_ACCESS_KEY": OWNER.secret})),
        secret("s3-ca", "Opaque", &json!({"ca.crt": s3.authority_pem()})),
    ] {
        scene.apply(&object).await;
    }
    scene.access = Access {
        authority: Some(authority.write(&folder.join("ca.crt"))),
        user: Some("root:secret of root".to_owned()),
    };
    scene
}

/// The first two bytes of the node's addresses; the first Pods follow at 64.0.
fn network(scene: &Scene) -> String {
    scene.node.host_ip().split('.').take(2).collect::<Vec<_>>().join(".")
}

fn secured(more: &Value) -> Value {
    let mut spec = json!({"tls": {"client": {"serverSecretRef": {"name": "server"}}},
        "auth": {"enabled": true, "rootCredentialsSecretRef": {"name": "root"}}});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secured_cluster_of_3_5_comes_back_as_3_6_in_another_namespace() {
    let authority = Authority::new("clusters");
    let folder = tempfile::tempdir().unwrap();
    let source = prepared(&authority, folder.path()).await;
    source.create(3, &secured(&json!({"version": Version::V3_5.number()}))).await;
    source.reconciled(3).await;
    wait_for("authentication", READY_WITHIN, async || {
        if source.status().await.auth_enabled == Some(true) { Ok(()) } else { Err("not on yet".to_owned()) }
    })
    .await;
    for number in 0..20 {
        source.etcdctl(&["put", &format!("key/{number}"), &format!("value {number}")]).await.unwrap();
    }

    let s3 = source.node.s3().await;
    s3.bucket(&source.namespace).await;
    let place = |key: &str| {
        json!({"s3": {"endpoint": s3.endpoint_at(HOST_NAME), "bucket": source.namespace, "key": key,
            "forcePathStyle": true, "credentialsSecretRef": {"name": "s3"}, "caSecretRef": {"name": "s3-ca"}}})
    };
    let snapshot = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdSnapshot",
        "metadata": {"name": "one"}, "spec": {"clusterRef": {"name": "c"}, "destination": place("snapshots")}});
    source.apply(&snapshot).await;
    let uri = stored(&source).await;
    let key = uri.rsplit_once(&format!("{}/", source.namespace)).expect("bucket and key").1;

    let target = prepared(&authority, folder.path()).await;
    target.create(3, &secured(&json!({"bootstrap": {"restore": {"source": place(key)}}}))).await;
    target.reconciled(3).await;
    assert_eq!(target.contents().await, source.contents().await);
    let status = target.status().await;
    assert_eq!(status.restored.map(|restored| restored.uri), Some(uri));
    assert!(target.members().await.iter().all(|member| {
        member.status.as_ref().and_then(|status| status.version.as_deref()) == Some(Version::V3_6.number())
    }));
    // Without the password nobody is let in.
    let anonymous = Scene { access: Access { user: None, ..target.access.clone() }, ..Scene::of(&target) };
    anonymous.etcdctl(&["get", "key/1"]).await.expect_err("authentication came back with the data");
}

/// A claim that is provisioned when its first Pod comes, and can be written from one node only.
const VOLUME: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: snapshots}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

/// A Pod that says of each file on the volume whose it is, how large, and who may read it.
const READER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: reader
    image: docker.io/library/busybox:1.35.0
    command: [sh, -ec, 'cd /data && find . -type f | sort | xargs stat -c \"%n %u:%g %s\"']
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: snapshots, readOnly: true}}]
";

/// O4: the file is its agent's own user's, in a namespace that lets only restricted Pods in, and the restore, of the same
/// user, can read it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_on_a_volume_is_its_agents_own_and_a_cluster_starts_from_it() {
    let scene = Scene::start(1, &json!({})).await;
    scene.reconciled(1).await;
    for number in 0..20 {
        scene.etcdctl(&["put", &format!("key/{number}"), &format!("value {number}")]).await.unwrap();
    }
    let contents = scene.contents().await;
    scene.node.apply(&scene.namespace, VOLUME).await;
    let destination = json!({"pvc": {"claimName": "snapshots", "subPath": "of/c"}});
    let snapshot = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdSnapshot",
        "metadata": {"name": "one"}, "spec": {"clusterRef": {"name": "c"}, "destination": destination}});
    scene.apply(&snapshot).await;
    let uri = stored(&scene).await;
    let snapshots: Api<EtcdSnapshot> = Api::namespaced(scene.node.client().await, &scene.namespace);
    let artifact = snapshots.get("one").await.unwrap().status.unwrap().artifact.unwrap();

    scene.node.apply(&scene.namespace, READER).await;
    let pods: Api<Pod> = Api::namespaced(scene.node.client().await, &scene.namespace);
    wait_for("the volume to be read", READY_WITHIN, async || {
        let phase = pods.get("reader").await.map_err(|e| e.to_string())?.status.and_then(|s| s.phase);
        if phase.as_deref() == Some("Succeeded") { Ok(()) } else { Err(format!("phase {phase:?}")) }
    })
    .await;
    let listed = pods.logs("reader", &LogParams::default()).await.unwrap();
    let size = artifact.size_bytes.unwrap();
    let lines: Vec<&str> = listed.lines().collect();
    let [file, owner] = lines.as_slice() else { panic!("not a snapshot and its owner's mark: {listed}") };
    assert_eq!(*file, format!("./of/c/one.db 65532:65532 {size}"));
    assert!(owner.starts_with("./of/c/one.db.uid 65532:65532 "), "{owner}");

    // The old cluster goes; the volume is nobody's, and stays.
    scene.clusters.delete("c", &DeleteParams::foreground()).await.unwrap();
    wait_for("the name to be free", READY_WITHIN, async || {
        match scene.clusters.get_opt("c").await.map_err(|e| e.to_string())? {
            None => Ok(()),
            Some(_) => Err("still there".to_owned()),
        }
    })
    .await;
    let source = json!({"pvc": {"claimName": "snapshots", "subPath": "of/c/one.db"}});
    scene.create(1, &json!({"bootstrap": {"restore": {"source": source}}})).await;
    scene.reconciled(1).await;
    assert_eq!(scene.contents().await, contents);
    let restored = scene.status().await.restored.expect("the restore is latched");
    assert!(restored.uri.ends_with("/of/c/one.db") && uri.ends_with("/of/c/one.db"), "{uri}, {restored:?}");
}

async fn stored(scene: &Scene) -> String {
    let snapshots: Api<EtcdSnapshot> = Api::namespaced(scene.node.client().await, &scene.namespace);
    wait_for("the snapshot to be stored", READY_WITHIN, async || {
        let status = snapshots.get("one").await.map_err(|e| e.to_string())?.status.unwrap_or_default();
        match status.artifact {
            Some(artifact) if status.phase.as_deref() == Some("Complete") => Ok(artifact.uri),
            _ => Err(format!("{status:?}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namesake_of_a_cluster_that_still_goes_is_healthy_and_takes_nothing_over() {
    let scene = Scene::start(3, &json!({})).await;
    scene.reconciled(3).await;
    scene.etcdctl(&["put", "key", "of the first"]).await.unwrap();
    let first = scene.status().await.cluster_id;
    let old: Vec<String> = scene.members().await.iter().filter_map(ResourceExt::uid).collect();
    scene.clusters.delete("c", &DeleteParams::background()).await.unwrap();
    wait_for("the name to be free", READY_WITHIN, async || {
        match scene.clusters.get_opt("c").await.map_err(|e| e.to_string())? {
            None => Ok(()),
            Some(_) => Err("still there".to_owned()),
        }
    })
    .await;
    scene.create(3, &json!({})).await;
    let left = scene.members().await.iter().filter(|member| old.contains(&member.uid().unwrap_or_default())).count();
    println!("{left} members of the first cluster were there when the second one was made");
    scene.reconciled(3).await;
    assert_ne!(scene.status().await.cluster_id, first);
    assert!(scene.members().await.iter().all(|member| !old.contains(&member.uid().unwrap_or_default())));
    assert_eq!(scene.etcdctl(&["get", "key"]).await.unwrap(), "");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(scene.node.client().await, &scene.namespace);
    wait_for("the first cluster's volumes to be gone", READY_WITHIN, async || {
        let left = claims.list(&ListParams::default()).await.map_err(|e| e.to_string())?.items.len();
        if left == 3 { Ok(()) } else { Err(format!("{left} claims")) }
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_fits_no_node_is_named_and_comes_up_once_it_is_made_to_fit() {
    let scene = Scene::start(1, &json!({"resources": {"requests": {"cpu": "1000"}}})).await;
    scene.says("Progressing=True", "WaitingForSeed", "it cannot be scheduled").await;
    scene.patch(&json!({"resources": {"requests": {"cpu": "50m"}}})).await;
    scene.reconciled(1).await;
}
