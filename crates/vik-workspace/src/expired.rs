//! Finds the files of issues that were last used before some time.
//!
//! The time of the last use is that of the newest change of a session file: all of them are written
//! while an attempt runs. No agent can write them, so none can make its files look older.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use vik_core::ids::IssueId;

use super::Layout;
use super::fs::list_folder;
use super::list::{folders, issue_of};
use super::name::folder_name;

/// Returns the issues without a workspace whose last attempt ended before this time. The sessions of
/// an issue with a workspace explain what is in it, and name the issue that it belongs to. Blocks.
///
/// # Errors
/// When the folder of the sessions cannot be read.
pub fn old_sessions(layout: &Layout, before: SystemTime) -> io::Result<Vec<IssueId>> {
    let names = folders(&layout.sessions_dir())?;
    let old = names.iter().filter(|name| has_old_sessions(layout, name, before));
    Ok(old.filter_map(|name| issue_of(layout, name)).collect())
}

/// Returns whether [`old_sessions`] contains the issue. Blocks.
pub fn are_old_sessions(layout: &Layout, issue: &IssueId, before: SystemTime) -> bool {
    has_old_sessions(layout, &folder_name(issue), before)
}

fn has_old_sessions(layout: &Layout, name: &str, before: SystemTime) -> bool {
    let has_workspace = layout.issues_dir().join(name).symlink_metadata().is_ok();
    !has_workspace && is_older(&layout.sessions_dir().join(name), before)
}

/// Returns the issues whose scratch folder was last used before this time: after their last attempt.
/// Blocks.
///
/// # Errors
/// When the folder of the scratch folders cannot be read.
pub fn old_scratches(layout: &Layout, before: SystemTime) -> io::Result<Vec<IssueId>> {
    let names = folders(&layout.scratches_dir())?;
    let old = names.iter().filter(|name| has_old_scratch(layout, name, before));
    Ok(old.filter_map(|name| issue_of(layout, name)).collect())
}

/// Returns whether [`old_scratches`] contains the issue. Blocks.
pub fn is_old_scratch(layout: &Layout, issue: &IssueId, before: SystemTime) -> bool {
    has_old_scratch(layout, &folder_name(issue), before)
}

fn has_old_scratch(layout: &Layout, name: &str, before: SystemTime) -> bool {
    let sessions = layout.sessions_dir().join(name);
    let is_unused = sessions.symlink_metadata().is_err() || is_older(&sessions, before);
    is_unused && changed(&layout.scratches_dir().join(name)).is_ok_and(|at| at < before)
}

/// Returns the time of the last change of a folder or of anything directly in it.
fn last_used(folder: &Path) -> io::Result<SystemTime> {
    let mut last = changed(folder)?;
    for entry in list_folder(folder)? {
        last = last.max(entry?.metadata()?.modified()?);
    }
    Ok(last)
}

/// Returns whether a folder and everything directly in it is older. What cannot be read is not.
fn is_older(folder: &Path, before: SystemTime) -> bool {
    // Most folders are decided by their own time: their files need not be read.
    changed(folder).is_ok_and(|at| at < before) && last_used(folder).is_ok_and(|at| at < before)
}

fn changed(path: &Path) -> io::Result<SystemTime> {
    path.symlink_metadata()?.modified()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use vik_core::workflow::WorkspaceRoot;

    use super::*;
    use crate::remove_beside;

    fn age(path: &Path, days: u64) {
        let then = SystemTime::now() - Duration::from_secs(days * 86_400);
        File::open(path).unwrap().set_modified(then).unwrap();
    }

    fn scene() -> (tempfile::TempDir, Layout) {
        let folder = tempfile::tempdir().unwrap();
        let workflow = folder.path().join("workflow.yml");
        std::fs::write(&workflow, "").unwrap();
        let mut layout = Layout::resolve(&workflow, &WorkspaceRoot::BesideWorkflow).unwrap();
        layout.create().unwrap();
        (folder, layout)
    }

    /// Creates the session files of an issue, as old as given.
    fn sessions(layout: &Layout, id: &str, file_days: u64, folder_days: u64) {
        let folder = layout.issue_sessions_dir(&id.into());
        std::fs::create_dir_all(&folder).unwrap();
        let record = folder.join("work-1.attempt.json");
        std::fs::write(&record, serde_json::json!({ "issue_id": id }).to_string()).unwrap();
        age(&record, file_days);
        age(&folder, folder_days);
    }

    fn before(days: u64) -> SystemTime {
        SystemTime::now() - Duration::from_secs(days * 86_400)
    }

    #[test]
    fn old_sessions_are_those_without_a_workspace_and_a_recent_file() {
        let (_folder, layout) = scene();
        sessions(&layout, "old", 10, 10);
        sessions(&layout, "running", 0, 10);
        sessions(&layout, "new", 10, 1);
        sessions(&layout, "a/slug with / and ..", 10, 10);
        sessions(&layout, "kept", 10, 10);
        std::fs::create_dir_all(layout.issue_dir(&"kept".into())).unwrap();
        let ids = |list: Vec<IssueId>| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut found = ids(old_sessions(&layout, before(7)).unwrap());
        found.sort();
        assert_eq!(found, ["a/slug with / and ..", "old"]);
        assert!(old_sessions(&layout, before(11)).unwrap().is_empty());
    }

    #[test]
    fn old_scratch_is_older_than_the_last_attempt() {
        let (_folder, layout) = scene();
        for (id, file_days, scratch_days) in [("old", 10, 10), ("used", 0, 10), ("written", 10, 0)] {
            sessions(&layout, id, file_days, 10);
            let scratch = layout.scratch_dir(&id.into());
            std::fs::create_dir_all(&scratch).unwrap();
            age(&scratch, scratch_days);
        }
        assert_eq!(old_scratches(&layout, before(7)).unwrap(), ["old".into()]);
    }

    #[test]
    fn links_are_neither_listed_nor_followed() {
        let (folder, layout) = scene();
        let outside = folder.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("precious"), "x").unwrap();
        age(&outside, 30);
        symlink(&outside, layout.sessions_dir().join("link")).unwrap();
        assert!(old_sessions(&layout, before(7)).unwrap().is_empty());
        // A link in the folder that is removed, and in its place.
        sessions(&layout, "1", 30, 30);
        let own = layout.issue_sessions_dir(&"1".into());
        symlink(&outside, own.join("inside")).unwrap();
        let removed = remove_beside(&own).unwrap();
        assert!(removed.found && removed.bytes > 0 && !own.exists());
        assert!(remove_beside(&layout.sessions_dir().join("link")).unwrap().found);
        assert!(outside.join("precious").exists());
        assert!(
            !remove_beside(&own).unwrap().found,
            "a second removal finds nothing"
        );
    }

    /// A removal that died leaves its folder under another name. The next one and the next start
    /// remove it.
    #[test]
    fn remains_of_a_removal_are_swept() {
        let (_folder, layout) = scene();
        sessions(&layout, "1", 30, 30);
        let trash = layout.sessions_dir().join(".removing-1");
        std::fs::create_dir(&trash).unwrap();
        std::fs::rename(layout.issue_sessions_dir(&"1".into()), trash.join("0")).unwrap();
        assert!(old_sessions(&layout, before(7)).unwrap().is_empty());
        crate::sweep(&layout).unwrap();
        assert!(!trash.exists());
    }

    #[test]
    fn removals_beside_each_other_do_not_disturb_each_other() {
        let (_folder, layout) = scene();
        let scratch =
            |thread: usize, nth: usize| layout.scratch_dir(&format!("i-{thread}-{nth}").as_str().into());
        for (thread, nth) in (0..8).flat_map(|thread| (0..40).map(move |nth| (thread, nth))) {
            std::fs::create_dir_all(scratch(thread, nth).join("tmp")).unwrap();
        }
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let scratch = &scratch;
                scope.spawn(move || {
                    for nth in 0..40 {
                        assert!(remove_beside(&scratch(thread, nth)).unwrap().found);
                    }
                });
            }
        });
        let left = std::fs::read_dir(scratch(0, 0).parent().unwrap()).unwrap();
        assert_eq!(left.count(), 0);
    }
}
