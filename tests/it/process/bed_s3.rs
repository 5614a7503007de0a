//! The bed's own tests: the S3 server.

use crate::bed::S3Server;
use crate::bed::s3::Options;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, PutOptions};

#[tokio::test]
async fn objects_are_stored_once_and_kept_through_a_kill() {
    let s3 = S3Server::start(Options::default()).await;
    let bucket = s3.bucket("keeps").await;
    let path = Path::from("a/b");
    let once = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    object_store::ObjectStore::put_opts(&bucket, &path, "first".into(), once.clone()).await.unwrap();
    let second = object_store::ObjectStore::put_opts(&bucket, &path, "second".into(), once).await.unwrap_err();
    assert!(matches!(second, object_store::Error::AlreadyExists { .. }), "{second}");

    s3.daemons().kill("weed");
    s3.daemons().restart("weed");
    s3.wait_ready().await;
    assert_eq!(bucket.get(&path).await.unwrap().bytes().await.unwrap(), "first");
}
