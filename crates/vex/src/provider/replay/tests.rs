use std::path::Path;

use super::*;
use crate::conversation::ToolResult;

fn parse(text: &str) -> Result<Recording, RecordingError> {
    Recording::parse(Path::new("r.jsonl"), text)
}

#[test]
fn recording_errors_name_file_and_line() {
    let shown: Vec<String> = [
        "{\"kind\":\"turn\"}",
        "{\"kind\":\"recording\",\"version\":2}",
        "// fine\n{\"kind\":\"recording\",\"version\":1}\n\n{\"kind\":\"turn\",\"text\":\"x\"}",
        "{\"kind\":\"recording\",\"version\":1}\n{\"kind\":\"conversation\",\"name\":\"a\",\"wen\":[]}",
    ]
    .iter()
    .map(|text| parse(text).unwrap_err().to_string())
    .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
        r.jsonl:1: the first line must be of kind "recording"
        r.jsonl:1: unsupported version 2 of recordings: expected 1
        r.jsonl:4: a turn before the first conversation
        r.jsonl:2: unknown field `wen`, expected `name` or `when`
        "#);
}

#[test]
fn recording_model_name_never_leaves_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    let locate = |model| Recording::locate(None, Some(place), None, Some(model));
    assert_eq!(locate("sample-1.0").unwrap(), dir.path().join("sample-1.0.jsonl"));
    for name in ["", ".", "..", "../x", "a/b", ".hidden", "a\0b"] {
        assert!(matches!(locate(name), Err(RecordingError::Name(_))), "{name:?}");
    }
    let url = format!("file://{place}");
    let found = Recording::locate(None, Some(&url), Some(Path::new("/else")), Some("m")).unwrap();
    assert_eq!(found, dir.path().join("m.jsonl"));
    assert!(matches!(
        Recording::locate(None, None, None, Some("m")),
        Err(RecordingError::NotNamed)
    ));
}

#[test]
fn expectations_are_checked_against_results() {
    let result = |is_error, exit_code| ToolResult {
        call_id: String::new(),
        is_error,
        exit_code,
        output: "ok 1".to_owned(),
        denied: false,
    };
    let expect = |text: &str| serde_json::from_str::<Expect>(text).unwrap();
    expect("{}").check(&result(false, None)).unwrap();
    expect("{}").check(&result(true, Some(1))).unwrap_err();
    expect(r#"{"exit_code":1}"#)
        .check(&result(true, Some(1)))
        .unwrap();
    expect(r#"{"exit_code":1}"#)
        .check(&result(false, Some(0)))
        .unwrap_err();
    expect(r#"{"is_error":true}"#).check(&result(true, None)).unwrap();
    expect(r#"{"is_error":true}"#)
        .check(&result(false, None))
        .unwrap_err();
    expect(r#"{"contains":["ok"]}"#)
        .check(&result(false, None))
        .unwrap();
    expect(r#"{"contains":["no"]}"#)
        .check(&result(false, None))
        .unwrap_err();
}
