use proptest::prelude::*;

use super::*;

fn shown(text: &str) -> String {
    let changes = match parse(text) {
        Ok(changes) => changes,
        Err(error) => return error.to_string(),
    };
    let mut out = String::new();
    for change in changes {
        let path = &change.path;
        match change.action {
            Action::Add(content) => out.push_str(&format!("add {path} {content:?}\n")),
            Action::Delete => out.push_str(&format!("delete {path}\n")),
            Action::Update { to, hunks } => {
                out.push_str(&format!("update {path} {}\n", to.unwrap_or_default()));
                for hunk in hunks {
                    let end = if hunk.at_end { " at the end" } else { "" };
                    out.push_str(&format!(
                        "  line {:?} anchors {:?}{end}\n",
                        hunk.line, hunk.anchors
                    ));
                    for line in hunk.lines {
                        let end = if line.ended { "" } else { " (no newline)" };
                        out.push_str(&format!("    {:?} {:?}{end}\n", line.kind, line.text));
                    }
                }
            }
        }
    }
    out
}

#[test]
fn begin_patch_form_is_parsed() {
    insta::assert_snapshot!(shown(
        "Here it is:\n*** Begin Patch\n*** Add File: src/new.rs\n+one\n+\n+two\n*** Update File: a b.txt\n\
         *** Move to: c.txt\n@@ class A\n@@ def f\n keep\n-old\n+new\n\n tail\n\n@@\n-last\n*** End of File\n\
         *** Delete File: gone\n*** End Patch\nDone."
    ));
}

#[test]
fn unified_diffs_of_git_and_of_models() {
    let git = "diff --git a/x.rs b/x.rs\nindex 1..2 100644\n--- a/x.rs\n+++ b/x.rs\n@@ -1,3 +1,3 @@ fn main\n a\n\
               --- b\n+++ c\n d\n@@ -9 +9,2 @@\n-z\n\\ No newline at end of file\n+z\n+y\n\\ No newline at end of file\n\
               diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n\
               diff --git a/empty one b/empty one\nnew file mode 100644\nindex 0..0\n\
               diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n\
               diff --git a/old b/moved\nsimilarity index 100%\nrename from old\nrename to moved\n\
               diff --git \"a/\\303\\244\" \"b/\\303\\244\"\n--- \"a/\\303\\244\"\n+++ \"b/\\303\\244\"\n@@ -1 +1 @@\n-1\n+2\n\
               diff --git a/mode b/mode\nold mode 100644\nnew mode 100755\n-- \n2.39.0\n";
    let model = "```diff\n--- a/x.py\t2026-01-01\n+++ x.py\n@@ ... @@\n def f():\n\n-    a\n+    b\n\n--- y.py\n+++ y.py\n\
                 @@ -1,9 +1,9 @@\n-1\n+2\n```\n";
    insta::assert_snapshot!(format!("{}====\n{}", shown(git), shown(model)));
}

#[test]
fn invalid_patch_gives_its_reason() {
    let shown: Vec<_> = [
        "",
        "please change a to b",
        "*** Begin Patch\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: a\n*** End Patch\n",
        "*** Begin Patch\n*** Add File: a\nno sign\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: a\n@@\nno sign\n*** End Patch\n",
        "*** Begin Patch\n*** Rename File: a\n*** End Patch\n",
        "*** Begin Patch\n*** Delete File:\n*** End Patch\n",
        "@@ -1 +1 @@\n-a\n+b\n",
        "--- a/x\n+++ b/x\n",
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n",
        "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n+a\n",
        "diff --git a/x b/x\nBinary files a/x and b/x differ\n",
    ]
    .iter()
    .map(|text| shown(text))
    .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn patch_with_cr_lf_parses_as_one_without() {
    let patch = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";
    assert_eq!(parse(&patch.replace('\n', "\r\n")), parse(patch));
}

proptest! {
    #[test]
    fn parse_never_panics_on_any_text(text in "([-+ @*\\\\]{0,4}[a-z/*@ ]{0,8}\r?\n){0,12}") {
        let _ = parse(&text);
        let _ = parse(&format!("*** Begin Patch\n*** Update File: x\n{text}"));
        let _ = parse(&format!("--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@\n{text}"));
    }
}
