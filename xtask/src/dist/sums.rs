//! SHA256SUMS: the checksums of all files in target/dist.

use std::path::{Path, PathBuf};

use super::Release;
use crate::repo::{self, TaskResult};

/// The name of the file with the checksums.
const NAME: &str = "SHA256SUMS";

/// Writes the checksums of all files of the release, sorted by name.
pub fn write(release: &Release) -> TaskResult<PathBuf> {
    let unreadable = |error| format!("cannot read {}: {error}", release.out.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&release.out).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let is_file = entry.file_type().map_err(unreadable)?.is_file();
        if is_file && entry.file_name() != NAME {
            names.push(entry.file_name());
        }
    }
    names.sort();
    let mut sums = repo::program("sha256sum");
    let text = repo::output(sums.arg("--").args(&names).current_dir(&release.out))?;
    let path = release.file(NAME);
    repo::write(&path, &text)?;
    Ok(path)
}

/// Returns the checksum of one file as 64 hexadecimal digits.
pub fn of(path: &Path) -> TaskResult<String> {
    let text = repo::output(repo::program("sha256sum").arg("--").arg(path))?;
    // The line of a file with a backslash in its name starts with one.
    let sum = text.trim_start_matches('\\').split(' ').next();
    Ok(sum.unwrap_or_default().to_owned())
}
