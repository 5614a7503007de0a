//! The agent as a process, against real etcd and S3 servers.

mod corruption;
mod crash;
mod disk;
mod identity;
pub mod offline;
mod reach;
mod security;
mod source;
mod store_faults;
mod stores;
mod tools;
mod versions;

use crate::bed::etcd::Version;
use crate::bed::s3::{Keys, OWNER};
use crate::bed::{Etcd, S3Server};
use etcd_warden::api::agent::{Reason, Report, env};
use etcd_warden::etcd::wire::HeaderOnly;
use etcd_warden::etcd::{self, Client, Options};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The agent as it is built for these tests.
pub const AGENT: &str = env!("CARGO_BIN_EXE_etcd-warden-agent");

const ENDS_WITHIN: Duration = Duration::from_mins(2);

/// One run of the agent, being prepared.
#[derive(Clone, Debug)]
pub struct Agent {
    program: PathBuf,
    task: &'static str,
    vars: BTreeMap<String, String>,
    user: Option<u32>,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub report: Option<Report>,
    pub steps: Vec<String>,
    pub stdout: String,
    pub log: String,
}

/// A run that goes on.
pub struct Running {
    child: Child,
    log: tokio::io::Lines<BufReader<tokio::process::ChildStderr>>,
    steps: Vec<String>,
    text: String,
    folder: TempDir,
}

impl Agent {
    pub fn new(task: &'static str) -> Self {
        Self { program: AGENT.into(), task, vars: BTreeMap::new(), user: None }
    }

    pub fn program(mut self, program: &Path) -> Self {
        program.clone_into(&mut self.program);
        self
    }

    /// Runs as this user and group, without any right of root.
    pub fn user(mut self, id: u32) -> Self {
        self.user = Some(id);
        self
    }

    pub fn unset(mut self, name: &str) -> Self {
        self.vars.remove(name);
        self
    }

    #[expect(clippy::needless_pass_by_value, reason = "texts, numbers and paths alike, written at the call")]
    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.vars.insert(name.to_owned(), value.to_string());
        self
    }

    /// A snapshot of a cluster, with whatever it takes to be let in.
    pub fn snapshot(etcd: &Etcd, uid: &str) -> Self {
        let mut agent = Self::new("snapshot")
            .set(env::ETCD_ENDPOINTS, etcd.endpoints().join(","))
            .set(env::SNAPSHOT_NAME, "snap")
            .set(env::SNAPSHOT_UID, uid);
        if let Some(authority) = etcd.authority() {
            agent = agent.set(env::ETCD_TLS_CA_PATH, authority.display());
        }
        agent
    }

    /// A store in a bucket; the key is a prefix for snapshots, and the object for all else.
    pub fn s3(self, s3: &S3Server, bucket: &str, key: &str) -> Self {
        self.set(env::S3_CA_FILE, s3.authority().display()).s3_at(&s3.endpoint(), bucket, key).keys(&OWNER)
    }

    pub fn s3_at(self, endpoint: &str, bucket: &str, key: &str) -> Self {
        self.set(env::SNAPSHOT_DEST_KIND, "s3")
            .set(env::S3_ENDPOINT, endpoint)
            .set(env::S3_BUCKET, bucket)
            .set(env::S3_KEY, key)
            .set(env::S3_FORCE_PATH_STYLE, "true")
    }

    pub fn keys(self, keys: &Keys) -> Self {
        self.set(env::AWS_ACCESS_KEY_ID, keys.access).set(env::AWS_SECRET_ACCESS_KEY, keys.secret)
    }

    /// A store in a directory.
    pub fn volume(self, root: &Path, path: &str) -> Self {
        self.set(env::SNAPSHOT_DEST_KIND, "pvc").set(env::PVC_MOUNT_PATH, root.display()).set(env::PVC_SUBPATH, path)
    }

    /// Runs in the image of a version: its programs are the ones on the search path.
    pub fn image(self, image: &Image) -> Self {
        self.set("PATH", image.folder.path().display()).set(env::TARGET_ETCD_VERSION, image.version.number())
    }

    pub fn member(self, data_dir: &Path) -> Self {
        self.set(env::ETCD_DATA_DIR, data_dir.display())
            .set(env::ETCD_MEMBER_NAME, "m0")
            .set(env::ETCD_INITIAL_CLUSTER, "m0=http://127.0.0.1:2380")
            .set(env::ETCD_INITIAL_CLUSTER_TOKEN, "again")
            .set(env::ETCD_PEER_URLS, "http://127.0.0.1:2380")
    }

    /// Starts it.
    pub fn start(&self) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(&self.program);
        command.arg(self.task).env_clear().envs(&self.vars);
        command.env("TERMINATION_MESSAGE_PATH", folder.path().join("message"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // As in a container, whatever it starts ends with it.
        command.process_group(0);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
            std::os::unix::fs::chown(folder.path(), Some(user), None).expect("chown needs root");
        }
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        Running { child, log, steps: Vec::new(), text: String::new(), folder }
    }

    /// Runs it to its end.
    pub async fn run(&self) -> Ended {
        self.start().end().await
    }

    /// Runs it to its end, which must be a good one.
    pub async fn succeed(&self) -> Report {
        let ended = self.run().await;
        assert_eq!(ended.code, Some(0), "{}", ended.log);
        let report = ended.report.expect("a report");
        assert!(report.ok, "{report:?}");
        report
    }

    /// Runs it to its end, which must be a failure for this reason.
    pub async fn fail(&self, reason: Reason) -> Report {
        let ended = self.run().await;
        let report = ended.report.unwrap_or_else(|| panic!("no report: {}", ended.log));
        assert!(!report.ok, "{report:?}");
        assert_eq!(report.reason, reason, "{report:?}");
        let code = match (reason, report.retryable) {
            (Reason::InvalidConfiguration, _) => 2,
            (_, true) => 1,
            (_, false) => 3,
        };
        assert_eq!(ended.code, Some(code), "{report:?}");
        for secret in self.secrets() {
            assert!(!ended.log.contains(&secret) && !report.message.contains(&secret), "a secret is told");
        }
        report
    }

    fn secrets(&self) -> Vec<String> {
        let names = [env::AWS_SECRET_ACCESS_KEY, env::ETCD_PASSWORD, env::AWS_SESSION_TOKEN];
        names.iter().filter_map(|name| self.vars.get(*name)).cloned().collect()
    }
}

impl Running {
    /// Returns at the nth step of its log, counted from one, or `None` where it ends before.
    pub async fn step(&mut self, n: usize) -> Option<String> {
        while self.steps.len() < n {
            let line = self.log.next_line().await.unwrap()?;
            self.text.push_str(&line);
            self.text.push('\n');
            let line: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if let Some(step) = line["step"].as_str() {
                self.steps.push(step.to_owned());
            }
        }
        self.steps.get(n - 1).cloned()
    }

    /// Returns when a step of that name is told.
    pub async fn until(&mut self, name: &str) {
        let mut n = 1;
        while let Some(step) = self.step(n).await {
            if step == name {
                return;
            }
            n += 1;
        }
        panic!("it never came to {name}: {}", self.text);
    }

    /// Kills it, and what it started: a container's processes end with the first of them.
    pub async fn kill(mut self) {
        let group = rustix::process::Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        // It may have ended by itself in this very moment.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        self.child.wait().await.unwrap();
    }

    pub fn terminate(&self) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::TERM)
            .unwrap();
    }

    pub async fn end(mut self) -> Ended {
        let ending = async { while self.step(usize::MAX).await.is_some() {} };
        tokio::time::timeout(ENDS_WITHIN, ending).await.unwrap_or_else(|_| panic!("it does not end"));
        let output = self.child.wait_with_output().await.unwrap();
        let message = std::fs::read(self.folder.path().join("message")).unwrap_or_default();
        assert!(message.len() < 4096);
        Ended {
            code: output.status.code(),
            report: serde_json::from_slice(&message).ok(),
            steps: self.steps,
            stdout: String::from_utf8(output.stdout).unwrap(),
            log: self.text,
        }
    }
}

/// A folder with a version's programs under the names that its image has.
#[derive(Debug)]
pub struct Image {
    folder: TempDir,
    version: Version,
}

impl Image {
    pub fn of(version: Version) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(version.etcd(), folder.path().join("etcd")).unwrap();
        if let Some(etcdutl) = version.etcdutl() {
            std::os::unix::fs::symlink(etcdutl, folder.path().join("etcdutl")).unwrap();
        }
        Self { folder, version }
    }
}

/// One line for every key: key, value, and all its revisions.
pub fn keys_of(etcd: &Etcd) -> Vec<String> {
    let text = etcd.etcdctl(&["get", "", "--prefix", "-w", "json"]);
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    answer["kvs"].as_array().map_or_else(Vec::new, |kvs| kvs.iter().map(ToString::to_string).collect())
}

#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DeleteRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

pub async fn put(client: &Client, key: &str, value: Vec<u8>) {
    let question = PutRequest { key: key.as_bytes().to_vec(), value };
    client.call::<_, HeaderOnly>("/etcdserverpb.KV/Put", question).await.unwrap();
}

/// Writes keys with some history: overwritten ones and deleted ones.
pub async fn fill(client: &Client) {
    for i in 0..40 {
        put(client, &format!("key/{i:03}"), format!("first {i}").into_bytes()).await;
    }
    for i in 0..10 {
        put(client, &format!("key/{i:03}"), format!("second {i}").into_bytes()).await;
    }
    for i in 30..35 {
        let question = DeleteRequest { key: format!("key/{i:03}").into_bytes() };
        client.call::<_, HeaderOnly>("/etcdserverpb.KV/DeleteRange", question).await.unwrap();
    }
}

/// Makes the database larger than one part of an upload.
pub async fn fatten(client: &Client, mebibytes: usize) {
    for i in 0..mebibytes {
        let seed = u8::try_from(i % 251).unwrap();
        put(client, &format!("fat/{i:03}"), vec![seed; 1 << 20]).await;
    }
}

pub async fn client(etcd: &Etcd) -> Client {
    etcd::dial(&etcd.endpoints()[..1], &Options::default()).await.unwrap()
}

/// A one-member cluster with some keys in it.
pub async fn filled(version: Version) -> Etcd {
    let etcd = Etcd::start(version, crate::bed::etcd::Options::default()).await;
    fill(&client(&etcd).await).await;
    etcd
}

/// A bucket name that no other test has.
pub fn bucket_name(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("agents-{what}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Names of everything in a folder.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
