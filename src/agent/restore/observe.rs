//! What the data directory holds.

use std::fs;
use std::path::Path;

use super::decide::Observed;
use crate::agent::failure::Failure;
use crate::agent::rebuild::WORK_DIR;

/// Lists what is in the data directory and in the scratch directory that a killed run may have left there.
pub(super) fn data_dir(data_dir: &Path, scratch: Option<&Path>, formed: bool) -> Result<Observed, Failure> {
    let failed = |error| Failure::file("list", data_dir, error);
    let mut entries = Vec::new();
    for entry in fs::read_dir(data_dir).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort();
    let scratch = scratch.map(|scratch| scratch.join(WORK_DIR)).filter(|work| work.exists());
    Ok(Observed { entries, scratch, formed })
}
