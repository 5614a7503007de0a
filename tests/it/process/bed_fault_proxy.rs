//! The bed's own tests: the fault proxy, in front of real etcd and S3.

use crate::bed::etcd::{Options, Tls, Version};
use crate::bed::fault_proxy::{HttpFault, HttpProxy, On, Protocol, TcpFault, TcpProxy};
use crate::bed::s3::store_through;
use crate::bed::{Etcd, S3Server};
use object_store::ObjectStoreExt;
use std::process::Command;
use std::time::{Duration, Instant};

async fn etcd_with_tls() -> Etcd {
    Etcd::start(Version::V3_6, Options { tls: Tls::Server, ..Options::default() }).await
}

/// What one GET of `/version` comes to: status and body, or `None` when the connection broke.
async fn get_version(proxy: &HttpProxy) -> Option<(u16, String)> {
    let authority = reqwest::Certificate::from_pem(proxy.authority_pem().as_bytes()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([authority]).retry(reqwest::retry::never());
    let answer = client.build().unwrap().get(format!("{}/version", proxy.url())).send().await.ok()?;
    let status = answer.status().as_u16();
    Some((status, answer.text().await.ok()?))
}

#[tokio::test]
async fn requests_are_answered_delayed_lost_and_cut_as_told() {
    let etcd = etcd_with_tls().await;
    let proxy = etcd.behind_proxy(0, Protocol::Http1);
    let (status, whole) = get_version(&proxy).await.unwrap();
    assert!(status == 200 && whole.contains("3.6.16"), "{status} {whole}");

    let rule = proxy.inject(On::request("GET", "/version").nth(2), HttpFault::Answer(503, "busy".to_owned()));
    assert_eq!(get_version(&proxy).await.unwrap().0, 200);
    assert_eq!(get_version(&proxy).await.unwrap(), (503, "busy".to_owned()));
    assert_eq!(get_version(&proxy).await.unwrap().0, 200);
    assert_eq!((proxy.applied(rule), proxy.count(&On::request("GET", "/version"))), (1, 4));

    for fault in [HttpFault::Reset, HttpFault::LoseAnswer, HttpFault::CutAnswer(whole.len() / 2)] {
        proxy.clear();
        let rule = proxy.inject(On::any(), fault.clone());
        assert_eq!(get_version(&proxy).await, None, "{fault:?}");
        proxy.remove(rule);
        assert_eq!(get_version(&proxy).await.unwrap().1, whole, "{fault:?}");
    }

    // Twice for the server, which the proxy's own count does not show: a lease is granted under a name only once.
    proxy.clear();
    let lease = async || {
        let authority = reqwest::Certificate::from_pem(proxy.authority_pem().as_bytes()).unwrap();
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([authority]).build().unwrap();
        let url = format!("{}/v3/lease/grant", proxy.url());
        let granted = client.post(url).body(r#"{"TTL": "60", "ID": "7"}"#).send().await.unwrap();
        granted.text().await.unwrap()
    };
    proxy.inject(On::any(), HttpFault::Twice);
    let second = lease().await;
    assert!(second.contains("lease already exists"), "{second}");

    proxy.clear();
    proxy.inject(On::any().first(1), HttpFault::Delay(Duration::from_millis(300)));
    let begin = Instant::now();
    assert_eq!(get_version(&proxy).await.unwrap().0, 200);
    assert!(begin.elapsed() >= Duration::from_millis(300));

    proxy.inject(On::any(), HttpFault::Hang);
    tokio::time::timeout(Duration::from_millis(500), get_version(&proxy)).await.expect_err("nobody answers");
}

#[tokio::test]
async fn a_lost_answer_of_grpc_leaves_the_write_done() {
    let etcd = etcd_with_tls().await;
    let proxy = etcd.behind_proxy(0, Protocol::Http2);
    let authority = etcd.folder().join("proxy.crt");
    proxy.write_authority(&authority);
    let through = |arguments: &[&str]| {
        let mut command = Command::new(Version::V3_6.etcdctl());
        command.arg(format!("--endpoints={}", proxy.url())).arg(format!("--cacert={}", authority.display()));
        command.args(arguments).output().unwrap()
    };
    assert!(through(&["put", "a", "1"]).status.success());
    let rule = proxy.inject(On::request("POST", "/etcdserverpb.KV/Put").first(1), HttpFault::LoseAnswer);
    let lost = through(&["put", "b", "2"]);
    assert!(!lost.status.success(), "{}", String::from_utf8_lossy(&lost.stdout));
    assert_eq!(proxy.applied(rule), 1);
    assert_eq!(etcd.etcdctl(&["get", "--print-value-only", "b"]).trim(), "2");

    proxy.inject(On::request("POST", "/etcdserverpb.KV/Put"), HttpFault::Reset);
    assert!(!through(&["--command-timeout=2s", "put", "c", "3"]).status.success());
    assert_eq!(etcd.etcdctl(&["get", "--print-value-only", "c"]).trim(), "");
}

#[tokio::test]
async fn connections_are_reset_delayed_and_cut_as_told() {
    let etcd = Etcd::start(Version::V3_6, Options::default()).await;
    let proxy = TcpProxy::start(etcd.address(0));
    let get = async || {
        let client = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never()).build().unwrap();
        let answer = client.get(format!("http://{}/version", proxy.address())).send().await.ok()?;
        answer.text().await.ok()
    };
    let whole = get().await.expect("a version");
    for fault in [TcpFault::Reset, TcpFault::CutAnswer(100), TcpFault::CutRequest(10)] {
        let rule = proxy.inject(On::any().first(1), fault.clone());
        assert_eq!(get().await, None, "{fault:?}");
        assert_eq!(get().await.as_ref(), Some(&whole), "{fault:?}");
        assert_eq!(proxy.applied(rule), 1);
        proxy.clear();
    }
    proxy.inject(On::any().first(1), TcpFault::Hang);
    let hanging = get();
    tokio::pin!(hanging);
    tokio::time::timeout(Duration::from_millis(300), &mut hanging).await.expect_err("nothing comes through");
    proxy.cut();
    assert_eq!(hanging.await, None);
    assert_eq!(proxy.connections(), 8);
}

#[tokio::test]
async fn signed_requests_reach_the_s3_server_and_are_tried_again() {
    let s3 = S3Server::shared().await;
    s3.bucket("through-proxy").await;
    let proxy = s3.behind_proxy();
    let store = store_through("through-proxy", &proxy.url(), proxy.authority_pem());
    let path = object_store::path::Path::from("key");
    let rule = proxy.inject(On::request("PUT", "/key").first(1), HttpFault::Answer(503, String::new()));
    store.put(&path, "value".into()).await.unwrap();
    assert_eq!((proxy.applied(rule), proxy.count(&On::request("PUT", "/key"))), (1, 2));
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "value");
}
