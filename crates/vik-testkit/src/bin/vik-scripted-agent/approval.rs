//! Claude Code's in-band approval protocol, as far as a supervisor needs it: the hook is
//! registered, the prompt is a line, and each `ask` waits for its answer.

use std::io::BufRead;

use serde_json::{Value, json};

use crate::util::{Stop, print};

pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) line: String,
}

/// Returns whether the arguments ask for the protocol.
pub(crate) fn is_wanted(argv: &[String]) -> bool {
    crate::value_after(argv, "--input-format") == Some("stream-json")
}

/// Accepts the hook and returns the prompt.
pub(crate) fn prompt() -> Option<Vec<u8>> {
    let init: Value = serde_json::from_str(&read().ok()?).ok()?;
    let response = json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": init["request_id"], "response": {}}});
    print(format!("{response}\n").as_bytes()).ok()?;
    let user: Value = serde_json::from_str(&read().ok()?).ok()?;
    Some(user["message"]["content"].as_str()?.as_bytes().to_vec())
}

/// Asks for approval of a call of this tool and waits for the answer.
pub(crate) fn ask(id: &str, tool: &str, input: &Value) -> Result<Answer, Stop> {
    let request = json!({"type": "control_request", "request_id": format!("ask-{id}"), "request": {
        "subtype": "hook_callback", "callback_id": "vik-hook", "tool_use_id": id, "input": {
            "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input, "tool_use_id": id}}});
    print(format!("{request}\n").as_bytes())?;
    let line = read()?;
    let answer: Value = serde_json::from_str(&line).map_err(|error| Stop::from(error.to_string()))?;
    let response = &answer["response"];
    if response["request_id"] != format!("ask-{id}") {
        return Err(format!("an answer to something else: {line}").into());
    }
    let decision = &response["response"]["hookSpecificOutput"]["permissionDecision"];
    Ok(Answer {
        allowed: decision != "deny",
        line,
    })
}

fn read() -> Result<String, Stop> {
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line)? == 0 {
        return Err("the input ended before the answer came".to_owned().into());
    }
    Ok(line.trim_end().to_owned())
}
