mod any_text;
mod arguments;
mod calls;
mod prose;

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::{Found, TextScanner, Tool};

/// The schemas of the tools, in their order.
static SCHEMAS: LazyLock<[Value; 4]> = LazyLock::new(|| {
    let text = || json!({"type": "string"});
    let schema = |properties: Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required});
    let number = || json!({"type": "integer"});
    [
        schema(
            json!({"path": text(), "offset": number(), "limit": number()}),
            &["path"],
        ),
        schema(json!({"path": text()}), &[]),
        schema(json!({"path": text(), "content": text()}), &["path", "content"]),
        schema(json!({"command": text(), "cwd": text()}), &["command"]),
    ]
});

/// Returns tools like those of coding agents.
fn tools() -> [Tool<'static>; 4] {
    let [read_file, list_dir, write_file, run_command] = &*SCHEMAS;
    [
        Tool {
            aliases: &["read", "view", "cat"],
            arguments: &[("file_path", "path")],
            ..Tool::new("read_file", read_file)
        },
        Tool {
            aliases: &["ls", "list_files"],
            arguments: &[("dir", "path")],
            ..Tool::new("list_dir", list_dir)
        },
        Tool {
            aliases: &["write", "create_file"],
            arguments: &[("file_path", "path"), ("text", "content")],
            ..Tool::new("write_file", write_file)
        },
        Tool {
            aliases: &["bash", "shell", "run"],
            arguments: &[("cmd", "command"), ("workdir", "cwd")],
            ..Tool::new("run_command", run_command)
        },
    ]
}

/// Returns the parts of a text cut into these chunks; parts that only the cut separated are joined.
fn scan(pieces: &[&str], cut: bool) -> Vec<Found> {
    let mut scanner = TextScanner::new(tools());
    let mut all: Vec<Found> = Vec::new();
    for piece in pieces {
        let mut found = Vec::new();
        scanner.push(piece, &mut found);
        for next in found {
            join(&mut all, next);
        }
    }
    let mut found = Vec::new();
    scanner.finish(cut, &mut found);
    for next in found {
        join(&mut all, next);
    }
    all
}

fn join(all: &mut Vec<Found>, next: Found) {
    match (all.last_mut(), next) {
        (Some(Found::Text(before)), Found::Text(text))
        | (Some(Found::Thinking(before)), Found::Thinking(text)) => before.push_str(&text),
        (_, next) => all.push(next),
    }
}

/// Returns the parts of a text, which are the same for the whole text and for single characters.
fn found(text: &str) -> Vec<Found> {
    found_in(text, false)
}

fn found_in(text: &str, cut: bool) -> Vec<Found> {
    let whole = scan(&[text], cut);
    let characters: Vec<String> = text.chars().map(String::from).collect();
    let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
    assert_eq!(scan(&characters, cut), whole, "character by character: {text:?}");
    whole
}

/// Renders one line for each part: prose as it is, calls as `tool {arguments}`.
fn render(text: &str) -> String {
    render_parts(&found(text))
}

fn render_parts(found: &[Found]) -> String {
    let line = |found: &Found| match found {
        Found::Text(text) => format!("{text:?}"),
        Found::Thinking(text) => format!("thinking {text:?}"),
        Found::Call { id, tool, input } => {
            let id = id.as_ref().map(|id| format!("#{id} ")).unwrap_or_default();
            match input {
                Ok(input) => format!("{id}{tool} {input}"),
                Err(broken) => format!("{id}{tool} broken: {}", broken.reason),
            }
        }
    };
    found.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn call(tool: &str, input: Value) -> Found {
    Found::Call {
        id: None,
        tool: tool.to_owned(),
        input: Ok(input),
    }
}
