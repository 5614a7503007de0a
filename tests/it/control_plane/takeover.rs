//! A live cluster that another operator made under the documented names is taken over, grown, backed up and restored,
//! and what is then left when our controllers stop is what that operator would have made.

use etcd_warden::api::etcdmember::EtcdMember;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::restore_stage::{Stage, WITHIN, plane};
use crate::bed::etcd::Version;
use crate::bed::wait_for;

/// The member that the other operator made.
const SEED: &str = "etcd-x7k2p";
const GROUP: &str = "etcd-operator.cozystack.io";

/// What a member's objects and etcd's flags look like with the other operator, from its documented behaviour. What the
/// table does not name is free.
fn table(namespace: &str, member: &str, peers: &str, token: &str) -> [Value; 4] {
    let labels = json!({"app.kubernetes.io/name": "etcd", "app.kubernetes.io/instance": "etcd",
        "app.kubernetes.io/managed-by": "etcd-operator", "app.kubernetes.io/component": member,
        "etcd-operator.cozystack.io/cluster": "etcd"});
    let host = format!("{member}.etcd.{namespace}.svc");
    let version = Version::V3_6.number();
    [
        json!({"apiVersion": format!("{GROUP}/v1alpha2"), "kind": "EtcdMember",
            "metadata": {"name": member, "labels": labels, "finalizers": [format!("{GROUP}/member-cleanup")]},
            "spec": {"clusterName": "etcd", "clusterToken": token, "initialCluster": peers, "version": version}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": format!("data-{member}"), "labels": labels},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "512Mi"}}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": member, "labels": labels},
            "spec": {"hostname": member, "subdomain": "etcd", "automountServiceAccountToken": false,
                "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{"name": "etcd", "image": format!("quay.io/coreos/etcd:v{version}"),
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                    "ports": [{"name": "client", "containerPort": 2379}, {"name": "peer", "containerPort": 2380},
                        {"name": "metrics", "containerPort": 2381}],
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                    "livenessProbe": {"tcpSocket": {"port": 2380}, "initialDelaySeconds": 15, "periodSeconds": 10},
                    "readinessProbe": {"httpGet": {"path": "/health", "port": 2381}},
                    "volumeMounts": [{"name": "data", "mountPath": "/var/lib/etcd"}]}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{member}")}}]}}),
        json!({"flags": ["etcd", format!("--name={member}"), "--data-dir=/var/lib/etcd",
            "--listen-peer-urls=http://0.0.0.0:2380", "--listen-client-urls=http://0.0.0.0:2379",
            format!("--advertise-client-urls=http://{host}:2379"),
            format!("--initial-advertise-peer-urls=http://{host}:2380"), format!("--initial-cluster={peers}"),
            format!("--initial-cluster-token={token}"), "--listen-metrics-urls=http://0.0.0.0:2381"]}),
    ]
}

/// What a cluster has besides its members.
fn surroundings() -> [Value; 3] {
    let cluster = json!({"etcd-operator.cozystack.io/cluster": "etcd"});
    let ports = |ports: &[(&str, i32)]| -> Vec<Value> {
        ports.iter().map(|(name, port)| json!({"name": name, "port": port})).collect()
    };
    [
        json!({"metadata": {"name": "etcd"}, "spec": {"clusterIP": "None", "publishNotReadyAddresses": true,
            "selector": cluster, "ports": ports(&[("client", 2379), ("peer", 2380)])}}),
        json!({"metadata": {"name": "etcd-client"}, "spec": {"selector": cluster, "ports": ports(&[("client", 2379)])}}),
        json!({"metadata": {"name": "etcd"}, "spec": {"minAvailable": 2, "selector": {"matchLabels":
            {"etcd-operator.cozystack.io/cluster": "etcd", "etcd-operator.cozystack.io/role": "voter"}}}}),
    ]
}

/// Where a live object says something else than the table: the paths.
fn differences(path: &str, wanted: &Value, live: &Value) -> Vec<String> {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => wanted
            .iter()
            .flat_map(|(key, wanted)| {
                differences(&format!("{path}/{key}"), wanted, live.get(key).unwrap_or(&Value::Null))
            })
            .collect(),
        // A seed that was restored has more volumes than the table's, as the other operator's has.
        (Value::Array(wanted), Value::Array(live)) => wanted
            .iter()
            .filter(|wanted| !live.iter().any(|live| differences(path, wanted, live).is_empty()))
            .map(|wanted| format!("{path}: {wanted} is not among {live:?}"))
            .collect(),
        (wanted, live) if wanted == live => Vec::new(),
        (wanted, live) => vec![format!("{path}: {live} instead of {wanted}")],
    }
}

fn has_nothing_of_ours<K: Resource>(object: &K) -> Result<(), String> {
    let name = object.name_any();
    let held = object.finalizers().iter().find(|finalizer| finalizer.contains("etcd-warden"));
    held.map_or(Ok(()), |held| Err(format!("{name} is held by {held}")))
}

impl Stage<'_> {
    fn all<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Makes an object as the other operator does, with its owner.
    async fn make(&self, mut object: Value, owner: &Value) {
        object["metadata"]["ownerReferences"] = json!([owner]);
        self.apply(&object).await;
    }

    async fn status<K>(&self, name: &str, status: Value)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let patch = Patch::Merge(json!({"status": status}));
        self.all::<K>().patch_status(name, &PatchParams::default(), &patch).await.expect("write a status");
    }

    /// The whole cluster of one member, as the other operator would have left it, with a key in it.
    async fn foreign_cluster(&self) {
        let spec = json!({"version": Version::V3_6.number(), "replicas": 1, "storage": {"size": "512Mi"}});
        self.apply(&json!({"apiVersion": format!("{GROUP}/v1alpha2"), "kind": "EtcdCluster",
            "metadata": {"name": "etcd"}, "spec": spec}))
            .await;
        let cluster = self.clusters().get("etcd").await.expect("the EtcdCluster");
        let owner = |kind: &str, name: &str, uid: &str| {
            json!({"apiVersion": format!("{GROUP}/v1alpha2"), "kind": kind, "name": name, "uid": uid,
                "controller": true, "blockOwnerDeletion": true})
        };
        let uid = cluster.uid().expect("a UID");
        let of_cluster = owner("EtcdCluster", "etcd", &uid);
        let token = format!("{}-etcd-{uid}", self.namespace);
        let peers = format!("{SEED}=http://{SEED}.etcd.{}.svc:2380", self.namespace);
        let [mut member, claim, mut pod, flags] = table(&self.namespace, SEED, &peers, &token);
        member["spec"]["bootstrap"] = json!(true);
        member["spec"]["storage"] = json!({"size": "512Mi"});
        self.make(member, &of_cluster).await;
        let [headless, client, _] = surroundings();
        for mut service in [headless, client] {
            service["apiVersion"] = json!("v1");
            service["kind"] = json!("Service");
            self.make(service, &of_cluster).await;
        }
        let member: EtcdMember = self.all().get(SEED).await.expect("the EtcdMember");
        let of_member = owner("EtcdMember", SEED, &member.uid().expect("a UID"));
        self.make(claim, &of_member).await;
        let mut command = flags["flags"].as_array().expect("flags").clone();
        command.push(json!("--initial-cluster-state=new"));
        pod["spec"]["containers"][0]["command"] = json!(command);
        pod["metadata"]["labels"]["etcd-operator.cozystack.io/role"] = json!("voter");
        self.make(pod, &of_member).await;
        wait_for("the other operator's etcd", WITHIN, async || {
            self.try_etcdctl(&["put", "key", "old"]).await.map(drop)
        })
        .await;
        let ids: Value = serde_json::from_str(&self.etcdctl(&["endpoint", "status", "-w", "json"]).await).unwrap();
        let header = &ids[0]["Status"]["header"];
        let id = |of: &str| format!("{:016x}", header[of].as_u64().expect("an id"));
        let pod: Pod = self.all().get(SEED).await.expect("the Pod");
        self.status::<EtcdMember>(
            SEED,
            json!({"podName": SEED, "podUID": pod.uid(), "pvcName": format!("data-{SEED}"), "isVoter": true,
                "memberID": id("member_id"), "replicas": 1}),
        )
        .await;
        let settled =
            json!({"clusterToken": token, "clusterID": id("cluster_id"), "readyMembers": 1, "observed": spec});
        self.status::<etcd_warden::api::etcdcluster::EtcdCluster>("etcd", settled).await;
    }

    /// Every live object against the table.
    async fn matches_the_table(&self) {
        let everything = ListParams::default();
        let cluster = self.clusters().get("etcd").await.expect("the EtcdCluster");
        has_nothing_of_ours(&cluster).unwrap();
        let token = cluster.status.and_then(|status| status.cluster_token).expect("a token");
        let members = self.all::<EtcdMember>().list(&everything).await.expect("EtcdMembers").items;
        assert_eq!(members.len(), 3);
        let mut found = Vec::new();
        for member in members {
            let name = member.name_any();
            has_nothing_of_ours(&member).unwrap();
            let [like_member, like_claim, like_pod, flags] =
                table(&self.namespace, &name, &member.spec.initial_cluster, &token);
            let pod: Pod = self.all().get(&name).await.expect("the Pod");
            let claim: PersistentVolumeClaim = self.all().get(&format!("data-{name}")).await.expect("the claim");
            has_nothing_of_ours(&pod).unwrap();
            has_nothing_of_ours(&claim).unwrap();
            assert_eq!(pod.labels()["etcd-operator.cozystack.io/role"], "voter");
            let command = pod.spec.as_ref().and_then(|spec| spec.containers[0].command.clone()).expect("a command");
            let lost = flags["flags"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|flag| !command.contains(&flag.as_str().unwrap().to_owned()));
            found.extend(lost.map(|flag| format!("{name} runs without {flag}: {command:?}")));
            for (wanted, live) in [
                (like_member, serde_json::to_value(&member).unwrap()),
                (like_claim, serde_json::to_value(&claim).unwrap()),
                (like_pod, serde_json::to_value(&pod).unwrap()),
            ] {
                // Typed objects do not say what they are.
                let parts =
                    ["metadata", "spec"].map(|part| differences(&format!("{name}/{part}"), &wanted[part], &live[part]));
                found.extend(parts.into_iter().flatten());
            }
        }
        let [headless, client, budget] = surroundings();
        for wanted in [headless, client] {
            let name = wanted["metadata"]["name"].as_str().unwrap().to_owned();
            let live: Service = self.all().get(&name).await.expect("a Service");
            has_nothing_of_ours(&live).unwrap();
            let live = serde_json::to_value(&live).unwrap();
            found.extend(differences(&format!("Service {name}"), &wanted, &live));
        }
        let live: PodDisruptionBudget = self.all().get("etcd").await.expect("the PodDisruptionBudget");
        has_nothing_of_ours(&live).unwrap();
        found.extend(differences("PodDisruptionBudget", &budget, &serde_json::to_value(&live).unwrap()));
        assert!(found.is_empty(), "{found:#?}");
    }
}

#[tokio::test]
async fn a_live_cluster_of_another_operator_is_taken_over_restored_and_handed_back() {
    let plane = plane().await;
    let stage = Stage::set(&plane).await;
    stage.foreign_cluster().await;
    let before: Pod = stage.all().get(SEED).await.expect("the Pod");

    let serve = plane.serve(&[]).await;
    stage.ready_cluster().await;
    // Grown by two, with the first member's Pod as it was.
    let grow = Patch::Merge(json!({"spec": {"replicas": 3}}));
    stage.clusters().patch("etcd", &PatchParams::default(), &grow).await.expect("scale up");
    stage.ready_cluster().await;
    let after: Pod = stage.all().get(SEED).await.expect("the Pod");
    assert_eq!(before.uid(), after.uid(), "the Pod that was running was replaced");
    stage.matches_the_table().await;

    stage.back_up().await;
    stage.ask("r", &json!({})).await;
    let ended = stage.end("r").await;
    assert_eq!(ended.phase.as_deref(), Some("Succeeded"), "{ended:?}");
    stage.ready_cluster().await;
    assert_eq!(stage.is_old().await, Ok(true));

    // The end is told before the job is let go.
    wait_for("the RestoreJob to be let go", WITHIN, async || {
        let job = stage.restores().get("r").await.map_err(|error| error.to_string())?;
        if job.finalizers().is_empty() { Ok(()) } else { Err(format!("{:?}", job.finalizers())) }
    })
    .await;
    serve.process.kill().await;
    stage.matches_the_table().await;
}
