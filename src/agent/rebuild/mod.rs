//! From a stored snapshot to a rebuilt data directory: what `restore` does for good and `preflight` rehearses.
//!
//! Observe the tool, the object and the room; decide where its bytes go; fetch and verify them; let the image's own
//! etcdutl rebuild. Everything happens below one work directory, which is removed whatever comes of it.

pub(crate) mod decide;
mod fetch;
mod files;

use std::path::{Path, PathBuf};

use decide::{Facts, Place};

use super::etcdutl::{self, Etcdutl, Rebuild};
use super::failure::Failure;
use super::settings::{MemberSettings, SourceSettings};
use super::stop::Stop;
use crate::api::agent::Reason;
use crate::store::{Head, Location, Store};

pub(crate) use files::{adopt, remove, sync_folder};

/// Name of the work directory, on the data volume and on the scratch volume.
pub(crate) const WORK_DIR: &str = ".etcd-warden-restore";

/// What is known before a byte of the snapshot is read.
#[derive(Debug)]
pub(crate) struct Observed {
    /// The image's etcdutl.
    pub(crate) tool: Etcdutl,
    store: Store,
    head: Head,
    facts: Facts,
}

/// A rebuilt data directory below the work directory.
#[derive(Debug)]
pub(crate) struct Rebuilt {
    /// The directory that holds `member/`.
    pub(crate) data_dir: PathBuf,
    /// Bytes of the snapshot.
    pub(crate) bytes: u64,
    /// Revision of the snapshot, where etcdutl told it.
    pub(crate) revision: Option<i64>,
    /// How far the revision was raised.
    pub(crate) bump: i64,
}

/// Looks for the tool first, so that nothing is fetched in an image that cannot use it, then at the object and the
/// room. `overhead` is what the rebuilt directory takes beside the database, in bytes.
pub(crate) async fn observe(
    settings: &SourceSettings,
    volume: &Path,
    overhead: u64,
    stop: &Stop,
) -> Result<Observed, Failure> {
    let tool = stop.unless(etcdutl::discover(settings.etcdutl.as_deref(), settings.path.as_deref())).await?;
    tracing::info!(step = "etcdutl-found", path = %tool.path.display(), version = %tool.version, can_bump = tool.can_bump);
    decide::versions(settings.origin, settings.target.unwrap_or(tool.version)).map_err(Failure::from)?;
    let store = Store::open(&settings.location, stop.deadline())?;
    let head = stop
        .unless(store.head())
        .await?
        .ok_or_else(|| Failure::new(Reason::ObjectNotFound, format!("{} does not exist", store.uri())))?;
    tracing::info!(step = "snapshot-found", uri = %store.uri(), size = head.size);
    let scratch = match &settings.scratch {
        Some(scratch) if !files::same_device(scratch, volume)? => Some(files::free(scratch)?),
        _ => None,
    };
    let facts = Facts {
        size: head.size,
        expected_size: settings.expected_size,
        in_place: matches!(settings.location, Location::Dir(_)),
        free: files::free(volume)?,
        scratch,
        overhead,
    };
    Ok(Observed { tool, store, head, facts })
}

impl Observed {
    /// Fetches, verifies and rebuilds below `volume`. The caller removes the work directories afterwards.
    pub(crate) async fn rebuild(
        &self,
        settings: &SourceSettings,
        member: &MemberSettings,
        volume: &Path,
        stop: &Stop,
    ) -> Result<Rebuilt, Failure> {
        let place = decide::place(&self.facts).map_err(Failure::from)?;
        let work = volume.join(WORK_DIR);
        files::create(&work)?;
        let (snapshot, digested) = match (place, &settings.location) {
            (Place::Source, Location::Dir(location)) => {
                let digested = fetch::read(&self.store, &self.head, stop).await?;
                (location.root.join(&location.path), digested)
            }
            (Place::Scratch, _) => {
                let scratch = settings.scratch.as_deref().unwrap_or(volume).join(WORK_DIR);
                files::create(&scratch)?;
                let file = scratch.join("snapshot.db");
                let digested = fetch::download(&self.store, &self.head, &file, stop).await?;
                (file, digested)
            }
            (Place::Volume | Place::Source, _) => {
                let file = work.join("snapshot.db");
                let digested = fetch::download(&self.store, &self.head, &file, stop).await?;
                (file, digested)
            }
        };
        let raw = matches!(&settings.location, Location::Dir(location) if decide::is_member_database(&location.path));
        let recorded = decide::Recorded { size: settings.expected_size, sha256: settings.expected_sha256.as_deref() };
        let skip_hash_check = decide::content(&digested, &recorded, raw).map_err(Failure::from)?;
        tracing::info!(step = "snapshot-verified", sha256 = digested.sha256, raw = skip_hash_check);

        let data_dir = work.join("data");
        let bump = if self.tool.can_bump { settings.bump } else { 0 };
        if bump != settings.bump {
            tracing::warn!(version = %self.tool.version, "this etcdutl cannot raise the revision: it stays");
        }
        let revision = stop
            .unless(self.tool.restore(&Rebuild {
                snapshot: &snapshot,
                data_dir: &data_dir,
                name: &member.name,
                initial_cluster: &member.initial_cluster,
                token: member.token.as_deref(),
                peer_urls: member.peer_urls.as_deref(),
                skip_hash_check,
                bump,
            }))
            .await?;
        if !data_dir.join("member/snap/db").is_file() {
            return Err(Failure::new(Reason::EtcdutlFailed, "etcdutl ended well but left no database"));
        }
        tracing::info!(step = "rebuilt", bump);
        Ok(Rebuilt { data_dir, bytes: digested.size, revision, bump })
    }
}
