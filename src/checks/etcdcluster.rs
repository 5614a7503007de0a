//! EtcdCluster.

use super::change::{Change, Operation};
use super::view;
use crate::api::names::warden::ETCDUTL_PATH;
use crate::api::version::EtcdVersion;
use crate::policy::{Cause, Finding};

/// Name of the rule.
const NEEDS_ETCDUTL: &str = "etcdcluster-restore-needs-etcdutl";

pub(super) fn check(change: &Change<'_>, findings: &mut Vec<Finding>) {
    let (Operation::Create | Operation::Update, Some(object)) = (change.operation, change.subject()) else { return };
    if change.subresource.is_empty() {
        findings.extend(restore_without_etcdutl(object));
    }
}

fn restore_without_etcdutl(object: &serde_json::Value) -> Option<Finding> {
    view::at(object, "/spec/bootstrap/restore")?;
    let version: EtcdVersion = view::text(object, "/spec/version").parse().ok()?;
    if version >= EtcdVersion::FIRST_WITH_ETCDUTL {
        return None;
    }
    let declared = view::annotation(object, ETCDUTL_PATH).filter(|path| !path.is_empty());
    Some(match declared {
        Some(path) => Finding::warn(
            NEEDS_ETCDUTL,
            "spec.version",
            format!(
                "etcd {version} ships no etcdutl; the restore relies on {path} in its image, as annotation \
                 {ETCDUTL_PATH} declares"
            ),
        ),
        None => Finding::deny(
            NEEDS_ETCDUTL,
            "spec.version",
            format!(
                "a restore runs the etcdutl of the target's own image, and etcd {version} ships none: it came with \
                 {first}. Use {first} or newer, or an image that has it and say where in annotation {ETCDUTL_PATH}",
                first = EtcdVersion::FIRST_WITH_ETCDUTL
            ),
        )
        .because(Cause::FieldValueNotSupported),
    })
}
