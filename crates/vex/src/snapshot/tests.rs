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
        let (snapshot, left) = Snapshot::take(self.dir.path(), self.place.path()).unwrap();
        assert_eq!(left, Vec::<PathBuf>::new());
        snapshot
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
        "rm -rf lib; echo lib > lib",
        "chmod 644 key run; chmod 700 lib",
        "echo x > key",
        "chmod 755 lib/deep; echo x > lib/deep/r; echo y > lib/deep/y; chmod 555 lib/deep",
        "rmdir empty; rm broken; mkdir broken link2",
        "mkdir -p new/deep; echo n > 'new/n\\\"ä'; chmod 500 new",
        "rm a.txt; mkdir a.txt; echo x > a.txt/x",
        "rm link; ln -s key link; mkfifo pipe",
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
fn replaced_repository_is_refused_and_no_other_one_is_changed() {
    let other = Bench::new(REPOSITORY);
    let before = other.listing();
    for script in [
        format!("mv .git x; ln -s {}/.git .git", other.dir.path().display()),
        "mv .git x".to_owned(),
        "rm -rf .git; git init -q".to_owned(),
        "rm -rf .git/objects; mkdir .git/objects".to_owned(),
    ] {
        let bench = Bench::new(REPOSITORY);
        let snapshot = bench.take();
        bench.sh(&script);
        bench.sh("echo x > a");
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
    let (snapshot, _) = Snapshot::take(&tree, bench.place.path()).unwrap();
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
    let (_, left) = Snapshot::take(elsewhere.path(), bench.place.path()).unwrap();
    assert_eq!(left, Vec::<PathBuf>::new());
    let (_, left) = Snapshot::take(bench.dir.path(), bench.place.path()).unwrap();
    assert_eq!(left, std::slice::from_ref(&killed));
    assert_eq!(fs::read_to_string(killed.join("a")).unwrap(), "1\n");
    let old = SystemTime::now() - KEPT_FOR - Duration::from_secs(60);
    File::options()
        .write(true)
        .open(lock_of(&killed))
        .unwrap()
        .set_modified(old)
        .unwrap();
    let (_, left) = Snapshot::take(bench.dir.path(), bench.place.path()).unwrap();
    assert_eq!(left, Vec::<PathBuf>::new());
    assert!(!killed.exists());
    assert_eq!(
        fs::metadata(bench.place.path().join(&store)).unwrap().mode() & 0o77,
        0
    );
    drop(snapshot);
    assert_eq!(fs::read_dir(bench.place.path()).unwrap().count(), 0);
}
