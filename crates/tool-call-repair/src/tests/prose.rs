use super::{Found, TextScanner, found, tools};

#[test]
fn text_that_is_not_a_call_is_unchanged() {
    for text in [
        "",
        " \n ",
        "plain words\n",
        "You could call {\"name\": \"list_dir\", \"arguments\": {}} to see.",
        "{\"name\": \"list_dir\", \"arguments\": {}} is what you would call.",
        "Use `<tool_call>{\"name\": \"list_dir\", \"arguments\": {}}</tool_call>` for it.",
        "It writes \"<tool_call>{\"name\": \"list_dir\", \"arguments\": {}}</tool_call>\".",
        "> <tool_call>{\"name\": \"list_dir\", \"arguments\": {}}</tool_call>",
        "- {\"name\": \"list_dir\", \"arguments\": {}}",
        "`{\"name\": \"list_dir\", \"arguments\": {}}`",
        "```python\nprint(1)\n{\"name\": \"list_dir\", \"arguments\": {}}\n```\n",
        "````md\nSee:\n```json\n{\"name\": \"list_dir\", \"arguments\": {}}\n```\n````\n",
        "```json\n{\"name\": \"my-package\", \"version\": \"1.0.0\"}\n```",
        "```json\n{\"name\": \"read_file\", \"version\": \"1.0.0\"}\n```",
        "{\"name\": \"read_file\"}",
        "{\"name\": \"nobody\", \"arguments\": {}}",
        "{\"arguments\": {\"path\": \"a\"}}",
        "{\n  \"compilerOptions\": {}\n}",
        "[1, 2, 3]\n",
        "[link](x) and [ ] box\n- [x] done",
        "[{\"name\": \"list_dir\", \"arguments\": {}}, 1]",
        "a < b && c > d; vec![<T>::new()]; x<tool>y</tool>",
        "<tool_call>nothing of the kind</tool_call>",
        "<tool_call",
        "<tool_call>",
        "<function=",
        "<invoke name=\"a b c\">",
        "[TOOL_CALLS] are what it is called",
        "```",
        "``` ```",
        "```json",
        "```json\n",
        "```json\n{",
        "```json\n{}\n```",
        "~~strike~~ and ~~~",
        "```sh\nls\n```\n\n```\nout\n```\ntext",
        "ä`ö```ü\n  \n€",
        "{'a', 'b'}",
        "<parameter=path>a</parameter>",
        "</tool_call>",
        // Found by fuzzing: the decision for a fence depended on how much of its first line had
        // arrived.
        "~~~u<tool_call>\rA{~\t\u{c}~\0\0\u{e}\n~~~~~+calltool_callsool\t{\ntoo",
    ] {
        let expected = if text.is_empty() {
            vec![]
        } else {
            vec![Found::Text(text.to_owned())]
        };
        assert_eq!(found(text), expected, "{text:?}");
    }
}

#[test]
fn prose_is_emitted_as_it_arrives() {
    let mut scanner = TextScanner::new(tools());
    let mut out = Vec::new();
    for (piece, given) in [
        ("Hello", "Hello"),
        (" wor", " wor"),
        ("ld. ", "ld."),
        ("Then", " Then"),
        ("\n```rust\nfn", "\n```rust\nfn"),
        (" main", " main"),
        ("() { <tool_call>", "() { <tool_call>"),
    ] {
        scanner.push(piece, &mut out);
        assert_eq!(out, vec![Found::Text(given.to_owned())]);
        out.clear();
    }
}
