//! What is promised of templates, held against a real `sh`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use super::*;

fn sh(script: &str) -> Vec<u8> {
    let mut child = Command::new("sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .env("HOME", "/nonexistent")
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{script}");
    output.stdout
}

/// The arguments that `sh` sees where the place stands in `printf '%s\0' …`, with `x` as the value.
fn words(place: &str, value: &str) -> Vec<String> {
    let source = format!("printf '%s\\0' {place}\n");
    let script = script(&source, &json!({ "x": value })).unwrap();
    split_nul(&sh(&script))
}

fn split_nul(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8(output.to_vec()).unwrap();
    let mut words: Vec<String> = text.split('\0').map(str::to_owned).collect();
    words.pop();
    words
}

fn refused(source: &str) -> (usize, Place) {
    match script(
        source,
        &json!({"x": "v", "issue": {"id": "v"}, "workflow_dir": "/w"}),
    ) {
        Err(TemplateError::Refused { line, place, .. }) => (line, place),
        other => panic!("not refused: {source}: {other:?}"),
    }
}

#[test]
fn a_value_is_one_word_wherever_it_stands() {
    let evil = "'; touch x; '\"$(touch y)`touch z`\\ \n*~#&|<>";
    assert_eq!(words("{{ x }}", evil), [evil]);
    assert_eq!(words("'a{{ x }}b'", evil), [format!("a{evil}b")]);
    assert_eq!(words("\"a{{ x }}b\"", evil), [format!("a{evil}b")]);
    assert_eq!(words("--opt={{ x }}/z", evil), [format!("--opt={evil}/z")]);
    assert_eq!(words("{{ x }} {{ x }}", ""), ["", ""]);
    assert_eq!(
        words("$(printf '%s' \"{{ x }}\" | wc -c | tr -d ' ')", "a b"),
        ["3"]
    );
}
