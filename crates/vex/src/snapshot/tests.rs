use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use tempfile::TempDir;

use super::*;

/// A workspace, and the folder of its copies.
struct Bench {
    dir: TempDir,
    place: TempDir,
}

const REPOSITORY: &str = "git init -qb main; git config user.name n; git config user.email e@e; git config gc.auto 0; \
                          echo 1 > a; git add .; git commit -qm first;";

impl Bench {
    /// Creates a workspace by a script.
    fn new(script: &str) -> Self {
        let bench = Self {
            dir: tempfile::tempdir().unwrap(),
            place: tempfile::tempdir().unwrap(),
        };
        bench.sh(script);
        bench
    }

    fn sh(&self, script: &str) -> String {
        let done = Command::new("sh")
            .args(["-ec", script])
            .current_dir(self.dir.path())
            .env("HOME", self.place.path())
            .env_remove("GIT_DIR")
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    fn take(&self) -> Snapshot {
        let (snapshot, left) = self.try_take().unwrap();
        assert_eq!(left, Vec::<PathBuf>::new());
        snapshot
    }

    fn try_take(&self) -> Result<(Snapshot, Vec<PathBuf>), SnapshotError> {
        Snapshot::take(self.dir.path(), self.place.path(), &Interrupt::new())
    }

    /// Returns everything in the workspace, apart from objects and what git writes when it is asked
    /// something.
    fn listing(&self) -> String {
        self.sh(
            "find . -name objects -prune -o -name index -prune -o -printf '%m %y %p %l ' \
             \\( -type f -exec sh -c 'cksum < \"$1\"' _ {} \\; -o -printf '\\n' \\) | sort",
        )
    }

    /// Asserts that what a try did is undone, and that it is a change of the state.
    fn assert_undone(&self, script: &str) {
        let before = self.listing();
        let snapshot = self.take();
        let state = snapshot.state().unwrap();
        assert_eq!(snapshot.state().unwrap(), state);
        self.sh(script);
        assert_ne!(self.listing(), before, "{script}");
        snapshot.restore().unwrap();
        assert_eq!(self.listing(), before, "{script}");
        assert_eq!(snapshot.state().unwrap(), state, "{script}");
        let store = snapshot.store.clone();
        drop(snapshot);
        assert!(!store.exists());
    }
}

#[test]
fn files_links_folders_and_permissions_return() {
    let bench = Bench::new(
        "mkdir -p lib/deep empty; printf 'a\\r\\n' > a.txt; echo b > lib/b; echo '*.txt text eol=lf' > .gitattributes; \
         printf '#!/bin/sh\\n' > run; chmod 755 run; ln -s a.txt link; ln -s nowhere broken; echo k > key; chmod 600 key; \
         echo r > lib/deep/r; chmod 555 lib/deep; touch $(printf 'odd\\\\377')",
    );
    for script in [
        "printf x > a.txt; rm run link",
        "chmod 755 lib/deep; rm -rf lib; echo lib > lib",
        "chmod 644 key run; chmod 700 lib",
        "echo x > key",
        "chmod 755 lib/deep; echo x > lib/deep/r; echo y > lib/deep/y; chmod 555 lib/deep",
        "rmdir empty; rm broken; mkdir broken link2",
        "mkdir -p new/deep; echo n > 'new/n\\\"ä'; chmod 500 new",
        "rm a.txt; mkdir a.txt; echo x > a.txt/x",
        "rm link; ln -s key link; mkfifo pipe",
        "chmod 600 lib",
        "chmod 000 lib empty",
        "rm odd*",
    ] {
        bench.assert_undone(script);
    }
    bench.sh("chmod 755 lib/deep");
}

#[test]
fn ignored_files_stay_and_rules_of_a_try_hide_nothing() {
    let bench = Bench::new(
        "git init -q; printf 'out\\ndist\\n*.log\\n' > .gitignore; mkdir out dist; echo o > out/o; echo c > dist/conf.js; \
         git add -f dist/conf.js",
    );
    bench.assert_undone("echo x > dist/conf.js; rm -rf dist");
    bench.assert_undone("echo helper.py >> .gitignore; echo x > helper.py");
    bench.assert_undone(
        "mkdir new; echo '*' > new/.gitignore; echo x > new/x; echo '*.py' > .git/info/exclude; touch b.py",
    );
    let snapshot = bench.take();
    bench.sh("echo p > out/p; echo x > dist/new.js; echo x > b.log; rm out/o");
    snapshot.restore().unwrap();
    assert_eq!(
        bench.sh("ls out dist *.log"),
        "b.log\n\ndist:\nconf.js\nnew.js\n\nout:\np\n"
    );
}

#[test]
fn links_in_the_place_of_folders_are_not_followed() {
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("b"), "other").unwrap();
    fs::write(other.path().join("x"), "other").unwrap();
    let bench = Bench::new("mkdir lib; echo b > lib/b");
    bench.assert_undone(&format!("rm -rf lib; ln -s {} lib", other.path().display()));
    bench.assert_undone(&format!(
        "rm lib/b; ln -s {}/b lib/b; ln -s / root",
        other.path().display()
    ));
    for name in ["b", "x"] {
        assert_eq!(fs::read_to_string(other.path().join(name)).unwrap(), "other");
    }
}

#[test]
fn repository_returns_with_its_stash_branches_and_unfinished_merge() {
    let bench = Bench::new(REPOSITORY);
    bench.sh(
        "git checkout -qb side; echo 2 > a; git commit -qam second; git checkout -q main; git tag t; echo 3 > a; git stash -q; \
         echo 4 > b; git add b",
    );
    for script in [
        "git stash pop -q",
        "git checkout -qb other; echo 3 > a; git commit -qam third; rm b",
        "git branch -D side; git tag -d t",
        "git commit -qm fourth; git merge -q side || true; git config user.name x; echo x > .git/hooks/pre-commit",
        "git checkout -q --detach; git commit -qm fifth",
    ] {
        let before = bench.sh("git status --porcelain -b; git stash list; git for-each-ref");
        bench.assert_undone(script);
        assert_eq!(
            bench.sh("git status --porcelain -b; git stash list; git for-each-ref"),
            before
        );
        bench.sh("git fsck --no-dangling");
    }
    bench.sh("git commit -qm 4; echo 5 > a; git commit -qam 5; git merge side || true");
    bench.assert_undone("git merge --abort");
}

#[test]
fn branch_without_a_commit_returns() {
    let bench = Bench::new(
        "git init -qb main; git config user.name n; git config user.email e@e; echo 1 > a; git add a",
    );
    bench.assert_undone("git commit -qm first");
    assert_eq!(bench.sh("git status --porcelain"), "A  a\n");
}

#[test]
fn looking_at_a_repository_changes_no_state() {
    let bench = Bench::new(REPOSITORY);
    let snapshot = bench.take();
    let state = snapshot.state().unwrap();
    bench.sh("touch a; git status; git log; git stash list; printf '1\\n' > a");
    assert_eq!(snapshot.state().unwrap(), state);
    bench.sh("git commit -q --allow-empty -m second");
    assert_ne!(snapshot.state().unwrap(), state);
}

#[test]
fn nested_repositories_return() {
    let bench = Bench::new(REPOSITORY);
    bench.assert_undone("git init -q sub; echo x > sub/x");
    bench.assert_undone("mkdir sub; cd sub; git init -q; echo x > x; git add x; git -c user.name=n -c user.email=e@e commit -qm x");
    bench.sh("git init -q inner; echo i > inner/i; git init -q empty");
    bench.assert_undone("cd inner; echo j > i; git add i; git -c user.name=n -c user.email=e@e commit -qm i");
    let plain = Bench::new("echo 1 > a");
    plain.assert_undone("git init -q; git add a");
}

#[test]
fn submodule_returns() {
    let bench = Bench::new(REPOSITORY);
    let of = Bench::new(REPOSITORY);
    bench.sh(&format!(
        "git -c protocol.file.allow=always submodule --quiet add {} sub; git commit -qm sub",
        of.dir.path().display()
    ));
    bench.assert_undone(
        "cd sub; echo 2 > a; git -c user.name=n -c user.email=e@e commit -qam second; cd ..; git add sub; git commit -qm up",
    );
}

#[test]
fn replaced_repository_returns_or_is_refused_and_no_other_one_is_changed() {
    let other = Bench::new(REPOSITORY);
    let before = other.listing();
    for script in [
        format!("mv .git x; ln -s {}/.git .git", other.dir.path().display()),
        "mv .git x".to_owned(),
        "rm -rf .git; git init -q".to_owned(),
        "rm -rf .git/objects; mkdir .git/objects".to_owned(),
    ] {
        let bench = Bench::new(REPOSITORY);
        bench.assert_undone(&format!("{script}; echo x > a"));
        bench.sh("git fsck --strict && git log");
        // The objects may be on another file system.
        let mut snapshot = bench.take();
        snapshot.objects[0].is_linked = false;
        bench.sh(&format!("{script}; echo x > a"));
        let after = bench.listing();
        let error = snapshot.restore().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no file was restored: the repository .git was moved or replaced"
        );
        assert_eq!(bench.listing(), after);
    }
    assert_eq!(other.listing(), before);
}

#[test]
fn linked_work_tree_returns_with_its_branch() {
    let main = Bench::new(REPOSITORY);
    let bench = Bench::new("true");
    let tree = bench.dir.path().join("tree");
    main.sh(&format!(
        "git branch keep; git worktree add -qb work {}",
        tree.display()
    ));
    bench.sh("cd tree; echo 2 > a; git add a; echo 3 > b");
    let state = || bench.sh("cd tree; git status --porcelain -b; git rev-parse HEAD; cat a b");
    let before = state();
    let (snapshot, _) = Snapshot::take(&tree, bench.place.path(), &Interrupt::new()).unwrap();
    let kept = snapshot.state().unwrap();
    bench.sh("cd tree; git -c user.name=n -c user.email=e@e commit -qam second; rm b; git checkout -q keep");
    assert_ne!(snapshot.state().unwrap(), kept);
    // Another work tree works on another branch meanwhile.
    main.sh("git commit -q --allow-empty -m main");
    let head = main.sh("git rev-parse main");
    snapshot.restore().unwrap();
    assert_eq!(state(), before);
    assert_eq!(snapshot.state().unwrap(), kept);
    assert_eq!(main.sh("git rev-parse main"), head);
}

#[test]
fn copies_of_killed_runs_are_reported_and_kept_for_a_time() {
    let bench = Bench::new("echo 1 > a");
    let snapshot = bench.take();
    // A killed run removes nothing.
    let store = snapshot.store.clone();
    let killed = bench.place.path().join("killed");
    bench.sh(&format!("cp -a {} {}", store.display(), killed.display()));
    fs::copy(lock_of(&store), lock_of(&killed)).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let (_, left) = Snapshot::take(elsewhere.path(), bench.place.path(), &Interrupt::new()).unwrap();
    assert_eq!(left, Vec::<PathBuf>::new());
    // One that was killed while it copied.
    let half = bench.place.path().join("half");
    fs::create_dir(half.with_extension(INCOMPLETE)).unwrap();
    fs::copy(lock_of(&store), lock_of(&half)).unwrap();
    let (_, left) = bench.try_take().unwrap();
    assert_eq!(left, std::slice::from_ref(&killed));
    assert!(!half.with_extension(INCOMPLETE).exists() && !lock_of(&half).exists());
    assert_eq!(fs::read_to_string(killed.join("a")).unwrap(), "1\n");
    let old = SystemTime::now() - KEPT_FOR - Duration::from_secs(60);
    File::options()
        .write(true)
        .open(lock_of(&killed))
        .unwrap()
        .set_modified(old)
        .unwrap();
    let (_, left) = bench.try_take().unwrap();
    assert_eq!(left, Vec::<PathBuf>::new());
    assert!(!killed.exists());
    assert_eq!(
        fs::metadata(bench.place.path().join(&store)).unwrap().mode() & 0o77,
        0
    );
    drop(snapshot);
    assert_eq!(fs::read_dir(bench.place.path()).unwrap().count(), 0);
}

#[test]
fn copy_in_the_workspace_is_refused() {
    let bench = Bench::new("echo 1 > a");
    for place in ["state", ".local/state"] {
        let error = Snapshot::take(bench.dir.path(), &bench.dir.path().join(place), &Interrupt::new());
        assert!(matches!(error, Err(SnapshotError::Inside { .. })), "{error:?}");
    }
    assert_eq!(bench.sh("cat a"), "1\n");
}

#[test]
fn tracked_files_behind_a_link_are_neither_copied_nor_changed() {
    let shared = tempfile::tempdir().unwrap();
    fs::write(shared.path().join("x"), "shared").unwrap();
    let bench = Bench::new(REPOSITORY);
    bench.sh("mkdir lib; echo x > lib/x; git add lib; git commit -qm lib; rm -r lib");
    bench.sh(&format!("ln -s {} lib", shared.path().display()));
    bench.assert_undone("rm lib; mkdir lib; echo y > lib/x");
    assert_eq!(fs::read_to_string(shared.path().join("x")).unwrap(), "shared");
}

#[test]
fn rules_that_hide_themselves_are_kept_and_those_of_a_try_are_removed() {
    let bench =
        Bench::new("mkdir data venv lib; echo '*' > data/.gitignore; echo p > data/p; echo l > lib/l");
    bench.assert_undone("printf 'helper.py\n' > .gitignore; echo x > helper.py");
    bench.assert_undone("echo '*' > lib/.gitignore; echo x > lib/x");
    bench.assert_undone("echo '*' > .gitignore; echo x > y");
    let snapshot = bench.take();
    bench.sh("rm data/.gitignore");
    snapshot.restore().unwrap();
    assert_eq!(bench.sh("cat data/.gitignore data/p"), "*\np\n");
}

#[test]
fn rules_are_those_of_git_and_of_the_workspace() {
    let bench = Bench::new("echo '*' > .gitignore; mkdir ws");
    let ws = Bench::new(REPOSITORY);
    ws.sh("echo '*.{js,map}' > .gitignore; echo 1 > a.js");
    ws.assert_undone("echo 2 > a.js; echo 3 > b.js");
    ws.sh("git init -q sub; cd sub; echo dist > .gitignore; mkdir dist; echo c > dist/c; git add -f dist/c");
    ws.assert_undone("echo d > sub/dist/c");
    // Without a repository, rules above the workspace have no meaning.
    let place = tempfile::tempdir().unwrap();
    let inner = bench.dir.path().join("ws");
    fs::write(inner.join("a"), "1").unwrap();
    let (snapshot, _) = Snapshot::take(&inner, place.path(), &Interrupt::new()).unwrap();
    fs::write(inner.join("a"), "2").unwrap();
    snapshot.restore().unwrap();
    assert_eq!(fs::read_to_string(inner.join("a")).unwrap(), "1");
}

#[test]
fn folder_in_a_repository_returns() {
    let bench = Bench::new(REPOSITORY);
    bench.sh("mkdir -p ws/sub; echo out > .gitignore; echo 1 > ws/a; git add .; git commit -qm ws; mkdir ws/out; echo 1 > ws/out/o");
    let ws = bench.dir.path().join("ws");
    let before = bench.sh("git status --porcelain -b; cat ws/a");
    let (snapshot, _) = Snapshot::take(&ws, bench.place.path(), &Interrupt::new()).unwrap();
    bench.sh("cd ws; echo 2 > a; echo 3 > b; rmdir sub; echo 4 > out/o; git checkout -qb other; git commit -qam two");
    snapshot.restore().unwrap();
    assert_eq!(
        bench.sh("git checkout -q -- .gitignore; git status --porcelain -b; cat ws/a"),
        before
    );
    assert_eq!(bench.sh("cat ws/out/o; ls ws"), "4\na\nout\nsub\n");
}

#[test]
fn pruned_objects_return() {
    let bench = Bench::new(REPOSITORY);
    bench.sh("echo 2 > a; git stash -q; echo 3 > b; git add b");
    bench.assert_undone("git stash drop -q; git rm -qf b; git commit -q --allow-empty -m x; git reflog expire --expire=now --all; git gc -q --prune=now");
    bench.sh("git fsck --strict; git stash pop -q; git checkout-index -f b");
    assert_eq!(bench.sh("cat a b"), "2\n3\n");
}

#[test]
fn interrupted_copy_is_removed() {
    let bench = Bench::new("echo 1 > a");
    let interrupt = Interrupt::new();
    interrupt.set();
    let error = Snapshot::take(bench.dir.path(), bench.place.path(), &interrupt);
    assert!(matches!(error, Err(SnapshotError::Interrupted)), "{error:?}");
    assert_eq!(fs::read_dir(bench.place.path()).unwrap().count(), 0);
}

#[test]
fn copy_stays_if_it_is_left() {
    let bench = Bench::new("echo 1 > a");
    let snapshot = bench.take();
    let copy = snapshot.leave().to_owned();
    drop(snapshot);
    assert_eq!(fs::read_to_string(copy.join("a")).unwrap(), "1\n");
    assert_eq!(bench.try_take().unwrap().1, [copy.canonicalize().unwrap()]);
}
