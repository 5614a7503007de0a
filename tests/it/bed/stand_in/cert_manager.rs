//! A stand-in for cert-manager: the kind Certificate, and somebody who signs.
//!
//! What is real: each Certificate gets a Secret of its own with a key, a certificate for just its names, and the
//! authority, and says Ready afterwards. What is different: there are no issuers (every issuer's name stands for one
//! authority), the schema takes anything, keys are elliptic whatever was asked for, and nothing is renewed before somebody
//! deletes its Secret.

use crate::bed::pki::Authority;
use crate::bed::{ControlPlane, wait_for};
use etcd_warden::api::certmanager::Certificate;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

const KIND: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {plural: certificates, singular: certificate, kind: Certificate}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
const PAUSE: Duration = Duration::from_millis(200);

/// Signs for as long as it lives.
pub struct StandInCertManager {
    authority: String,
    _signs: AbortOnDropHandle<()>,
}

impl StandInCertManager {
    /// Installs the kind, and begins to sign.
    pub async fn start(control_plane: &ControlPlane) -> Self {
        control_plane.apply("", KIND).await;
        let client = control_plane.client().await;
        let all: Api<Certificate> = Api::all(client.clone());
        wait_for("Certificates to be served", Duration::from_secs(20), async || {
            all.list(&ListParams::default()).await.map(drop).map_err(|e| e.to_string())
        })
        .await;
        let authority = Authority::new("stand-in cert-manager");
        let pem = authority.pem();
        let signs = tokio::spawn(async move {
            let mut told = String::new();
            loop {
                // A failure is tried again, as with the real one, and told once.
                let failed =
                    sign_all(&client, &authority).await.err().map(|error| error.to_string()).unwrap_or_default();
                if failed != told && !failed.is_empty() {
                    eprintln!("stand-in cert-manager: cannot sign: {failed}; trying again");
                }
                told = failed;
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { authority: pem, _signs: AbortOnDropHandle::new(signs) }
    }

    /// The authority's certificate as PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

async fn sign_all(client: &Client, authority: &Authority) -> Result<(), kube::Error> {
    let all: Api<Certificate> = Api::all(client.clone());
    for certificate in all.list(&ListParams::default()).await? {
        let namespace = certificate.namespace().unwrap_or_default();
        let spec = &certificate.spec;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        if secrets.get_opt(&spec.secret_name).await?.is_some() {
            continue;
        }
        let names: Vec<&str> = spec.dns_names.iter().chain(&spec.ip_addresses).map(String::as_str).collect();
        let pair = authority.issue(&spec.common_name, None, &names);
        let params = PatchParams::apply("stand-in-cert-manager");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": spec.secret_name},
            "stringData": {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.pem()}});
        secrets.patch(&spec.secret_name, &params, &Patch::Apply(secret)).await?;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]}});
        let certificates: Api<Certificate> = Api::namespaced(client.clone(), &namespace);
        let params = PatchParams::default();
        certificates.patch_status(&certificate.name_any(), &params, &Patch::Merge(ready)).await?;
    }
    Ok(())
}
