//! Which member is read, and what it must be.

use super::{Agent, client, fatten, put};
use crate::bed::Etcd;
use crate::bed::etcd::{Options, Version};
use crate::bed::fault_proxy::{HttpFault, On, Protocol};
use crate::bed::ports::Port;
use crate::bed::wait_for;
use etcd_warden::api::agent::{Consistency, Reason, env};
use etcd_warden::etcd::wire::{AlarmAction, AlarmRequest, AlarmResponse, AlarmType};
use etcd_warden::etcd::{self, Client};
use std::time::Duration;

const STOP: i32 = 19;
const CONTINUE: i32 = 18;

async fn three() -> Etcd {
    Etcd::start(Version::V3_6, Options { members: 3, ..Options::default() }).await
}

async fn dial(endpoint: &str) -> Client {
    etcd::dial(&[endpoint.to_owned()], &etcd::Options::default()).await.unwrap()
}

async fn id_of(endpoint: &str) -> u64 {
    dial(endpoint).await.status().await.unwrap().header.unwrap().member_id
}

#[tokio::test]
async fn a_corrupt_member_is_passed_over_although_only_it_was_named() {
    let etcd = three().await;
    let first = &etcd.endpoints()[0];
    let corrupt = id_of(first).await;
    let question =
        AlarmRequest { action: AlarmAction::Activate.into(), member_id: corrupt, alarm: AlarmType::Corrupt.into() };
    let connection = dial(first).await;
    connection.call::<_, AlarmResponse>("/etcdserverpb.Maintenance/Alarm", question).await.unwrap();
    let volume = tempfile::tempdir().unwrap();
    let snapshot = Agent::snapshot(&etcd, "u").set(env::ETCD_ENDPOINTS, first).volume(volume.path(), "a");
    let report = snapshot.succeed().await;
    assert_ne!(report.artifact.unwrap().member_id, Some(format!("{corrupt:016x}")));
    // Without the others it would be the only one: stopped members cannot be asked for alarms, nor can they vote.
    for member in ["m1", "m2"] {
        etcd.daemons().signal(member, STOP);
    }
    let alone = snapshot.set(env::SNAPSHOT_CONSISTENCY, "serializable").set(env::SNAPSHOT_UID, "u2");
    let report = alone.fail(Reason::NoSnapshotSource).await;
    assert!(report.message.contains("CORRUPT"), "{}", report.message);
    for member in ["m1", "m2"] {
        etcd.daemons().signal(member, CONTINUE);
    }
}

/// S4: nor a learner.
#[tokio::test]
async fn a_learner_is_never_read() {
    let etcd = Etcd::start(Version::V3_6, Options::default()).await;
    let voter = client(&etcd).await;
    let (client_port, peer_port) = (Port::take(), Port::take());
    let url = |port: &Port| format!("http://127.0.0.1:{}", port.number());
    let learner = wait_for("etcd to take a learner", Duration::from_secs(20), async || {
        voter.member_add(vec![url(&peer_port)], true).await.map_err(|error| error.to_string())
    })
    .await;
    let peers = voter.member_list(true).await.unwrap();
    let cluster = peers.iter().flat_map(|member| {
        let name = if member.is_learner { "learner" } else { "m0" };
        member.peer_urls.iter().map(move |url| format!("{name}={url}"))
    });
    let flags = [
        "--name=learner".into(),
        format!("--data-dir={}", etcd.folder().join("learner").display()),
        format!("--listen-client-urls={}", url(&client_port)),
        format!("--advertise-client-urls={}", url(&client_port)),
        format!("--listen-peer-urls={}", url(&peer_port)),
        format!("--initial-advertise-peer-urls={}", url(&peer_port)),
        format!("--initial-cluster={}", cluster.collect::<Vec<_>>().join(",")),
        "--initial-cluster-state=existing".into(),
    ];
    etcd.daemons().start("learner", &Version::V3_6.etcd(), &flags, &[]);
    wait_for("the learner to answer", Duration::from_secs(20), async || {
        let status = etcd::dial(&[url(&client_port)], &etcd::Options::default()).await;
        let status = status.map_err(|error| error.to_string())?.status().await.map_err(|error| error.to_string())?;
        if status.is_learner { Ok(()) } else { Err("no learner".into()) }
    })
    .await;

    let volume = tempfile::tempdir().unwrap();
    let snapshot = Agent::snapshot(&etcd, "u").volume(volume.path(), "a");
    let both = format!("{},{}", url(&client_port), etcd.endpoints()[0]);
    let report = snapshot.clone().set(env::ETCD_ENDPOINTS, both).succeed().await;
    assert_ne!(report.artifact.unwrap().member_id, Some(format!("{:016x}", learner.member.unwrap().id)));
    let report = snapshot.set(env::ETCD_ENDPOINTS, url(&client_port)).fail(Reason::NoSnapshotSource).await;
    assert!(report.message.contains("learner"), "{}", report.message);
}

#[tokio::test]
async fn without_a_quorum_a_snapshot_is_only_taken_when_asked_for_and_is_marked() {
    let etcd = three().await;
    put(&client(&etcd).await, "k", b"v".to_vec()).await;
    let alone = &etcd.endpoints()[0];
    for member in ["m1", "m2"] {
        etcd.daemons().signal(member, STOP);
    }
    let connection = dial(alone).await;
    wait_for("the leader to be missed", Duration::from_secs(20), async || {
        let status = connection.status().await.map_err(|error| error.to_string())?;
        if status.leader == 0 { Ok(()) } else { Err(format!("leader {:x}", status.leader)) }
    })
    .await;
    let volume = tempfile::tempdir().unwrap();
    let snapshot = Agent::snapshot(&etcd, "u").set(env::ETCD_ENDPOINTS, alone).volume(volume.path(), "a");
    let report = snapshot.fail(Reason::EtcdNoQuorum).await;
    assert!(report.retryable);
    let report = snapshot.clone().set(env::SNAPSHOT_CONSISTENCY, "serializable").succeed().await;
    assert_eq!(report.artifact.unwrap().consistency, Some(Consistency::Serializable));
    for member in ["m1", "m2"] {
        etcd.daemons().signal(member, CONTINUE);
    }
    etcd.wait_ready().await;
}

/// S4: the member is chosen, and is none that lags.
#[tokio::test]
async fn a_member_that_lags_is_not_read_although_only_it_was_named() {
    let etcd = three().await;
    let (first, second) = (&etcd.endpoints()[0], &etcd.endpoints()[1]);
    let lagging = id_of(first).await;
    etcd.daemons().signal("m0", STOP);
    // The others elect a leader if need be, and go on.
    let ahead = dial(second).await;
    wait_for("the others to go on", Duration::from_secs(20), async || {
        ahead.linearizable_read().await.map_err(|error| error.to_string())
    })
    .await;
    for i in 0..5 {
        put(&ahead, &format!("later/{i}"), b"v".to_vec()).await;
    }
    let volume = tempfile::tempdir().unwrap();
    let snapshot = Agent::snapshot(&etcd, "u").set(env::ETCD_ENDPOINTS, format!("{second},{first}"));
    let report = snapshot.volume(volume.path(), "a").succeed().await;
    etcd.daemons().signal("m0", CONTINUE);
    let artifact = report.artifact.unwrap();
    assert_ne!(artifact.member_id, Some(format!("{lagging:016x}")));
    assert_eq!(artifact.revision, Some(6));
}

/// S2: the stream breaks off in the middle; another try gets another one.
#[tokio::test]
async fn a_stream_that_breaks_off_is_told_and_leaves_nothing() {
    let etcd = Etcd::start(Version::V3_6, Options::default()).await;
    fatten(&client(&etcd).await, 4).await;
    let proxy = etcd.behind_proxy(0, Protocol::Http2);
    let volume = tempfile::tempdir().unwrap();
    let snapshot = Agent::snapshot(&etcd, "u").set(env::ETCD_ENDPOINTS, proxy.url()).volume(volume.path(), "a");
    let rule = proxy.inject(On::request("POST", "/etcdserverpb.Maintenance/Snapshot"), HttpFault::CutAnswer(1 << 20));
    let report = snapshot.fail(Reason::SnapshotStreamBroken).await;
    assert!(report.retryable, "{report:?}");
    assert_eq!(super::names(&volume.path().join("a")), ["snap.db.uid"]);
    proxy.remove(rule);
    snapshot.succeed().await;
}

#[tokio::test]
async fn unreachable_is_told_apart() {
    let volume = tempfile::tempdir().unwrap();
    let base =
        Agent::new("snapshot").set(env::SNAPSHOT_NAME, "s").set(env::SNAPSHOT_UID, "u").volume(volume.path(), "a");
    for (endpoint, words) in
        [("http://127.0.0.1:1", "Connection refused"), ("http://no-such-host.invalid:2379", "resolve")]
    {
        let report = base.clone().set(env::ETCD_ENDPOINTS, endpoint).fail(Reason::EtcdUnreachable).await;
        assert!(report.retryable && report.message.contains(words), "{}", report.message);
    }
    for endpoint in ["ftp://x", "nonsense", "http://"] {
        base.clone().set(env::ETCD_ENDPOINTS, endpoint).fail(Reason::InvalidConfiguration).await;
    }
    assert!(super::names(volume.path()).is_empty());
}
