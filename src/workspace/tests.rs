//! Names, paths, hostile folders, torn creations.

use std::collections::HashMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;
use vik_core::ids::IssueId;
use vik_core::workflow::model::WorkspaceRoot;

use super::instance::Surroundings;
use super::*;

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
        Prepared::Created(_) => panic!("it was made anew"),
    }
}

// --- names

#[test]
fn plain_ids_are_their_own_names() {
    for id in ["1", "ABC-123", "a.b_c-d", "-rf", "x".repeat(100).as_str()] {
        assert_eq!(folder_name(&issue(id)), id);
    }
}

#[test]
fn other_ids_get_a_slug_and_a_hash() {
    let name = |id: &str| folder_name(&issue(id));
    assert_eq!(name("../../../../../evil"), "evil~7f8480f013137fce");
    assert_eq!(
        name("Fix: the Login/page!"),
        "fix-the-login-page~d42d45288e00abb8"
    );
    for id in [
        ".",
        "..",
        ".git",
        "a/b",
        "",
        "~",
        "a~0123456789abcdef",
        "a b",
        "é",
        "a\n",
        "x".repeat(101).as_str(),
    ] {
        let name = name(id);
        assert!(name.contains('~') && name.len() <= 57, "{id:?}: {name}");
    }
    assert_ne!(name("a b"), name("a-b"));
    assert_ne!(name("a b"), name("a  b"));
    assert_ne!(name("A b"), name("a b"));
}

proptest! {
    #[test]
    fn a_name_is_one_safe_part_of_a_path(ids in proptest::collection::vec("\\PC{0,8}|[./~a-z]{0,6}|.{90,130}", 1..20)) {
        let mut seen: HashMap<String, String> = HashMap::new();
        for id in ids {
            let name = folder_name(&issue(&id));
            prop_assert!(!name.is_empty() && name.len() <= 120);
            prop_assert!(!name.starts_with('.'));
            prop_assert!(name.bytes().all(|c| c.is_ascii_alphanumeric() || b"._-~".contains(&c)));
            if let Some(other) = seen.insert(name, id.clone()) {
                prop_assert_eq!(other, id);
            }
        }
    }
}

// --- layout

#[test]
fn the_layout_is_the_contracts() {
    let (folder, layout) = layout();
    let base = folder.path().canonicalize().unwrap();
    let key = base.join("workflow.yml").to_string_lossy().replace('/', "-");
    let root = base.join(".vik/workflows").join(key);
    assert_eq!(layout.home(), base.join(".vik"));
    assert_eq!(layout.root(), root);
    assert_eq!(layout.workflow_dir(), base);
    assert_eq!(layout.state_file(), root.join("service/state.json"));
    assert_eq!(layout.logs_dir(), root.join("logs"));
    assert_eq!(layout.issue_sessions_dir(&issue("1")), root.join("sessions/1"));
    assert_eq!(layout.issue_dir(&issue("1")), root.join("issues/1"));
    assert!(
        !layout
            .creating_record(&issue("1"))
            .starts_with(layout.issues_dir())
    );
    assert!(!layout.issue_lock(&issue("1")).starts_with(layout.issues_dir()));
    assert_eq!(
        std::fs::read_to_string(base.join(".vik/.gitignore")).unwrap(),
        "*\n"
    );
    for path in [".vik", ".vik/workflows"].map(|path| base.join(path)) {
        assert_eq!(mode(&path), 0o700, "{}", path.display());
    }
    for path in [
        layout.root().to_owned(),
        layout.service_dir(),
        layout.issues_dir(),
        layout.sessions_dir(),
    ] {
        assert_eq!(mode(&path), 0o700, "{}", path.display());
    }
    assert_eq!(mode(&base.join(".vik/.gitignore")), 0o600);
}

#[test]
fn homes_follow_the_workflow() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let workflow = base.join("sub/../w.yml");
    let home = |root: WorkspaceRoot, vik_home: Option<&str>| {
        let user_home = || Ok(PathBuf::from("/home/u"));
        let layout = Layout::resolve_in(&workflow, &root, vik_home.map(PathBuf::from), user_home).unwrap();
        layout.home().to_owned()
    };
    assert_eq!(home(WorkspaceRoot::BesideWorkflow, Some("/v")), base.join(".vik"));
    assert_eq!(home(WorkspaceRoot::UserHome, Some("/v")), Path::new("/v"));
    assert_eq!(home(WorkspaceRoot::UserHome, None), Path::new("/home/u/.vik"));
    assert_eq!(
        home(WorkspaceRoot::Path("../x".to_owned()), None),
        base.parent().unwrap().join("x")
    );
    assert_eq!(
        home(WorkspaceRoot::Path("/abs/./y".to_owned()), None),
        Path::new("/abs/y")
    );
    assert_eq!(
        home(WorkspaceRoot::Path("~/z".to_owned()), None),
        Path::new("/home/u/z")
    );
    assert_eq!(
        home(WorkspaceRoot::Path("~".to_owned()), None),
        Path::new("/home/u")
    );
    assert_eq!(home(WorkspaceRoot::Path("~x".to_owned()), None), base.join("~x"));
}

#[test]
fn workflows_with_one_key_do_not_share_a_root() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(base.join("a-b")).unwrap();
    std::fs::create_dir_all(base.join("a")).unwrap();
    let home = WorkspaceRoot::Path(base.join("home").to_string_lossy().into_owned());
    let (first, second) = (base.join("a-b/c.yml"), base.join("a/b-c.yml"));
    let make = |path: &Path| {
        let mut layout = Layout::resolve(path, &home).unwrap();
        layout.create().unwrap();
        layout.root().to_owned()
    };
    let (one, two) = (make(&first), make(&second));
    assert_ne!(one, two);
    assert_eq!(make(&first), one);
    assert_eq!(make(&second), two);
    // Two that resolved before either was made.
    std::fs::remove_dir_all(base.join("home")).unwrap();
    let mut a = Layout::resolve(&first, &home).unwrap();
    let mut b = Layout::resolve(&second, &home).unwrap();
    assert_eq!(a.root(), b.root());
    a.create().unwrap();
    b.create().unwrap();
    assert_ne!(a.root(), b.root());
    assert_eq!(Layout::resolve(&second, &home).unwrap().root(), b.root());
}

#[test]
fn long_and_odd_workflow_paths_have_short_keys() {
    let home = WorkspaceRoot::Path("/h".to_owned());
    let root = |path: &str| Layout::resolve(Path::new(path), &home).unwrap().root().to_owned();
    let long = format!("/nowhere/{}/w.yml", "é/".repeat(200));
    let name = root(&long).file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.len() <= 200 && name.contains("-w.yml-"), "{name}");
    assert_ne!(root(&long), root(&long.replacen('é', "e", 1)));
}

#[test]
fn an_ignore_file_never_hides_what_is_the_users() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("w.yml"), "").unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/mine"), "").unwrap();
    for root in [".", "data"] {
        let mut layout = Layout::resolve(
            &folder.path().join("w.yml"),
            &WorkspaceRoot::Path(root.to_owned()),
        )
        .unwrap();
        layout.create().unwrap();
        assert!(!folder.path().join(root).join(".gitignore").exists());
        assert!(folder.path().join(root).join("workflows/.gitignore").exists());
    }
    std::fs::create_dir(folder.path().join("own")).unwrap();
    std::fs::write(folder.path().join("own/.gitignore"), "mine\n").unwrap();
    let mut layout = Layout::resolve(
        &folder.path().join("w.yml"),
        &WorkspaceRoot::Path("own".to_owned()),
    )
    .unwrap();
    layout.create().unwrap();
    assert_eq!(
        std::fs::read_to_string(folder.path().join("own/.gitignore")).unwrap(),
        "mine\n"
    );
}

#[test]
fn a_workflow_path_is_absolute_and_may_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    std::fs::create_dir(base.join("real")).unwrap();
    symlink(base.join("real"), base.join("link")).unwrap();
    assert_eq!(
        absolute_workflow_path(&base.join("link/w.yml")).unwrap(),
        base.join("real/w.yml")
    );
    assert_eq!(
        absolute_workflow_path(Path::new("/no/such/../w.yml")).unwrap(),
        Path::new("/no/w.yml")
    );
    assert!(matches!(
        absolute_workflow_path(Path::new("/")),
        Err(WorkspaceError::NotAFile { .. })
    ));
    assert!(matches!(
        absolute_workflow_path(Path::new("..")),
        Err(WorkspaceError::NotAFile { .. })
    ));
}

// --- instances

#[test]
fn an_instance_is_found_by_the_workflow_path_alone() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let surroundings = Surroundings {
        state_home: Some(base.join("state")),
        runtime_dir: None,
        home: Some(base.join("h")),
    };
    let one = InstanceDir::at(&base.join("w.yml"), &surroundings).unwrap();
    let other = InstanceDir::at(&base.join("v.yml"), &surroundings).unwrap();
    assert_ne!(one, other);
    assert!(one.path().starts_with(base.join("state/vik/instances")));
    assert!(InstanceDir::all_at(&surroundings).is_empty());
    one.create().unwrap();
    other.create().unwrap();
    assert_eq!(mode(one.path()), 0o700);
    assert_eq!(InstanceDir::all_at(&surroundings).len(), 2);
    assert!(InstanceDir::all_at(&surroundings).contains(&one));
    let at_home = Surroundings {
        state_home: None,
        ..surroundings
    };
    let home = InstanceDir::at(&base.join("w.yml"), &at_home).unwrap();
    assert!(home.path().starts_with(base.join("h/.local/state/vik/instances")));
}

#[test]
fn a_socket_path_always_fits() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("x".repeat(120));
    let runtime = folder.path().join("run");
    std::fs::create_dir(&runtime).unwrap();
    let with_runtime = Surroundings {
        state_home: Some(long.clone()),
        runtime_dir: Some(runtime.clone()),
        home: None,
    };
    let instance = InstanceDir::at(Path::new("/w.yml"), &with_runtime).unwrap();
    assert!(instance.socket().starts_with(&runtime) && instance.socket().as_os_str().len() < 100);
    instance.create().unwrap();
    assert_eq!(mode(instance.socket().parent().unwrap()), 0o700);
    let without = Surroundings {
        state_home: Some(long),
        runtime_dir: None,
        home: None,
    };
    let instance = InstanceDir::at(Path::new("/w.yml"), &without).unwrap();
    assert!(instance.socket().starts_with("/tmp") && instance.socket().as_os_str().len() < 100);
    // A folder that was there first and is open to others is not taken.
    std::fs::create_dir(runtime.join("open")).unwrap();
    std::fs::set_permissions(runtime.join("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::remove_dir_all(runtime.join("vik")).unwrap();
    symlink(runtime.join("open"), runtime.join("vik")).unwrap();
    let instance = InstanceDir::at(Path::new("/w.yml"), &with_runtime).unwrap();
    assert!(matches!(instance.create(), Err(WorkspaceError::Foreign { .. })));
}

// --- issue workspaces

#[test]
fn a_workspace_is_made_once() {
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
    assert!(remove(&layout, &issue("1")).unwrap());
    assert!(!remove(&layout, &issue("1")).unwrap());
    assert_eq!(std::fs::read_dir(layout.issues_dir()).unwrap().count(), 0);
}

#[test]
fn a_half_made_workspace_is_cleaned_and_made_anew() {
    let (_folder, layout) = layout();
    let workspace = created(&layout, "1");
    std::fs::write(workspace.path().join("half"), "").unwrap();
    let again = created(&layout, "1");
    assert_eq!(std::fs::read_dir(again.path()).unwrap().count(), 0);
    assert!(matches!(
        workspace.check(&layout),
        Err(WorkspaceError::Exchanged { .. })
    ));
    again.check(&layout).unwrap();
    // The record stands, the folder was never made.
    std::fs::remove_dir(again.path()).unwrap();
    created(&layout, "1");
    // A file or a link in place of a half made folder goes too; what the link leads to stays.
    let target = layout.home().join("target");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("precious"), "").unwrap();
    std::fs::remove_dir(layout.issue_dir(&issue("1"))).unwrap();
    symlink(&target, layout.issue_dir(&issue("1"))).unwrap();
    created(&layout, "1").check(&layout).unwrap();
    assert!(target.join("precious").exists());
}

#[test]
fn without_a_hook_nothing_is_half_made() {
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
    // What a hook left half made, before it was taken out of the workflow, goes.
    std::fs::write(created(&layout, "2").path().join("half"), "").unwrap();
    assert!(!plain("2").path().join("half").exists());
    std::fs::write(plain("2").path().join("work"), "").unwrap();
    assert!(existing(&layout, "2").path().join("work").exists());
}

#[test]
fn an_older_workspace_is_adopted_and_an_empty_one_is_made() {
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
fn a_link_is_never_followed() {
    let (folder, layout) = layout();
    let target = folder.path().join("target");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("precious"), "").unwrap();
    let path = layout.issue_dir(&issue("1"));
    symlink(&target, &path).unwrap();
    let refused = |result: Result<Prepared, WorkspaceError>, expected: &str| match result {
        Err(WorkspaceError::NotAFolder { what, .. }) => assert_eq!(what, expected),
        other => panic!("{other:?}"),
    };
    refused(prepare(&layout, &issue("1"), true), "a link");
    assert!(matches!(
        open(&layout, &issue("1")),
        Err(WorkspaceError::NotAFolder { .. })
    ));
    assert!(remove(&layout, &issue("1")).unwrap());
    assert!(target.join("precious").exists() && path.symlink_metadata().is_err());
    std::fs::write(&path, "").unwrap();
    refused(prepare(&layout, &issue("1"), true), "a file");
    // A link above: the folder of all issues.
    std::fs::rename(layout.issues_dir(), folder.path().join("moved")).unwrap();
    symlink(&target, layout.issues_dir()).unwrap();
    refused(prepare(&layout, &issue("precious"), true), "a link");
    assert!(remove(&layout, &issue("precious")).is_err());
    assert!(target.join("precious").exists());
}

#[test]
fn a_workspace_that_was_exchanged_is_noticed() {
    let (folder, layout) = layout();
    let workspace = created(&layout, "1");
    workspace.check(&layout).unwrap();
    std::fs::rename(workspace.path(), folder.path().join("away")).unwrap();
    assert!(workspace.check(&layout).is_err());
    std::fs::create_dir(workspace.path()).unwrap();
    assert!(matches!(
        workspace.check(&layout),
        Err(WorkspaceError::Exchanged { .. })
    ));
}

#[test]
fn any_tree_can_be_removed() {
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
    // Names that the removal itself uses, and deeper than any path or any number of handles.
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
    assert!(remove(&layout, &issue("1")).unwrap());
    assert_eq!(std::fs::read_dir(layout.issues_dir()).unwrap().count(), 0);
    assert!(target.join("precious").exists());
}

#[test]
fn what_a_removal_left_is_swept() {
    let (_folder, layout) = layout();
    std::fs::create_dir_all(layout.issues_dir().join(".removing-1/0/a")).unwrap();
    std::fs::write(layout.issues_dir().join(".removing-1/0/a/b"), "").unwrap();
    std::fs::create_dir(layout.issues_dir().join("1")).unwrap();
    sweep(&layout).unwrap();
    let left: Vec<_> = std::fs::read_dir(layout.issues_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["1"]);
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
    // What was open to others is closed; a link is refused.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::set_permissions(path.parent().unwrap(), std::fs::Permissions::from_mode(0o755)).unwrap();
    fs::write_private(&path, b"x").unwrap();
    fs::create_private_dir_all(path.parent().unwrap()).unwrap();
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    symlink(&path, folder.path().join("link")).unwrap();
    assert!(fs::write_private(&folder.path().join("link"), b"").is_err());
    assert!(fs::append_private(&folder.path().join("link")).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"x");
}

// --- fingerprints

#[test]
fn a_fingerprint_sees_files_and_commits_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["src", ".git/refs/heads", ".git/objects/ab", ".git/logs"] {
        std::fs::create_dir_all(path(name)).unwrap();
    }
    std::fs::write(path(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(path("src/a"), "a").unwrap();
    let mut before = fingerprint(folder.path()).unwrap();
    let mut expect = |changed: bool, what: &str| {
        let after = fingerprint(folder.path()).unwrap();
        assert_eq!(after != before, changed, "{what}");
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
