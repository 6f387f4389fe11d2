//! The refs of a repository, read from its files.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use vik_proc::untrusted;

use crate::changes::small_file;
use crate::fs::{create_private_dir_all, list_folder, write_private};
use crate::git::is_id;

/// The size limit of a file of packed refs.
const MAX_PACKED_REFS: u64 = 64 * 1024 * 1024;

/// Returns the refs of a repository that an agent may have written.
pub fn refs(repository: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut refs = packed_refs(&repository.join("packed-refs"));
    loose_refs(repository, Path::new("refs"), &mut refs)?;
    Ok(refs)
}

/// Returns the refs in a file of packed refs, which an agent may have written.
pub(super) fn packed_refs(file: &Path) -> BTreeMap<String, String> {
    let text = untrusted::read(file, MAX_PACKED_REFS).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs
        .filter(|(hash, name)| is_id(hash) && name.starts_with("refs/"))
        .map(|(hash, name)| (name.to_owned(), hash.to_owned()))
        .collect()
}

/// Returns the branch in the content of a `HEAD` file.
pub(super) fn branch_of(head: &str) -> Option<&str> {
    head.strip_prefix("ref:").map(str::trim)
}

/// Adds the refs below `path` of a repository that have their own files.
fn loose_refs(repository: &Path, path: &Path, refs: &mut BTreeMap<String, String>) -> io::Result<()> {
    let folder = repository.join(path);
    if !folder.symlink_metadata().is_ok_and(|facts| facts.is_dir()) {
        return Ok(());
    }
    for entry in list_folder(&folder)? {
        let entry = entry?;
        let path = path.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            loose_refs(repository, &path, refs)?;
        } else if let (Some(name), Ok(hash)) = (path.to_str(), small_file(&entry.path()))
            && is_id(hash.trim())
        {
            refs.insert(name.to_owned(), hash.trim().to_owned());
        }
    }
    Ok(())
}

/// Copies a file of the user's repository.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    write_private(to, &untrusted::read(from, MAX_PACKED_REFS)?)
}

/// Copies the refs of the user's repository.
pub(super) fn copy_refs(from: &Path, to: &Path) -> io::Result<()> {
    create_private_dir_all(to)?;
    for entry in list_folder(from)? {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_refs(&entry.path(), &to)?;
        } else if kind.is_file() {
            copy(&entry.path(), &to)?;
        }
    }
    Ok(())
}
