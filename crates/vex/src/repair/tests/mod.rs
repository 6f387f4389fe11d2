mod any_text;
mod arguments;
mod calls;
mod prose;

use serde_json::Value;

use super::{Found, TextScanner};
use crate::conversation::Arguments;
use crate::tools::{Permission, Root, ToolDefinition, Toolbox};

pub(super) fn tools() -> Vec<ToolDefinition> {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path(), true).unwrap();
    Toolbox::new(root, Permission::Full).definitions().to_vec()
}

/// Returns the parts of a text cut into these chunks; parts that only the cut separated are joined.
fn scan(pieces: &[&str], cut: bool) -> Vec<Found> {
    let mut scanner = TextScanner::new(&tools());
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
                Arguments::Json(input) => format!("{id}{tool} {input}"),
                Arguments::Broken { reason, .. } => format!("{id}{tool} broken: {reason}"),
            }
        }
    };
    found.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn call(tool: &str, input: Value) -> Found {
    Found::Call {
        id: None,
        tool: tool.to_owned(),
        input: Arguments::Json(input),
    }
}
