//! The bed's own tests: etcd as processes.

use crate::bed::etcd::{Options, Tls, Version};
use crate::bed::{Etcd, wait_for};
use std::time::Duration;

#[tokio::test]
async fn every_version_serves_reads_and_writes() {
    for version in Version::ALL {
        let etcd = Etcd::start(version, Options::default()).await;
        etcd.etcdctl(&["put", "key", "value"]);
        assert_eq!(etcd.etcdctl(&["get", "--print-value-only", "key"]).trim(), "value", "{version:?}");
        assert!(etcd.etcdctl(&["version"]).contains(version.number()));
    }
}

#[tokio::test]
async fn three_members_with_mutual_tls_and_authentication_outlive_the_loss_of_one() {
    let options =
        Options { members: 3, tls: Tls::Mutual, root_password: Some("secret".to_owned()), ..Options::default() };
    for version in [Version::V3_4, Version::V3_7] {
        let etcd = Etcd::start(version, options.clone()).await;
        etcd.daemons().kill("m1");
        // It may have been the leader, and until there is another nobody takes a write.
        wait_for("a write without m1", Duration::from_mins(1), async || etcd.try_etcdctl(&["put", "key", "value"]))
            .await;
        etcd.daemons().restart("m1");
        etcd.wait_ready().await;
        assert_eq!(etcd.etcdctl(&["get", "--print-value-only", "key"]).trim(), "value", "{version:?}");
    }
}
