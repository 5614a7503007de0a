//! Whether a snapshot may become a data directory, and where its bytes go. Pure.

use thiserror::Error;

use crate::agent::digest::{Digested, Trailer};
use crate::agent::failure::Failure;
use crate::api::agent::Reason;
use crate::api::version::EtcdVersion;

/// What is known of the object and of the room for it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Size of the object.
    pub(crate) size: u64,
    /// Recorded size.
    pub(crate) expected_size: Option<u64>,
    /// The object is a file that etcdutl can read where it is.
    pub(crate) in_place: bool,
    /// Free on the volume that is to hold the rebuilt data.
    pub(crate) free: u64,
    /// Free on a scratch volume that is another device.
    pub(crate) scratch: Option<u64>,
    /// What the rebuilt directory takes beside the database.
    pub(crate) overhead: u64,
}

/// Where the snapshot is put while etcdutl reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It stays where it is.
    Source,
    /// Beside the rebuilt data.
    Volume,
    /// On the scratch volume.
    Scratch,
}

/// What was recorded of the object when it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded<'a> {
    /// Bytes.
    pub size: Option<u64>,
    /// SHA-256, 64 lower-case hex digits.
    pub sha256: Option<&'a str>,
}

/// Why a snapshot is not rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Made by a newer minor.
    #[error("the snapshot was made by etcd {origin}, which is newer than the {target} that would boot on it")]
    Newer {
        /// Version that made it.
        origin: EtcdVersion,
        /// Version that would boot.
        target: EtcdVersion,
    },
    /// Not the recorded size.
    #[error("the object has {found} bytes, {recorded} are recorded: it is another object, or was cut")]
    Size {
        /// Bytes found.
        found: u64,
        /// Bytes recorded.
        recorded: u64,
    },
    /// Not the recorded SHA-256.
    #[error("the object's SHA-256 is {found}, {recorded} is recorded: it is another object, or was damaged")]
    Checksum {
        /// Hash found.
        found: String,
        /// Hash recorded.
        recorded: String,
    },
    /// No etcd database at all.
    #[error("the object's {size} bytes are no etcd snapshot")]
    NotASnapshot {
        /// Bytes found.
        size: u64,
    },
    /// A database without etcd's SHA-256.
    #[error(
        "the snapshot lacks the SHA-256 that etcd appends: it was cut, or is a member's own file under another name"
    )]
    TrailerMissing,
    /// A database that etcd's SHA-256 does not match.
    #[error("the SHA-256 that etcd appended does not match the content: the snapshot was damaged or cut")]
    TrailerMismatch,
    /// No room.
    #[error("{needed} bytes are needed and {free} are free{}", scratch_words(*scratch))]
    Space {
        /// Bytes needed on the data volume if the snapshot is put there, too.
        needed: u64,
        /// Bytes free there.
        free: u64,
        /// Bytes free on the scratch volume.
        scratch: Option<u64>,
    },
}

fn scratch_words(scratch: Option<u64>) -> String {
    scratch.map_or_else(String::new, |free| format!(" ({free} on the scratch volume)"))
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let reason = match &refusal {
            Refusal::Newer { .. } => Reason::OriginNewerThanTarget,
            Refusal::Size { .. } => Reason::SizeMismatch,
            Refusal::Checksum { .. } => Reason::ChecksumMismatch,
            Refusal::NotASnapshot { .. } => Reason::NotASnapshot,
            Refusal::TrailerMissing => Reason::TrailerMissing,
            Refusal::TrailerMismatch => Reason::TrailerMismatch,
            Refusal::Space { .. } => Reason::InsufficientSpace,
        };
        Self::new(reason, refusal.to_string())
    }
}

/// Data goes up by minors, never down. An unknown origin passes: old records do not have it.
///
/// # Errors
/// [`Refusal::Newer`].
pub(crate) fn versions(origin: Option<EtcdVersion>, target: EtcdVersion) -> Result<(), Refusal> {
    match origin {
        Some(origin) if origin.minor_pair() > target.minor_pair() => Err(Refusal::Newer { origin, target }),
        _ => Ok(()),
    }
}

/// Where the snapshot goes. The recorded size is compared first, so that a wrong object is not even fetched.
///
/// # Errors
/// [`Refusal::Size`], [`Refusal::NotASnapshot`] for an empty object, [`Refusal::Space`].
pub(crate) fn place(facts: &Facts) -> Result<Place, Refusal> {
    if let Some(recorded) = facts.expected_size.filter(|recorded| *recorded != facts.size) {
        return Err(Refusal::Size { found: facts.size, recorded });
    }
    if facts.size == 0 {
        return Err(Refusal::NotASnapshot { size: 0 });
    }
    let rebuilt = facts.size.saturating_add(facts.overhead);
    let both = rebuilt.saturating_add(facts.size);
    let needed = if facts.in_place { rebuilt } else { both };
    if facts.free >= needed {
        return Ok(if facts.in_place { Place::Source } else { Place::Volume });
    }
    match facts.scratch {
        Some(scratch) if !facts.in_place && scratch >= facts.size && facts.free >= rebuilt => Ok(Place::Scratch),
        scratch => Err(Refusal::Space { needed, free: facts.free, scratch }),
    }
}

/// A member's own database file, which no SHA-256 is appended to.
#[must_use]
pub(crate) fn is_member_database(path: &str) -> bool {
    path == "member/snap/db" || path.ends_with("/member/snap/db")
}

/// Whether the content is what was recorded, and a whole snapshot. Answers whether etcdutl must do without its own hash
/// check, which is so for a member's own file only.
///
/// # Errors
/// [`Refusal`].
pub fn content(digested: &Digested, recorded: &Recorded<'_>, raw: bool) -> Result<bool, Refusal> {
    if let Some(recorded) = recorded.size.filter(|recorded| *recorded != digested.size) {
        return Err(Refusal::Size { found: digested.size, recorded });
    }
    if let Some(recorded) = recorded.sha256.filter(|recorded| *recorded != digested.sha256) {
        return Err(Refusal::Checksum { found: digested.sha256.clone(), recorded: recorded.to_owned() });
    }
    match digested.trailer {
        _ if !digested.is_database => Err(Refusal::NotASnapshot { size: digested.size }),
        Trailer::Matches => Ok(false),
        Trailer::Differs => Err(Refusal::TrailerMismatch),
        Trailer::Absent if raw => Ok(true),
        Trailer::Absent => Err(Refusal::TrailerMissing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts =
        Facts { size: 100, expected_size: None, in_place: false, free: 1_000, scratch: None, overhead: 50 };

    #[test]
    fn room_decides_where_the_snapshot_goes() {
        assert_eq!(place(&FACTS), Ok(Place::Volume));
        assert_eq!(place(&Facts { free: 250, ..FACTS }), Ok(Place::Volume));
        assert_eq!(place(&Facts { free: 249, scratch: Some(100), ..FACTS }), Ok(Place::Scratch));
        assert_eq!(place(&Facts { free: 150, in_place: true, ..FACTS }), Ok(Place::Source));
        for short in [
            Facts { free: 249, ..FACTS },
            Facts { free: 249, scratch: Some(99), ..FACTS },
            Facts { free: 149, scratch: Some(1_000), ..FACTS },
            Facts { free: 149, in_place: true, ..FACTS },
            Facts { size: u64::MAX, ..FACTS },
        ] {
            assert!(matches!(place(&short), Err(Refusal::Space { .. })), "{short:?}");
        }
    }

    #[test]
    fn a_wrong_size_is_seen_before_the_room() {
        let facts = Facts { expected_size: Some(101), free: 0, ..FACTS };
        assert_eq!(place(&facts), Err(Refusal::Size { found: 100, recorded: 101 }));
        assert_eq!(place(&Facts { size: 0, ..FACTS }), Err(Refusal::NotASnapshot { size: 0 }));
    }

    /// S5: a snapshot of a newer etcd is refused before an older one boots on it.
    #[test]
    fn minors_go_up_only() {
        let version = |text: &str| text.parse::<EtcdVersion>().unwrap();
        for (origin, target, ok) in [
            ("3.4.23", "3.5.35", true),
            ("3.6.16", "3.6.0", true),
            ("3.7.3", "3.6.16", false),
            ("4.0.0", "3.7.3", false),
        ] {
            assert_eq!(versions(Some(version(origin)), version(target)).is_ok(), ok, "{origin} {target}");
        }
        assert!(versions(None, version("3.5.0")).is_ok());
    }

    #[test]
    fn only_a_members_own_file_goes_without_a_hash() {
        let good = Digested { size: 544, sha256: "a".repeat(64), trailer: Trailer::Matches, is_database: true };
        let with = |trailer, is_database| Digested { trailer, is_database, ..good.clone() };
        let none = Recorded::default();
        assert_eq!(content(&good, &none, false), Ok(false));
        assert_eq!(content(&good, &none, true), Ok(false));
        assert_eq!(content(&with(Trailer::Absent, true), &none, true), Ok(true));
        assert_eq!(content(&with(Trailer::Absent, true), &none, false), Err(Refusal::TrailerMissing));
        assert_eq!(content(&with(Trailer::Differs, true), &none, true), Err(Refusal::TrailerMismatch));
        assert_eq!(content(&with(Trailer::Absent, false), &none, true), Err(Refusal::NotASnapshot { size: 544 }));
        let other = "b".repeat(64);
        let recorded = Recorded { size: Some(544), sha256: Some(&other) };
        assert!(matches!(content(&good, &recorded, false), Err(Refusal::Checksum { .. })));
        assert!(is_member_database("member/snap/db") && is_member_database("x/member/snap/db"));
        assert!(!is_member_database("xmember/snap/db") && !is_member_database("snapshot.db"));
    }
}
