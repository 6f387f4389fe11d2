//! Slips in keys that hide what was meant.

use super::*;

#[test]
fn misspelled_required_key_is_one_finding() {
    for (key, misspelled) in [
        ("agents:", "agnets:"),
        ("issue:", "isue:"),
        ("issues:", "isues:"),
        ("issues:", "issuse:"),
        ("runtime:", "rutime:"),
    ] {
        let loaded = load(&minimal_with(&[(key, misspelled)]));
        let finding = only(&loaded, "unknown_key");
        assert_eq!(finding.severity, Severity::Error);
        let (key, misspelled) = (key.trim_end_matches(':'), misspelled.trim_end_matches(':'));
        assert_eq!(
            finding.message,
            format!("unknown key `{misspelled}`, and `{key}` is missing")
        );
        assert_eq!(finding.hint, Some(format!("did you mean `{key}`?")));
    }
}

#[test]
fn key_without_a_colon_is_found_at_its_line() {
    for (text, line, name) in [
        ("agents: {}\nissue\n# A comment\nissues: {}\n", 2, "issue"),
        ("agents: {}\nissue\n\n  # A comment\n  stages: {}\n", 2, "issue"),
        ("agents: {}\nissue # why\n  stages: {}\n", 2, "issue"),
        ("issue:\n  stages\n    implement: {}\n", 2, "stages"),
        ("agents: {}\nissue:\n  stages: {}\nloop\n", 4, "loop"),
    ] {
        let loaded = load(text);
        let finding = loaded
            .diagnostics
            .iter()
            .find(|finding| finding.code == "syntax")
            .unwrap();
        assert_eq!(
            (finding.line, finding.message.as_str()),
            (line, format!("invalid YAML: `{name}` has no `:`").as_str()),
            "{text}"
        );
        assert_eq!(finding.hint, Some(format!("write `{name}:`")));
    }
    for text in [
        "a: b: c\n",
        "a: x\n  b: c\n",
        "- a\n- b\nc: d\n",
        "text: |\n  a\n b: c\n",
    ] {
        let loaded = load(text);
        assert!(
            loaded
                .diagnostics
                .iter()
                .all(|finding| !finding.message.contains("has no `:`")),
            "{text}: {:?}",
            loaded.diagnostics
        );
    }
}

#[test]
fn misspelled_issues_does_not_add_findings_about_outputs() {
    let loaded = load(&minimal_with(&[
        ("issues:", "issuse:"),
        ("agent: codex\n", "agent: codex\n      outputs: {comment: {}}\n"),
    ]));
    assert_eq!(only(&loaded, "unknown_key").path, "issuse");
}
