//! The stand-in kubelet's own tests: what it says of Pods is what their processes do.

use super::crash_matrix::member::{MEMBER, cluster_without_members, seed};
use crate::bed::control_plane::Options;
use crate::bed::etcd::Version;
use crate::bed::stand_in::Plane;
use crate::bed::stand_in::kubelet::images::Images;
use crate::bed::{ControlPlane, StandInKubelet, wait_for};
use etcd_warden::api::etcdmember::EtcdMember;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerState, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde_json::Value;
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TOOLS: &str = "test/tools:1";
const SOON: Duration = Duration::from_mins(1);
/// How many writes to the API server the way of a Pod to Running may last at most.
const RUN_IN_WRITES: u32 = 20;

/// A control plane with all its controllers, and the stand-in on it. Fields are dropped in this order.
struct Bed {
    kubelet: StandInKubelet,
    control_plane: ControlPlane,
    client: Client,
    namespace: String,
}

impl Bed {
    async fn start(images: Images) -> Self {
        let options = Options { controllers: vec!["*".to_owned()], ..Options::default() };
        let control_plane = ControlPlane::start(options).await;
        let programs = ["/bin/sh", "/bin/cat", "/bin/sleep", "/bin/touch", "/usr/bin/id", "/bin/ls"];
        let kubelet = StandInKubelet::start(&control_plane, images.host_programs(TOOLS, &programs)).await;
        let client = control_plane.client().await;
        let namespace = control_plane.namespace("kubelet").await;
        Self { kubelet, control_plane, client, namespace }
    }

    async fn apply(&self, yaml: &str) {
        self.control_plane.apply(&self.namespace, yaml).await;
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits for a Pod's status to be as wanted, and gives it.
    async fn pod(&self, name: &str, what: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
        wait_for(format!("Pod {name} to be {what}"), SOON, async || {
            let pod = self.pods().get(name).await.map_err(|e| e.to_string())?;
            if wanted(&pod) { Ok(pod) } else { Err(format!("{:?}", pod.status)) }
        })
        .await
    }

    async fn gone(&self, name: &str) {
        wait_for(format!("Pod {name} to be gone"), SOON, async || {
            match self.pods().get_opt(name).await.map_err(|e| e.to_string())? {
                None => Ok(()),
                Some(pod) => Err(format!("{:?}", pod.status)),
            }
        })
        .await;
    }
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

fn ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
    conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

fn state(pod: &Pod, container: &str) -> ContainerState {
    let status = pod.status.clone().unwrap_or_default();
    let mut all =
        status.init_container_statuses.into_iter().flatten().chain(status.container_statuses.into_iter().flatten());
    all.find(|s| s.name == container).and_then(|s| s.state).unwrap_or_default()
}

fn restarts(pod: &Pod, container: &str) -> i32 {
    let statuses = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
    statuses.into_iter().flatten().find(|s| s.name == container).map_or(0, |s| s.restart_count)
}

#[tokio::test]
async fn containers_run_in_their_order_with_what_the_pod_gives_them() {
    let bed = Bed::start(Images::none()).await;
    bed.apply(
        "
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {access: abc, secret: d-e-f}
---
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: x}}
spec:
  restartPolicy: Never
  securityContext: {runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, runAsNonRoot: true}
  volumes:
  - {name: shared, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: keys, secret: {secretName: keys, defaultMode: 0400}}
  initContainers:
  - {name: first, image: 'test/tools:1', command: [sh, -c, 'echo first > /shared/out'], volumeMounts: [{name: shared, mountPath: /shared}]}
  - {name: second, image: 'test/tools:1', command: [sh, -c, 'echo second >> /w/out'], volumeMounts: [{name: shared, mountPath: /w}]}
  containers:
  - name: last
    image: test/tools:1
    command: [sh, -c]
    args:
    - |
      cat /data/out; echo \"$ACCESS $(NAME)\" '$$(NAME)' \"pid $$$$\"; cat /keys/secret; echo; id -u; cat /etc/hostname
      cat /dev/zero > /memory/full 2>/dev/null || echo full
      touch /data/no 2>/dev/null || echo read-only
      touch /keys/no 2>/dev/null || echo read-only
      touch /tmp/yes && ls /home 2>/dev/null || echo no home
      echo done > /dev/termination-log
      exit 3
    env:
    - {name: ACCESS, valueFrom: {secretKeyRef: {name: keys, key: access}}}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    volumeMounts:
    - {name: shared, mountPath: /data, readOnly: true}
    - {name: keys, mountPath: /keys}
    - {name: memory, mountPath: /memory}
",
    )
    .await;
    let pod = bed.pod("one", "over", |pod| phase(pod) == "Failed").await;
    let ended = state(&pod, "last").terminated.expect("an end");
    assert_eq!((ended.exit_code, ended.message.as_deref()), (3, Some("done\n")));
    assert_eq!(state(&pod, "first").terminated.map(|t| t.exit_code), Some(0));
    let log = bed.kubelet.log(&bed.namespace, "one", "last");
    let wanted = "first\nsecond\nabc one $(NAME) pid 1\nd-e-f\n65532\none\nfull\nread-only\nread-only\nno home\n";
    assert_eq!(log, wanted);
    bed.pods().delete("one", &DeleteParams::default()).await.unwrap();
    bed.gone("one").await;
}

#[tokio::test]
async fn a_job_runs_to_its_end_and_a_failing_one_is_tried_again() {
    let bed = Bed::start(Images::none()).await;
    let job = |name: &str, script: &str| {
        format!(
            "
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  backoffLimit: 1
  podReplacementPolicy: Failed
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: work, image: 'test/tools:1', command: [sh, -c, '{script}']}}]
"
        )
    };
    bed.apply(&job("good", "echo well > /dev/termination-log")).await;
    bed.apply(&job("bad", "echo ill > /dev/termination-log; exit 2")).await;
    let jobs: Api<Job> = Api::namespaced(bed.client.clone(), &bed.namespace);
    for (name, end, pods) in [("good", "Complete", 1), ("bad", "Failed", 2)] {
        wait_for(format!("Job {name} to be {end}"), SOON, async || {
            let job = jobs.get(name).await.map_err(|e| e.to_string())?;
            let status = job.status.unwrap_or_default();
            let reached = status.conditions.iter().flatten().any(|c| c.type_ == end && c.status == "True");
            if reached { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
        let listed = bed.pods().list(&ListParams::default().labels(&format!("job-name={name}"))).await.unwrap();
        assert_eq!(listed.items.len(), pods, "Pods of {name}");
        let message = state(&listed.items[0], "work").terminated.and_then(|t| t.message);
        assert_eq!(message.as_deref(), Some(if name == "good" { "well\n" } else { "ill\n" }));
    }
    let background = DeleteParams::background();
    jobs.delete("good", &background).await.unwrap();
    jobs.delete("bad", &background).await.unwrap();
    wait_for("the Pods of deleted Jobs to be gone", SOON, async || {
        let left = bed.pods().list(&ListParams::default()).await.map_err(|e| e.to_string())?.items.len();
        if left == 0 { Ok(()) } else { Err(format!("{left} are left")) }
    })
    .await;
}

/// Three members as our controllers make them: a headless Service, a claim and a Pod each.
fn etcd_cluster(namespace: &str) -> String {
    let version = Version::V3_6.number();
    let member = |n: usize| format!("e-{n}=http://e-{n}.e.{namespace}.svc:2380");
    let initial = [member(0), member(1), member(2)].join(",");
    let mut yaml = "
apiVersion: v1
kind: Service
metadata: {name: e}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: e}, ports: [{name: peer, port: 2380}]}
---
apiVersion: v1
kind: Service
metadata: {name: e-client}
spec: {selector: {app: e}, ports: [{name: client, port: 2379}]}
"
    .to_owned();
    for n in 0..3 {
        let host = format!("e-{n}.e.{namespace}.svc");
        let _ = write!(
            yaml,
            "
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data-e-{n}}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: e-{n}, labels: {{app: e}}}}
spec:
  hostname: e-{n}
  subdomain: e
  securityContext: {{runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, runAsNonRoot: true}}
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: data-e-{n}}}}}]
  containers:
  - name: etcd
    image: quay.io/coreos/etcd:v{version}
    command:
    - etcd
    - --name=e-{n}
    - --data-dir=/var/lib/etcd
    - --listen-peer-urls=http://0.0.0.0:2380
    - --listen-client-urls=http://0.0.0.0:2379
    - --listen-metrics-urls=http://0.0.0.0:2381
    - --advertise-client-urls=http://{host}:2379
    - --initial-advertise-peer-urls=http://{host}:2380
    - --initial-cluster={initial}
    - --initial-cluster-token=t
    volumeMounts: [{{name: data, mountPath: /var/lib/etcd}}]
    livenessProbe: {{tcpSocket: {{port: 2380}}, initialDelaySeconds: 15}}
    readinessProbe: {{httpGet: {{path: /health, port: 2381}}, initialDelaySeconds: 5, periodSeconds: 5}}
"
        );
    }
    yaml
}

#[tokio::test]
async fn three_members_of_etcd_form_a_cluster_that_survives_a_kill() {
    let bed = Bed::start(Images::none().etcd(Version::V3_6)).await;
    bed.apply(&etcd_cluster(&bed.namespace)).await;
    for n in 0..3 {
        bed.pod(&format!("e-{n}"), "ready", ready).await;
    }
    let endpoint = format!("http://e-client.{}.svc:2379", bed.namespace);
    assert_eq!(etcdctl(&bed, &endpoint, &["put", "key", "value"]).await, "OK\n");

    let before = bed.kubelet.running().len();
    bed.kubelet.kill(&bed.namespace, "e-1", "etcd").await;
    let killed = |pod: &Pod| restarts(pod, "etcd") == 1 && ready(pod);
    let pod = bed.pod("e-1", "restarted and ready", killed).await;
    let last = pod.status.and_then(|s| s.container_statuses?.pop()?.last_state?.terminated).expect("a last state");
    assert_eq!((last.exit_code, last.signal), (137, Some(9)));
    assert_eq!(bed.kubelet.running().len(), before);
    let own = format!("http://e-1.e.{}.svc:2379", bed.namespace);
    assert_eq!(etcdctl(&bed, &own, &["get", "key", "--print-value-only"]).await, "value\n");
    let health = etcdctl(&bed, &endpoint, &["endpoint", "health", "--cluster", "-w", "json"]).await;
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!(health.as_array().map(Vec::len), Some(3), "{health}");

    // A member that leaves takes its process, its name and, with its claim, its data along.
    let volume = bed.kubelet.volume(&bed.namespace, "data-e-2").await;
    assert!(volume.join("member").is_dir());
    bed.pods().delete("e-2", &DeleteParams::default()).await.unwrap();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(bed.client.clone(), &bed.namespace);
    claims.delete("data-e-2", &DeleteParams::default()).await.unwrap();
    bed.gone("e-2").await;
    let volumes: Api<PersistentVolume> = Api::all(bed.client.clone());
    wait_for("the volume to be gone", SOON, async || {
        let left = volumes.list(&ListParams::default()).await.map_err(|e| e.to_string())?.items.len();
        if left == 2 && !volume.exists() { Ok(()) } else { Err(format!("{left} volumes")) }
    })
    .await;
    assert_eq!(bed.kubelet.running().len(), before - 1);
}

/// Runs etcdctl on the host with the cluster's names, until it succeeds.
async fn etcdctl(bed: &Bed, endpoint: &str, arguments: &[&str]) -> String {
    let program = Version::V3_6.etcdctl().display().to_string();
    wait_for(format!("etcdctl {arguments:?} at {endpoint}"), SOON, async || {
        let argv: Vec<&str> = [program.as_str(), "--endpoints", endpoint].iter().chain(arguments).copied().collect();
        let run = bed.kubelet.run("etcdctl", &argv, &[]).await;
        let exit = run.ended().await;
        let said = std::fs::read_to_string(run.log()).unwrap_or_default();
        if exit.code == 0 { Ok(said) } else { Err(format!("{exit:?}: {said}")) }
    })
    .await
}

#[tokio::test]
async fn faults_show_as_a_kubelet_shows_them() {
    let bed = Bed::start(Images::none()).await;
    bed.kubelet.withdraw_image(TOOLS);
    let sleeper = |name: &str| {
        format!(
            "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{{name: c, image: 'test/tools:1', command: [sh, -c, 'echo started; sleep 1000']}}]
"
        )
    };
    bed.apply(&sleeper("a")).await;
    let waiting = |pod: &Pod| state(pod, "c").waiting.and_then(|w| w.reason).as_deref() == Some("ErrImagePull");
    let pod = bed.pod("a", "without its image", waiting).await;
    assert_eq!(phase(&pod), "Pending");
    bed.kubelet.offer_image(TOOLS);
    bed.pod("a", "ready", ready).await;

    // Three kills, three restarts; output is kept over all of them.
    for n in 0..=3 {
        wait_for("the output of all runs", SOON, async || {
            let log = bed.kubelet.log(&bed.namespace, "a", "c");
            if log == "started\n".repeat(n + 1) { Ok(()) } else { Err(log) }
        })
        .await;
        let now = |pod: &Pod| usize::try_from(restarts(pod, "c")) == Ok(n) && ready(pod);
        bed.pod("a", "running again", now).await;
        if n < 3 {
            bed.kubelet.kill(&bed.namespace, "a", "c").await;
        }
    }

    // Cut off: nothing is reported or done, then all of it at once.
    bed.kubelet.pause();
    bed.pods().delete("a", &DeleteParams::default()).await.unwrap();
    bed.apply(&sleeper("b")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bed.kubelet.running().len(), 1, "what ran goes on, and nothing else has started");
    assert!(ready(&bed.pods().get("a").await.unwrap()), "its status stays as it was");
    bed.kubelet.resume();
    bed.gone("a").await;
    bed.pod("b", "ready", ready).await;

    // A shell as PID 1 does not heed SIGTERM: it takes the whole grace period, and then SIGKILL.
    let begin = Instant::now();
    bed.pods().delete("b", &DeleteParams::default()).await.unwrap();
    bed.gone("b").await;
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(900) && took < Duration::from_secs(10), "{took:?}");
    assert!(bed.kubelet.running().is_empty());
}

/// A pause of ours would be many times what the API server takes to write, on any machine.
#[tokio::test]
async fn a_pod_runs_as_soon_as_the_api_server_has_told_of_it() {
    let bed = Bed::start(Images::none()).await;
    let (mut writes, mut runs) = (Vec::new(), Vec::new());
    for n in 0..10 {
        let begin = Instant::now();
        bed.apply(&format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c-{n}}}}}")).await;
        writes.push(begin.elapsed());
        let name = format!("p-{n}");
        let pod = format!(
            "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec: {{containers: [{{name: c, image: 'test/tools:1', command: [sleep, '1000']}}]}}
"
        );
        let begin = Instant::now();
        bed.apply(&pod).await;
        while phase(&bed.pods().get(&name).await.unwrap()) != "Running" {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        runs.push(begin.elapsed());
    }
    writes.sort_unstable();
    runs.sort_unstable();
    println!("a ConfigMap written: {writes:?}; a Pod created to Running: {runs:?}");
    // The best ones: a busy machine makes the others slow, but a pause of ours would be in all of them.
    assert!(runs[0] < RUN_IN_WRITES * writes[0], "writes {writes:?}, runs {runs:?}");
}

#[tokio::test]
async fn nothing_is_left_when_the_test_is_killed() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "control_plane::stand_in_kubelet::to_be_killed", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let anchor = lines.by_ref().map_while(Result::ok).find_map(|line| Some(line.strip_prefix("anchor ")?.to_owned()));
    let anchor = anchor.expect("the child's folder and process");
    let (folder, pid) = anchor.split_once(' ').unwrap();
    let (folder, pid): (PathBuf, u32) = (folder.into(), pid.parse().unwrap());
    let processes = descendants(pid);
    let link = link_to(&lines.by_ref().map_while(Result::ok).next().unwrap());
    assert!(processes.len() >= 3, "a node and two containers below {pid}: {processes:?}");
    assert!(folder.join("runtime.sock").exists() && Path::new("/sys/class/net").join(&link).exists());

    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("everything to be gone", SOON, async || {
        let alive: Vec<_> = processes.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).collect();
        let linked = Path::new("/sys/class/net").join(&link).exists();
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let mounted = mounts.contains(&folder.display().to_string());
        if alive.is_empty() && !linked && !mounted && !folder.exists() {
            Ok(())
        } else {
            Err(format!("processes {alive:?}, link {linked}, mounted {mounted}, folder {}", folder.exists()))
        }
    })
    .await;
}

/// The child of the test above.
#[tokio::test]
#[ignore = "started by nothing_is_left_when_the_test_is_killed, which kills it"]
async fn to_be_killed() {
    let bed = Bed::start(Images::none()).await;
    bed.apply(
        "
apiVersion: v1
kind: Pod
metadata: {name: two}
spec:
  volumes: [{name: m, emptyDir: {medium: Memory}}]
  containers:
  - {name: a, image: 'test/tools:1', command: [sleep, '1000'], volumeMounts: [{name: m, mountPath: /m}]}
  - {name: b, image: 'test/tools:1', command: [sleep, '1000']}
",
    )
    .await;
    bed.pod("two", "ready", ready).await;
    let (folder, pid) = bed.kubelet.anchor();
    println!("\nanchor {} {}\n{}", folder.display(), pid.unwrap(), bed.kubelet.host());
    std::future::pending::<()>().await;
}

/// A process and all below it.
fn descendants(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children: Vec<u32> = tasks
        .flat_map(|task| {
            let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            text.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>()
        })
        .collect();
    std::iter::once(pid).chain(children.into_iter().flat_map(descendants)).collect()
}

/// The host's interface for an address of 198.18.0.0/15.
fn link_to(address: &str) -> String {
    let octets: Vec<u32> = address.split('.').map(|octet| octet.parse().unwrap()).collect();
    format!("stand-in-{}", (octets[1] - 18) * 256 + octets[2])
}

#[tokio::test]
async fn our_server_brings_a_member_up_and_reaches_it_by_name() {
    let plane = Plane::start(&[Version::V3_6]).await;
    let serve = plane.serve(&["--controllers=etcdmember"]).await;
    let namespace = plane.api.namespace("member").await;
    let uid = plane.api.apply(&namespace, &cluster_without_members()).await[1].metadata.uid.clone().unwrap();
    plane.api.apply(&namespace, &seed(&namespace, &uid)).await;
    let members: Api<EtcdMember> = Api::namespaced(plane.client().await, &namespace);
    // Ready means that our server has asked the member who it is, at its Pod's name.
    wait_for("the member to be ready", SOON, async || {
        let status = members.get(MEMBER).await.map_err(|e| e.to_string())?.status.unwrap_or_default();
        let ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
        if ready { Ok(()) } else { Err(format!("{status:?}\n{}", serve.last_words())) }
    })
    .await;
    let pods = plane.members(&namespace, "etcd").await;
    assert_eq!(plane.etcdctl(&pods[0], &["put", "key", "value"]).await.as_deref(), Ok("OK\n"));
    serve.process.kill().await;
    assert!(!serve.process.running());
}
