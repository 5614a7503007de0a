//! The SHA-256 of a snapshot and the one that etcd appends to it, from one pass over the bytes.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Bytes of the digest that etcd appends.
pub(super) const TRAILER: usize = 32;

/// bbolt's pages are whole multiples of this.
const SECTOR: u64 = 512;

/// Where bbolt's magic number stands in the first page, and what it is.
const MAGIC_AT: usize = 16;
const MAGIC: [u8; 4] = 0xED0C_DAED_u32.to_le_bytes();

/// Reads a snapshot as it streams by.
#[derive(Debug)]
pub struct SnapshotDigest {
    hasher: Sha256,
    tail: Vec<u8>,
    start: Vec<u8>,
    size: u64,
}

/// What the whole stream was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digested {
    /// Bytes.
    pub size: u64,
    /// SHA-256 of all of them, 64 hex digits.
    pub sha256: String,
    /// What the end of the stream says of the rest.
    pub trailer: Trailer,
    /// Whether the first page is one of bbolt's.
    pub is_database: bool,
}

/// What the end of a stream says of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trailer {
    /// The last 32 bytes are the SHA-256 of all before them.
    Matches,
    /// The size says that there is a trailer, but it is not the SHA-256 of all before it.
    Differs,
    /// The size says that there is none.
    Absent,
}

impl Default for SnapshotDigest {
    fn default() -> Self {
        Self { hasher: Sha256::new(), tail: Vec::with_capacity(2 * TRAILER), start: Vec::new(), size: 0 }
    }
}

impl SnapshotDigest {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
        let missing = (MAGIC_AT + MAGIC.len()).saturating_sub(self.start.len());
        self.start.extend_from_slice(&bytes[..missing.min(bytes.len())]);
        // The last 32 bytes seen so far stay out of the hash: they may be the trailer.
        if bytes.len() >= TRAILER {
            let (now, keep) = bytes.split_at(bytes.len() - TRAILER);
            self.hasher.update(&self.tail);
            self.hasher.update(now);
            self.tail.clear();
            self.tail.extend_from_slice(keep);
        } else {
            self.tail.extend_from_slice(bytes);
            let over = self.tail.len().saturating_sub(TRAILER);
            self.hasher.update(&self.tail[..over]);
            self.tail.drain(..over);
        }
    }

    /// Bytes so far.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Ends the stream.
    #[must_use]
    pub fn finish(mut self) -> Digested {
        let before = self.hasher.clone().finalize();
        self.hasher.update(&self.tail);
        let trailer = if self.size <= TRAILER as u64 || self.size % SECTOR != TRAILER as u64 {
            Trailer::Absent
        } else if before[..] == self.tail[..] {
            Trailer::Matches
        } else {
            Trailer::Differs
        };
        Digested {
            size: self.size,
            sha256: hex(&self.hasher.finalize()),
            trailer,
            is_database: self.start.get(MAGIC_AT..).is_some_and(|magic| magic == MAGIC),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digest(bytes: &[u8], cuts: &[usize]) -> Digested {
        let mut digest = SnapshotDigest::default();
        let mut rest = bytes;
        for cut in cuts {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            digest.update(now);
            rest = later;
        }
        digest.update(rest);
        digest.finish()
    }

    fn with_trailer(mut bytes: Vec<u8>) -> Vec<u8> {
        let sum = Sha256::digest(&bytes);
        bytes.extend_from_slice(&sum);
        bytes
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(sectors in 0usize..5, cuts in proptest::collection::vec(0usize..700, 0..12)) {
            let whole = with_trailer(vec![7; sectors * 512]);
            let digested = digest(&whole, &cuts);
            prop_assert_eq!(digested.size, whole.len() as u64);
            prop_assert_eq!(digested.sha256, hex(&Sha256::digest(&whole)));
            prop_assert_eq!(digested.trailer, if sectors == 0 { Trailer::Absent } else { Trailer::Matches });
        }

        #[test]
        fn one_wrong_bit_is_seen(at in 0usize..1056, bit in 0u8..8) {
            let mut whole = with_trailer(vec![7; 1024]);
            whole[at] ^= 1 << bit;
            prop_assert_eq!(digest(&whole, &[100]).trailer, Trailer::Differs);
        }
    }

    #[test]
    fn a_size_without_room_for_a_trailer_has_none() {
        assert_eq!(digest(&[0; 1024], &[]).trailer, Trailer::Absent);
        assert_eq!(digest(&[], &[]).trailer, Trailer::Absent);
    }

    #[test]
    fn a_database_is_known_by_its_first_page() {
        let mut page = vec![0; 4096];
        assert!(!digest(&page, &[3, 9]).is_database);
        page[16..20].copy_from_slice(&MAGIC);
        assert!(digest(&page, &[3, 14, 2]).is_database);
    }
}
