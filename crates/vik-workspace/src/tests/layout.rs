//! Names and paths.

use super::*;

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
    fn folder_name_is_unique_and_safe_in_a_path(ids in proptest::collection::vec("\\PC{0,8}|[./~a-z]{0,6}|.{90,130}", 1..20)) {
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
fn layout_paths_match_the_contract() {
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
fn home_is_resolved_from_the_workspace_root() {
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
    // Two layouts that were resolved before either folder was created.
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
fn ignore_file_never_hides_files_of_the_user() {
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
fn workflow_path_becomes_absolute_and_may_be_missing() {
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
fn instance_is_found_by_the_workflow_path_alone() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let surroundings = InstanceEnv {
        state_home: Some(base.join("state")),
        runtime_dir: None,
        home: Some(base.join("h")),
    };
    let one = InstanceDir::at(&base.join("w.yml"), None, &surroundings).unwrap();
    let other = InstanceDir::at(&base.join("v.yml"), None, &surroundings).unwrap();
    assert_ne!(one, other);
    assert!(one.path().starts_with(base.join("state/vik/instances")));
    assert!(InstanceDir::all_at(&surroundings).is_empty());
    one.create().unwrap();
    other.create().unwrap();
    assert_eq!(mode(one.path()), 0o700);
    assert_eq!(InstanceDir::all_at(&surroundings).len(), 2);
    assert!(InstanceDir::all_at(&surroundings).contains(&one));
    let at_home = InstanceEnv {
        state_home: None,
        ..surroundings
    };
    let home = InstanceDir::at(&base.join("w.yml"), None, &at_home).unwrap();
    assert!(home.path().starts_with(base.join("h/.local/state/vik/instances")));
}

#[test]
fn link_to_a_workflow_is_the_same_instance() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let surroundings = InstanceEnv {
        state_home: Some(base.join("state")),
        runtime_dir: None,
        home: None,
    };
    let at = |name: &str| InstanceDir::at(&base.join(name), None, &surroundings).unwrap();
    std::fs::create_dir(base.join("other")).unwrap();
    symlink("../w.yml", base.join("other/link.yml")).unwrap();
    symlink(base.join("other/link.yml"), base.join("twice.yml")).unwrap();
    // Also if the file is missing.
    assert_eq!(at("other/link.yml"), at("w.yml"));
    assert_eq!(at("twice.yml"), at("w.yml"));
    symlink("circle.yml", base.join("circle.yml")).unwrap();
    assert_ne!(at("circle.yml"), at("w.yml"));
}

#[test]
fn socket_path_fits_the_length_limit() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("x".repeat(120));
    let runtime = folder.path().join("run");
    std::fs::create_dir(&runtime).unwrap();
    let with_runtime = InstanceEnv {
        state_home: Some(long.clone()),
        runtime_dir: Some(runtime.clone()),
        home: None,
    };
    let instance = InstanceDir::at(Path::new("/w.yml"), None, &with_runtime).unwrap();
    assert!(instance.socket().starts_with(&runtime) && instance.socket().as_os_str().len() < 100);
    instance.create().unwrap();
    assert_eq!(mode(instance.socket().parent().unwrap()), 0o700);
    let without = InstanceEnv {
        state_home: Some(long),
        runtime_dir: None,
        home: None,
    };
    let instance = InstanceDir::at(Path::new("/w.yml"), None, &without).unwrap();
    assert!(instance.socket().starts_with("/tmp") && instance.socket().as_os_str().len() < 100);
    // A folder that existed before and is open to others is not used.
    std::fs::create_dir(runtime.join("open")).unwrap();
    std::fs::set_permissions(runtime.join("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::remove_dir_all(runtime.join("vik")).unwrap();
    symlink(runtime.join("open"), runtime.join("vik")).unwrap();
    let instance = InstanceDir::at(Path::new("/w.yml"), None, &with_runtime).unwrap();
    assert!(matches!(
        instance.create(),
        Err(WorkspaceError::NotPrivate { .. })
    ));
}
