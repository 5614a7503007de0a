//! Our programs, as the tests run them.

use std::path::PathBuf;

/// The server: as cargo built it for this test, or what `ETCD_WARDEN_SERVER` names, for measurements of a release.
pub fn server() -> PathBuf {
    std::env::var_os("ETCD_WARDEN_SERVER").map_or_else(|| env!("CARGO_BIN_EXE_etcd-warden").into(), PathBuf::from)
}
