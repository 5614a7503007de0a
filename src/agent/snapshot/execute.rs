//! Guard, read, hash, store, read back.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use jiff::Timestamp;
use tonic::Code;

use super::observe::Source;
use crate::agent::digest::{Digested, SnapshotDigest, Trailer};
use crate::agent::failure::Failure;
use crate::agent::settings::SnapshotSettings;
use crate::agent::stop::Stop;
use crate::api::agent::{Artifact, Consistency, Reason, object};
use crate::etcd::{Client, Error};
use crate::store::{Ownership, Store, Upload};

pub(super) async fn run(
    settings: &SnapshotSettings,
    store: &Store,
    source: Source,
    stop: &Stop,
) -> Result<Artifact, Failure> {
    tracing::info!(
        step = "source-chosen",
        endpoint = source.client.endpoint(),
        member = format!("{:016x}", source.member_id()),
        version = source.status.version,
    );
    let (revision, consistency) = stop.unless(confirm(&source.client, settings.consistency)).await?;
    tracing::info!(step = "state-confirmed", revision, ?consistency);

    let artifact = Artifact {
        uri: store.uri().to_string(),
        size_bytes: 0,
        sha256: String::new(),
        revision: Some(revision),
        etcd_version: Some(source.status.version.clone()),
        storage_version: Some(source.status.storage_version.clone()).filter(|version| !version.is_empty()),
        cluster_id: Some(format!("{:016x}", source.cluster_id())),
        member_id: Some(format!("{:016x}", source.member_id())),
        consistency: Some(consistency),
    };
    let expected = u64::try_from(source.status.db_size).unwrap_or(0);
    // The name is guarded before the stream is opened: a refusal costs the member nothing.
    let mut upload = stop.unless(store.put(&ownership(settings, &artifact), expected)).await?;
    tracing::info!(step = "name-guarded", uri = artifact.uri, expected);

    let digested = match transfer(&source.client, &mut upload, stop).await {
        Ok(digested) => digested,
        Err(failure) => {
            upload.abort().await;
            tracing::info!(step = "upload-aborted");
            return Err(failure);
        }
    };
    tracing::info!(step = "stream-verified", size = digested.size, sha256 = digested.sha256);
    // From here the object becomes visible in one request: it is not interrupted in between, only bounded by the
    // deadline that the store knows.
    let head = upload.finish().await?;
    tracing::info!(step = "stored", size = head.size);
    Ok(Artifact { size_bytes: head.size, sha256: digested.sha256, ..artifact })
}

/// Reads through the quorum, or, where that was asked for and no quorum answers, from the member alone.
async fn confirm(client: &Client, wanted: Consistency) -> Result<(i64, Consistency), Failure> {
    let revision = |answer: crate::etcd::wire::RangeResponse| answer.header.map_or(0, |header| header.revision);
    let error = match client.linearizable_read().await {
        Ok(answer) => return Ok((revision(answer), Consistency::Linearizable)),
        Err(error) => error,
    };
    let no_quorum = matches!(error, Error::Timeout { .. })
        || matches!(error.code(), Some(Code::Unavailable | Code::DeadlineExceeded));
    match (no_quorum, wanted) {
        (false, _) => Err(error.into()),
        (true, Consistency::Linearizable) => Err(Failure::new(
            Reason::EtcdNoQuorum,
            "no quorum confirmed the member's state; a serializable snapshot would be of this member alone",
        )
        .because(error)),
        (true, Consistency::Serializable) => {
            tracing::warn!(%error, "no quorum answers: the snapshot is of this member alone");
            let answer = client.count_keys(true).await?;
            Ok((revision(answer), Consistency::Serializable))
        }
    }
}

async fn transfer(client: &Client, upload: &mut Upload, stop: &Stop) -> Result<Digested, Failure> {
    let mut stream = stop.unless(client.snapshot()).await.map_err(broken_at(0))?;
    tracing::info!(step = "stream-opened");
    let mut digest = SnapshotDigest::default();
    let mut told = 0;
    while let Some(piece) = stop.unless(stream.next()).await.map_err(broken_at(digest.size()))? {
        digest.update(&piece);
        stop.unless(upload.write(&piece)).await?;
        if digest.size() >> 26 > told {
            told = digest.size() >> 26;
            tracing::info!(step = "streaming", bytes = digest.size());
        }
    }
    check(stream.remaining(), digest.finish())
}

/// What breaks in mid-stream is a broken stream, whatever etcd calls it; refusals before the first byte keep their own
/// reason.
fn broken_at(size: u64) -> impl FnOnce(Failure) -> Failure {
    move |failure| match failure.reason {
        Reason::EtcdUnreachable if size > 0 => {
            Failure::new(Reason::SnapshotStreamBroken, format!("the stream broke after {size} bytes"))
                .because(failure)
                .retryable()
        }
        _ => failure,
    }
}

/// A stream that ends without an error is not yet whole: the member must have said that nothing remains, and what it
/// appended must be the SHA-256 of the rest. Another try reads another stream, so each of these is worth one.
fn check(remaining: Option<u64>, digested: Digested) -> Result<Digested, Failure> {
    let fail =
        |reason, text: &str| Err(Failure::new(reason, format!("{text} ({} bytes came)", digested.size)).retryable());
    if remaining != Some(0) {
        return fail(Reason::SnapshotStreamBroken, "the stream ended before the member said that nothing remains");
    }
    match digested.trailer {
        Trailer::Absent => fail(Reason::TrailerMissing, "the stream lacks the SHA-256 that etcd appends"),
        Trailer::Differs => fail(Reason::TrailerMismatch, "the SHA-256 that etcd appended is not that of what came"),
        Trailer::Matches if !digested.is_database => fail(Reason::NotASnapshot, "the stream is no etcd database"),
        Trailer::Matches => Ok(digested),
    }
}

fn ownership(settings: &SnapshotSettings, artifact: &Artifact) -> Ownership {
    let mut details = BTreeMap::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            details.insert(name.to_owned(), value);
        }
    };
    add(object::SNAPSHOT_NAME, Some(settings.name.clone()));
    add(object::REVISION, artifact.revision.map(|revision| revision.to_string()));
    add(object::ETCD_VERSION, artifact.etcd_version.clone());
    add(object::CLUSTER_ID, artifact.cluster_id.clone());
    add(object::MEMBER_ID, artifact.member_id.clone());
    add(object::STARTED, Some(Timestamp::now().to_string()));
    let attempt = format!("{:016x}", RandomState::new().hash_one(Timestamp::now().as_nanosecond()));
    Ownership { uid: settings.uid.clone(), attempt, details }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S2: a stream that ends without an error may still be short, without a hash, or with another one.
    #[test]
    fn only_a_stream_that_ends_whole_and_with_its_hash_is_stored() {
        let whole = Digested { size: 4128, sha256: "a".repeat(64), trailer: Trailer::Matches, is_database: true };
        assert!(check(Some(0), whole.clone()).is_ok());
        let with = |trailer| Digested { trailer, ..whole.clone() };
        for (remaining, digested, reason) in [
            (Some(512), whole.clone(), Reason::SnapshotStreamBroken),
            (None, whole.clone(), Reason::SnapshotStreamBroken),
            (Some(0), with(Trailer::Absent), Reason::TrailerMissing),
            (Some(0), with(Trailer::Differs), Reason::TrailerMismatch),
            (Some(0), Digested { is_database: false, ..whole.clone() }, Reason::NotASnapshot),
        ] {
            let failure = check(remaining, digested).unwrap_err();
            assert!(failure.reason == reason && failure.retryable, "{remaining:?}: {failure:?}");
        }
    }
}
