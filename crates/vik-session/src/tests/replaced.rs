//! Every path that Vik reads where an agent can write, replaced by something that is no file.
//!
//! A new reader of such a path must be added to [`READERS`], and the path to [`rows`].

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use vik_core::file_change::RelPath;
use vik_proc::untrusted;
use vik_tracker::Tracker;
use vik_workspace::changes::{Base, Bounds, GitDirs, Store, read_file, small_file};
use vik_workspace::fs::{create_private_dir_below, open_folder};
use vik_workspace::{InspectionView, fingerprint, git, worktree};

use crate::{attempt, outputs};

/// The sources that read paths that an agent can write. Those without a row have a reason here.
const READERS: &[(&str, &str)] = &[
    ("crates/vik-proc/src/sandbox/places.rs", ""),
    ("src/cli/trace/blame.rs", "a path that a person names"),
    ("src/cli/worker/install/files.rs", "a path that a person names"),
    (
        "crates/vik-temporal/src/settings.rs",
        "a path that a person names",
    ),
    ("crates/vik-workspace/src/git/files.rs", ""),
    ("crates/vik-session/src/attempt/questions.rs", ""),
    ("crates/vik-session/src/outputs/mod.rs", ""),
    ("crates/vik-session/src/outputs/credential_guard.rs", ""),
    (
        "crates/vik-session/src/secrets/resolve.rs",
        "a path that a person names",
    ),
    ("crates/vik-tracker/src/lock.rs", "has tests of its own"),
    ("crates/vik-tracker/src/store.rs", ""),
    ("crates/vik-workflow/src/lib.rs", "a path that a person names"),
    ("crates/vik-workflow/src/skills.rs", "a path that a person names"),
    ("crates/vik-workspace/src/changes/restore.rs", ""),
    ("crates/vik-workspace/src/changes/tracked.rs", ""),
    ("crates/vik-workspace/src/changes/walk.rs", ""),
    ("crates/vik-workspace/src/inspection.rs", ""),
    ("crates/vik-workspace/src/worktree/refs.rs", ""),
];

/// A path that an agent can write, and everything that reads it.
struct Row {
    path: &'static str,
    read: fn(&Scene),
}

struct Scene {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for (path, text) in [
            ("work/.git/HEAD", "ref: refs/heads/main\n"),
            ("work/.git/index", "DIRC"),
            ("work/.git/config", "[core]\n"),
            ("work/.git/packed-refs", "\n"),
            ("work/.git/shallow", "\n"),
            ("work/.git/info/exclude", "x\n"),
            ("work/.git/refs/heads/main", "\n"),
            ("work/.git/objects/x", ""),
            ("work/.gitignore", "y\n"),
            ("work/sub/.gitignore", "z\n"),
            ("work/sub/file", "text\n"),
            ("linked/.git", "gitdir: own\n"),
            ("linked/own/gitdir", "../.git\n"),
            ("linked/own/commondir", "..\n"),
            ("linked/own/HEAD", "ref: refs/heads/main\n"),
            ("apart/packed-refs", "\n"),
            ("apart/refs/heads/main", "\n"),
            ("apart/objects/info/alternates", "\n"),
            ("home/auth.json", "{}"),
            ("scratch/tmp/x", ""),
            ("scratch/cache/x", ""),
            ("outputs/outputs.jsonl", ""),
            ("questions/questions.jsonl", ""),
            ("issues/1.md", "---\nid: \"1\"\ntitle: t\nstate: todo\n---\n"),
        ] {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), text).unwrap();
        }
        Self {
            _folder: folder,
            root,
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Calls everything that reads a workspace.
    fn read_all(&self, workspace: &str) {
        let (path, views) = (self.at(workspace), self.at("views"));
        let store = Store::new(&self.at("contents"));
        if let Ok(folder) = open_folder(&path) {
            let base = Base::take(&store, &folder, &path, None, Bounds::default()).unwrap();
            base.changes(&store, &folder, &path, Bounds::default()).unwrap();
            for file in [".gitignore", "sub/file", "sub/.gitignore"] {
                let _ = read_file(&folder, &RelPath::new(file));
            }
        }
        if let Some(git) = GitDirs::of(&path) {
            let _ = (git.head(), git.exclude(), git.tracked());
        }
        let _ = small_file(&path.join(".git"));
        let _ = fingerprint(&path);
        let _ = vik_proc::repository_in(&path);
        let _ = vik_proc::repository_of(&path);
        let _ = outputs::read_settings(&path.join(".git/config"));
        if let Ok(Some(view)) = InspectionView::make(&path, &views) {
            let _ = view.with_own_index();
        }
    }
}

fn rows() -> Vec<Row> {
    let work = |path| Row {
        path,
        read: |scene| scene.read_all("work"),
    };
    let linked = |path| Row {
        path,
        read: |scene| scene.read_all("linked"),
    };
    // The repository of an attempt in a linked work tree.
    let apart = |path| Row {
        path,
        read: |scene| {
            let apart = scene.at("apart");
            let _ = worktree::refs(&apart);
            let _ = small_file(&apart.join("objects/info/alternates"));
            if let Ok(folder) = open_folder(&apart) {
                let _ = git::files::read(&folder, "packed-refs");
                let _ = git::files::take_over_file(&folder, c"packed-refs", &scene.root.join("views"));
            }
        },
    };
    let scratch = |path| Row {
        path,
        read: |scene| {
            for folder in ["scratch/tmp", "scratch/cache"] {
                create_private_dir_below(&scene.root, Path::new(folder)).unwrap();
                assert!(scene.at(folder).symlink_metadata().unwrap().is_dir());
            }
        },
    };
    vec![
        work("work/.git"),
        work("work/.git/HEAD"),
        work("work/.git/index"),
        work("work/.git/config"),
        work("work/.git/packed-refs"),
        work("work/.git/shallow"),
        work("work/.git/info"),
        work("work/.git/info/exclude"),
        work("work/.git/refs"),
        work("work/.git/refs/heads"),
        work("work/.git/refs/heads/main"),
        work("work/.git/objects"),
        work("work/.gitignore"),
        work("work/sub"),
        work("work/sub/.gitignore"),
        work("work/sub/file"),
        linked("linked/.git"),
        linked("linked/own"),
        linked("linked/own/gitdir"),
        linked("linked/own/commondir"),
        linked("linked/own/HEAD"),
        apart("apart/packed-refs"),
        apart("apart/refs"),
        apart("apart/refs/heads"),
        apart("apart/refs/heads/main"),
        apart("apart/objects/info"),
        apart("apart/objects/info/alternates"),
        Row {
            path: "home/auth.json",
            read: |scene| {
                let _ = attempt::read_login(&scene.at("home/auth.json"));
            },
        },
        scratch("scratch"),
        scratch("scratch/tmp"),
        scratch("scratch/cache"),
        Row {
            path: "outputs/outputs.jsonl",
            read: |scene| {
                let _ = outputs::read_output_file(&scene.at("outputs/outputs.jsonl"));
            },
        },
        Row {
            path: "questions/questions.jsonl",
            read: |scene| {
                let _ = attempt::read_question_file(&scene.at("questions/questions.jsonl"));
            },
        },
        Row {
            path: "issues/1.md",
            read: |scene| {
                let tracker = Tracker::new(scene.at("issues"));
                let _ = (tracker.list(), tracker.show("1"));
            },
        },
    ]
}

type Make = fn(&Scene, &Path);

const KINDS: &[(&str, Make)] = &[
    ("a pipe", |_, path| {
        nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap();
    }),
    ("a device", |_, path| {
        let zero = makedev(1, 5);
        // Only root can create devices.
        if mknod(path, SFlag::S_IFCHR, Mode::S_IRWXU, zero).is_err() {
            symlink("/dev/zero", path).unwrap();
        }
    }),
    ("a socket", |scene, path| {
        // Its path may be too long for `bind`.
        let short = scene.at("s");
        drop(std::os::unix::net::UnixListener::bind(&short).unwrap());
        std::fs::rename(short, path).unwrap();
    }),
    ("an endless file", |_, path| {
        std::fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    }),
    ("a link to a device", |_, path| {
        symlink("/dev/zero", path).unwrap();
    }),
    ("a link to itself", |_, path| {
        symlink(path, path).unwrap();
    }),
    ("a link elsewhere", |scene, path| {
        let elsewhere = scene.at("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        symlink(elsewhere, path).unwrap();
    }),
    ("a folder", |_, path| {
        std::fs::create_dir(path).unwrap();
    }),
];

/// Returns the peak memory of this process, in KiB.
#[cfg(target_os = "linux")]
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn replaced_paths_neither_block_vik_nor_use_its_memory() {
    #[cfg(target_os = "linux")]
    let before = peak();
    for row in rows() {
        for (kind, make) in KINDS {
            let scene = Scene::new();
            let path = scene.at(row.path);
            if path.is_dir() {
                std::fs::remove_dir_all(&path).unwrap();
            } else {
                std::fs::remove_file(&path).unwrap();
            }
            make(&scene, &path);
            let started = Instant::now();
            let read = row.read;
            // A reader that never returns must not block the test.
            let done = untrusted::within(Duration::from_secs(60), move || {
                read(&scene);
                let elsewhere = scene.at("elsewhere").read_dir();
                Ok(elsewhere.map_or(0, Iterator::count))
            });
            assert_eq!(done.unwrap(), 0, "{} is {kind}: written through it", row.path);
            assert!(
                started.elapsed() < untrusted::READ_TIMEOUT,
                "{} is {kind}: {:?}",
                row.path,
                started.elapsed()
            );
        }
    }
    #[cfg(target_os = "linux")]
    assert!(peak() - before < 256 * 1024, "{} KiB", peak() - before);
}

/// Fails if a source that reads what agents can write is missing above.
#[test]
fn table_lists_all_readers_of_untrusted_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut found = BTreeSet::new();
    let mut folders = vec![root.join("src"), root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let own = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if !own.contains("tests") && !own.ends_with("untrusted.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let reads = ["read(", "read_below(", "read_at(", "open_at("]
                    .iter()
                    .any(|name| text.contains(&format!("untrusted::{name}")));
                found.extend(reads.then_some(own));
            }
        }
    }
    let known: BTreeSet<String> = READERS.iter().map(|(file, _)| (*file).to_owned()).collect();
    assert_eq!(found, known);
}
