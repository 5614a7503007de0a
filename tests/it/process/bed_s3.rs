//! The bed's own tests: the S3 server.

use crate::bed::S3Server;
use crate::bed::s3::Options;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::time::Duration;

const STOP: i32 = 19;
const CONTINUE: i32 = 18;

#[tokio::test]
async fn an_object_can_be_put_only_if_it_is_new() {
    let s3 = S3Server::shared().await;
    let bucket = s3.bucket("only-if-new").await;
    let path = Path::from("a/b");
    let once = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    bucket.put_opts(&path, "first".into(), once.clone()).await.unwrap();
    let second = bucket.put_opts(&path, "second".into(), once).await.unwrap_err();
    assert!(matches!(second, object_store::Error::AlreadyExists { .. }), "{second}");
    assert_eq!(bucket.get(&path).await.unwrap().bytes().await.unwrap(), "first");
}

#[tokio::test]
async fn a_server_that_hangs_does_not_answer_until_it_goes_on() {
    let s3 = S3Server::start(Options::default()).await;
    let bucket = s3.bucket("hangs").await;
    let path = Path::from("a");
    s3.daemons().signal("weed", STOP);
    let put = bucket.put(&path, "late".into());
    tokio::time::timeout(Duration::from_secs(2), put).await.expect_err("a stopped server cannot answer");
    s3.daemons().signal("weed", CONTINUE);
    s3.wait_ready().await;
    bucket.put(&path, "later".into()).await.unwrap();
    assert_eq!(bucket.get(&path).await.unwrap().bytes().await.unwrap(), "later");
}
