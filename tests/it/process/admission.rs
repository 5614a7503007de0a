//! The admission server as a process, without a cluster: what it says on the wire, and whom it does not wait for.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::HOUSE;
use crate::bed::pki::{Authority, Pair};
use crate::bed::{Warden, use_ring, wait_for};

/// A server that is ready.
async fn ready(flags: &[&str]) -> Warden {
    use_ring();
    let warden = Warden::standalone(flags);
    warden.wait_ready().await;
    warden
}

/// An EtcdCluster that restores; into 3.4 that is refused.
fn cluster(version: &str) -> Value {
    json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
        "metadata": {"name": "etcd", "namespace": "tenant"},
        "spec": {"version": version, "replicas": 1, "bootstrap": {"restore": {"source": {"s3": {
            "endpoint": "https://s3.example", "bucket": "b", "key": "k.db", "credentialsSecretRef": {"name": "c"}}}}}}})
}

fn review(version: &str) -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "namespace": "tenant", "name": "etcd", "userInfo": {"username": "anna"},
        "kind": {"group": "etcd-operator.cozystack.io", "version": "v1alpha2", "kind": "EtcdCluster"},
        "resource": {"group": "etcd-operator.cozystack.io", "version": "v1alpha2", "resource": "etcdclusters"},
        "object": cluster(version)}})
    .to_string()
}

fn roots(file: &Path) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    roots
}

fn client(warden: &Warden, versions: &[&'static SupportedProtocolVersion], who: Option<&Pair>) -> ClientConfig {
    let builder =
        ClientConfig::builder_with_protocol_versions(versions).with_root_certificates(roots(&warden.own_authority()));
    let mut config = match who {
        None => builder.with_no_client_auth(),
        Some(pair) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

async fn connect_as(warden: &Warden, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(warden.address()).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await
}

async fn connect(warden: &Warden) -> TlsStream<TcpStream> {
    connect_as(warden, client(warden, rustls::ALL_VERSIONS, None)).await.expect("connect")
}

fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: warden\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// Asks on this connection: status, head and body of the answer.
async fn ask(stream: &mut TlsStream<TcpStream>, path: &str, body: &str) -> std::io::Result<(u16, String, String)> {
    stream.write_all(format!("{}{body}", head(path, body.len())).as_bytes()).await?;
    stream.flush().await?;
    answer(stream).await
}

async fn answer(stream: &mut TlsStream<TcpStream>) -> std::io::Result<(u16, String, String)> {
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk).await?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        text.extend_from_slice(&chunk[..count]);
        let seen = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = seen.split_once("\r\n\r\n") else { continue };
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        if body.len() >= length.parse().unwrap() {
            let status = head.split(' ').nth(1).unwrap().parse().unwrap();
            return Ok((status, head, body.to_owned()));
        }
    }
}

async fn refused(stream: &mut TlsStream<TcpStream>) {
    let (status, _, body) = ask(stream, "/validate?timeout=10s", &review("3.4.0")).await.expect("an answer");
    assert_eq!(status, 200);
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["response"]["allowed"], false, "{answer}");
}

/// When the server closed this connection.
async fn closed(stream: &mut (impl AsyncReadExt + Unpin), within: Duration) -> Duration {
    let started = Instant::now();
    let read = tokio::time::timeout(within, stream.read_to_end(&mut Vec::new())).await;
    assert!(read.is_ok(), "it was still open after {within:?}");
    started.elapsed()
}

#[tokio::test]
async fn both_versions_of_tls_are_spoken_and_only_http_1_1() {
    let warden = ready(&[]).await;
    for (version, expected) in
        [(&rustls::version::TLS12, ProtocolVersion::TLSv1_2), (&rustls::version::TLS13, ProtocolVersion::TLSv1_3)]
    {
        let mut stream = connect_as(&warden, client(&warden, &[version], None)).await.unwrap();
        let (_, session) = stream.get_ref();
        assert_eq!(session.protocol_version(), Some(expected));
        assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
        refused(&mut stream).await;
    }
}

#[tokio::test]
async fn clients_that_are_slow_on_purpose_are_cut_off_while_others_are_answered() {
    let warden = ready(&[]).await;
    let mut silent = TcpStream::connect(warden.address()).await.unwrap();
    let mut dribbling = connect(&warden).await;
    let mut stuck = connect(&warden).await;
    dribbling.write_all(b"POST /validate HT").await.unwrap();
    stuck.write_all(head("/validate?timeout=30s", 1000).as_bytes()).await.unwrap();

    let (reader, mut writer) = tokio::io::split(dribbling);
    let mut reader = reader;
    let dribble = async {
        while writer.write_all(b"T").await.is_ok() && writer.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let others = async {
        for _ in 0..40 {
            let started = Instant::now();
            refused(&mut connect(&warden).await).await;
            assert!(started.elapsed() < Duration::from_secs(2), "held up: {:?}", started.elapsed());
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let (handshake, head, (status, ..), (), ()) = tokio::join!(
        closed(&mut silent, Duration::from_secs(8)),
        closed(&mut reader, Duration::from_secs(15)),
        async { answer(&mut stuck).await.unwrap() },
        dribble,
        others,
    );
    assert!(handshake >= Duration::from_secs(4), "{handshake:?}");
    assert!(head >= Duration::from_secs(8), "{head:?}");
    assert_eq!(status, 408);
}

#[tokio::test]
async fn a_connection_that_nobody_uses_outlives_the_api_servers_patience() {
    let warden = ready(&[]).await;
    let (mut used, mut unused) = (connect(&warden).await, connect(&warden).await);
    refused(&mut used).await;
    // The API server keeps an idle connection for 90 s.
    tokio::time::sleep(Duration::from_secs(95)).await;
    refused(&mut used).await;
    refused(&mut unused).await;
}

#[tokio::test]
async fn at_the_cap_the_connection_that_was_idle_longest_makes_room_and_the_others_go_on() {
    const CAP: usize = 1024;
    let warden = ready(&[]).await;
    let mut open = Vec::new();
    for _ in 0..CAP {
        open.push(connect(&warden).await);
    }
    refused(&mut open[0]).await;
    // Whoever holds them all holds nobody up, a second time neither.
    for _ in 0..2 {
        let mut another = connect(&warden).await;
        refused(&mut another).await;
        open.push(another);
    }
    for evicted in [1, 2] {
        closed(&mut open[evicted], Duration::from_secs(5)).await;
    }
    for kept in [0, 3, CAP - 1, CAP + 1] {
        refused(&mut open[kept]).await;
    }
    let (_, metrics) = warden.admin("/metrics").await.unwrap();
    assert!(metrics.contains("etcd_warden_webhook_connections 1024\n"), "{metrics}");
    assert!(metrics.contains("etcd_warden_webhook_connections_evicted_total 2\n"), "{metrics}");
    assert!(metrics.contains("etcd_warden_webhook_connections_refused_total 0\n"), "{metrics}");
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_answered_and_not_cut_off() {
    let warden = ready(&[]).await;
    let mut stream = connect(&warden).await;
    let (status, _, body) = ask(&mut stream, "/validate", &" ".repeat(7 * 1024 * 1024 + 1)).await.unwrap();
    assert_eq!((status, body.contains("larger than")), (413, true), "{body}");
    refused(&mut stream).await;
    for (request, expected) in [("GET /validate", 405), ("POST /elsewhere", 404), ("GET /check", 405)] {
        let head = format!("{request} HTTP/1.1\r\nhost: warden\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        assert_eq!(answer(&mut stream).await.unwrap().0, expected, "{request}");
    }
}

#[tokio::test]
async fn callers_need_a_certificate_where_an_authority_of_theirs_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (Authority::new("front-proxy"), Authority::new("another"));
    let file = first.write(&folder.path().join("client-ca.crt"));
    let flag = format!("--webhook-client-ca={}", file.display());
    let warden = ready(&[&flag, "--certificate-times=3600,3600,0,1"]).await;
    let [known, other] = [&first, &second].map(|authority| authority.issue("kube-apiserver", None, &[]));
    // With TLS 1.3 a client learns of a refusal when it reads.
    let try_as = async |who: Option<&Pair>| {
        let mut stream = connect_as(&warden, client(&warden, rustls::ALL_VERSIONS, who)).await?;
        ask(&mut stream, "/validate", &review("3.4.0")).await.map(|(status, ..)| status)
    };
    assert_eq!(try_as(Some(&known)).await.unwrap(), 200);
    assert!(try_as(None).await.is_err());
    assert!(try_as(Some(&other)).await.is_err());

    second.write(&file);
    wait_for("the other authority to be trusted", Duration::from_secs(10), async || {
        try_as(Some(&other)).await.map_err(|error| error.to_string())
    })
    .await;
    assert!(try_as(Some(&known)).await.is_err());
}

#[tokio::test]
async fn a_check_without_a_cluster_knows_the_objects_that_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let backup = json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "Backup",
        "metadata": {"name": "b1", "namespace": "tenant"},
        "spec": {"applicationRef": {"kind": "Etcd", "name": "etcd"}, "takenAt": "2026-01-01T00:00:00Z",
            "strategyRef": {"apiGroup": "strategy.backups.cozystack.io", "kind": "Etcd", "name": "s"}},
        "status": {"phase": "Ready", "artifact": {"uri": "s3://backups/tenant/b1.db"}}});
    std::fs::write(folder.path().join("backup.json"), backup.to_string()).unwrap();
    let warden = ready(&[&format!("--context={}", folder.path().display())]).await;
    let mut stream = connect(&warden).await;
    let job = |name: &str| {
        json!({"apiVersion": "backups.cozystack.io/v1alpha1", "kind": "RestoreJob",
            "metadata": {"name": "r", "namespace": "tenant"},
            "spec": {"backupRef": {"name": "b1"}, "targetApplicationRef": {"kind": "Etcd", "name": name}}})
        .to_string()
    };
    let mut verdict = async |name: &str| {
        let (status, _, body) = ask(&mut stream, "/check", &job(name)).await.unwrap();
        assert_eq!(status, 200, "{body}");
        let mut report: Value = serde_json::from_str(&body).unwrap();
        report["objects"][0].take()
    };
    let object = verdict("etcd").await;
    assert_eq!((&object["allowed"], &object["findings"]), (&json!(true), &json!([])), "{object}");
    // Only who knows the Backup can tell that this is a restore to elsewhere.
    let object = verdict("other").await;
    assert_eq!(
        (&object["allowed"], &object["findings"][0]["field"]),
        (&json!(false), &json!("spec.targetApplicationRef.name"))
    );
    let (_, body) = warden.admin("/readyz").await.unwrap();
    assert_eq!(body, "ok\n");
}

#[tokio::test]
async fn policies_without_a_cluster_take_parameters_from_the_context() {
    let folder = tempfile::tempdir().unwrap();
    let policies = folder.path().join("policies.yaml");
    std::fs::write(&policies, HOUSE).unwrap();
    let context = folder.path().join("context.yaml");
    let house = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: house, namespace: a}\ndata: {members: '1'}\n";
    std::fs::write(&context, house).unwrap();
    let flags = [format!("--policy-dir={}", policies.display()), format!("--context={}", context.display())];
    let warden = ready(&[&flags[0], &flags[1]]).await;
    let mut stream = connect(&warden).await;
    // Three members by the definition's default, which the service fills in as the API server would.
    for (spec, message) in [
        (json!({"version": "3.6.1", "replicas": 1}), None),
        (json!({"version": "3.6.1"}), Some("too many for this house")),
    ] {
        let cluster = json!({"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster",
            "metadata": {"name": "etcd", "namespace": "a"}, "spec": spec});
        let (status, _, body) = ask(&mut stream, "/check", &cluster.to_string()).await.unwrap();
        assert_eq!(status, 200, "{body}");
        let report: Value = serde_json::from_str(&body).unwrap();
        let denied = report["objects"][0]["findings"].as_array().unwrap().iter().find(|f| f["action"] == "Deny");
        assert_eq!(denied.map(|finding| finding["message"].as_str().unwrap()), message, "{body}");
    }
}

#[tokio::test]
async fn a_context_that_cannot_be_read_keeps_a_server_from_starting_and_is_named() {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_etcd-warden"))
        .args(["serve", "--standalone", "--webhook-address=127.0.0.1:0", "--admin-address=127.0.0.1:0"])
        .arg("--context=/nonexistent/objects.yaml")
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("/nonexistent/objects.yaml"), "{said}");
}

#[tokio::test]
async fn a_stop_drops_nobody_and_ends_when_it_is_quiet() {
    let warden = ready(&["--quiet-seconds=2"]).await;
    let (leash, daemon) = warden.daemon();
    let mut stream = connect(&warden).await;
    let mut told_to_leave = 0;
    for round in 0..60 {
        if round == 10 {
            leash.signal(daemon, 15);
        }
        let (status, head, _) = ask(&mut stream, "/validate", &review("3.6.0")).await.expect("an answer");
        assert_eq!(status, 200);
        if head.contains("connection: close") {
            told_to_leave += 1;
            stream = connect(&warden).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(told_to_leave >= 40, "{told_to_leave}");
    let (status, body) = warden.admin("/readyz").await.unwrap();
    assert_eq!((status, body.contains("shutting down")), (503, true), "{body}");
    wait_for("the process to end", Duration::from_secs(15), async || {
        leash.ended(daemon).ok_or_else(|| "it runs".to_owned())
    })
    .await;
    assert!(warden.log().contains("admission is quiet"), "{}", warden.log());
}

async fn certs(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_etcd-warden"));
    let output = command.arg("certs").args(arguments).output().await.unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), said)
}

#[tokio::test]
async fn issued_certificates_are_served_and_issuing_again_keeps_the_trust() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("certs").display().to_string();
    let issue = ["issue", "--directory", &directory, "--name", "127.0.0.1", "--name", "warden.example"];
    let (code, said) = certs(&issue).await;
    assert_eq!(code, Some(0), "{said}");
    let key = std::fs::metadata(format!("{directory}/ca.key")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&key.permissions()) & 0o777, 0o600);

    // Given files go before an authority of the server's own.
    use_ring();
    let warden = Warden::with_certificates(Path::new(&directory), &["--certificate-times=3600,3600,0,1"]);
    warden.wait_ready().await;
    let authority = std::path::PathBuf::from(format!("{directory}/ca.crt"));
    let served = async || {
        let mut config = ClientConfig::builder().with_root_certificates(roots(&authority)).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut stream = connect_as(&warden, config).await.map_err(|error| error.to_string())?;
        refused(&mut stream).await;
        Ok::<_, String>(stream.get_ref().1.peer_certificates().unwrap()[0].clone())
    };
    let (first, before) = (served().await.unwrap(), std::fs::read(&authority).unwrap());
    assert_eq!(certs(&issue).await.0, Some(0));
    assert_eq!(std::fs::read(&authority).unwrap(), before, "the same authority signs again");
    wait_for("the new certificate to be served", Duration::from_secs(15), async || {
        let now = served().await?;
        if now == first { Err("the first one".to_owned()) } else { Ok(()) }
    })
    .await;

    let (code, said) = certs(&["inspect", &directory, "-o", "json"]).await;
    assert_eq!(code, Some(0), "{said}");
    let told: Value = serde_json::from_str(&said).unwrap();
    let of = |at: usize| &told["certificates"][at]["certificate"];
    assert_eq!((&of(0)["authority"], &of(1)["authority"]), (&json!(true), &json!(false)));
    assert_eq!(of(1)["names"], json!(["127.0.0.1", "warden.example"]));
    assert_eq!(of(1)["issuer"], of(0)["subject"]);
    let (_, said) = certs(&["inspect", &directory]).await;
    assert!(said.contains("364 days left") && said.contains("for 127.0.0.1, warden.example"), "{said}");
    let (code, said) = certs(&["inspect", &format!("{directory}/tls.key")]).await;
    assert!(code == Some(1) && said.contains("no certificate"), "{said}");
}
