//! A seed comes up: from an EtcdMember to a volume, a Pod, and an etcd that takes keys.

use super::scene::{Scene, VERSION};
use super::story::{NoEnd, Story};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

/// The story.
pub struct BringUp;

/// The seed's name.
pub const MEMBER: &str = "m";

/// The cluster `etcd` and its Service, as they are without our cluster controller.
pub fn cluster_without_members() -> String {
    let version = VERSION.number();
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: etcd}}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{etcd-operator.cozystack.io/cluster: etcd}}
  ports: [{{name: peer, port: 2380}}]
---
apiVersion: etcd-operator.cozystack.io/v1alpha2
kind: EtcdCluster
metadata: {{name: etcd}}
spec: {{version: {version}, replicas: 1, storage: {{size: 1Gi}}}}
"
    )
}

/// The seed of that cluster, as our cluster controller would make and admit it.
pub fn seed(namespace: &str, cluster_uid: &str) -> String {
    let version = VERSION.number();
    format!(
        "
apiVersion: etcd-operator.cozystack.io/v1alpha2
kind: EtcdMember
metadata:
  name: {MEMBER}
  labels: {{etcd-operator.cozystack.io/cluster: etcd}}
  ownerReferences:
  - {{apiVersion: etcd-operator.cozystack.io/v1alpha2, kind: EtcdCluster, name: etcd, uid: {cluster_uid}, controller: true}}
spec:
  clusterName: etcd
  clusterToken: t
  bootstrap: true
  initialCluster: {MEMBER}=http://{MEMBER}.etcd.{namespace}.svc:2380
  version: {version}
  storage: {{size: 1Gi}}
"
    )
}

impl Story for BringUp {
    const NAME: &'static str = "a member comes up";
    const CONTROLLERS: &'static str = "etcdmember";

    async fn prepare(&self, scene: &Scene) -> String {
        let namespace = scene.plane.api.namespace("member").await;
        scene.apply(&namespace, &cluster_without_members()).await;
        namespace
    }

    async fn begin(&self, scene: &Scene, namespace: &str) {
        let clusters: Api<etcd_warden::api::etcdcluster::EtcdCluster> =
            Api::namespaced(scene.plane.client().await, namespace);
        let uid = clusters.get("etcd").await.expect("the cluster").uid().unwrap_or_default();
        scene.apply(namespace, &seed(namespace, &uid)).await;
    }

    async fn look(&self, scene: &Scene, namespace: &str) -> Result<&'static str, NoEnd> {
        let pods = scene.plane.members(namespace, "etcd").await;
        if pods.len() > 1 {
            return Err(NoEnd::Never(format!("one member, and {} Pods", pods.len())));
        }
        let pod = pods.first().ok_or("no Pod yet")?;
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(scene.plane.client().await, namespace);
        let claims = claims.list(&ListParams::default()).await.map_err(|e| e.to_string())?.items;
        if claims.len() != 1 {
            return Err(NoEnd::Never(format!("one Pod, and {} claims", claims.len())));
        }
        scene.plane.etcdctl(pod, &["put", "key", "value"]).await?;
        let members = scene.plane.etcdctl(pod, &["member", "list", "--write-out=simple"]).await?;
        if members.lines().count() != 1 {
            return Err(NoEnd::Never(format!("a cluster of one with {members:?}")));
        }
        // What the member's controller knows only from etcd: the last of its writes.
        let ids: Api<etcd_warden::api::etcdmember::EtcdMember> = Api::namespaced(scene.plane.client().await, namespace);
        let member = ids.get(MEMBER).await.map_err(|e| e.to_string())?;
        let id = member.status.unwrap_or_default().member_id.unwrap_or_default();
        if id.is_empty() {
            return Err("etcd runs, and the member does not know who it is".into());
        }
        // etcdctl prints the number without leading zeros.
        if !members.starts_with(id.trim_start_matches('0')) {
            return Err(NoEnd::Never(format!("the member says {id:?}, and etcd {members:?}")));
        }
        Ok("up")
    }
}
