//! Backup: what it says about its snapshot.

pub mod payload;
