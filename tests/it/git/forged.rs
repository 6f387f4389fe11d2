//! Objects whose content does not match their name, and files with wrong statements about objects.

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use super::Clone;
use crate::support::assert_contains;

/// Gives an object of the workspace the content of another one. Both are loose objects.
fn forge(clone: &Clone, object: &str, content_of: &str) {
    let path = |id: &str| clone.path().join(".git/objects").join(&id[..2]).join(&id[2..]);
    let content = std::fs::read(path(content_of)).unwrap();
    // The file may be a hard link to the cloned repository.
    std::fs::remove_file(path(object)).unwrap();
    std::fs::write(path(object), content).unwrap();
}

/// Returns a clone with a pushed commit, and the commit that another person pushed on top of it.
/// The workspace has both, and is on another commit, from `main`, that contains neither.
fn with_their_commit() -> (Clone, String) {
    let clone = Clone::new();
    clone.commit("b", "two\n");
    clone.vik(&["push", "--quiet"]).expect(0);
    let seed = clone.world.env.work().join("seed");
    clone.commit_in(&seed, "d", "later\n");
    clone.git_in(&seed, &["push", "-q", "origin", "HEAD:main"]);
    clone.git_in(&seed, &["fetch", "-q"]);
    clone.git_in(&seed, &["switch", "-q", "vik/1"]);
    clone.commit_in(&seed, "theirs", "theirs\n");
    clone.git_in(&seed, &["push", "-q", "origin", "HEAD"]);
    let theirs = clone.pushed("vik/1").unwrap();
    clone.git(&["fetch", "-q"]);
    clone.git(&["reset", "-q", "--hard", "origin/main"]);
    clone.commit("c", "other\n");
    (clone, theirs)
}

/// Creates a commit with the files of another one and the given parent.
fn commit_on(clone: &Clone, like: &str, parent: &str) -> String {
    let tree = format!("{like}^{{tree}}");
    clone.git(&["commit-tree", "-m", "forged", "-p", parent, &tree])
}

#[test]
fn forged_history_overwrites_no_commit_of_others() {
    let (clone, theirs) = with_their_commit();
    let main = clone.git(&["rev-parse", "origin/main"]);
    let forged = commit_on(&clone, &main, &theirs);
    for args in [
        &["push", "--quiet"][..],
        &["push", "--quiet", "--force-with-lease"],
    ] {
        let done = clone.refused(args, "git_stale");
        assert_contains(&done.err, "has commits that are missing in this workspace");
    }
    forge(&clone, &main, &forged);
    for args in [
        &["push", "--quiet"][..],
        &["push", "--quiet", "--force-with-lease"],
    ] {
        let done = clone.refused(args, "git_unsafe");
        let reason = format!("the object {main} does not match its id");
        assert_contains(&done.err, &reason);
        assert_eq!(clone.pushed("vik/1"), Some(theirs.clone()));
    }
    // Proves that the trap works: git accepts the push as one that loses nothing.
    clone.git(&["push", "-q", "origin", "HEAD:vik/1"]);
    assert_ne!(clone.pushed("vik/1"), Some(theirs));
}

#[test]
fn push_works_from_a_shallow_clone() {
    let clone =
        Clone::made_by("git clone -q --depth 1 file://{{ workflow_dir }}/up.git . && git switch -qc vik/1");
    clone.commit("b", "two\n");
    clone.vik(&["push", "--quiet"]).expect(0);
    let head = clone.commit("c", "three\n");
    clone.vik(&["push", "--quiet"]).expect(0);
    assert_eq!(clone.pushed("vik/1"), Some(head));
    clone.vik(&["push", "--quiet", "--branch", "main"]).expect(0);
}

#[test]
fn reset_in_a_partial_clone_fetches_missing_objects() {
    let clone = Clone::made_by(
        "git -C {{ workflow_dir }}/up.git config uploadpack.allowFilter true && \
         git clone -q --filter=blob:none file://{{ workflow_dir }}/up.git . && git switch -qc vik/1",
    );
    let seed = clone.world.env.work().join("seed");
    clone.commit_in(&seed, "new", "new\n");
    clone.git_in(&seed, &["push", "-q", "origin", "HEAD:main"]);
    clone.vik(&["fetch", "--quiet"]).expect(0);
    let missing = ["rev-list", "--objects", "--missing=print", "origin/main"];
    assert!(clone.git(&missing).contains('?'));
    clone
        .vik(&["reset", "--quiet", "--hard", "origin/main"])
        .expect(0);
    assert_eq!(clone.world.workspace_file("1", "new"), "new\n");
    assert!(!clone.git(&missing).contains('?'), "the workspace has it");
    clone.commit("b", "two\n");
    clone.vik(&["push", "--quiet", "--branch", "main"]).expect(0);
}

#[test]
fn reset_writes_nothing_from_forged_objects() {
    // In a reset, git itself checks the names of a commit and its tree, but of nothing below them.
    for (honest, evil, is_live) in [
        ("origin/main:a", "HEAD:evil", true),
        ("origin/main:folder", "HEAD:folder", true),
        ("origin/main^{tree}", "HEAD^{tree}", false),
        ("origin/main", "HEAD", false),
        ("origin/main", "evil-tag", false),
    ] {
        let clone = Clone::new();
        let seed = clone.world.env.work().join("seed");
        std::fs::create_dir(seed.join("folder")).unwrap();
        clone.commit_in(&seed, "folder/b", "one\n");
        clone.git_in(&seed, &["push", "-q", "origin", "HEAD:main"]);
        clone.vik(&["fetch", "-q"]).expect(0);
        clone.git(&["reset", "-q", "--hard", "origin/main"]);
        clone.write("evil", "evil\n");
        clone.write("folder/b", "evil\n");
        let evil_commit = clone.commit("a", "evil\n");
        clone.git(&["tag", "-a", "-m", "evil", "evil-tag"]);
        let (honest, evil) = (clone.git(&["rev-parse", honest]), clone.git(&["rev-parse", evil]));
        forge(&clone, &honest, &evil);
        std::fs::remove_file(clone.path().join("a")).unwrap();
        // History ends at a tag that replaces a commit.
        let is_commit = clone.git(&["cat-file", "-t", &evil]) != "tag";
        let names = ["origin/main", "HEAD~1"];
        for name in &names[..=usize::from(is_commit)] {
            let done = clone.refused(&["reset", "--quiet", "--hard", name], "git_unsafe");
            let reason = format!("the object {honest} does not match its id");
            assert_contains(&done.err, &reason);
            assert_contains(&done.err, "remove the workspace");
        }
        assert!(!clone.path().join("a").exists());
        assert_eq!(clone.git(&["rev-parse", "vik/1"]), evil_commit);
        if is_live {
            clone.git(&["reset", "-q", "--hard", "origin/main"]);
            let files = ["a", "folder/b"].map(|file| clone.world.workspace_file("1", file));
            assert!(files.contains(&"evil\n".to_owned()), "git takes it: {files:?}");
        }
    }
}

/// The attributes of the commit decide which files are unchanged and how they are written.
#[test]
fn reset_ignores_attributes_of_the_workspace() {
    let clone = Clone::new();
    clone.write(".gitattributes", "* text eol=crlf\n");
    clone.write("a", "one\r\n");
    // Git reads the content of a file again when it is as new as the index.
    let file = std::fs::File::options()
        .write(true)
        .open(clone.path().join("a"))
        .unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000))
        .unwrap();
    clone
        .vik(&["reset", "--quiet", "--hard", "origin/main"])
        .expect(0);
    assert_eq!(clone.world.workspace_file("1", "a"), "one\n");
    std::fs::remove_file(clone.path().join("a")).unwrap();
    clone
        .vik(&["reset", "--quiet", "--hard", "origin/main"])
        .expect(0);
    assert_eq!(clone.world.workspace_file("1", "a"), "one\n");
    // A forged file of attributes that the reset itself does not write.
    clone.write(".gitattributes", "* -text\n");
    clone.git(&["add", "-A"]);
    clone.git(&["commit", "-qm", "attributes"]);
    clone.write("evil", "* eol=crlf\n");
    let evil = clone.git(&["hash-object", "-w", "evil"]);
    let honest = clone.git(&["rev-parse", "HEAD:.gitattributes"]);
    forge(&clone, &honest, &evil);
    let done = clone.refused(&["reset", "--hard"], "git_unsafe");
    assert_contains(&done.err, &honest);
}

#[test]
fn commit_graph_of_the_workspace_is_ignored() {
    let (clone, theirs) = with_their_commit();
    let main = clone.git(&["rev-parse", "origin/main"]);
    let honest: PathBuf = clone
        .path()
        .join(".git/objects")
        .join(&main[..2])
        .join(&main[2..]);
    let content = std::fs::read(&honest).unwrap();
    let forged = commit_on(&clone, &main, &theirs);
    forge(&clone, &main, &forged);
    clone.git(&["commit-graph", "write", "--reachable"]);
    std::fs::remove_file(&honest).unwrap();
    std::fs::write(&honest, content).unwrap();
    // Proves that the trap works.
    let log = ["log", "--format=%H"];
    assert!(clone.git(&log).contains(&theirs));
    let done = clone.vik(&log).expect(0);
    assert!(!done.out.contains(&theirs), "{}", done.out);
    clone.refused(&["push", "--quiet"], "git_stale");
    clone.refused(&["push", "--quiet", "--force-with-lease"], "git_stale");
    assert_eq!(clone.pushed("vik/1"), Some(theirs));
}

#[test]
fn oversized_git_files_are_refused() {
    for (file, reason) in [
        ("refs/heads/large", "is too large for a ref"),
        ("refs/tags/large", "is too large for a ref"),
        ("index", "file too large"),
        ("packed-refs", "file too large"),
        ("shallow", "file too large"),
        ("HEAD", "file too large"),
    ] {
        let clone = Clone::new();
        let path = clone.path().join(".git").join(file);
        let mut options = std::fs::OpenOptions::new();
        let large = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .unwrap();
        large.set_len(2 * 1024 * 1024 * 1024).unwrap();
        let done = clone.vik(&["status"]).expect(1);
        assert!(done.err.contains(reason), "{file}: {}", done.err);
    }
}
