//! The image's etcd, booted on rebuilt data and asked what it holds.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tonic::Code;

use super::{Rehearsed, decide};
use crate::agent::etcdutl::{self, Etcdutl, tail};
use crate::agent::failure::Failure;
use crate::agent::settings::SourceSettings;
use crate::agent::stop::Stop;
use crate::api::agent::{Reason, Rehearsal};
use crate::etcd::wire::AlarmType;
use crate::etcd::{self, Client, Credentials, Options};

/// How long etcd may take to serve reads. Opening a database of some GiB takes seconds.
const BOOT: Duration = Duration::from_mins(3);

/// The image's etcd: beside its etcdutl, in the usual place, or on the search path.
pub(super) fn find(settings: &SourceSettings, tool: &Etcdutl) -> Result<PathBuf, Failure> {
    let beside = tool.path.with_file_name("etcd");
    etcdutl::find("etcd", Some(&beside), settings.path.as_deref()).map_err(|tried| {
        let tried: Vec<String> = tried.iter().map(|place| place.display().to_string()).collect();
        Failure::new(
            Reason::RehearsalFailed,
            format!("this image has no runnable etcd to rehearse with: tried {}", tried.join(", ")),
        )
    })
}

/// Boots etcd, asks, and kills it: its data is thrown away, so a clean stop would only cost time.
pub(super) async fn ask(
    etcd: &Path,
    name: &str,
    data_dir: &Path,
    credentials: Option<&Credentials>,
    stop: &Stop,
) -> Rehearsed {
    let failed = |failure| Rehearsed { rehearsal: None, failure: Some(failure) };
    let db_bytes = match fs::metadata(data_dir.join("member/snap/db")) {
        Ok(metadata) => metadata.len(),
        Err(error) => return failed(Failure::file("look at the rebuilt database in", data_dir, error)),
    };
    let log = data_dir.with_file_name("etcd.log");
    let (mut child, endpoint) = match start(etcd, name, data_dir, &log) {
        Ok(started) => started,
        Err(failure) => return failed(failure),
    };
    tracing::info!(step = "etcd-started", endpoint);
    let outcome = stop.unless(question(&mut child, &endpoint, credentials, &log)).await;
    if let Err(error) = child.kill().await {
        tracing::warn!(%error, "the rehearsal's etcd could not be killed");
    }
    match outcome {
        Ok(Answers { rehearsal, failure }) => {
            Rehearsed { rehearsal: Some(Rehearsal { db_bytes, ..rehearsal }), failure }
        }
        Err(failure) => failed(failure),
    }
}

fn start(etcd: &Path, name: &str, data_dir: &Path, log: &Path) -> Result<(Child, String), Failure> {
    let no_port = |error| Failure::new(Reason::RehearsalFailed, "no free port on loopback").because(error);
    let output = fs::File::create(log).map_err(|error| Failure::file("create", log, error))?;
    // Both are held until both are known, so that they differ.
    let (client, peer) = (free_port().map_err(no_port)?, free_port().map_err(no_port)?);
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port()).map_err(no_port);
    let (client_port, peer_port) = (port(&client)?, port(&peer)?);
    drop((client, peer));
    let child = Command::new(etcd)
        .args(decide::arguments(name, data_dir, client_port, peer_port))
        // etcd reads its options from variables, too, and the Pod's are those of the real member.
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            Failure::new(Reason::RehearsalFailed, format!("cannot run {}", etcd.display())).because(error)
        })?;
    Ok((child, format!("http://127.0.0.1:{client_port}")))
}

fn free_port() -> std::io::Result<TcpListener> {
    TcpListener::bind(("127.0.0.1", 0))
}

struct Answers {
    rehearsal: Rehearsal,
    failure: Option<Failure>,
}

async fn question(
    child: &mut Child,
    endpoint: &str,
    credentials: Option<&Credentials>,
    log: &Path,
) -> Result<Answers, Failure> {
    let words = || tail(&fs::read_to_string(log).unwrap_or_default());
    let asking = async {
        wait_ready(endpoint).await?;
        tracing::info!(step = "etcd-ready");
        inspect(endpoint, credentials).await
    };
    // Dropping the questions when etcd dies loses nothing: there is nobody left to answer them.
    tokio::select! {
        answers = asking => answers.map_err(|failure| match failure.reason {
            Reason::RehearsalFailed => failure.because(words()),
            _ => failure,
        }),
        status = child.wait() => {
            let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            Err(Failure::new(Reason::RehearsalFailed, format!("etcd ended on the rebuilt data ({status}): {}", words())))
        }
    }
}

/// Waits until the member leads itself; before that it can answer nothing.
async fn wait_ready(endpoint: &str) -> Result<(), Failure> {
    let ready = async {
        loop {
            if leads_itself(endpoint).await.unwrap_or(false) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(BOOT, ready).await.map_err(|_| {
        Failure::new(
            Reason::RehearsalFailed,
            format!("etcd served nothing on the rebuilt data within {} s", BOOT.as_secs()),
        )
    })
}

async fn leads_itself(endpoint: &str) -> Result<bool, etcd::Error> {
    let client = etcd::dial(&[endpoint.to_owned()], &Options::default()).await?;
    // A member that wants a login tells its status to nobody else; but it has read through its quorum of one to find
    // the login wrong.
    Ok(client.auth_is_on().await? || client.status().await?.leader != 0)
}

async fn inspect(endpoint: &str, credentials: Option<&Credentials>) -> Result<Answers, Failure> {
    let endpoint = [endpoint.to_owned()];
    let anonymous = etcd::dial(&endpoint, &Options::default()).await?;
    let mut rehearsal = Rehearsal { auth_enabled: anonymous.auth_is_on().await?, ..Rehearsal::default() };
    let options = Options { credentials: credentials.cloned(), ..Options::default() };
    let client = match (rehearsal.auth_enabled, credentials) {
        (false, _) => anonymous,
        (true, None) => {
            let text = "the snapshot was made with authentication on, and no password is given";
            return Ok(Answers { rehearsal, failure: Some(Failure::new(Reason::EtcdAuthFailed, text)) });
        }
        (true, Some(_)) => match etcd::dial(&endpoint, &options).await {
            Ok(client) => client,
            Err(error) if error.code() == Some(Code::Unauthenticated) => {
                let failure = Failure::new(Reason::EtcdAuthFailed, "the password is not the one in the snapshot");
                return Ok(Answers { rehearsal, failure: Some(failure.because(error)) });
            }
            Err(error) => return Err(error.into()),
        },
    };
    read(&client, &mut rehearsal).await?;
    tracing::info!(step = "inspected", revision = rehearsal.revision, keys = rehearsal.keys, hash = rehearsal.hash_kv);
    Ok(Answers { rehearsal, failure: None })
}

async fn read(client: &Client, rehearsal: &mut Rehearsal) -> Result<(), etcd::Error> {
    let counted = client.count_keys(false).await?;
    rehearsal.keys = counted.count;
    rehearsal.revision = counted.header.map_or(0, |header| header.revision);
    // Asked at a fixed revision, since only then two members compare; older members leave it out of their answer.
    rehearsal.hash_kv = client.hash_kv(rehearsal.revision).await?.hash;
    rehearsal.hash_revision = rehearsal.revision;
    let alarms = client.alarms().await?;
    rehearsal.alarms = alarms
        .iter()
        .map(|alarm| match AlarmType::try_from(alarm.alarm) {
            Ok(word) => format!("{word:?}"),
            Err(_) => format!("alarm {}", alarm.alarm),
        })
        .collect();
    rehearsal.alarms.sort();
    rehearsal.alarms.dedup();
    Ok(())
}
