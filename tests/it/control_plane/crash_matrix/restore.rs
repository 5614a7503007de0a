//! A restore, and one that is aborted once the old cluster is gone, disturbed at each write. Several are told at the same
//! time, each in a namespace of its own, by one server: a kill that one of them asks for hits the others, too.
#![allow(clippy::print_stdout, reason = "a matrix says what it did")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use etcd_warden::api::etcdcluster::EtcdCluster;
use etcd_warden::api::etcdmember::EtcdMember;
use etcd_warden::api::etcdsnapshot::EtcdSnapshot;
use futures::future::join_all;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::injection::{Fault, Injection, writes};
use super::run::{Selection, injections};
use super::story::NoEnd;
use crate::bed::api_server::Identity;
use crate::bed::fault_proxy::HttpProxy;
use crate::bed::stand_in::Plane;
use crate::bed::stand_in::plane::Serve;
use crate::control_plane::restore_stage::{Stage, plane};

/// Restores that go on at the same time: each waits for Pods and looks for more than half of its time, and keeps two
/// processors busy only together with others.
const AT_ONCE: usize = 5;
/// How long one may take, however it is disturbed.
const WITHIN: Duration = Duration::from_mins(4);
const PAUSE: Duration = Duration::from_millis(100);
/// Data that is looked at more often would be what the machine is busy with.
const LOOK: Duration = Duration::from_millis(700);

/// What is wanted of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// That it goes through.
    Restored,
    /// It is aborted as soon as the old cluster is gone.
    Aborted,
}

/// A plane, and our server on it behind a proxy.
struct House {
    plane: Plane,
    proxy: HttpProxy,
    kubeconfig: PathBuf,
    serve: tokio::sync::Mutex<Serve>,
}

impl House {
    async fn start() -> Self {
        let plane = plane().await;
        let (proxy, kubeconfig) = plane.api.behind_proxy(&Identity::Admin).await;
        let serve = plane.serve_by(&kubeconfig, &[]).await;
        serve.wait_ready().await;
        Self { plane, proxy, kubeconfig, serve: tokio::sync::Mutex::new(serve) }
    }

    /// Kills our server, and starts another one that may lead at once.
    async fn replace_server(&self) {
        let mut serve = self.serve.lock().await;
        serve.process.kill().await;
        self.plane.release_lease().await;
        *serve = self.plane.serve_by(&self.kubeconfig, &[]).await;
        serve.wait_ready().await;
    }

    async fn last_words(&self) -> String {
        self.serve.lock().await.last_words()
    }
}

/// How one went.
struct Told {
    end: &'static str,
    writes: usize,
    met: bool,
    took: Duration,
}

/// Runs them all and prints what was done.
///
/// # Panics
/// When one does not come to an end that may stand; all others are told first.
pub async fn run(wishes: &[Wish], selection: Selection) {
    let house = House::start().await;
    let stages = join_all((0..AT_ONCE).map(|_| ready(&house))).await;
    let mut queue = Vec::new();
    for &wish in wishes {
        let peace = tell(&house, &stages[0], "peace", wish, None).await;
        let peace = peace.unwrap_or_else(|why| panic!("{wish:?} in peace: {why}"));
        println!("{wish:?}: {} writes in peace, {:?}, end: {}", peace.writes, peace.took, peace.end);
        assert!(peace.writes > 0, "no write went through the proxy");
        queue.extend(injections(peace.writes, &Fault::ALL, selection).into_iter().map(|injection| (wish, injection)));
    }
    queue.reverse();
    let all = queue.len();
    let queue = Mutex::new(queue);
    let done: Mutex<(usize, BTreeMap<String, usize>, Vec<String>)> = Mutex::default();
    join_all(stages.into_iter().map(|stage| work(&house, stage, &queue, &done))).await;
    let (met, ends, failed) = done.into_inner().unwrap();
    println!("restores: {all} told, {met} injections met their write, ends: {ends:?}, {} failed", failed.len());
    assert!(failed.is_empty(), "{} did not end well:\n{}", failed.len(), failed.join("\n"));
    assert!(met * 10 > all * 8, "only {met} of {all} injections met their write");
}

async fn ready(house: &House) -> Stage<'_> {
    let stage = Stage::set(&house.plane).await;
    stage.cluster(1).await;
    stage.back_up().await;
    stage
}

async fn work<'a>(
    house: &'a House,
    mut stage: Stage<'a>,
    queue: &Mutex<Vec<(Wish, Injection)>>,
    done: &Mutex<(usize, BTreeMap<String, usize>, Vec<String>)>,
) {
    loop {
        let Some((wish, injection)) = queue.lock().unwrap().pop() else { return };
        let name = format!("{wish:?}-{:?}-{}", injection.fault, injection.write).to_lowercase();
        match tell(house, &stage, &name, wish, Some(injection)).await {
            Ok(told) => {
                println!("{wish:?}: {injection}: {} after {:?}", told.end, told.took);
                let mut done = done.lock().unwrap();
                done.0 += usize::from(told.met);
                *done.1.entry(format!("{wish:?} -> {}", told.end)).or_default() += 1;
            }
            Err(why) => {
                println!("{wish:?}: {injection}: {why}");
                done.lock().unwrap().2.push(format!("{wish:?}: {injection}: {why}"));
                house.proxy.clear();
                stage = ready(house).await;
            }
        }
    }
}

async fn tell(
    house: &House,
    stage: &Stage<'_>,
    name: &str,
    wish: Wish,
    injection: Option<Injection>,
) -> Result<Told, String> {
    let old = stage.ready_cluster().await;
    let counted = writes(&stage.namespace);
    let before = house.proxy.count(&counted);
    let rule = injection.map(|i| house.proxy.inject(counted.clone().nth(i.write), i.fault.at_the_proxy()));
    let begin = Instant::now();
    stage.ask(name, &json!({"keepOldVolume": "1s"})).await;
    let (mut met, mut aborted, mut looked) = (false, false, Instant::now());
    let end = loop {
        if let (Some(injection), Some(rule), false) = (injection, rule, met)
            && house.proxy.applied(rule) > 0
        {
            met = true;
            if injection.fault.kills() {
                house.proxy.remove(rule);
                house.replace_server().await;
            }
        }
        let cluster = stage.clusters().get_opt("etcd").await.map_err(|error| error.to_string())?;
        let gone = cluster.as_ref().is_none_or(|cluster| cluster.uid() != old.uid());
        if wish == Wish::Aborted && gone && !aborted {
            stage.annotate(name, "etcd-warden.io/abort", "true").await;
            aborted = true;
        }
        let over = is_over(stage, name).await?;
        if !over && looked.elapsed() < LOOK {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        looked = Instant::now();
        match look(stage, name, &old, over).await {
            Ok(end) => break end,
            Err(NoEnd::Never(what)) => return Err(format!("{what}\n{}", house.last_words().await)),
            Err(NoEnd::Missing(what)) if begin.elapsed() > WITHIN => {
                let status = stage.restores().get(name).await.map(|job| format!("{:?}", job.status));
                return Err(format!("no end within {WITHIN:?}: {what}: {status:?}\n{}", house.last_words().await));
            }
            Err(NoEnd::Missing(_)) => tokio::time::sleep(PAUSE).await,
        }
    };
    let took = begin.elapsed();
    if let Some(rule) = rule {
        house.proxy.remove(rule);
    }
    let writes = house.proxy.count(&counted) - before;
    sweep(stage, name).await;
    if end == "restored" {
        stage.write_later().await;
    }
    Ok(Told { end, writes, met, took })
}

/// Whether our server says that nothing is left to do. Only that: what has become of it is looked at.
async fn is_over(stage: &Stage<'_>, name: &str) -> Result<bool, String> {
    let job = stage.restores().get(name).await.map_err(|error| error.to_string())?;
    let ended = job.status.as_ref().is_some_and(|status| status.completed_at.is_some());
    Ok(ended && job.finalizers().is_empty() && job.labels().is_empty())
}

/// Looks at etcd's keys and at live objects.
async fn look(stage: &Stage<'_>, name: &str, old: &EtcdCluster, over: bool) -> Result<&'static str, NoEnd> {
    let cluster = stage.clusters().get_opt("etcd").await.map_err(|error| error.to_string())?;
    let Some(cluster) = cluster else {
        return Err(if over {
            NoEnd::Never("it is over, and there is no cluster".into())
        } else {
            "no cluster".into()
        });
    };
    let key = stage.try_etcdctl(&["get", "key", "--print-value-only"]).await?;
    if key.is_empty() {
        return Err(NoEnd::Never("an empty cluster serves clients".to_owned()));
    }
    if !over {
        return Err("it goes on".into());
    }
    if stage.suspended().await != Some(false) {
        return Err(NoEnd::Never("it is over, and the HelmRelease is not as it was found".to_owned()));
    }
    let members: Api<EtcdMember> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let members = members.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
    if members.len() != 1 || members.iter().any(|member| member.metadata.deletion_timestamp.is_some()) {
        return Err(format!("{} members, or some of them going", members.len()).into());
    }
    let said = stage.restores().get(name).await.map_err(|error| error.to_string())?.status.unwrap_or_default();
    let succeeded = said.phase.as_deref() == Some("Succeeded");
    let end = match (stage.is_old().await, cluster.uid() == old.uid()) {
        (Ok(true), false) => "restored",
        (Ok(false), false) => "rolled back",
        (Ok(false), true) => "untouched",
        (Ok(true), true) => return Err(NoEnd::Never("the old cluster has lost data".to_owned())),
        (Err(why), _) => return Err(why.into()),
    };
    if succeeded != (end == "restored") {
        return Err(NoEnd::Never(format!("the RestoreJob says {:?}, and it is {end}: {:?}", said.phase, said.message)));
    }
    Ok(end)
}

/// Takes away what one restore leaves behind, so that many fit into one namespace.
async fn sweep(stage: &Stage<'_>, name: &str) {
    let kept = ListParams::default().labels("etcd-warden.io/restore-job-uid");
    let snapshots: Api<EtcdSnapshot> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let _ = stage.restores().delete(name, &DeleteParams::default()).await;
    let _ = snapshots.delete_collection(&DeleteParams::default(), &kept).await;
    let _ = stage.claims().delete_collection(&DeleteParams::default(), &kept).await;
}
