//! Hostile folders, interrupted creations, private files. Names and paths are in `layout`.

use std::collections::HashMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;
use vik_core::ids::IssueId;
use vik_core::workflow::model::WorkspaceRoot;

use super::instance::InstanceEnv;
use super::*;

mod layout;

fn layout() -> (TempDir, Layout) {
    let folder = tempfile::tempdir().unwrap();
    let workflow = folder.path().join("workflow.yml");
    std::fs::write(&workflow, "").unwrap();
    let mut layout = Layout::resolve(&workflow, &WorkspaceRoot::BesideWorkflow).unwrap();
    layout.create().unwrap();
    (folder, layout)
}

fn issue(id: &str) -> IssueId {
    IssueId::new(id)
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn created(layout: &Layout, id: &str) -> Workspace {
    match prepare(layout, &issue(id), true).unwrap() {
        Prepared::Created(workspace) => workspace,
        Prepared::Existing(_) => panic!("it was there already"),
    }
}

fn existing(layout: &Layout, id: &str) -> Workspace {
    match prepare(layout, &issue(id), true).unwrap() {
        Prepared::Existing(workspace) => workspace,
        Prepared::Created(_) => panic!("the workspace was created again"),
    }
}

// --- issue workspaces

#[test]
fn workspace_is_created_once() {
    let (_folder, layout) = layout();
    assert!(open(&layout, &issue("1")).unwrap().is_none());
    let workspace = created(&layout, "1");
    assert_eq!(workspace.path(), layout.issue_dir(&issue("1")));
    assert_eq!(mode(workspace.path()), 0o700);
    assert_eq!(mode(&layout.creating_record(&issue("1"))), 0o600);
    assert!(open(&layout, &issue("1")).unwrap().is_none());
    std::fs::write(workspace.path().join("file"), "").unwrap();
    workspace.mark_ready().unwrap();
    workspace.mark_ready().unwrap();
    assert!(!layout.creating_record(&issue("1")).exists());
    existing(&layout, "1").check(&layout).unwrap();
    assert!(open(&layout, &issue("1")).unwrap().is_some());
    assert!(remove(&layout, &issue("1")).unwrap().found);
    assert!(!remove(&layout, &issue("1")).unwrap().found);
    assert_eq!(std::fs::read_dir(layout.issues_dir()).unwrap().count(), 0);
}

#[test]
fn incomplete_workspace_is_removed_and_recreated() {
    let (_folder, layout) = layout();
    let workspace = created(&layout, "1");
    std::fs::write(workspace.path().join("half"), "").unwrap();
    let again = created(&layout, "1");
    assert_eq!(std::fs::read_dir(again.path()).unwrap().count(), 0);
    assert!(matches!(
        workspace.check(&layout),
        Err(WorkspaceError::Replaced { .. })
    ));
    again.check(&layout).unwrap();
    // The record exists, but the folder was never created.
    std::fs::remove_dir(again.path()).unwrap();
    created(&layout, "1");
    // A file or a link in place of an incomplete folder is removed too; the target of the link
    // stays.
    let target = layout.home().join("target");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("precious"), "").unwrap();
    std::fs::remove_dir(layout.issue_dir(&issue("1"))).unwrap();
    symlink(&target, layout.issue_dir(&issue("1"))).unwrap();
    created(&layout, "1").check(&layout).unwrap();
    assert!(target.join("precious").exists());
}

#[test]
fn workspace_without_a_hook_is_never_incomplete() {
    let (_folder, layout) = layout();
    let plain = |id: &str| match prepare(&layout, &issue(id), false).unwrap() {
        Prepared::Existing(workspace) => workspace,
        Prepared::Created(_) => panic!("there is nothing to do in it"),
    };
    let workspace = plain("1");
    assert!(layout.creating_record(&issue("1")).symlink_metadata().is_err());
    workspace.check(&layout).unwrap();
    std::fs::write(workspace.path().join("work"), "").unwrap();
    assert!(plain("1").path().join("work").exists());
    // An incomplete workspace of a hook that was later removed from the workflow is removed.
    std::fs::write(created(&layout, "2").path().join("half"), "").unwrap();
    assert!(!plain("2").path().join("half").exists());
    std::fs::write(plain("2").path().join("work"), "").unwrap();
    assert!(existing(&layout, "2").path().join("work").exists());
}

#[test]
fn workspace_of_an_older_version_is_adopted() {
    let (_folder, layout) = layout();
    let path = layout.issue_dir(&issue("old"));
    std::fs::create_dir(&path).unwrap();
    let inode = std::fs::metadata(&path).unwrap().ino();
    created(&layout, "old").mark_ready().unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().ino(),
        inode,
        "a parallel stage may stand in it"
    );
    std::fs::write(path.join("work"), "").unwrap();
    existing(&layout, "old");
    assert!(path.join("work").exists());
}

#[test]
fn hostile_ids_stay_inside() {
    let (folder, layout) = layout();
    for id in [
        "../../../../../evil",
        "..",
        ".",
        "/etc/passwd",
        "a/../../b",
        ".removing-x",
        "x\ny",
    ] {
        let workspace = created(&layout, id);
        assert_eq!(workspace.path().parent().unwrap(), layout.issues_dir());
        workspace.check(&layout).unwrap();
        workspace.mark_ready().unwrap();
    }
    assert_eq!(std::fs::read_dir(layout.issues_dir()).unwrap().count(), 7);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn link_in_place_of_a_workspace_is_not_followed() {
    let (folder, layout) = layout();
    let target = folder.path().join("target");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("precious"), "").unwrap();
    let path = layout.issue_dir(&issue("1"));
    symlink(&target, &path).unwrap();
    let refused = |result: Result<Prepared, WorkspaceError>, expected: &str| match result {
        Err(WorkspaceError::NotAFolder { kind, .. }) => assert_eq!(kind, expected),
        other => panic!("{other:?}"),
    };
    refused(prepare(&layout, &issue("1"), true), "a link");
    assert!(matches!(
        open(&layout, &issue("1")),
        Err(WorkspaceError::NotAFolder { .. })
    ));
    assert!(remove(&layout, &issue("1")).unwrap().found);
    assert!(target.join("precious").exists() && path.symlink_metadata().is_err());
    std::fs::write(&path, "").unwrap();
    refused(prepare(&layout, &issue("1"), true), "a file");
    // A link above the workspace: the folder of all issues.
    std::fs::rename(layout.issues_dir(), folder.path().join("moved")).unwrap();
    symlink(&target, layout.issues_dir()).unwrap();
    refused(prepare(&layout, &issue("precious"), true), "a link");
    assert!(remove(&layout, &issue("precious")).is_err());
    assert!(target.join("precious").exists());
}

#[test]
fn replaced_workspace_is_detected() {
    let (folder, layout) = layout();
    let workspace = created(&layout, "1");
    workspace.check(&layout).unwrap();
    std::fs::rename(workspace.path(), folder.path().join("away")).unwrap();
    assert!(workspace.check(&layout).is_err());
    std::fs::create_dir(workspace.path()).unwrap();
    assert!(matches!(
        workspace.check(&layout),
        Err(WorkspaceError::Replaced { .. })
    ));
}

#[test]
fn removal_succeeds_on_any_tree() {
    let (folder, layout) = layout();
    let target = folder.path().join("target");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("precious"), "").unwrap();
    let workspace = created(&layout, "1");
    let root = workspace.path().to_owned();
    for (name, mode) in [("no-write", 0o500), ("no-search", 0o600), ("nothing", 0o000)] {
        let path = root.join(name).join("in/in");
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("file"), "").unwrap();
        std::fs::set_permissions(root.join(name).join("in"), std::fs::Permissions::from_mode(mode)).unwrap();
        std::fs::set_permissions(root.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink(&target, root.join("link")).unwrap();
    symlink("/nowhere", root.join("dangling")).unwrap();
    nix::unistd::mkfifo(&root.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Names that the removal itself uses, and a tree deeper than any path or any number of handles.
    for name in ["0", "v1", "v2/v3/v4"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    let mut dir = nix::fcntl::open(
        &root,
        nix::fcntl::OFlag::O_DIRECTORY,
        nix::sys::stat::Mode::empty(),
    )
    .unwrap();
    let name = "d".repeat(100);
    for _ in 0..1200 {
        nix::sys::stat::mkdirat(&dir, name.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let flags = nix::fcntl::OFlag::O_DIRECTORY;
        dir = nix::fcntl::openat(&dir, name.as_str(), flags, nix::sys::stat::Mode::empty()).unwrap();
    }
    drop(dir);
    assert!(remove(&layout, &issue("1")).unwrap().found);
    assert_eq!(std::fs::read_dir(layout.issues_dir()).unwrap().count(), 0);
    assert!(target.join("precious").exists());
}

#[test]
fn leftovers_of_a_removal_are_swept() {
    let (_folder, layout) = layout();
    std::fs::create_dir_all(layout.issues_dir().join(".removing-1/0/a")).unwrap();
    std::fs::write(layout.issues_dir().join(".removing-1/0/a/b"), "").unwrap();
    std::fs::create_dir(layout.issues_dir().join("1")).unwrap();
    sweep(&layout).unwrap();
    let remaining: Vec<_> = std::fs::read_dir(layout.issues_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(remaining, ["1"]);
}

#[test]
fn old_git_views_are_swept_and_recent_ones_are_kept() {
    let (_folder, layout) = layout();
    let service = layout.service_dir();
    std::fs::create_dir_all(service.join("git-old/info")).unwrap();
    std::fs::create_dir_all(service.join("git-new/info")).unwrap();
    std::fs::create_dir_all(service.join("issues")).unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 3600);
    for name in ["git-old", "issues"] {
        std::fs::File::open(service.join(name))
            .unwrap()
            .set_modified(old)
            .unwrap();
    }
    std::fs::create_dir_all(layout.issues_dir()).unwrap();
    sweep(&layout).unwrap();
    let remaining = std::fs::read_dir(&service).unwrap();
    let mut remaining: Vec<_> = remaining.map(|entry| entry.unwrap().file_name()).collect();
    remaining.sort();
    assert_eq!(remaining, ["git-new", "issues"]);
}

// --- files

#[test]
fn private_files_stay_private_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/file");
    fs::create_private_dir_all(path.parent().unwrap()).unwrap();
    assert_eq!(
        (mode(&folder.path().join("a")), mode(&folder.path().join("a/b"))),
        (0o700, 0o700)
    );
    fs::write_atomic(&path, b"one").unwrap();
    fs::write_atomic(&path, b"two").unwrap();
    assert_eq!(
        (std::fs::read(&path).unwrap().as_slice(), mode(&path)),
        (&b"two"[..], 0o600)
    );
    fs::write_json_atomic(&path, &[1]).unwrap();
    assert_eq!(
        std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1,
        "no temporary file is left"
    );
    assert!(fs::write_atomic(&folder.path().join("a/b"), b"a folder").is_err());
    assert_eq!(std::fs::read_dir(folder.path().join("a")).unwrap().count(), 1);
    // A file that was open to others is closed to them; a link is refused.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::set_permissions(path.parent().unwrap(), std::fs::Permissions::from_mode(0o755)).unwrap();
    fs::write_private(&path, b"x").unwrap();
    fs::create_private_dir_all(path.parent().unwrap()).unwrap();
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    symlink(&path, folder.path().join("link")).unwrap();
    assert!(fs::write_private(&folder.path().join("link"), b"").is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"x");
}

// --- fingerprints

#[test]
fn fingerprint_covers_only_files_and_commits() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["src", ".git/refs/heads", ".git/objects/ab", ".git/logs"] {
        std::fs::create_dir_all(path(name)).unwrap();
    }
    std::fs::write(path(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(path("src/a"), "a").unwrap();
    let mut before = fingerprint(folder.path()).unwrap();
    let mut expect = |changed: bool, case: &str| {
        let after = fingerprint(folder.path()).unwrap();
        assert_eq!(after != before, changed, "{case}");
        before = after;
    };
    expect(false, "nothing");
    std::fs::write(path(".git/objects/ab/cd"), "object").unwrap();
    std::fs::write(path(".git/index"), "index").unwrap();
    std::fs::create_dir_all(path(".git/refs/remotes/origin")).unwrap();
    std::fs::write(path(".git/refs/remotes/origin/main"), "1").unwrap();
    expect(false, "objects, index and remote refs");
    std::fs::write(path(".git/refs/heads/main"), "1").unwrap();
    expect(true, "a branch");
    std::fs::write(path(".git/logs/HEAD"), "1").unwrap();
    expect(true, "the log of HEAD");
    std::fs::write(path(".git/packed-refs"), "1").unwrap();
    expect(true, "packed refs");
    std::fs::write(path("src/a"), "bb").unwrap();
    expect(true, "a file's size");
    std::fs::write(path("src/b"), "").unwrap();
    expect(true, "a new file");
    std::fs::rename(path("src/b"), path("src/c")).unwrap();
    expect(true, "a renamed file");
    std::fs::set_permissions(path("src/c"), std::fs::Permissions::from_mode(0o755)).unwrap();
    expect(true, "a mode");
    std::fs::remove_file(path("src/c")).unwrap();
    expect(true, "a removed file");
    std::fs::create_dir(path("src/d")).unwrap();
    expect(true, "a folder");
    symlink("/", path("link")).unwrap();
    expect(true, "a link");
    expect(false, "nothing again");
    assert_eq!(fingerprint(&path("nowhere")), None);
    assert_eq!(fingerprint(&path("link")), None);
}

#[test]
fn workspace_lock_excludes_issue_and_stage_locks() {
    use vik_core::ids::StageName;
    use vik_proc::FileLock;

    let (_folder, layout) = layout();
    let (one, other) = (issue("1"), issue("1.stages"));
    let held = lock(&layout, &one).unwrap().unwrap();
    assert!(lock(&layout, &one).unwrap().is_none());
    assert!(lock(&layout, &other).unwrap().is_some());
    drop(held);
    let stage = layout.stage_lock(&one, &StageName::new("plan"));
    std::fs::create_dir_all(stage.parent().unwrap()).unwrap();
    let beside = FileLock::try_acquire(&stage).unwrap().unwrap();
    assert!(lock(&layout, &one).unwrap().is_none());
    assert!(lock(&layout, &other).unwrap().is_some());
    drop(beside);
    let held = lock(&layout, &one).unwrap().unwrap();
    assert!(FileLock::is_locked(&stage).unwrap());
    assert!(FileLock::is_locked(&layout.issue_lock(&one)).unwrap());
    drop(held);
}

#[test]
fn private_folder_is_never_created_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (base, victim) = (folder.path().join("base"), folder.path().join("victim"));
    for path in [&base, &victim] {
        std::fs::create_dir(path).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    symlink(&victim, base.join("linked")).unwrap();
    assert!(fs::create_private_dir_all(&base.join("linked")).is_err());
    fs::create_private_dir_below(&base, Path::new("linked/tmp")).unwrap();
    assert_eq!((mode(&victim), mode(&base.join("linked/tmp"))), (0o755, 0o700));
    assert_eq!(victim.read_dir().unwrap().count(), 0);
    // A folder that an agent has closed is opened again.
    std::fs::set_permissions(base.join("linked"), std::fs::Permissions::from_mode(0o000)).unwrap();
    fs::create_private_dir_below(&base, Path::new("linked/tmp")).unwrap();
    assert_eq!(mode(&base.join("linked")), 0o700);
    assert!(fs::create_private_dir_below(&base, Path::new("../victim/x")).is_err());
}
