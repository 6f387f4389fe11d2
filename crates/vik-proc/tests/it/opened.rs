//! Agents that are started one after another, while folders with hidden places change: the shims
//! inherit what the template keeps open.

use std::os::unix::fs::symlink;
use std::path::Path;

use vik_proc::{Reads, Sandbox};

use crate::support::*;

const FILES: [&str; 14] = [
    "note",
    "next",
    "secret",
    "keys/id",
    "old/id",
    "more/id",
    "link/f",
    "one/f",
    "two/f",
    "deep/key",
    "deep/plain",
    "was/key",
    "was/plain",
    "absent/key",
];

struct Home {
    scene: Scene,
    folder: tempfile::TempDir,
    hidden: Vec<&'static str>,
}

impl Home {
    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        write(&self.path(name), b"x");
    }

    fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.path(from), self.path(to)).unwrap();
    }

    fn sandbox(&self) -> Sandbox {
        Sandbox {
            read: Reads::AllBut {
                hidden: self.hidden.iter().map(|name| self.path(name)).collect(),
                shown: vec![PROGRAM.into()],
            },
            ..self.scene.sandbox()
        }
    }

    /// Starts an agent and returns the names of the files that it can read.
    async fn readable(&self) -> Vec<String> {
        let _ = std::fs::remove_file(self.scene.path("out"));
        let mut spec = self.scene.spec("");
        spec.program = "sh".into();
        let script = "for file in \"$@\"; do cat \"$file\" > /dev/null 2>&1 && echo \"$file\"; done; exit 0";
        spec.args = ["-c", script, "sh"].map(Into::into).to_vec();
        spec.args.extend(FILES.map(Into::into));
        spec.cwd = self.folder.path().to_owned();
        spec.sandbox = Some(self.sandbox());
        let record = self.scene.end(&self.scene.start(&spec).await).await;
        assert_eq!(record.code, Some(0), "{record:?}");
        self.scene.out().lines().map(str::to_owned).collect()
    }
}

/// Creates a folder with hidden places outside of `/tmp`, or ends the test where there is no
/// Landlock.
fn home() -> Option<Home> {
    let home = Home {
        scene: Scene::new(),
        folder: tempfile::tempdir_in("/var/tmp").unwrap(),
        hidden: vec!["secret", "keys", "link", "deep/key", "absent/key"],
    };
    for name in [
        "note",
        "secret",
        "keys/id",
        "one/f",
        "two/f",
        "deep/key",
        "deep/plain",
    ] {
        home.write(name);
    }
    symlink("one", home.path("link")).unwrap();
    home.sandbox().fence().is_ok().then_some(home)
}

#[tokio::test]
async fn hidden_places_stay_unreadable_when_folders_change_between_starts() {
    let Some(mut home) = home() else { return };
    // The first shim is not forked from a template; the second opens the places, and the third
    // inherits them.
    for _ in 0..3 {
        assert_eq!(home.readable().await, ["note", "two/f", "deep/plain"]);
    }
    for name in ["next", "more/id"] {
        home.write(name);
    }
    let added = ["note", "next", "more/id", "two/f", "deep/plain"];
    assert_eq!(home.readable().await, added);
    // What was readable takes the places of what is hidden.
    home.rename("next", "secret");
    home.rename("keys", "old");
    home.rename("more", "keys");
    std::fs::remove_file(home.path("link")).unwrap();
    symlink("two", home.path("link")).unwrap();
    home.rename("deep", "was");
    for name in ["deep/key", "deep/plain", "absent/key"] {
        home.write(name);
    }
    let moved = ["note", "old/id", "one/f", "deep/plain", "was/key", "was/plain"];
    for _ in 0..2 {
        assert_eq!(home.readable().await, moved);
    }
    home.hidden.push("note");
    assert_eq!(home.readable().await, moved[1..]);
    home.hidden.clear();
    assert_eq!(home.readable().await.len(), 12);
}

#[tokio::test]
async fn kept_descriptors_reach_no_agent_and_leave_the_shim() {
    let Some(home) = home() else { return };
    for round in 0..3 {
        let mut spec = home.scene.spec("fds ready @up await @go");
        spec.sandbox = Some(home.sandbox());
        let supervised = home.scene.start(&spec).await;
        home.scene.ready("up").await;
        let shim = format!("/proc/{}/fd", supervised.shim().pid);
        // Only a privileged user may list them.
        if let Ok(open) = std::fs::read_dir(Path::new(&shim)) {
            assert!(open.count() < 16, "round {round}");
        }
        write(&home.scene.path("go"), b"");
        home.scene.end(&supervised).await;
        assert_eq!(home.scene.out(), "3\n".repeat(round + 1));
        for name in ["go", "up"] {
            std::fs::remove_file(home.scene.path(name)).unwrap();
        }
    }
}
