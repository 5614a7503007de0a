//! Where the serving certificate comes from, and what is read or made there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use super::Error;
use super::authority::{AUTHORITY_LIFETIME, CertificateError, LEAF_LIFETIME, Validity};
use super::bundle::Bundle;
use super::store::{Kept, Store, StoreError};

/// How often a replica tries again that others were faster than.
const TRIES: usize = 5;

/// Where the serving certificate comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// An authority of our own signs it.
    SelfManaged(Store),
    /// A directory with tls.crt, tls.key and, unless a public authority signed it, ca.crt. Somebody else renews them,
    /// such as cert-manager through a mounted Secret.
    Files(PathBuf),
}

/// How long things live and take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Life of an authority of our own.
    pub authority: Duration,
    /// Life of a leaf that it signs.
    pub leaf: Duration,
    /// How long it takes until every API server knows a bundle that one of them was told.
    pub spread: Duration,
    /// How often the source is looked at. It is read, not watched for events: an event can be missed.
    pub recheck: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            authority: AUTHORITY_LIFETIME,
            leaf: LEAF_LIFETIME,
            spread: Duration::from_secs(30),
            recheck: Duration::from_secs(10),
        }
    }
}

/// What can be served, and what callers have to trust then.
pub(super) struct Loaded {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) bundle: Bundle,
    pub(super) validity: Validity,
    /// The authority that signed it, where it is ours.
    pub(super) kept: Option<Kept>,
}

impl Source {
    /// What is to be served now, unless it is what is held already. Makes and renews what is ours to.
    pub(super) async fn load(
        &self,
        held: Option<&Loaded>,
        names: &[String],
        times: &Times,
        now: Timestamp,
    ) -> Result<Option<Loaded>, Error> {
        match self {
            Self::SelfManaged(store) => {
                let kept = authority(store, held.and_then(|held| held.kept.as_ref()), times, now).await?;
                let same = held.is_some_and(|held| {
                    held.kept.as_ref().is_some_and(|mine| same_authority(mine, &kept))
                        && held.bundle == kept.bundle
                        && now < held.validity.renew_at()
                });
                if same { Ok(None) } else { Ok(Some(sign(kept, names, times, now)?)) }
            }
            Self::Files(directory) => {
                let read = files(directory, names, now)?;
                let same = held.is_some_and(|held| held.chain == read.chain && held.bundle == read.bundle);
                Ok((!same).then_some(read))
            }
        }
    }
}

fn same_authority(one: &Kept, other: &Kept) -> bool {
    one.authority.certificate_pem() == other.authority.certificate_pem()
}

/// The authority to sign with. One that was lost or damaged is put back by whoever still has it, so that nobody's trust
/// is lost with it; one whose time is up is succeeded.
async fn authority(store: &Store, held: Option<&Kept>, times: &Times, now: Timestamp) -> Result<Kept, StoreError> {
    let held = held.filter(|held| held.authority.validity().not_after > now);
    for _ in 0..TRIES {
        let Some(found) = store.load().await? else {
            let mine = match held {
                Some(held) => succeeded(held.clone(), times, now)?,
                None => Kept::generate(now, times.authority, &Bundle::default())?,
            };
            if store.create(&mine).await? {
                return Ok(mine);
            }
            continue;
        };
        let kept = match (found.kept(), held) {
            (Ok(kept), _) => kept,
            (Err(_), Some(held)) => {
                if store.replace(held, &found).await? {
                    return Ok(held.clone());
                }
                continue;
            }
            (Err(error), None) => return Err(error),
        };
        let next = succeeded(kept.clone(), times, now)?;
        if same_authority(&next, &kept) || store.replace(&next, &found).await? {
            return Ok(next);
        }
    }
    Err(StoreError::Contended)
}

/// The authority itself, or the next one when its time is up.
fn succeeded(kept: Kept, times: &Times, now: Timestamp) -> Result<Kept, StoreError> {
    if now < kept.authority.validity().renew_at() {
        return Ok(kept);
    }
    Ok(Kept::generate(now, times.authority, &kept.bundle)?)
}

fn sign(kept: Kept, names: &[String], times: &Times, now: Timestamp) -> Result<Loaded, CertificateError> {
    let leaf = kept.authority.issue(names, now, times.leaf)?;
    Ok(Loaded {
        chain: vec![leaf.certificate],
        key: leaf.key,
        bundle: kept.bundle.clone(),
        validity: leaf.validity,
        kept: Some(kept),
    })
}

fn files(directory: &Path, names: &[String], now: Timestamp) -> Result<Loaded, Error> {
    let [certificate, key, bundle] = stable(directory)?;
    let chain = CertificateDer::pem_slice_iter(&certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| CertificateError::NoCertificate("tls.crt"))?;
    let first = chain.first().ok_or(CertificateError::NoCertificate("tls.crt"))?;
    let validity = Validity::of(first)?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| CertificateError::NoKey("tls.key"))?;
    let bundle = Bundle::parse(&String::from_utf8_lossy(&bundle))?;
    if let (Some(name), false) = (names.first(), bundle.is_empty()) {
        accepted(&chain, &bundle, name, now)?;
    }
    Ok(Loaded { chain, key, bundle, validity, kept: None })
}

/// The three files as they were at one moment: whoever renews them may be at it right now.
fn stable(directory: &Path) -> Result<[Vec<u8>; 3], Error> {
    let all = || {
        let read = |name: &str| {
            let path = directory.join(name);
            std::fs::read(&path).map_err(|source| Error::File { path, source })
        };
        let bundle = match read("ca.crt") {
            Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            other => other?,
        };
        Ok::<_, Error>([read("tls.crt")?, read("tls.key")?, bundle])
    };
    for _ in 0..TRIES {
        let (first, second) = (all()?, all()?);
        if first == second {
            return Ok(first);
        }
    }
    Err(Error::Changing(directory.to_owned()))
}

/// Whether somebody who trusts the bundle would accept the certificate under this name.
fn accepted(
    chain: &[CertificateDer<'static>],
    bundle: &Bundle,
    name: &str,
    now: Timestamp,
) -> Result<(), CertificateError> {
    let refused = |source| CertificateError::Unaccepted { name: name.to_owned(), source };
    let mut roots = rustls::RootCertStore::empty();
    for root in bundle.certificates() {
        roots.add(root.clone()).map_err(refused)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| refused(rustls::Error::General(error.to_string())))?;
    let [leaf, intermediates @ ..] = chain else { return Err(CertificateError::NoCertificate("tls.crt")) };
    let server = ServerName::try_from(name).map_err(|error| refused(rustls::Error::General(error.to_string())))?;
    let seconds = u64::try_from(now.as_second()).unwrap_or_default();
    let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    verifier.verify_server_cert(leaf, intermediates, &server, &[], at).map(|_| ()).map_err(refused)
}
