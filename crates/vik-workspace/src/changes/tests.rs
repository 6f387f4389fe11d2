//! Snapshots and changes of workspaces as agents leave them.

mod packs;
mod properties;

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use proptest::prelude::*;
use tempfile::TempDir;
use vik_core::file_change::LineRange;

use super::*;

struct Scene {
    folder: TempDir,
    store: Store,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let store = Store::new(&folder.path().join("blobs"));
        Self { folder, store }
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.dir().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn git(&self, args: &[&str]) {
        let done = Command::new("git")
            .args([
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "-c",
                "init.defaultBranch=main",
            ])
            .args(args)
            .current_dir(self.dir())
            .env("HOME", self.folder.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
    }

    fn base(&self) -> Base {
        self.base_after(None)
    }

    fn base_after(&self, earlier: Option<&Snapshot>) -> Base {
        self.base_within(earlier, Bounds::default())
    }

    fn base_within(&self, earlier: Option<&Snapshot>, bounds: Bounds) -> Base {
        let folder = std::fs::File::open(self.dir()).unwrap();
        Base::take(&self.store, &folder, &self.dir(), earlier, bounds).unwrap()
    }

    fn changes(&self, base: &Base) -> Changes {
        self.changes_within(base, Bounds::default())
    }

    fn changes_and_snapshot(&self, base: &Base) -> (Changes, Snapshot) {
        let folder = std::fs::File::open(self.dir()).unwrap();
        base.changes(&self.store, &folder, &self.dir(), Bounds::default())
            .unwrap()
    }

    fn changes_within(&self, base: &Base, bounds: Bounds) -> Changes {
        let folder = std::fs::File::open(self.dir()).unwrap();
        // As the next daemon reads it.
        let base: Base = serde_json::from_str(&serde_json::to_string(base).unwrap()).unwrap();
        base.changes(&self.store, &folder, &self.dir(), bounds).unwrap().0
    }

    fn restore(&self, base: &Base, path: &RelPath) -> io::Result<Restored> {
        let folder = std::fs::File::open(self.dir()).unwrap();
        restore(&self.store, &folder, &base.snapshot, path)
    }
}

/// Returns one line per change: `M src/a 1+2 -3` if lines 1 and 2 are new and line 3 was removed.
fn summary(changes: &Changes) -> Vec<String> {
    let range = |range: LineRange| {
        if range.count == 1 {
            range.start.to_string()
        } else {
            format!("{}..{}", range.start, range.end())
        }
    };
    changes
        .files
        .iter()
        .map(|change| {
            let mut line = match &change.kind {
                ChangeKind::Added => format!("A {}", change.path),
                ChangeKind::Modified => format!("M {}", change.path),
                ChangeKind::Deleted => format!("D {}", change.path),
                ChangeKind::TypeChanged => format!("T {}", change.path),
                ChangeKind::Renamed { from } => format!("R {from} {}", change.path),
            };
            if let Some((old, new)) = change.mode_change() {
                line.push_str(&format!(" {old:o}>{new:o}"));
            }
            if change.hunks.is_none() {
                line.push_str(" whole");
            }
            change
                .ranges()
                .for_each(|lines| line.push_str(&format!(" +{}", range(lines))));
            change
                .removed()
                .for_each(|lines| line.push_str(&format!(" -{}", range(lines))));
            line
        })
        .collect()
}

#[test]
fn changes_of_all_kinds_are_listed() {
    let scene = Scene::new();
    scene.write("same", "1\n");
    scene.write("edited", "1\n2\n3\n");
    scene.write("gone", "1\n2\n");
    scene.write("old name", "1\n2\n3\n4\n");
    scene.write("moved/and edited", "1\n2\n3\n4\n5\n6\n7\n8\n");
    scene.write("mode", "1\n");
    scene.write("becomes a link", "1\n");
    scene.write("crlf", "1\r\n2\r\n");
    scene.write("no end", "1\n2");
    scene.write("binary", b"1\n\0");
    symlink("same", scene.dir().join("link")).unwrap();
    let base = scene.base();
    assert_eq!(summary(&scene.changes(&base)), Vec::<String>::new());
    scene.write("edited", "1\nx\ny\n3\n");
    let at = |name: &str| scene.dir().join(name);
    std::fs::remove_file(at("gone")).unwrap();
    std::fs::rename(at("old name"), at("a new name")).unwrap();
    std::fs::remove_file(at("moved/and edited")).unwrap();
    scene.write("elsewhere", "1\n2\n3\n4\n5\n6\n7\nx\n");
    std::fs::set_permissions(at("mode"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::remove_file(at("becomes a link")).unwrap();
    symlink("/etc/passwd", at("becomes a link")).unwrap();
    scene.write("crlf", "1\r\n2\n");
    scene.write("no end", "1\n2\n");
    scene.write("binary", b"2\n\0");
    std::fs::remove_file(at("link")).unwrap();
    symlink("edited", at("link")).unwrap();
    scene.write("new", "7\n8\n");
    std::fs::write(at("").join(std::ffi::OsStr::from_bytes(b"caf\xe9")), "other\n").unwrap();
    nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(
        summary(&scene.changes(&base)),
        [
            "R old name a new name",
            "T becomes a link whole",
            "M binary whole",
            r#"A "caf\351" +1"#,
            "M crlf +2 -2",
            "M edited +2..3 -2",
            "R moved/and edited elsewhere +8 -8",
            "D gone -1..2",
            "M link whole",
            "M mode 644>755",
            "A new +1..2",
            "M no end +2 -2",
        ]
    );
}

#[test]
fn agent_cannot_hide_changes_with_ignore_rules() {
    let scene = Scene::new();
    scene.git(&["init", "-q"]);
    scene.write(".gitignore", "target/\n*.log\n!keep.log\n");
    scene.write("sub/.gitignore", "/here\n");
    scene.write("target/out", "1\n");
    scene.write("sub/here", "1\n");
    scene.write("sub/deep/here", "1\n");
    scene.write("forced.log", "1\n");
    scene.write(".git/info/exclude", "excluded\n");
    scene.write("excluded", "1\n");
    scene.git(&["add", "-f", "."]);
    scene.git(&["rm", "-q", "-r", "--cached", "target", "sub/here", "excluded"]);
    scene.git(&["commit", "-q", "-m", "first"]);
    let base = scene.base();
    scene.write("target/out", "2\n");
    scene.write("sub/here", "2\n");
    scene.write("sub/deep/here", "2\n");
    scene.write("forced.log", "2\n");
    scene.write("excluded", "2\n");
    scene.write("keep.log", "2\n");
    scene.write("secret", "2\n");
    // The agent's own rules, attributes and settings have no effect.
    scene.write(".gitignore", "*\n");
    scene.write(".git/info/exclude", "*\n");
    scene.write(".gitattributes", "* filter=evil diff=evil -diff binary\n");
    scene.write("target/forced", "2\n");
    scene.git(&["config", "filter.evil.clean", "touch ran; cat"]);
    scene.git(&["add", "-f", "target/forced"]);
    scene.git(&["config", "core.fsmonitor", "touch ran"]);
    scene.git(&["config", "diff.evil.textconv", "touch ran; cat"]);
    scene.git(&["config", "diff.external", "touch ran"]);
    let _ = std::fs::remove_file(scene.dir().join("ran"));
    assert_eq!(
        summary(&scene.changes(&base)),
        [
            "A .gitattributes +1",
            "M .gitignore +1 -1..3",
            "M forced.log +1 -1",
            "A keep.log +1",
            "A secret +1",
            "M sub/deep/here +1 -1",
            "A target/forced +1",
        ]
    );
    assert!(!scene.dir().join("ran").exists());
    // Nor do they hide the changes of the next attempt, until somebody else has changed them.
    let (_, after) = scene.changes_and_snapshot(&base);
    let base = scene.base_after(Some(&after));
    std::fs::remove_file(scene.dir().join(".git/index")).unwrap();
    scene.write("other", "3\n");
    scene.write("new/.gitignore", "*\n");
    assert_eq!(
        summary(&scene.changes(&base)),
        ["A new/.gitignore +1", "A other +1"]
    );
    let (_, after) = scene.changes_and_snapshot(&base);
    scene.write(".gitignore", "other2\n");
    scene.write(".git/info/exclude", "other3\n");
    let base = scene.base_after(Some(&after));
    for path in ["other2", "other3", "other4", "a.log", "new/a"] {
        scene.write(path, "4\n");
    }
    assert_eq!(
        summary(&scene.changes(&base)),
        ["A a.log +1", "A new/a +1", "A other4 +1"]
    );
}

#[test]
fn changes_are_found_despite_a_damaged_repository() {
    for hurt in [
        "rm -rf .git",
        "git commit -qam x",
        "echo junk > .git/index",
        "mv .git g && ln -s g .git",
    ] {
        let scene = Scene::new();
        scene.git(&["init", "-q"]);
        scene.write("a", "1\n2\n");
        scene.git(&["add", "."]);
        scene.git(&["commit", "-q", "-m", "first"]);
        scene.write("left", "by a hook\n");
        let base = scene.base();
        assert_eq!(base.head.as_ref().map(String::len), Some(40));
        scene.write("a", "1\n3\n");
        scene.git(&["init", "-q", "inner"]);
        scene.write("inner/b", "1\n");
        let script = format!("{hurt}; true");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(scene.dir());
        shell.env("GIT_CONFIG_COUNT", "2");
        shell
            .env("GIT_CONFIG_KEY_0", "user.name")
            .env("GIT_CONFIG_VALUE_0", "a");
        shell
            .env("GIT_CONFIG_KEY_1", "user.email")
            .env("GIT_CONFIG_VALUE_1", "a@b");
        assert!(shell.status().unwrap().success());
        let changes = scene.changes(&base);
        let summary: Vec<_> = summary(&changes)
            .into_iter()
            .filter(|line| !line.starts_with("A g/") && !line.starts_with("A inner/.git/"))
            .collect();
        // A repository below it is no exception.
        assert!(
            changes
                .files
                .iter()
                .any(|file| file.path.text() == "inner/.git/HEAD")
        );
        let moved = hurt.starts_with("mv");
        let expected: &[&str] = &["M a +2 -2", "A inner/b +1"];
        assert_eq!(summary, expected, "{hurt}");
        assert_eq!(
            changes.head.is_some(),
            !hurt.starts_with("rm") && !moved,
            "{hurt}"
        );
        assert_eq!(
            changes.head != changes.base_head,
            hurt.contains("commit") || changes.head.is_none()
        );
    }
}

#[test]
fn folder_replaced_by_a_link_is_not_followed() {
    let scene = Scene::new();
    scene.write("folder/a", "1\n");
    let base = scene.base();
    let outside = scene.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("a"), "secret\n").unwrap();
    std::fs::remove_dir_all(scene.dir().join("folder")).unwrap();
    symlink(&outside, scene.dir().join("folder")).unwrap();
    assert_eq!(
        summary(&scene.changes(&base)),
        ["A folder whole", "D folder/a -1"]
    );
    // Restoring the file does not write through the link either.
    assert_eq!(
        scene.restore(&base, &RelPath::new("folder/a")).unwrap(),
        Restored::Restored
    );
    assert_eq!(std::fs::read_to_string(outside.join("a")).unwrap(), "secret\n");
    assert_eq!(summary(&scene.changes(&base)), Vec::<String>::new());
    for path in ["../outside/a", "", "folder/../x", ".git/config", "a//b"] {
        assert!(scene.restore(&base, &RelPath::new(path)).is_err(), "{path}");
    }
}

#[test]
fn large_files_are_listed_without_lines() {
    let scene = Scene::new();
    let bounds = Bounds {
        kept: 4,
        hashed: 8,
        ..Bounds::default()
    };
    scene.write("small", "1\n2\n");
    scene.write("hashed", "1\n2\n3\n");
    scene.write("huge", "1\n2\n3\n4\n5\n");
    scene.write("same huge", "1\n2\n3\n4\n5\n");
    let base = scene.base_within(None, bounds);
    scene.write("small", "1\n3\n");
    scene.write("hashed", "1\n2\n4\n");
    std::fs::remove_file(scene.dir().join("huge")).unwrap();
    scene.write("huge", "1\n2\n3\n4\n6\n");
    let changes = scene.changes_within(&base, bounds);
    assert_eq!(
        summary(&changes),
        ["M hashed whole", "M huge whole", "M small +2 -2"]
    );
    assert_eq!(changes.files[1].new.as_ref().unwrap().hash, None);
    assert_eq!(
        scene.restore(&base, &RelPath::new("huge")).unwrap(),
        Restored::ContentMissing
    );
}

#[test]
fn flood_of_new_files_hides_no_change_of_known_files() {
    let scene = Scene::new();
    scene.write("z/known", "1\n");
    let base = scene.base();
    for number in 0..50 {
        scene.write(&format!("a/{number}"), "x\n");
    }
    scene.write("z/known", "2\n");
    let bounds = Bounds {
        entries: 10,
        ..Bounds::default()
    };
    let changes = scene.changes_within(&base, bounds);
    assert!(summary(&changes).contains(&"M z/known +1 -1".to_owned()));
    assert_eq!(changes.unseen, [RelPath::new("a")].into());
}

#[test]
fn untouched_file_is_not_read_again() {
    let scene = Scene::new();
    scene.write("a", "1\n");
    let mut base = scene.base();
    // As if the snapshot was taken long after the write, with a false hash: the file is not read
    // again.
    base.snapshot.taken_at += 10;
    let lie = scene.store.put(b"2\n").unwrap();
    base.snapshot.files.get_mut(&RelPath::new("a")).unwrap().side.hash = Some(lie);
    assert!(summary(&scene.changes(&base)).is_empty());
    assert_eq!(
        scene.base_after(Some(&base.snapshot)).snapshot.files,
        base.snapshot.files
    );
    // A write of the same length within the same tick of the clock, with the old time restored.
    let stamp = std::fs::metadata(scene.dir().join("a"))
        .unwrap()
        .modified()
        .unwrap();
    scene.write("a", "3\n");
    let file = std::fs::File::options()
        .write(true)
        .open(scene.dir().join("a"))
        .unwrap();
    file.set_modified(stamp).unwrap();
    assert_eq!(summary(&scene.changes(&base)), ["M a +1 -1"]);
}

#[test]
fn lost_content_omits_only_the_line_counts() {
    let scene = Scene::new();
    scene.write("a", "1\n");
    let base = scene.base();
    scene.store.retain(|_| false).unwrap();
    scene.write("a", "2\n");
    assert_eq!(summary(&scene.changes(&base)), ["M a whole"]);
}

#[test]
fn git_index_of_each_version_is_read() {
    for version in ["2", "3", "4"] {
        for format in ["sha1", "sha256"] {
            let scene = Scene::new();
            scene.git(&["init", "-q", "--object-format", format]);
            for path in ["a", "long/name/of a file", "long/name/of another", "x"] {
                scene.write(path, "1\n");
            }
            scene.git(&["add", "."]);
            scene.git(&["update-index", "--index-version", version]);
            if version == "3" {
                scene.git(&["update-index", "--skip-worktree", "x"]);
            }
            let tracked = GitDirs::of(&scene.dir()).unwrap().tracked().unwrap();
            let names: Vec<_> = tracked.iter().map(|path| String::from_utf8_lossy(path)).collect();
            assert_eq!(
                names,
                ["a", "long/name/of a file", "long/name/of another", "x"],
                "{version} {format}"
            );
        }
    }
}
