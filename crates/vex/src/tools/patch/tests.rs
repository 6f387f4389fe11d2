use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use super::*;
use crate::tools::testing::Bench;

fn patch(text: &str) -> Value {
    json!({ "patch": text })
}

#[test]
fn several_files_change_at_once() {
    let bench = Bench::new();
    bench.put("run.sh", "echo one\n");
    std::fs::set_permissions(bench.path("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    bench.put("old.txt", "keep\nchange\n");
    bench.put("gone", "x\n");
    let shown = bench.ok(
        "apply_patch",
        patch(
            "*** Begin Patch\n*** Add File: new/dir/f\n+one\n+two\n*** Update File: run.sh\n*** Move to: bin/run\n\
             -echo one\n+echo two\n*** Update File: old.txt\n keep\n-change\n+changed\n*** Delete File: gone\n\
             *** End Patch\n",
        ),
    );
    insta::assert_snapshot!(shown);
    assert_eq!(bench.get("new/dir/f"), "one\ntwo\n");
    assert_eq!(bench.get("bin/run"), "echo two\n");
    let mode = bench.path("bin/run").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755, "a moved file keeps its mode");
    assert_eq!(bench.get("old.txt"), "keep\nchanged\n");
    assert!(!bench.path("gone").exists() && !bench.path("run.sh").exists());
    assert_eq!(
        bench.changed(),
        ["new/dir/f", "run.sh", "bin/run", "old.txt", "gone"]
    );
    // Content written by the patch is known: it may be overwritten at once.
    bench.ok("write_file", json!({"path": "old.txt", "content": "new\n"}));
}

#[test]
fn mismatched_patch_changes_no_file() {
    let bench = Bench::new();
    bench.put("a", "a\n");
    bench.put("b", "b\n");
    let shown = bench.fails(
        "apply_patch",
        patch("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+A\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-c\n+C\n"),
    );
    assert!(
        shown.starts_with("nothing was changed. b: hunk 1 of 1 does not fit"),
        "{shown}"
    );
    assert_eq!(
        (bench.get("a"), bench.get("b")),
        ("a\n".to_owned(), "b\n".to_owned())
    );
    assert!(bench.changed().is_empty());
}

#[test]
fn apply_patch_agrees_with_git_on_its_own_diffs() {
    let bench = Bench::new();
    let old = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";
    bench.put("f", old);
    bench.put("dir/crlf", "a\r\nb\r\n");
    let diff = "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n-one\n+ONE\n two\n three\n four\n\
                @@ -5,3 +5,3 @@ four\n five\n six\n-seven\n+SEVEN\n\\ No newline at end of file\n\
                diff --git a/dir/crlf b/dir/crlf\n--- a/dir/crlf\n+++ b/dir/crlf\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";
    bench.ok("apply_patch", patch(diff));
    assert_eq!(bench.get("f"), "ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN");
    assert_eq!(bench.get("dir/crlf"), "a\r\nc\r\n");
    let shown = bench.fails("apply_patch", patch(diff));
    assert!(shown.contains("it may have been applied before"), "{shown}");
}

#[test]
fn hostile_and_impossible_patches_are_refused() {
    let bench = Bench::new();
    bench.put("f", "x\n");
    bench.put("bin", b"a\0b\xff");
    bench.put("ro", "x\n");
    std::fs::set_permissions(bench.path("ro"), std::fs::Permissions::from_mode(0o444)).unwrap();
    bench.put("stale", "x\n");
    bench.ok("read_file", json!({"path": "stale"}));
    bench.put("stale", "x\ny\n");
    symlink("f", bench.path("link")).unwrap();
    symlink("/tmp", bench.path("out")).unwrap();
    let update = |path: &str| format!("*** Begin Patch\n*** Update File: {path}\n-x\n+y\n*** End Patch\n");
    for path in ["../f", "/etc/passwd", "out/f", ".git/config"] {
        let result = bench.call("apply_patch", patch(&update(path)));
        assert!(result.denied, "{path}: {}", result.output);
        let add = format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n");
        let result = bench.call("apply_patch", patch(&add));
        assert!(result.is_error, "{path}: {}", result.output);
    }
    let shown = [
        update("bin"),
        update("ro"),
        update("stale"),
        update("none"),
        "*** Begin Patch\n*** Add File: f\n+y\n*** End Patch\n".to_owned(),
        "*** Begin Patch\n*** Delete File: link\n*** End Patch\n".to_owned(),
        "*** Begin Patch\n*** Delete File: none\n*** End Patch\n".to_owned(),
        "*** Begin Patch\n*** Update File: stale\n*** Move to: f\n x\n*** End Patch\n".to_owned(),
        "*** Begin Patch\n*** Update File: f\n-x\n+x\n*** End Patch\n".to_owned(),
        "*** Begin Patch\n*** Delete File: f\n*** Update File: f\n-x\n+y\n*** End Patch\n".to_owned(),
    ]
    .map(|text| bench.fails("apply_patch", patch(&text)));
    insta::assert_snapshot!(shown.join("\n"));
    assert_eq!(bench.get("f"), "x\n");
    // Through a link inside, an update reaches its target.
    bench.ok("apply_patch", patch(&update("link")));
    assert_eq!(bench.get("f"), "y\n");
}

#[test]
fn rules_see_every_path_of_a_patch() {
    let both =
        "*** Begin Patch\n*** Update File: a\n*** Move to: b\n-x\n+y\n*** Delete File: c\n*** End Patch\n";
    let paths = ["a", "b", "c"].map(str::to_owned).to_vec();
    assert_eq!(ApplyPatch::subject(&patch(both)), Subject::Paths(paths));
    assert_eq!(ApplyPatch::subject(&patch("no patch")), Subject::Unknown);
}
