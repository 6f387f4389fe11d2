use proptest::prelude::*;

use super::paths::is_path;
use super::*;

fn calls(text: &str, only_file: Option<&str>) -> Vec<String> {
    let turn = Turn {
        blocks: vec![Block::text(text)],
        ..Turn::default()
    };
    let read = read(turn, only_file, 3);
    let has_calls = read.tool_calls().next().is_some();
    assert_eq!(read.stop == StopReason::ToolUse, has_calls);
    read.blocks
        .iter()
        .map(|block| match block {
            Block::Text { text } => format!("text {text:?}"),
            Block::ToolCall(call) => format!("{} {} {}", call.call_id, call.tool, call.input.json().unwrap()),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn whole_files_and_commands_become_calls() {
    let text = "I fix the sign.\n\ncalc.py\n```python\ndef add(a, b):\n    return a + b\n```\n\nThen it moves:\n```sh\nmv a b\n```\n";
    assert_eq!(
        calls(text, None),
        [
            "text \"I fix the sign.\"",
            r#"fence_3_1 write_file {"path":"calc.py","content":"def add(a, b):\n    return a + b\n"}"#,
            "text \"\\nThen it moves:\"",
            r#"fence_3_2 run_command {"command":"mv a b"}"#,
        ]
    );
}

#[test]
fn fences_in_a_list_are_read_without_their_indentation() {
    let text = "1. **Create the folder**:\n   ```sh\n   mkdir tools\n   ```\n\n2. Change `main.py`:\n\n   ```python\n   if x:\n       \
                ```\n       y()\n  z\n   ```\n   Then it works.\n";
    assert_eq!(
        calls(text, None),
        [
            "text \"1. **Create the folder**:\"",
            r#"fence_3_1 run_command {"command":"mkdir tools"}"#,
            r#"fence_3_2 write_file {"path":"main.py","content":"if x:\n    ```\n    y()\nz\n"}"#,
            "text \"   Then it works.\\n\"",
        ]
    );
    // A fence in the content of a file is a part of it.
    let nested = "a.md\n````\n- x\n  ```sh\n  rm y\n  ```\n````\n";
    assert_eq!(
        calls(nested, None),
        [r#"fence_3_1 write_file {"path":"a.md","content":"- x\n  ```sh\n  rm y\n  ```\n"}"#]
    );
}

#[test]
fn path_is_found_where_models_write_it() {
    let path = |text: &str| {
        let text = text.replace("FENCE", "```\nx\n```");
        calls(&text, None)
            .iter()
            .any(|call| call.contains(r#""path":"lib/a.py""#))
    };
    for text in [
        "lib/a.py\nFENCE",
        "`lib/a.py`:\n\nFENCE",
        "**lib/a.py**\nFENCE",
        "### lib/a.py\nFENCE",
        "File: lib/a.py\nFENCE",
        "Here is the new content of `lib/a.py`:\nFENCE",
        "Update lib/a.py:\nFENCE",
        "Updated lib/a.py:\nFENCE",
        "lib/a.py (updated)\nFENCE",
        "**lib/a.py** (updated):\nFENCE",
        "`lib/a.py` (updated)\nFENCE",
        "File path: lib/a.py\nFENCE",
        "- lib/a.py\nFENCE",
        "1. lib/a.py\nFENCE",
        "12. `lib/a.py`:\nFENCE",
        "The content of the file `lib/a.py` should now be:\n\nFENCE",
        "```python lib/a.py\nx\n```",
        "```lib/a.py\nx\n```",
        "```python:lib/a.py\nx\n```",
        "```python\n# lib/a.py\nx\n```",
        "~~~\n# lib/a.py\nx\n~~~",
    ] {
        assert!(path(text), "{text}");
    }
    for text in [
        "It prints:\nFENCE",
        "Read /etc/lib/a.py\nFENCE",
        "../lib/a.py\nFENCE",
        "In lib/a.py there is a mistake that looks so\nFENCE",
        "Updated lib/a.py as follows:\nFENCE",
        "I updated lib/a.py:\nFENCE",
        "lib/a.py (unchanged)\nFENCE",
        "The file path is lib/a.py\nFENCE",
        "- lib/a.py fails so:\nFENCE",
        "1. Run lib/a.py\nFENCE",
        ". lib/a.py\nFENCE",
    ] {
        assert!(!path(text), "{text}");
    }
}

#[test]
fn path_that_starts_like_a_label_is_whole() {
    for path in ["changelog.md", "update.py", "editor.rs", "created.txt", "1.txt"] {
        let found = calls(&format!("{path}\n```\nx\n```"), None);
        assert!(found[0].contains(&format!(r#""path":"{path}""#)), "{found:?}");
    }
}

#[test]
fn path_with_spaces_is_read_only_alone_and_in_quotes() {
    let written = |line: &str| {
        let found = calls(&format!("{line}\n```\nx\n```"), None);
        found.iter().any(|call| call.contains("write_file"))
    };
    for line in [
        "`src/a b.txt`",
        "**`src/a b.txt`**:",
        "### \"src/a b.txt\"",
        "'Read me first.md'",
        "- `docs/v 1/a.txt`",
    ] {
        assert!(written(line), "{line}");
    }
    for line in [
        "src/a b.txt",
        "The output of `src/a b.txt`",
        "`src/a b`",
        "`src/a  b.txt`",
        "`src/a b.txt `",
        "`python3 a.py`",
        "`./run a.txt`",
        "`./run.sh a.txt`",
        "`bin/test -v a.txt`",
        "`My a.txt` or `My b.txt`",
        "`A=1 make; cat a.txt`",
    ] {
        assert!(!written(line), "{line}");
    }
}

#[test]
fn fence_without_a_path_belongs_to_the_only_file() {
    let text = "```python\nx = 1\n```";
    assert!(calls(text, None)[0].starts_with("text"));
    assert_eq!(
        calls(text, Some("x.py")),
        [r#"fence_3_1 write_file {"path":"x.py","content":"x = 1\n"}"#]
    );
    assert!(calls("It prints\n```\n1\n```", Some("x.py"))[0].starts_with("text"));
}

#[test]
fn copied_example_is_no_change() {
    let (path, content) = EXAMPLE;
    for text in [WHOLE_FILES, BLOCKS] {
        assert!(text.contains(path));
    }
    assert!(WHOLE_FILES.contains(content));
    let text = format!("It is done.\n\n{path}\n```\n{content}```\n");
    assert_eq!(calls(&text, None), ["text \"It is done.\""]);
}

#[test]
fn search_and_replace_blocks_become_edits() {
    let text = "a.py\n```\n<<<<<<< SEARCH\none\n=======\ntwo\n>>>>>>> REPLACE\n\n<<<<<<< SEARCH\nthree\n=======\n>>>>>>> REPLACE\n```\n";
    assert_eq!(
        calls(text, None),
        [
            r#"fence_3_1 edit_file {"path":"a.py","old":"one\n","new":"two\n"}"#,
            r#"fence_3_2 edit_file {"path":"a.py","old":"three\n","new":""}"#,
        ]
    );
    let open = "a.py\n```\n<<<<<<< SEARCH\none\n=======\ntwo\n```\n";
    assert!(calls(open, None)[0].starts_with("text"), "a block without an end");
}

#[test]
fn block_without_lines_to_find_replaces_no_file() {
    let text = "a.py\n```\n<<<<<<< SEARCH\n\n=======\nx = 1\n>>>>>>> REPLACE\n```\n";
    assert_eq!(
        calls(text, None),
        [r#"fence_3_1 edit_file {"path":"a.py","old":"","new":"x = 1\n"}"#]
    );
}

#[test]
fn skill_is_named_in_a_fence() {
    for text in [
        "```load_skill\nrelease\n```",
        "I load it.\n```load_skill release\n```\n",
    ] {
        let last = calls(text, None).pop().unwrap();
        assert_eq!(last, r#"fence_3_1 load_skill {"name":"release"}"#);
    }
    assert!(calls("```load_skill\n```", None)[0].starts_with("text"));
}

#[test]
fn shell_script_is_a_file_if_it_has_a_path() {
    assert!(calls("count.sh\n```sh\nwc -l \"$1\"\n```", None)[0].contains("write_file"));
    assert!(calls("```sh\nsh count.sh\n```", None)[0].contains("run_command"));
    assert!(calls("```sh\nsh\nls\n```", None)[0].ends_with(r#"{"command":"ls"}"#));
    assert!(calls("sh\n```\nls\n```", None)[1].ends_with(r#"{"command":"ls"}"#));
    assert!(calls("Run it:\n```bash\nsh count.sh\n```", None)[1].contains("run_command"));
}

#[test]
fn longer_fence_contains_shorter_ones() {
    let text = "README.md\n````\nUse:\n```sh\nrm -rf x\n```\n````\n";
    assert_eq!(
        calls(text, None),
        [r#"fence_3_1 write_file {"path":"README.md","content":"Use:\n```sh\nrm -rf x\n```\n"}"#]
    );
}

#[test]
fn inner_fence_with_a_mark_does_not_end_the_outer_one() {
    let readme = "# Use\n\n```bash\nrm -rf x\n```\n\nAnd:\n```json\n{}\n```\nThat is all.\n";
    for mark in ["", "markdown"] {
        let text = format!("README.md\n```{mark}\n{readme}```\n\na.py\n```python\nx = 1\n```\n");
        let expected = [
            format!(
                "fence_3_1 write_file {}",
                json!({"path": "README.md", "content": readme})
            ),
            r#"fence_3_2 write_file {"path":"a.py","content":"x = 1\n"}"#.to_owned(),
        ];
        assert_eq!(calls(&text, None), expected);
    }
    let in_list = "1. Write `a.md`:\n   ```md\n   A\n   ```sh\n   rm x\n   ```\n   B\n   ```\n";
    assert_eq!(
        calls(in_list, None)[0],
        r#"fence_3_1 write_file {"path":"a.md","content":"A\n```sh\nrm x\n```\nB\n"}"#
    );
    let command = "```sh\ncat > a.md <<EOF\n```sh\nrm x\n```\nEOF\n```\n";
    assert_eq!(
        calls(command, None),
        [r#"fence_3_1 run_command {"command":"cat > a.md <<EOF\n```sh\nrm x\n```\nEOF"}"#]
    );
}

#[test]
fn fences_in_a_block_belong_to_it() {
    let text = "a.md\n```\n<<<<<<< SEARCH\n```sh\nls\n=======\n```sh\nls -l\n```\n>>>>>>> REPLACE\n```\n";
    assert_eq!(
        calls(text, None),
        [r#"fence_3_1 edit_file {"path":"a.md","old":"```sh\nls\n","new":"```sh\nls -l\n```\n"}"#]
    );
    let open = "a.md\n```\n<<<<<<< SEARCH\none\n=======\ntwo\n```\n\n\
                b.md\n```\n<<<<<<< SEARCH\nthree\n=======\nfour\n>>>>>>> REPLACE\n```\n";
    assert!(calls(open, None)[1].ends_with(r#"{"path":"b.md","old":"three\n","new":"four\n"}"#));
}

#[test]
fn fence_with_an_uncertain_end_is_not_used() {
    for text in [
        // Either the outer fence has no end, or the inner one.
        "README.md\n```\n# A\n```bash\nls\n```\n\nMore:\n```bash\nrm x\n```\n",
        "a.py\n```python\nx = 1\n\nb.py\n```python\ny = 2\n```\n",
        // The second line of marks may open a fence in the file.
        "README.md\n```\n# A\n```\nls\n```\nB\n```\n```bash\nrm x\n```\n",
        "```sh\ncat > a.md <<EOF\n```sh\nls\n```\nEOF\n",
    ] {
        let turn = Turn {
            blocks: vec![Block::text(text)],
            ..Turn::default()
        };
        let read = read(turn, None, 3);
        let [call] = &read.tool_calls().collect::<Vec<_>>()[..] else {
            panic!("{text}: {read:?}");
        };
        let Arguments::Broken { reason, .. } = &call.input else {
            panic!("{text}: {call:?}");
        };
        assert!(reason.contains("four marks"), "{reason}");
        assert_eq!(written(call).as_deref(), Some(text));
    }
    for text in [
        "README.md\n```\n# A\n```\n\nIt prints:\n```\n1\n```\n",
        "README.md\n```\n# A\n```\na.py\n```\nx = 1\n```\n",
        "a.py\n```\nx = 1\n```\nIt prints:\n```\n1\n```\n",
    ] {
        assert!(calls(text, None)[0].contains("write_file"), "{text}");
    }
}

#[test]
fn answer_that_was_cut_off_changes_no_file_by_half() {
    let turn = Turn {
        blocks: vec![Block::text("a.py\n```\none\n```\nb.py\n```\ntwo\nthr")],
        stop: StopReason::MaxTokens,
        ..Turn::default()
    };
    let read = read(turn, None, 1);
    assert_eq!(read.tool_calls().count(), 1);
    assert_eq!(read.stop, StopReason::MaxTokens);
}

#[test]
fn answer_with_a_call_of_the_protocol_is_unchanged() {
    let turn = Turn {
        blocks: vec![
            Block::text("a.py\n```\none\n```"),
            Block::ToolCall(ToolCall::new("1", "list_dir", json!({}))),
        ],
        ..Turn::default()
    };
    assert_eq!(read(turn.clone(), None, 1), turn);
}

#[test]
fn written_calls_are_read_as_the_same_calls() {
    for (tool, input) in [
        (
            WriteFile::NAME,
            json!({"path": "a/b.md", "content": "x\n```\ny\n```\n"}),
        ),
        (
            EditFile::NAME,
            json!({"path": "a.py", "old": "one\n", "new": "two\n"}),
        ),
        (RunCommand::NAME, json!({"command": "ls -l"})),
        (LoadSkill::NAME, json!({"name": "release"})),
    ] {
        let text = written(&ToolCall::new("1", tool, input.clone())).unwrap();
        assert_eq!(calls(&text, None), [format!("fence_3_1 {tool} {input}")]);
    }
    assert_eq!(
        written(&ToolCall::new("1", "read_file", json!({"path": "a"}))),
        None
    );
}

proptest! {
    #[test]
    fn any_text_is_read_without_loss_of_order(text in "([a-z.#`~ \n]|```|a\\.py\n|<<<<<<< SEARCH\n|=======\n|>>>>>>> REPLACE\n){0,60}", cut: bool) {
        for part in parts(&text, Some("only.py"), cut) {
            if let Part::Write { path, .. } | Part::Edit { path, .. } = part {
                prop_assert!(is_path(path));
            }
        }
    }

    #[test]
    fn file_with_inner_fences_is_read_whole(content in "(([a-z#]{1,5}\n)|(```[a-z]{1,4}\n([a-z]{1,5}\n){0,2}```\n)|\n){0,9}") {
        let text = format!("a.md\n```\n{content}```\n");
        let expected = format!("fence_3_1 write_file {}", json!({"path": "a.md", "content": content}));
        prop_assert_eq!(calls(&text, None), [expected]);
    }
}

#[test]
fn fence_that_only_explains_belongs_to_no_file() {
    for text in [
        "It is called so:\n```python\nadd(1, 2)\n```\nIt prints:\n```text\n3\n```",
        "calc.py\n```python\nx = 1\n```\nIt prints:\n```text\n3\n```",
        "```text\n3\n```",
        "Expected output of `calc.py`:\n```\n3\n```",
        "Example usage of `calc.py`:\n```\n3\n```",
        "You may also want to mention it in `README.md`:\n```\nNew: add.\n```",
    ] {
        let written: Vec<_> = calls(text, Some("calc.py"))
            .into_iter()
            .filter(|call| call.contains("write_file") && !call.contains("x = 1"))
            .collect();
        assert_eq!(written, Vec::<String>::new(), "{text}");
    }
    for (mark, path) in [
        ("python", "a.py"),
        ("makefile", "Makefile"),
        ("yaml", "a.yml"),
        ("toml", "a.toml"),
    ] {
        let text = format!("```{mark}\nx\n```");
        assert!(calls(&text, Some(path))[0].contains("write_file"), "{mark}");
    }
}

#[test]
fn sentence_announces_the_content_of_a_file() {
    for (text, is_path) in [
        ("Here is the corrected `a.py`:", true),
        ("In `a.py`:", true),
        ("2. `a.py`", true),
        ("Save this as `a.py`:", true),
        ("The test fails because of a line in `a.py`:", false),
        ("Running `a.py`:", false),
    ] {
        let text = format!("{text}\n```\nx\n```");
        assert_eq!(
            calls(&text, None).iter().any(|call| call.contains("write_file")),
            is_path,
            "{text}"
        );
    }
}

#[test]
fn prompts_of_a_shell_are_no_part_of_a_command() {
    let command = |lines: &str| calls(&format!("```console\n{lines}\n```"), None)[0].clone();
    assert_eq!(
        command("# first\n$ echo 1 > a\n$ cat a\n1"),
        r#"fence_3_1 run_command {"command":"echo 1 > a\ncat a"}"#
    );
    assert_eq!(
        command("echo \"\n$ x\""),
        r#"fence_3_1 run_command {"command":"echo \"\n$ x\""}"#
    );
}

/// Returns why the only call of an answer is not carried out.
fn refusal(text: &str) -> String {
    let turn = Turn {
        blocks: vec![Block::text(text)],
        ..Turn::default()
    };
    let read = read(turn, None, 1);
    match &read.tool_calls().collect::<Vec<_>>()[..] {
        [
            ToolCall {
                input: Arguments::Broken { reason, .. },
                ..
            },
        ] => reason.clone(),
        calls => panic!("{text}: {calls:?}"),
    }
}

#[test]
fn command_that_goes_on_after_its_prompt_is_not_run() {
    for lines in [
        "$ cat > a <<EOF\nx\nEOF\n$ cat a",
        "$ cargo test \\\n  --workspace\nok",
    ] {
        let reason = refusal(&format!("```console\n{lines}\n```"));
        assert!(reason.contains(LONG_COMMAND), "{reason}");
    }
}

#[test]
fn change_in_another_form_is_not_written_as_content() {
    for text in [
        "a.toml\n```diff\n-a = 1\n+a = 2\n```",
        "a.toml\n```\n<<<<< SEARCH\na = 1\n=====\na = 2\n>>>>> REPLACE\n```",
    ] {
        let reason = refusal(text);
        assert!(reason.contains(OTHER_FORM), "{reason}");
    }
}

#[test]
fn path_outside_of_the_workspace_is_a_call_that_the_tool_refuses() {
    for path in ["/etc/x.conf", "../x.py", "src/../../x.py"] {
        assert!(calls(&format!("{path}\n```\nx\n```"), None)[0].contains(path));
    }
}
