//! What goes wrong between us and a store, told apart, and overcome where it can be.

use super::{Agent, Image, bucket_name, client, fatten, filled, names};
use crate::bed::etcd::Version;
use crate::bed::fault_proxy::{HttpFault, HttpProxy, On};
use crate::bed::s3::{Keys, OWNER, READER};
use crate::bed::{Etcd, S3Server, wait_for};
use etcd_warden::api::agent::{Reason, env};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt};
use std::sync::Arc;
use std::time::Duration;

struct Way {
    proxy: HttpProxy,
    bucket: Arc<dyn ObjectStore>,
    name: String,
    authority: tempfile::NamedTempFile,
}

/// A bucket of the real server, seen through a proxy that can misbehave.
async fn way(what: &str) -> Way {
    let s3 = S3Server::shared().await;
    let name = bucket_name(what);
    let bucket = s3.bucket(&name).await;
    let proxy = s3.behind_proxy();
    let file = tempfile::NamedTempFile::new().unwrap();
    proxy.write_authority(file.path());
    Way { proxy, bucket, name, authority: file }
}

impl Way {
    fn lead(&self, agent: Agent, key: &str) -> Agent {
        agent
            .s3_at(&self.proxy.url(), &self.name, key)
            .set(env::S3_CA_FILE, self.authority.path().display())
            .keys(&OWNER)
    }

    fn snapshot(&self, etcd: &Etcd) -> Agent {
        self.lead(Agent::snapshot(etcd, "u"), "")
    }

    async fn is_empty(&self) -> bool {
        matches!(self.bucket.head(&Path::from("snap.db")).await, Err(object_store::Error::NotFound { .. }))
    }
}

fn error(code: &str) -> String {
    format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{code}</Message></Error>")
}

async fn fat() -> Etcd {
    let etcd = filled(Version::V3_6).await;
    fatten(&client(&etcd).await, 16).await;
    etcd
}

#[tokio::test]
async fn what_passes_by_itself_is_waited_for() {
    let etcd = fat().await;
    let faults: Vec<(&str, Vec<(On, HttpFault)>)> = vec![
        ("throttled", vec![(On::request("PUT", "partNumber").first(3), HttpFault::Answer(503, error("SlowDown")))]),
        (
            "broken-server",
            vec![
                (On::request("POST", "uploads").first(1), HttpFault::Answer(500, error("InternalError"))),
                (On::request("POST", "uploadId").first(1), HttpFault::Answer(500, error("InternalError"))),
            ],
        ),
        ("reset-in-part", vec![(On::request("PUT", "partNumber=2").first(1), HttpFault::CutRequest(1 << 20))]),
        ("reset-before", vec![(On::request("HEAD", "").first(2), HttpFault::Reset)]),
        (
            "error-in-200",
            vec![(On::request("POST", "uploadId").first(1), HttpFault::Answer(200, error("InternalError")))],
        ),
        // The store did it, and nobody heard of it: asked again, it knows no such upload any more.
        ("lost-answer", vec![(On::request("POST", "uploadId").first(1), HttpFault::LoseAnswer)]),
    ];
    for (what, faults) in faults {
        let way = way(what).await;
        let rules: Vec<_> = faults.into_iter().map(|(on, fault)| way.proxy.inject(on, fault)).collect();
        let report = way.snapshot(&etcd).succeed().await;
        assert!(rules.iter().all(|rule| way.proxy.applied(*rule) > 0), "{what} did not happen");
        let stored = way.bucket.head(&Path::from("snap.db")).await.unwrap();
        assert_eq!(stored.size, report.artifact.unwrap().size_bytes, "{what}");
    }
}

#[tokio::test]
async fn a_download_goes_on_where_it_broke() {
    let etcd = fat().await;
    let way = way("resume").await;
    let artifact = way.snapshot(&etcd).succeed().await.artifact.unwrap();
    let image = Image::of(Version::V3_6);
    for cut in [1 << 20, 3 << 20] {
        let rule = way.proxy.inject(On::request("GET", "snap.db").first(3), HttpFault::CutAnswer(cut));
        let data = tempfile::tempdir().unwrap();
        let restore = way.lead(Agent::new("restore"), "snap.db").image(&image).member(data.path());
        let restored = restore.set(env::EXPECTED_SHA256, &artifact.sha256).succeed().await.restore.unwrap();
        assert_eq!(restored.bytes, artifact.size_bytes);
        assert_eq!(way.proxy.applied(rule), 3);
        way.proxy.remove(rule);
    }
    // Another object under the same name is no continuation: it comes between the first piece and the second.
    let gets = On::request("GET", "snap.db");
    let before = way.proxy.count(&gets);
    way.proxy.inject(gets.clone().nth(1), HttpFault::CutAnswer(1 << 20));
    way.proxy.inject(gets.clone().nth(2), HttpFault::Delay(Duration::from_secs(5)));
    let data = tempfile::tempdir().unwrap();
    let restore = way.lead(Agent::new("restore"), "snap.db").image(&image).member(data.path());
    let running = restore.start();
    wait_for("the download to go on", Duration::from_mins(1), async || {
        let count = way.proxy.count(&gets) - before;
        if count >= 2 { Ok(()) } else { Err(format!("{count} requests")) }
    })
    .await;
    way.bucket.put(&Path::from("snap.db"), vec![0; 5_000_000].into()).await.unwrap();
    let report = running.end().await.report.unwrap();
    assert_eq!(report.reason, Reason::StoredObjectMismatch, "{report:?}");
    assert!(names(data.path()).is_empty());
}

#[tokio::test]
async fn what_does_not_pass_is_told_apart_and_leaves_nothing() {
    let etcd = filled(Version::V3_6).await;
    let way = way("told").await;
    // What the store answers at the name, what it is to be called, and what a person is to look at.
    for (status, code, reason, words) in [
        (403, "ExpiredToken", Reason::StoreAuthFailed, "session token"),
        (403, "InvalidAccessKeyId", Reason::StoreAuthFailed, "access key"),
        (403, "RequestTimeTooSkewed", Reason::StoreClockSkewed, "clocks"),
        (400, "AuthorizationHeaderMalformed", Reason::StoreAuthFailed, "region"),
        (404, "NoSuchBucket", Reason::BucketNotFound, &way.name),
        (400, "InvalidRequest", Reason::StoreRefused, "InvalidRequest"),
    ] {
        let rule = way.proxy.inject(On::request("*", "snap.db"), HttpFault::Answer(status, error(code)));
        let report = way.snapshot(&etcd).fail(reason).await;
        assert!(report.message.contains(words), "{}", report.message);
        way.proxy.remove(rule);
    }
    assert!(way.is_empty().await);
    // The same with nobody in between.
    let s3 = S3Server::shared().await;
    let direct = |bucket: &str| Agent::snapshot(&etcd, "u").s3(s3, bucket, "");
    direct("agents-no-such-bucket").fail(Reason::BucketNotFound).await;
    direct(&way.name).keys(&Keys { access: "nobody", secret: "x" }).fail(Reason::StoreAuthFailed).await;
    direct(&way.name).keys(&Keys { access: OWNER.access, secret: "wrong" }).fail(Reason::StoreAuthFailed).await;
    direct(&way.name).keys(&READER).fail(Reason::StorePermissionDenied).await;
    assert!(way.is_empty().await);
}

/// B2, B3: from where the Pod runs, what cannot be reached is told by its layer, and a private authority is trusted where it
/// is given.
#[tokio::test]
async fn the_layer_that_failed_is_named() {
    let etcd = filled(Version::V3_6).await;
    let s3 = S3Server::shared().await;
    let snapshot = |endpoint: &str| {
        Agent::snapshot(&etcd, "u")
            .s3(s3, "agents-any", "")
            .set(env::S3_ENDPOINT, endpoint)
            .set(env::DEADLINE_SECONDS, 20)
    };
    let https = s3.endpoint();
    let plain = s3.plain_endpoint();
    for (endpoint, reason, words) in [
        ("https://no-such-host.invalid", Reason::StoreUnreachable, "DNS"),
        ("https://127.0.0.1:1", Reason::StoreUnreachable, "Connection refused"),
        (&https.replace("127.0.0.1", "127.0.0.2"), Reason::StoreUnreachable, "127.0.0.2"),
        // TLS towards a server that speaks none.
        (&plain.replace("http", "https"), Reason::StoreTlsFailed, "http against https"),
    ] {
        let report = snapshot(endpoint).fail(reason).await;
        assert!(report.message.contains(words), "{endpoint}: {}", report.message);
    }
    // The private authority is what makes the certificate good.
    let report = snapshot(&https).unset(env::S3_CA_FILE).fail(Reason::StoreTlsFailed).await;
    assert!(report.message.contains("CA bundle"), "{}", report.message);
}

/// S11: a store that does not say whether the name is free is no obstacle.
#[tokio::test]
async fn without_the_right_to_list_the_store_itself_guards_the_name() {
    let etcd = filled(Version::V3_6).await;
    let way = way("no-list").await;
    let rules = [
        way.proxy.inject(On::request("HEAD", "snap.db").first(1), HttpFault::Answer(403, String::new())),
        way.proxy.inject(On::request("GET", "snap.db").first(1), HttpFault::Answer(403, error("AccessDenied"))),
    ];
    way.snapshot(&etcd).succeed().await;
    assert!(rules.iter().all(|rule| way.proxy.applied(*rule) == 1));
    way.proxy.clear();
    // Now the name is taken, and still looks forbidden: the condition of the last request refuses.
    way.proxy.inject(On::request("HEAD", "snap.db").first(1), HttpFault::Answer(403, String::new()));
    way.proxy.inject(On::request("GET", "snap.db").first(1), HttpFault::Answer(403, error("AccessDenied")));
    way.snapshot(&etcd).set(env::SNAPSHOT_UID, "other").fail(Reason::ObjectOwnedByAnother).await;
}

#[tokio::test]
async fn a_store_without_conditional_writes_is_served_by_looking_first() {
    let etcd = fat().await;
    let way = way("no-conditions").await;
    let rule =
        way.proxy.inject(On::request("POST", "uploadId").first(1), HttpFault::Answer(501, error("NotImplemented")));
    way.snapshot(&etcd).succeed().await;
    assert_eq!(way.proxy.applied(rule), 1);
    way.snapshot(&etcd).set(env::SNAPSHOT_UID, "other").fail(Reason::ObjectOwnedByAnother).await;
}

#[tokio::test]
async fn a_store_that_stalls_ends_at_the_deadline_and_leaves_nothing() {
    let etcd = fat().await;
    let way = way("stalls").await;
    way.proxy.inject(On::request("PUT", "partNumber=2"), HttpFault::Hang);
    let begun = std::time::Instant::now();
    let report = way.snapshot(&etcd).set(env::DEADLINE_SECONDS, 15).run().await.report.unwrap();
    assert!(matches!(report.reason, Reason::Interrupted | Reason::StoreUnreachable), "{report:?}");
    assert!(report.retryable && begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
    assert!(way.is_empty().await);
    // The unfinished upload was taken back.
    let aborted = way.proxy.seen().iter().any(|(method, path)| method == "DELETE" && path.contains("uploadId"));
    assert!(aborted, "{:?}", way.proxy.seen());
}

#[tokio::test]
async fn a_store_that_throttles_for_ever_ends_at_the_deadline_and_is_named() {
    let etcd = filled(Version::V3_6).await;
    let way = way("throttles").await;
    let rule = way.proxy.inject(On::request("PUT", "snap.db"), HttpFault::Answer(503, error("SlowDown")));
    let begun = std::time::Instant::now();
    let report = way.snapshot(&etcd).set(env::DEADLINE_SECONDS, 16).fail(Reason::StoreUnreachable).await;
    assert!(report.message.contains("SlowDown"), "{}", report.message);
    assert!(report.retryable && begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    // With pauses that grow, not as fast as it can.
    assert!((2..30).contains(&way.proxy.applied(rule)), "{} tries", way.proxy.applied(rule));
    assert!(way.is_empty().await);
}

/// Ceph's gateway and older servers refuse bodies that end in a checksum, and checksums in headers that they do not know.
#[tokio::test]
async fn nothing_is_sent_that_older_stores_refuse() {
    let etcd = fat().await;
    let way = way("plain-requests").await;
    for header in ["aws-chunked", "x-amz-trailer", "x-amz-checksum-", "x-amz-sdk-checksum", "streaming-", "STREAMING-"]
    {
        let rule = way.proxy.inject(On::any(), HttpFault::RefuseHeader(header));
        way.snapshot(&etcd).succeed().await;
        assert!(way.proxy.applied(rule) > 3, "{header}");
        way.proxy.remove(rule);
    }
    // A header that is always there shows that such a store would have been heard.
    way.proxy.inject(On::any(), HttpFault::RefuseHeader("x-amz-content-sha256: "));
    way.snapshot(&etcd)
        .set(env::DEADLINE_SECONDS, 5)
        .run()
        .await
        .report
        .filter(|report| !report.ok)
        .expect("a refusal");
}

/// S11: the store itself decides between two that found the name free.
#[tokio::test]
async fn an_upload_of_somebody_else_that_was_faster_wins() {
    let etcd = fat().await;
    let way = way("faster").await;
    let mut running = way.snapshot(&etcd).start();
    running.until("name-guarded").await;
    let mut theirs = way.bucket.put_multipart(&Path::from("snap.db")).await.unwrap();
    theirs.put_part("theirs".into()).await.unwrap();
    theirs.complete().await.unwrap();
    let report = running.end().await.report.unwrap();
    if report.reason != Reason::ObjectOwnedByAnother {
        // Only where the agent was done before: then it is the other's that had to see it.
        assert!(report.ok, "{report:?}");
    }
    let stored = way.bucket.get(&Path::from("snap.db")).await.unwrap().bytes().await.unwrap();
    assert_eq!(stored, "theirs");
}
