//! The `Etcd` strategy: what an absent region and addressing mean.

use serde_json::Value;

use super::Additions;
use crate::api::strategy::{DEFAULT_FORCE_PATH_STYLE, DEFAULT_REGION};

const S3: &str = "/spec/template/destination/s3";

pub(super) fn add(strategy: &Value, additions: &mut Additions) {
    additions.add(strategy, S3, "region", DEFAULT_REGION);
    additions.add(strategy, S3, "forcePathStyle", DEFAULT_FORCE_PATH_STYLE);
}
