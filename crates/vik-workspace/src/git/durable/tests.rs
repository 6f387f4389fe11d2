//! Work that is saved on one machine and restored on another one.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use vik_core::workflow::model::WorkspaceRoot;

use super::*;
use crate::git::{SavedRecord, read_record, take_record};
use crate::{Prepared, prepare};

/// A bare repository as the remote, and machines that clone it.
struct Scene {
    folder: TempDir,
    issue: IssueId,
}

/// A machine with a workspace root of its own.
struct Machine<'s> {
    scene: &'s Scene,
    layout: Layout,
}

impl Scene {
    fn new(issue: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scene = Self {
            folder,
            issue: IssueId::new(issue),
        };
        let work = scene.folder.path();
        scene.git(work, &["init", "-q", "--bare", "-b", "main", "up.git"]);
        scene.git(work, &["clone", "-q", "up.git", "seed"]);
        let seed = work.join("seed");
        for name in ["kept", "edited", "removed", "staged", "script"] {
            std::fs::write(seed.join(name), format!("{name}\n")).unwrap();
        }
        std::fs::write(seed.join(".gitignore"), "ignored\n").unwrap();
        scene.git(&seed, &["add", "-A"]);
        scene.git(&seed, &["commit", "-q", "-m", "first"]);
        scene.git(&seed, &["push", "-q", "origin", "HEAD:main"]);
        scene
    }

    fn up(&self) -> PathBuf {
        self.folder.path().join("up.git")
    }

    #[track_caller]
    fn git(&self, folder: &Path, args: &[&str]) -> String {
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
            .current_dir(folder)
            .env("HOME", self.folder.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
    }

    /// Returns a machine whose workspace is a new clone on the branch `vik`.
    fn machine(&self, name: &str) -> Machine<'_> {
        let folder = self.folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let workflow = folder.join("workflow.yml");
        std::fs::write(&workflow, "").unwrap();
        let mut layout = Layout::resolve(&workflow, &WorkspaceRoot::BesideWorkflow).unwrap();
        layout.create().unwrap();
        let Prepared::Created(workspace) = prepare(&layout, &self.issue, true).unwrap() else {
            panic!("it was there already");
        };
        self.git(
            workspace.path(),
            &["clone", "-q", self.up().to_str().unwrap(), "."],
        );
        self.git(workspace.path(), &["switch", "-q", "-c", "vik"]);
        take_record(&layout, &self.issue, &workspace).unwrap();
        note_created(&layout, &self.issue).unwrap();
        workspace.mark_ready().unwrap();
        Machine { scene: self, layout }
    }

    /// Returns the commits of the refs of Vik at the remote.
    fn refs(&self) -> String {
        self.git(
            &self.up(),
            &["for-each-ref", "--format=%(refname) %(objectname)", "refs/vik"],
        )
    }
}

impl Machine<'_> {
    fn path(&self) -> PathBuf {
        self.layout.issue_dir(&self.scene.issue)
    }

    fn git(&self, args: &[&str]) -> String {
        self.scene.git(&self.path(), args)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    fn run<T>(&self, number: u64, act: impl FnOnce(Durable<'_>) -> T) -> T {
        let issue = &self.scene.issue;
        let workspace = crate::open(&self.layout, issue).unwrap().unwrap();
        let Some(SavedRecord::Repository(record)) = read_record(&self.layout, issue).unwrap() else {
            panic!("no record");
        };
        act(Durable {
            layout: &self.layout,
            issue,
            workspace: &workspace,
            record: &record,
            remote: "origin",
            work_ref: WorkRef::new("queue", issue),
            number,
        })
    }

    #[track_caller]
    fn claim(&self, number: u64) -> Option<SavedWork> {
        match self.run(number, |durable| durable.claim().unwrap()) {
            DurableResult::Claimed { restored, .. } => restored,
            other => panic!("{other:?}"),
        }
    }

    fn save(&self, number: u64) -> DurableResult {
        self.run(number, |durable| durable.save().unwrap())
    }

    #[track_caller]
    fn saved(&self, number: u64) -> SavedWork {
        match self.save(number) {
            DurableResult::Saved { work, .. } => work,
            other => panic!("{other:?}"),
        }
    }

    fn status(&self) -> String {
        self.git(&["status", "--porcelain", "--untracked-files=all"])
    }
}

/// Changes a workspace in every way: committed, staged, unstaged, untracked, removed.
fn work_in(machine: &Machine<'_>) {
    machine.write("committed", "committed\n");
    machine.git(&["add", "committed"]);
    machine.git(&["commit", "-q", "-m", "work"]);
    machine.write("staged", "staged twice\n");
    machine.git(&["add", "staged"]);
    machine.write("staged", "and edited\n");
    machine.write("edited", "edited by an agent\n");
    std::fs::remove_file(machine.path().join("removed")).unwrap();
    machine.write("folder/new file\n", "untracked\n");
    machine.write("ignored", "not saved\n");
    let script = machine.path().join("script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("/nowhere", machine.path().join("link")).unwrap();
}

#[test]
fn work_is_restored_on_another_machine_as_it_was() {
    let scene = Scene::new("1");
    let first = scene.machine("first");
    assert_eq!(first.claim(1), None);
    work_in(&first);
    let status = first.status();
    let work = first.saved(1);
    assert_eq!(first.status(), status, "saving changes nothing");
    assert!(work.is_uncommitted);
    assert_eq!(work.branch.as_deref(), Some("vik"));

    let second = scene.machine("second");
    assert_eq!(second.claim(2).as_ref(), Some(&work));
    assert_eq!(second.status(), status);
    assert_eq!(
        second.git(&["rev-parse", "HEAD"]),
        first.git(&["rev-parse", "HEAD"])
    );
    assert_eq!(second.git(&["symbolic-ref", "HEAD"]), "refs/heads/vik");
    assert_eq!(
        second.git(&["diff", "--cached"]),
        first.git(&["diff", "--cached"])
    );
    assert_eq!(second.read("staged"), "and edited\n");
    assert_eq!(second.read("folder/new file\n"), "untracked\n");
    assert!(!second.path().join("removed").exists());
    assert!(!second.path().join("ignored").exists());
    let mode = second
        .path()
        .join("script")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o111, 0o111);
    let link = std::fs::read_link(second.path().join("link")).unwrap();
    assert_eq!(link, Path::new("/nowhere"));
    second.git(&["fsck", "--no-dangling"]);
    // The same work is not sent again.
    let refs = scene.refs();
    assert!(second.saved(2).is_same_work(&work));
    assert_eq!(scene.refs(), refs);
}

#[test]
fn older_attempt_can_save_no_more() {
    let scene = Scene::new("../a.lock");
    let (first, second) = (scene.machine("first"), scene.machine("second"));
    first.claim(1);
    first.write("new", "one\n");
    second.claim(2);
    let refs = scene.refs();
    assert_eq!(first.save(1), DurableResult::Fenced { holder: 2 });
    let again = first.run(1, |durable| durable.claim().unwrap());
    assert_eq!(again, DurableResult::Fenced { holder: 2 });
    assert_eq!(
        first.run(1, |durable| durable.remove().unwrap()),
        DurableResult::Removed
    );
    assert_eq!(scene.refs(), refs);
    // An attempt that did not claim the issue saves nothing.
    assert_eq!(second.save(3), DurableResult::NotClaimed);
}

#[test]
fn push_of_an_attempt_that_was_overtaken_in_between_is_refused() {
    let scene = Scene::new("1");
    let first = scene.machine("first");
    first.claim(1);
    first.run(1, |durable| {
        let view = durable.open_view().unwrap();
        let read = durable.read_remote(&view).unwrap().unwrap();
        let next = durable.write_state(&view, &read.state).unwrap();
        scene.machine("second").claim(2);
        let refs = scene.refs();
        assert!(!durable.push(&view, Some(&read.id), Some(&next)).unwrap());
        assert_eq!(scene.refs(), refs);
    });
}

#[test]
fn fenced_push_of_an_older_attempt_is_refused_with_all_that_it_pushes() {
    let scene = Scene::new("1");
    let first = scene.machine("first");
    first.claim(1);
    let push = |durable: &Durable<'_>, between: &dyn Fn()| -> Result<bool, u64> {
        let view = durable.open_view().unwrap();
        let fence = durable.fence(&view).unwrap()?;
        between();
        let mut args = vec!["push".to_owned(), "--quiet".to_owned()];
        args.extend(fence.options);
        args.extend([
            "origin".to_owned(),
            "HEAD:refs/heads/vik".to_owned(),
            fence.refspec,
        ]);
        Ok(crate::git::output(&mut view.git(args)).is_ok())
    };
    assert_eq!(first.run(1, |durable| push(&durable, &|| {})), Ok(true));
    let before = scene.git(&scene.up(), &["rev-parse", "vik"]);
    first.git(&["commit", "-q", "--allow-empty", "-m", "later"]);
    let overtaken = first.run(1, |durable| {
        push(&durable, &|| drop(scene.machine("second").claim(2)))
    });
    assert_eq!(overtaken, Ok(false));
    assert_eq!(first.run(1, |durable| push(&durable, &|| {})), Err(2));
    assert_eq!(scene.git(&scene.up(), &["rev-parse", "vik"]), before);
}

#[test]
fn older_workspace_is_brought_up_to_date_if_its_work_was_saved() {
    let scene = Scene::new("1");
    let (first, second) = (scene.machine("first"), scene.machine("second"));
    first.claim(1);
    first.write("old", "untracked\n");
    first.saved(1);
    second.claim(2);
    std::fs::remove_file(second.path().join("old")).unwrap();
    second.write("new", "two\n");
    second.git(&["switch", "-q", "-c", "other/branch"]);
    let work = second.saved(2);
    assert_eq!(first.claim(3), Some(work));
    assert_eq!(first.status(), "?? new");
    assert_eq!(first.git(&["symbolic-ref", "HEAD"]), "refs/heads/other/branch");
    // The next attempt on the same machine finds everything there.
    assert_eq!(first.claim(4), None);
}

#[test]
fn unsaved_work_of_an_older_workspace_is_not_replaced() {
    let scene = Scene::new("1");
    let (first, second) = (scene.machine("first"), scene.machine("second"));
    first.claim(1);
    first.saved(1);
    second.claim(2);
    second.write("new", "two\n");
    let saved = second.saved(2);
    first.write("own", "never saved\n");
    let result = first.run(3, |durable| durable.claim().unwrap());
    assert_eq!(result, DurableResult::Diverged { saved: saved.clone() });
    assert_eq!(first.read("own"), "never saved\n");
    assert_eq!(first.save(3), DurableResult::NotClaimed);
    // Nothing of the other machine is lost either.
    assert_eq!(scene.machine("third").claim(4), Some(saved));
}

#[test]
fn interrupted_restoration_is_done_again() {
    let scene = Scene::new("1");
    let first = scene.machine("first");
    first.claim(1);
    work_in(&first);
    let work = first.saved(1);
    let second = scene.machine("second");
    // As if the machine had stopped in the middle of it.
    let record = DurableRecord {
        is_new: true,
        restoring: Some(work.clone()),
        ..DurableRecord::default()
    };
    record.write(&second.layout, &scene.issue).unwrap();
    second.write("edited", "half");
    assert_eq!(second.claim(2), Some(work));
    assert_eq!(second.status(), first.status());
}

#[test]
fn work_that_was_sent_before_a_crash_is_known() {
    let scene = Scene::new("1");
    let first = scene.machine("first");
    first.claim(1);
    first.write("new", "one\n");
    let before = DurableRecord::read(&first.layout, &scene.issue).unwrap();
    let work = first.saved(1);
    let record = DurableRecord {
        sending: Some(work),
        ..before
    };
    record.write(&first.layout, &scene.issue).unwrap();
    first.write("new", "edited by a person\n");
    assert_eq!(first.claim(2), None);
    assert_eq!(first.read("new"), "edited by a person\n");
}

#[test]
fn commit_without_anything_uncommitted_is_restored() {
    let scene = Scene::new("1");
    let first = scene.machine("first");
    first.claim(1);
    first.git(&["switch", "-q", "--detach"]);
    first.git(&["commit", "-q", "--allow-empty", "-m", "work"]);
    let work = first.saved(1);
    assert_eq!((work.branch, work.is_uncommitted), (None, false));
    let second = scene.machine("second");
    second.claim(2);
    assert_eq!(
        second.git(&["rev-parse", "HEAD"]),
        first.git(&["rev-parse", "HEAD"])
    );
    assert_eq!(second.git(&["rev-parse", "--abbrev-ref", "HEAD"]), "HEAD");
    assert_eq!(second.status(), "");
}

#[test]
fn files_of_a_merge_with_conflicts_are_saved() {
    let scene = Scene::new("1");
    let first = scene.machine("first");
    first.claim(1);
    for (branch, text) in [("a", "a\n"), ("b", "b\n")] {
        first.git(&["switch", "-q", "-c", branch, "vik"]);
        first.write("kept", text);
        first.git(&["commit", "-q", "-a", "-m", branch]);
    }
    let merge = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "merge", "a"])
        .current_dir(first.path())
        .output()
        .unwrap();
    assert!(!merge.status.success());
    let work = first.saved(1);
    assert_eq!(work.index, None);
    let second = scene.machine("second");
    second.claim(2);
    assert_eq!(second.read("kept"), first.read("kept"));
    assert_eq!(second.git(&["rev-parse", "HEAD"]), first.git(&["rev-parse", "b"]));
}

#[test]
fn settings_and_hooks_of_the_workspace_run_no_program() {
    let scene = Scene::new("1");
    let first = scene.machine("first");
    first.claim(1);
    let mark = scene.folder.path().join("ran");
    let program = format!("touch {}", mark.display());
    for key in [
        "core.fsmonitor",
        "filter.x.clean",
        "core.sshCommand",
        "credential.helper",
    ] {
        first.git(&["config", key, &program]);
    }
    first.write(".gitattributes", "* filter=x\n");
    let hook = first.path().join(".git/hooks/pre-push");
    std::fs::write(&hook, format!("#!/bin/sh\n{program}\n")).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    // Git must not enter a repository in the workspace.
    first.write("nested/file", "x");
    scene.git(&first.path().join("nested"), &["init", "-q"]);
    scene.git(
        &first.path().join("nested"),
        &["config", "core.fsmonitor", &program],
    );
    first.write("edited", "two\n");
    let _ = std::fs::remove_file(&mark);
    let DurableResult::Saved { left_out, is_new, .. } = first.save(1) else {
        panic!("not saved");
    };
    assert_eq!((left_out, is_new), (vec!["nested".to_owned()], true));
    first.claim(2);
    assert!(!mark.exists());
    assert_eq!(scene.machine("second").claim(3).unwrap().number, 1);
}

#[test]
fn remote_that_is_missing_is_an_error() {
    let scene = Scene::new("1");
    let first = scene.machine("first");
    first.claim(1);
    first.write("new", "one\n");
    let moved = scene.folder.path().join("moved.git");
    std::fs::rename(scene.up(), &moved).unwrap();
    let error = first.run(1, |durable| durable.save().unwrap_err());
    assert!(error.to_string().contains("`git ls-remote` failed"), "{error}");
    std::fs::rename(&moved, scene.up()).unwrap();
    first.saved(1);
}

#[test]
fn ref_of_the_issue_is_removed_by_the_attempt_that_holds_it() {
    let scene = Scene::new("1");
    let first = scene.machine("first");
    first.claim(1);
    first.saved(1);
    assert!(scene.refs().starts_with("refs/vik/queue/1 "));
    assert_eq!(
        first.run(1, |durable| durable.remove().unwrap()),
        DurableResult::Removed
    );
    assert_eq!(scene.refs(), "");
    assert_eq!(first.save(1), DurableResult::Fenced { holder: 0 });
}

#[test]
fn names_of_refs_are_valid_and_unique() {
    let ids = [
        "1",
        "a..b",
        "x.lock",
        "a/b",
        "-",
        "@{1}",
        "",
        "É",
        &"y".repeat(300),
        "a b",
        "a+b",
    ];
    let mut names = std::collections::BTreeSet::new();
    for id in ids {
        let name = WorkRef::new("q.lock", &IssueId::new(id)).to_string();
        let check = Command::new("git").args(["check-ref-format", &name]).status();
        assert!(check.unwrap().success(), "{name}");
        assert!(name.len() < 250, "{name}");
        assert!(names.insert(name));
    }
}
