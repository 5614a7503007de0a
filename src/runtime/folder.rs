//! The files of a folder, as they are mounted into a Pod.

use std::io;
use std::path::Path;

/// The texts of the files in a folder whose names end like this, in the order of their names. What a mount keeps for
/// itself (names that begin with a dot) is left out; a path that is a file is that file.
pub fn texts(path: &Path, endings: &[&str]) -> io::Result<Vec<(String, String)>> {
    if path.is_file() {
        return Ok(vec![(path.display().to_string(), std::fs::read_to_string(path)?)]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let file = entry?.path();
        let hidden = file.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        let wanted = file.extension().is_some_and(|end| endings.iter().any(|ending| end == *ending));
        if wanted && !hidden && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    files.into_iter().map(|file| Ok((file.display().to_string(), std::fs::read_to_string(&file)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::texts;

    #[test]
    fn a_mounted_folder_shows_its_files_once() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("..2026");
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("b.yaml"), "b").unwrap();
        std::os::unix::fs::symlink(&data, folder.path().join("..data")).unwrap();
        std::os::unix::fs::symlink("..data/b.yaml", folder.path().join("b.yaml")).unwrap();
        std::fs::write(folder.path().join("a.json"), "a").unwrap();
        std::fs::write(folder.path().join("notes.txt"), "n").unwrap();
        let found = texts(folder.path(), &["yaml", "json"]).unwrap();
        let names: Vec<_> =
            found.iter().map(|(name, text)| (name.rsplit('/').next().unwrap(), text.as_str())).collect();
        assert_eq!(names, [("a.json", "a"), ("b.yaml", "b")]);
        assert_eq!(texts(&folder.path().join("notes.txt"), &[]).unwrap()[0].1, "n");
        assert!(texts(&folder.path().join("none"), &[]).is_err());
    }
}
