//! Maps tool calls of a script to the tools that the client offers.

use serde_json::{Map, Value, json};

use super::request::{ModelRequest, OfferedTool};
use super::script::Tool;

/// A tool call in the form of the client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) input: Input,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    Json(Value),
    /// A freeform tool's text.
    Text(String),
}

const RUN: &[&str] = &[
    "exec_command",
    "Bash",
    "run_command",
    "shell_command",
    "shell",
    "bash",
    "run_shell_command",
    "local_shell",
];
const WRITE: &[&str] = &["Write", "write_file", "write", "create", "create_file"];
const EDIT: &[&str] = &["Edit", "edit_file", "edit", "str_replace", "replace"];
const READ: &[&str] = &["Read", "read_file", "read", "view"];

const COMMAND_KEYS: &[&str] = &["cmd", "command", "script"];
const PATH_KEYS: &[&str] = &["file_path", "path", "filePath", "absolute_path"];
const CONTENT_KEYS: &[&str] = &["content", "contents", "file_text", "text"];
const OLD_KEYS: &[&str] = &["old_string", "old_text", "old_str", "oldString", "old"];
const NEW_KEYS: &[&str] = &["new_string", "new_text", "new_str", "newString", "new"];

/// Returns the call, or why the client cannot make it.
pub(crate) fn translate(tool: &Tool, request: &ModelRequest<'_>) -> Result<Call, String> {
    if request.code_mode {
        return Ok(javascript(tool));
    }
    let offered = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| request.offered.iter().find(|o| o.name == *name))
    };
    let freeform_patch = request
        .offered
        .iter()
        .find(|o| o.name == "apply_patch" && o.freeform);
    let missing = || {
        let names: Vec<&str> = request.offered.iter().map(|o| o.name.as_str()).collect();
        format!("no offered tool supports {tool:?}; offered tools: {names:?}")
    };
    match tool {
        Tool::Run(command) => {
            let shell = offered(RUN).ok_or_else(missing)?;
            Ok(call(shell, vec![(COMMAND_KEYS, json!(command))]))
        }
        Tool::Write { path, content } => {
            if let Some(write) = offered(WRITE) {
                return Ok(call(
                    write,
                    vec![
                        (PATH_KEYS, json!(request.path(path))),
                        (CONTENT_KEYS, json!(content)),
                    ],
                ));
            }
            if freeform_patch.is_some() {
                return Ok(patch(&add_patch(&request.path(path), content)));
            }
            let shell = offered(RUN).ok_or_else(missing)?;
            Ok(call(
                shell,
                vec![(COMMAND_KEYS, json!(write_command(&request.path(path), content)))],
            ))
        }
        Tool::Edit { path, old, new } => {
            if let Some(edit) = offered(EDIT) {
                let arguments = vec![
                    (PATH_KEYS, json!(request.path(path))),
                    (OLD_KEYS, json!(old)),
                    (NEW_KEYS, json!(new)),
                ];
                return Ok(call(edit, arguments));
            }
            if freeform_patch.is_some() {
                return Ok(patch(&update_patch(&request.path(path), old, new)));
            }
            let shell = offered(RUN).ok_or_else(missing)?;
            Ok(call(
                shell,
                vec![(COMMAND_KEYS, json!(edit_command(&request.path(path), old, new)))],
            ))
        }
        Tool::Read(path) => {
            if let Some(read) = offered(READ) {
                return Ok(call(read, vec![(PATH_KEYS, json!(request.path(path)))]));
            }
            let shell = offered(RUN).ok_or_else(missing)?;
            Ok(call(
                shell,
                vec![(
                    COMMAND_KEYS,
                    json!(format!("cat {}", quoted(&request.path(path)))),
                )],
            ))
        }
        Tool::Call {
            name,
            namespace,
            input,
        } => {
            let input = match input {
                Value::String(text) => Input::Text(text.clone()),
                Value::Null => Input::Json(json!({})),
                other => Input::Json(other.clone()),
            };
            Ok(Call {
                name: name.clone(),
                namespace: namespace.clone(),
                input,
            })
        }
    }
}

/// Creates a call with the argument names of this tool's schema, or the first of each list.
fn call(tool: &OfferedTool, arguments: Vec<(&[&str], Value)>) -> Call {
    let mut input = Map::new();
    for (keys, value) in arguments {
        let known = keys.iter().find(|key| tool.properties.contains_key(**key));
        let key = known.or(keys.first()).copied().unwrap_or_default();
        let wants_list = tool
            .properties
            .get(key)
            .is_some_and(|schema| schema["type"] == "array");
        let value = if wants_list {
            json!(["bash", "-lc", value])
        } else {
            value
        };
        input.insert(key.to_owned(), value);
    }
    if tool.properties.contains_key("description") {
        input.insert("description".to_owned(), json!("scripted call"));
    }
    Call {
        name: tool.name.clone(),
        namespace: None,
        input: Input::Json(Value::Object(input)),
    }
}

fn patch(text: &str) -> Call {
    Call {
        name: "apply_patch".to_owned(),
        namespace: None,
        input: Input::Text(text.to_owned()),
    }
}

/// Creates a call with JavaScript for Codex's code mode.
fn javascript(tool: &Tool) -> Call {
    let code = match tool {
        Tool::Run(command) => command_code(command),
        Tool::Write { path, content } => patch_code(&add_patch(path, content)),
        Tool::Edit { path, old, new } => patch_code(&update_patch(path, old, new)),
        Tool::Read(path) => command_code(&format!("cat {}", quoted(path))),
        Tool::Call {
            input: Value::String(code),
            ..
        } => code.clone(),
        Tool::Call {
            name,
            namespace,
            input,
        } => {
            let name = namespace
                .as_ref()
                .map_or_else(|| name.clone(), |space| format!("{space}__{name}"));
            format!("text(await tools.{name}({input}));")
        }
    };
    Call {
        name: "exec".to_owned(),
        namespace: None,
        input: Input::Text(code),
    }
}

fn command_code(command: &str) -> String {
    format!(
        "const r = await tools.exec_command({}); text(r);",
        json!({"cmd": command})
    )
}

fn patch_code(patch: &str) -> String {
    format!("text(await tools.apply_patch({}));", json!(patch))
}

fn add_patch(path: &str, content: &str) -> String {
    let lines: String = content.lines().map(|line| format!("+{line}\n")).collect();
    format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n")
}

fn update_patch(path: &str, old: &str, new: &str) -> String {
    let marked =
        |mark: char, text: &str| -> String { text.lines().map(|line| format!("{mark}{line}\n")).collect() };
    let (old, new) = (marked('-', old), marked('+', new));
    format!("*** Begin Patch\n*** Update File: {path}\n@@\n{old}{new}*** End Patch\n")
}

fn write_command(path: &str, content: &str) -> String {
    let path = quoted(path);
    format!(
        "mkdir -p \"$(dirname -- {path})\" && printf %s {} > {path}",
        quoted(content)
    )
}

fn edit_command(path: &str, old: &str, new: &str) -> String {
    let (path, old, new) = (quoted(path), quoted(old), quoted(new));
    format!("OLD={old} NEW={new} perl -0777 -pi -e 's/\\Q$ENV{{OLD}}\\E/$ENV{{NEW}}/' {path}")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
