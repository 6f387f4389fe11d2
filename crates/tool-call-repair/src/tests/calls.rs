use serde_json::json;

use super::{TextScanner, Tool, call, found, found_in, render, render_parts};

fn all(texts: &[&str]) -> String {
    let lines = texts
        .iter()
        .map(|text| format!("{text}\n    => {}", render(text).replace('\n', "\n       ")));
    lines.collect::<Vec<_>>().join("\n\n")
}

const CALL: &str = r#"{"name": "read_file", "arguments": {"path": "a"}}"#;

#[test]
fn calls_in_markup_are_found() {
    let rendered = all(&[
        "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>",
        "I look.\n\n<tool_call>{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}</tool_call>\nThen I go on.",
        "<tool_call>{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}</tool_call><tool_call>{\"name\":\"list_dir\",\"arguments\":{}}</tool_call>",
        "<tool_calls>\n<tool_call>{\"name\":\"list_dir\"}</tool_call>\n</tool_calls> ok",
        "<tool_call>[{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}, {\"name\":\"read_file\",\"arguments\":{\"path\":\"b\"}}]</tool_call>",
        "<function_call>{\"name\":\"list_dir\",\"arguments\":\"{\\\"path\\\":\\\"a\\\"}\"}</function_call>",
        "<tools>\n{\"name\": \"list_dir\", \"arguments\": {\"path\": \".\"}}\n</tools>",
        "[TOOL_CALLS][{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}, \"id\": \"x1\"}]",
        "[TOOL_CALLS]read_file[ARGS]{\"path\": \"a\"}",
        "[TOOL_CALLS]read_file{\"path\": \"a\"}[TOOL_CALLS]list_dir{}",
        "<tool_call>\n```json\n{\"name\":\"list_dir\",\"arguments\":{}}\n```\n</tool_call>",
        "<tool_call>{\"name\":\"list_dir\",\"arguments\":{}}",
        "<tool_call>{\"name\":\"list_dir\",\"arguments\":{}}}</tool_call>",
        "<tool_call>{\"name\":\"list_dir\",\"arguments\":{\"path\":\"a\"}</tool_call>",
        "<tool_call>{\"name\":\"write_file\",\"arguments\":{\"path\":\"a\",\"content\":\"x = \"1\" # </tool_call> \"}}\"}}</tool_call>",
        "<tool_call>{\"name\":\"write_file\",\"arguments\":{\"path\":\"a\",\"content\":\"see </tool_call> in it\"}}</tool_call>",
        "<tool_call>{\"name\":\"no_such_tool\",\"arguments\":{}}</tool_call>",
        "<tool_call>{\"name\":\"read_file\",\"arguments\":[1]}</tool_call>",
        "<tool_call>{'name': 'run_command', 'arguments': {'command': 'ls'}}</tool_call>",
        "<read_file>\n{\"path\": \"a\"}\n</read_file>",
        "I write it.\n<write_file>{\"path\":\"a\",\"content\":\"see </write_file>\"}</write_file>\nDone.",
        "<list_dir>{}</list_dir>\n<read_file>{\"path\":\"a\"}</read_file>",
        "<read_file> is the tool, and <read_file>{\"path\":\"a\"}</read_file> within a line is none",
        "<read_file>",
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(rendered) });
}

#[test]
fn calls_in_function_elements_are_found() {
    let rendered = all(&[
        "<function=read_file><parameter=path>a</parameter></function>",
        "<tool_call>\n<function=write_file>\n<parameter=path>\na.py\n</parameter>\n<parameter=content>\ndef f():\n    return \"x\"\n\n</parameter>\n</function>\n</tool_call>\ndone",
        "<function=list_dir></function>",
        "<function=list_dir>\n{\"path\": \"a\"}\n</function>",
        "<function name=\"read_file\"><parameter name=\"path\">a</parameter></function>",
        "<function_calls>\n<invoke name=\"read_file\">\n<parameter name=\"path\">a</parameter>\n<parameter name=\"limit\">3</parameter>\n</invoke>\n<invoke name=\"list_dir\">\n</invoke>\n</function_calls>",
        "<function=write_file><parameter=path>a</parameter><parameter=content>x</parameter> y</parameter></function>",
        "<function=write_file><parameter=path>a</parameter><parameter=content>\n```json\n{\"name\":\"list_dir\",\"arguments\":{}}\n```\n<tool_call>\n</parameter></function>",
        "<function=write_file><parameter=path>a</parameter><parameter=path>b</parameter></function>",
        "<tool_call><function=read_file><parameter=path>a</parameter></tool_call>",
        "<function=read_file><parameter=path>a</parameter>",
        "<function=read_file> is how it is written",
        "<function=read_file><parameter=path>a</parame",
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(rendered) });
}

#[test]
fn calls_in_code_fences_are_found() {
    let rendered = all(&[
        "```json\n{\"name\": \"run_command\", \"arguments\": {\"command\": \"ls\"}}\n```",
        "Let me see:\n\n```json\n{\n  \"name\": \"run_command\",\n  \"arguments\": {\n    \"command\": \"ls\"\n  }\n}\n```\n\nThis lists the files.",
        "```json\n{\"name\":\"list_dir\",\"arguments\":{}}\n{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}\n```",
        "```json\n[{\"name\":\"list_dir\",\"arguments\":{}},{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}]\n```",
        "```json\n{\"name\":\"list_dir\",\"arguments\":{}}\n```\nand\n```json\n{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}\n```",
        "```\n{\"tool\": \"read_file\", \"args\": {\"path\": \"a\"}}\n```",
        "```tool_call\n{\"tool_name\": \"bash\", \"parameters\": {\"command\": \"ls\"}}\n```",
        "```json {\"name\": \"list_dir\", \"arguments\": {}} ```",
        "```xml\n<tool_call>\n{\"name\": \"list_dir\", \"arguments\": {}}\n</tool_call>\n```",
        "```json\n{\"name\":\"write_file\",\"path\":\"a\",\"content\":\"x\"}\n```",
        "```json\n{\"name\":\"create_file\",\"arguments\":{\"file_path\":\"a\",\"content\":\"print(\"hi\")\nprint(\"a\", \"b\")\"}}\n```",
        "```json\n{\"name\":\"write_file\",\"arguments\":{\"path\":\"README.md\",\"content\":\"# A\n```sh\nmake\n```\n\"}}\n```\nok",
        "```json\n{\"name\":\"write_file\",\"arguments\":{\"path\":\"a\",\"content\":\"x\"}\n```",
        "```json\n{\"function\":{\"name\":\"list_dir\",\"arguments\":\"{}\"},\"id\":\"c1\",\"type\":\"function\"}\n```",
        "```json\n{\"tool_calls\":[{\"function\":{\"name\":\"list_dir\",\"arguments\":{}}}]}\n```",
        "```json\n{\"read_file\": {\"path\": \"a\"}}\n```",
        "```json\n{\"name\":\"list_dir\",\"arguments\":{}}\n\nAnd more words\n```\nend",
        "~~~json\n{\"name\":\"list_dir\",\"arguments\":{}}\n~~~",
        "```json\n{\"name\":\"list_dir\",\"arguments\":{}}",
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(rendered) });
}

#[test]
fn calls_in_bare_json_are_found() {
    let rendered = all(&[
        CALL,
        "I read it.\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\nThen I see.",
        "{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"b\"}}",
        "{\"name\":\"list_dir\",\"arguments\":{}}{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}",
        "{\"name\":\"list_dir\",\"arguments\":{}}\n</tool_call>",
        "[{\"name\":\"list_dir\",\"arguments\":{}}]",
        "  {\n \"name\": \"shell\",\n \"arguments\": {\"cmd\": \"ls\"},\n}\n",
        "{\"name\": \"write_file\", \"arguments\": {\"path\": \"a.rs\", \"content\": \"println!(\"{}\", x);\n\"}}",
        "{\"name\": \"write_file\", \"arguments\": {\"path\": \"a.rs\", \"content\": \"let s = \"}}\";\"}}",
        "{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"list_dir\",\"arguments\":{}}}",
        "{\"arguments\":{\"path\":\"a\"},\"name\":\"read_file\"}",
        "{\"name\":\"run_command\",\"arguments\":{\"command\":\"echo 'it\\'s'\"}}",
        "{\"name\":\"RunCommand\",\"arguments\":{\"command\":\"ls\"}}",
        "{\"tool\": \"list_dir\"}",
        "{{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}}",
        "{{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}",
        "{{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}, 1}",
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(rendered) });
}

#[test]
fn cut_off_call_is_reported_to_the_model() {
    let cut = |text: &str| render_parts(&found_in(text, true));
    let full = [
        r#"<tool_call>{"name":"write_file","arguments":{"path":"a","content":"x = 1"}}</tool_call>"#,
        "```json\n{\"name\":\"write_file\",\"arguments\":{\"path\":\"a\",\"content\":\"x = 1\"}}\n```",
        r#"{"name":"write_file","arguments":{"path":"a","content":"x = 1"}}"#,
        "<function=write_file><parameter=path>a</parameter><parameter=content>x = 1</parameter></function>",
    ];
    for text in full {
        let value = text.find("x = 1").unwrap();
        for end in value..value + 5 {
            for found in [cut(&text[..end]), render(&text[..end])] {
                assert!(
                    found.starts_with("write_file broken: they are cut off"),
                    "{:?}: {found}",
                    &text[..end]
                );
            }
        }
        assert!(cut(text).starts_with("write_file {"), "{text}");
    }
    // Unescaped quotation marks are accepted only if nothing can be missing.
    let loose = r#"{"name":"write_file","arguments":{"path":"a","content":"d = {"k": "v"}}"#;
    assert!(cut(loose).starts_with("write_file broken"), "{}", cut(loose));
}

#[test]
fn directly_repeated_call_is_dropped() {
    let list = r#"{"name":"list_dir","arguments":{}}"#;
    let one = call("list_dir", json!({}));
    let two = call("read_file", json!({"path": "a"}));
    assert_eq!(
        found(&format!("{list}\n{list}\n\n```json\n{list}\n```")),
        vec![one.clone()]
    );
    assert_eq!(
        found(&format!("{list}\n{CALL}\n{list}")),
        vec![one.clone(), two, one]
    );
}

#[test]
fn thinking_is_recognised_only_at_the_start() {
    insta::assert_snapshot!(render(&format!("\n<think>\nSo <tool_call>{CALL}</tool_call>?\n</think>\n\n{CALL}")), @r#"
    thinking "\nSo <tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>?\n"
    read_file {"path":"a"}
    "#);
    assert_eq!(
        render("<think>never closed </thin"),
        r#"thinking "never closed </thin""#
    );
    assert_eq!(render("a <think> b"), r#""a <think> b""#);
    // After much white space it is not at the start, in any chunks.
    let far = format!("{}<think>a</think>", " ".repeat(100));
    assert_eq!(render(&far), format!("{far:?}"));
    assert_eq!(render("<thinking> b"), r#""<thinking> b""#);
}

#[test]
fn names_are_compared_in_any_notation() {
    let schema = json!({"properties": {"path": {}}});
    for (name, written) in [
        ("readFile", "read_file"),
        ("read_file", "functions.ReadFile"),
        ("read-file", "readFile"),
    ] {
        let mut scanner = TextScanner::new([Tool::new(name, &schema)]);
        let mut found = Vec::new();
        let text = format!(r#"{{"name": "{written}", "arguments": {{"path": "a"}}}}"#);
        scanner.push(&text, &mut found);
        scanner.finish(false, &mut found);
        assert_eq!(found, vec![call(written, json!({"path": "a"}))], "{name}");
    }
}
