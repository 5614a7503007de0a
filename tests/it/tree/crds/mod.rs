//! The definitions as the tree carries them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use etcd_warden::api::crd;

mod decode;
mod wire;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/etcd-warden/files/crds")
}

#[test]
fn the_chart_carries_what_the_code_says() {
    let generated: BTreeMap<String, String> =
        crd::all().iter().map(|crd| (crd::file_name(crd), crd::to_yaml(crd).unwrap())).collect();
    let carried: BTreeMap<String, String> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap()))
        .collect();
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&generated), names(&carried), "charts/etcd-warden/files/crds: run `make generate`");
    for (name, text) in &generated {
        assert!(
            *text == carried[name],
            "charts/etcd-warden/files/crds/{name} is not what the code says: run `make generate`"
        );
    }
}

#[test]
fn a_definition_survives_its_own_yaml() {
    for crd in crd::all() {
        let text = crd::to_yaml(&crd).unwrap();
        let read: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, serde_json::to_value(&crd).unwrap(), "{}", crd::file_name(&crd));
    }
}

#[test]
fn a_definition_fits_into_an_annotation() {
    // `kubectl apply` without --server-side keeps a copy in an annotation, whose limit is 256 KiB.
    for crd in crd::all() {
        let bytes = serde_json::to_vec(&crd).unwrap().len();
        assert!(bytes < 256 * 1024, "{} has {bytes} bytes", crd::file_name(&crd));
    }
}
