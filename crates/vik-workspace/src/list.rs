//! The list of the issues that have a workspace.

use std::io;
use std::path::Path;

use serde::Deserialize;
use vik_core::ids::IssueId;

use super::fs::{if_exists, list_folder, read};
use super::{Layout, folder_name};

/// Returns the issues that have a workspace, complete or not, sorted by folder name. A folder whose
/// issue is unknown is left out: Vik does not touch it. Blocks.
///
/// # Errors
/// When the folder of the workspaces cannot be read.
pub fn list(layout: &Layout) -> io::Result<Vec<IssueId>> {
    let names = folders(&layout.issues_dir())?;
    Ok(names.iter().filter_map(|name| issue_of(layout, name)).collect())
}

/// Returns the names of the folders in a folder, sorted; none if it is missing. Names that are not
/// UTF-8 are left out.
pub(super) fn folders(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in if_exists(list_folder(folder))?.into_iter().flatten() {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the issue whose folders have this name; `None` if it is unknown.
pub(super) fn issue_of(layout: &Layout, name: &str) -> Option<IssueId> {
    let plain = IssueId::new(name);
    if folder_name(&plain) == name {
        return Some(plain);
    }
    recorded(&layout.sessions_dir().join(name)).filter(|id| folder_name(id) == name)
}

/// Returns the issue id in the record of any attempt.
fn recorded(sessions: &Path) -> Option<IssueId> {
    #[derive(Deserialize)]
    struct Named {
        issue_id: IssueId,
    }
    let records = list_folder(sessions).ok()?.flatten();
    records
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".attempt.json"))
        .find_map(|entry| serde_json::from_slice::<Named>(&read(&entry.path()).ok()?).ok())
        .map(|named| named.issue_id)
}
