use proptest::prelude::*;
use similar::TextDiff;

use super::*;
use crate::tools::patch::parse::{Action, parse};

fn patched(text: &str, patch: &str) -> Result<String, String> {
    let changes = parse(patch).map_err(|error| error.to_string())?;
    let [change] = changes.as_slice() else {
        return Err(format!("{} files", changes.len()));
    };
    match &change.action {
        Action::Update { hunks, .. } => apply(text, hunks).map_err(|misfit| misfit.to_string()),
        other => Err(format!("{other:?}")),
    }
}

fn update(text: &str, hunks: &str) -> Result<String, String> {
    patched(
        text,
        &format!("*** Begin Patch\n*** Update File: f\n{hunks}*** End Patch\n"),
    )
}

const TEXT: &str = "fn a() {\n    one();\n}\n\nfn b() {\n    one();\n}\n\nfn c() {\n    two();\n}\n";

#[test]
fn hunks_find_their_place() {
    let drifted = "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n fn c() {\n-    two();\n+    three();\n }\n";
    assert!(patched(TEXT, drifted).unwrap().contains("three();"));
    let counted_wrongly = "--- a/f\n+++ b/f\n@@ -9,7 +9,1 @@\n fn c() {\n-    two();\n+    three();\n";
    assert!(patched(TEXT, counted_wrongly).unwrap().contains("three();"));
    let anchored = update(TEXT, "@@ fn b() {\n-    one();\n+    four();\n").unwrap();
    assert_eq!(
        anchored,
        TEXT.replacen("fn b() {\n    one", "fn b() {\n    four", 1)
    );
    let both = update(
        TEXT,
        "@@ fn a() {\n-    one();\n+    1();\n@@ fn b() {\n-    one();\n+    2();\n",
    )
    .unwrap();
    assert!(
        both.contains("fn a() {\n    1();") && both.contains("fn b() {\n    2();"),
        "{both}"
    );
    assert!(
        update(TEXT, " }\n+// end\n*** End of File\n")
            .unwrap()
            .ends_with("}\n// end\n")
    );
    assert!(update(TEXT, "+// end\n").unwrap().ends_with("}\n// end\n"));
    assert!(
        update(TEXT, "@@ fn c() {\n+    zero();\n")
            .unwrap()
            .contains("fn c() {\n    zero();\n    two();")
    );
    assert_eq!(
        update("a", "+b\n").unwrap(),
        "a\nb\n",
        "a last line without its end gets one"
    );
    assert_eq!(update("", "+b\n").unwrap(), "b\n");
    let out_of_order = update("a\nb\nc\n", "@@\n-c\n+C\n@@\n-a\n+A\n").unwrap();
    assert_eq!(out_of_order, "A\nb\nC\n");
}

#[test]
fn mismatched_hunk_names_its_place_and_content() {
    let shown = [
        update(TEXT, "-    one();\n+    four();\n"),
        update(TEXT, " fn c() {\n-    deux();\n+    four();\n }\n"),
        update(TEXT, "-\tone();\n+\tfour();\n"),
        update(TEXT, " fn c() {\n-    one();\n+    two();\n"),
        update(TEXT, "@@ fn d() {\n+    four();\n"),
        update(TEXT, " fn c() {\n-    two();\n@@\n-    two();\n }\n"),
        patched(TEXT, "--- a/f\n+++ b/f\n@@ -3 +3 @@\n-    one();\n+    four();\n"),
    ]
    .map(Result::unwrap_err);
    insta::assert_snapshot!(shown.join("\n--\n"));
}

#[test]
fn trailing_white_space_is_ignored_and_kept() {
    assert_eq!(
        update("a  \nb\t\nc\n", " a\n-b\n+B\n c\n").unwrap(),
        "a  \nB\nc\n"
    );
    assert_eq!(
        update("  a\n", "-a\n+b\n").unwrap_err().lines().count(),
        2,
        "indentation is not"
    );
}

#[test]
fn line_ends_stay_as_they_are_beside() {
    let crlf = "a\r\nb\r\nc\r\n";
    assert_eq!(
        update(crlf, " a\n-b\n+x\n+y\n c\n").unwrap(),
        "a\r\nx\r\ny\r\nc\r\n"
    );
    assert_eq!(
        update("a\r\nb\r\nc\nd\n", " c\n+x\n").unwrap(),
        "a\r\nb\r\nc\nx\nd\n",
        "mixed"
    );
    let literal = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n";
    assert_eq!(
        patched(crlf, literal).unwrap(),
        "a\nb\r\nc\r\n",
        "line ends given by the patch are used"
    );
}

fn text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("a"),
        Just("b"),
        Just(""),
        Just("-- x"),
        Just("++ y"),
        Just("@@ -1 +1 @@"),
        Just("  "),
        Just("\\ z"),
        Just("*** End of File")
    ];
    let end = prop_oneof![4 => Just("\n"), 1 => Just("\r\n")];
    (proptest::collection::vec((line, end), 0..14), any::<bool>()).prop_map(|(lines, cut)| {
        let mut text: String = lines.iter().flat_map(|(line, end)| [*line, *end]).collect();
        if cut {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn applying_a_diff_gives_the_second_text(old in text(), new in text(), radius in 1..4usize) {
        prop_assume!(old != new);
        let patch = TextDiff::from_lines(&old, &new)
            .unified_diff()
            .context_radius(radius)
            .header("a/f", "b/f")
            .to_string();
        prop_assert_eq!(patched(&old, &patch), Ok(new), "{}", patch);
    }
}
