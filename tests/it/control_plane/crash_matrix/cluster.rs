//! A cluster comes up: from an EtcdCluster of two to two voters that take keys, with its Services and its budget.

use super::scene::{Scene, VERSION};
use super::story::{NoEnd, Story};
use etcd_warden::api::etcdmember::EtcdMember;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Api;
use kube::api::ListParams;

/// The story. Two members have every step that more have.
pub struct Grow;

const MEMBERS: usize = 2;

impl Story for Grow {
    const NAME: &'static str = "a cluster comes up";
    const CONTROLLERS: &'static str = "etcdcluster,etcdmember";

    async fn prepare(&self, scene: &Scene) -> String {
        scene.plane.api.namespace("grow").await
    }

    async fn begin(&self, scene: &Scene, namespace: &str) {
        let version = VERSION.number();
        let cluster = format!(
            "
apiVersion: etcd-operator.cozystack.io/v1alpha2
kind: EtcdCluster
metadata: {{name: etcd}}
spec: {{version: {version}, replicas: {MEMBERS}, storage: {{size: 1Gi}}}}
"
        );
        scene.apply(namespace, &cluster).await;
    }

    async fn look(&self, scene: &Scene, namespace: &str) -> Result<&'static str, NoEnd> {
        let client = scene.plane.client().await;
        let all: Api<EtcdMember> = Api::namespaced(client.clone(), namespace);
        let members = all.list(&ListParams::default()).await.map_err(|e| e.to_string())?.items;
        let seeds = members.iter().filter(|member| member.spec.bootstrap == Some(true)).count();
        if seeds > 1 || members.len() > MEMBERS {
            return Err(NoEnd::Never(format!("{seeds} seeds among {} members", members.len())));
        }
        if members.len() < MEMBERS {
            return Err(format!("{} members", members.len()).into());
        }
        let mut ids = Vec::new();
        for pod in scene.plane.members(namespace, "etcd").await {
            let listed = scene.plane.etcdctl(&pod, &["member", "list", "--write-out=simple"]).await?;
            if listed.lines().count() != MEMBERS || !listed.lines().all(|line| line.ends_with("false")) {
                return Err(format!("not {MEMBERS} voters: {listed}").into());
            }
            scene.plane.etcdctl(&pod, &["put", "key", "value"]).await?;
            ids.push(scene.plane.etcdctl(&pod, &["endpoint", "status", "--write-out=fields"]).await?);
        }
        let cluster_id = |status: &String| status.lines().find(|line| line.contains("ClusterID")).map(str::to_owned);
        let clusters: std::collections::BTreeSet<_> = ids.iter().filter_map(cluster_id).collect();
        if clusters.len() > 1 {
            return Err(NoEnd::Never(format!("members of different clusters: {clusters:?}")));
        }
        if ids.len() != MEMBERS {
            return Err(format!("{} Pods", ids.len()).into());
        }
        let services: Api<Service> = Api::namespaced(client.clone(), namespace);
        for name in ["etcd", "etcd-client"] {
            services.get(name).await.map_err(|e| e.to_string())?;
        }
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(client, namespace);
        let budget = budgets.get("etcd").await.map_err(|e| e.to_string())?.spec.unwrap_or_default();
        if budget.min_available != Some(IntOrString::Int(2)) {
            return Err(format!("the budget is {budget:?}").into());
        }
        Ok("up")
    }
}
