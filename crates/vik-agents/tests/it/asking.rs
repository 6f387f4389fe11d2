//! Interactive agents: the requests and answers that follow from lines which no recording contains.

use vik_agents::{AgentRequest, ApprovalRequest, Exit, LaunchError, Verdict, driver};
use vik_core::workflow::Runtime;

use crate::recording::find;
use crate::{initial_input, interactive, profile, read};

fn requests_for(runtime: Runtime, lines: &[&str]) -> Vec<AgentRequest> {
    let mut adapter = interactive(runtime);
    let mut requests = adapter.take_requests();
    requests.extend(read(adapter.as_mut(), lines).1);
    requests
}

#[test]
fn claude_code_input_stays_open_for_background_agents() {
    let tasks = |tasks: &str| {
        format!(r#"{{"type":"system","subtype":"background_tasks_changed","tasks":[{tasks}]}}"#)
    };
    let agent =
        tasks(r#"{"task_id":"a","task_type":"local_agent"},{"task_id":"b","task_type":"local_bash"}"#);
    // A background command may run for ever: Claude Code itself ends it.
    let shell = tasks(r#"{"task_id":"b","task_type":"local_bash"}"#);
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"x","session_id":"s"}"#;
    let closed = |lines: &[&str]| {
        let requests = requests_for(Runtime::ClaudeCode, lines);
        requests
            .iter()
            .filter(|request| matches!(request, AgentRequest::TurnEnded { .. }))
            .count()
    };
    assert_eq!(closed(&[result]), 1);
    assert_eq!(closed(&[&agent, result]), 0);
    assert_eq!(closed(&[&agent, result, &shell, result]), 1);
    assert_eq!(closed(&[&shell, result]), 1);
}

fn has_protocol_error(requests: &[AgentRequest]) -> bool {
    requests
        .iter()
        .any(|request| matches!(request, AgentRequest::ProtocolError(_)))
}

#[test]
fn claude_code_gets_no_prompt_before_the_hook_is_accepted() {
    let refused =
        r#"{"type":"control_response","response":{"subtype":"error","request_id":"vik-init","error":"no"}}"#;
    let requests = requests_for(Runtime::ClaudeCode, &[refused]);
    assert!(has_protocol_error(&requests), "{requests:?}");
    let has_prompt =
        |request: &AgentRequest| matches!(request, AgentRequest::Send(line) if line.contains("Do it"));
    assert!(!requests.iter().any(has_prompt), "{requests:?}");
}

#[test]
fn approval_request_that_cannot_be_parsed_is_never_allowed() {
    let callback = |input: &str| {
        format!(
            r#"{{"type":"control_request","request_id":"q","request":{{"subtype":"hook_callback","callback_id":"vik-hook","input":{input}}}}}"#
        )
    };
    for input in [
        "null",
        "{}",
        r#"{"hook_event_name":"PreToolUse","tool_name":7,"tool_input":{},"tool_use_id":"t"}"#,
        r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":[1],"tool_use_id":"t"}"#,
        r#"{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{},"tool_use_id":"t"}"#,
    ] {
        let requests = requests_for(Runtime::ClaudeCode, &[&callback(input)]);
        let AgentRequest::Send(line) = requests.last().unwrap() else {
            panic!("{input}: {requests:?}")
        };
        assert!(line.contains(r#""permissionDecision":"deny""#), "{input}: {line}");
    }
    for line in [
        r#"{"type":"control_request","request":{"subtype":"hook_callback"}}"#,
        r#"{"type":"control_request","request_id":7}"#,
        r#"{"type":"control_response"}"#,
    ] {
        let requests = requests_for(Runtime::ClaudeCode, &[line]);
        assert!(has_protocol_error(&requests), "{line}: {requests:?}");
    }
    let other = r#"{"type":"control_request","request_id":"q","request":{"subtype":"elicitation"}}"#;
    let requests = requests_for(Runtime::ClaudeCode, &[other]);
    assert!(
        matches!(requests.last(), Some(AgentRequest::Send(line)) if line.contains(r#""subtype":"error""#))
    );
}

#[test]
fn call_without_approval_ends_the_session() {
    let result = |error: bool| {
        format!(
            r#"{{"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":"x","is_error":{error}}}]}}}}"#
        )
    };
    assert!(has_protocol_error(&requests_for(
        Runtime::ClaudeCode,
        &[&result(false)]
    )));
    // A call that Claude Code refused itself had no effect.
    assert!(!has_protocol_error(&requests_for(
        Runtime::ClaudeCode,
        &[&result(true)]
    )));
}

/// After an upgrade of Vik, the request of the thread may have been sent in two forms.
#[test]
fn codex_gets_one_prompt_for_two_threads() {
    let thread = |id: char| {
        format!(r#"{{"id":2,"result":{{"thread":{{"id":"01a2064f-a111-7713-8406-06d53340135{id}"}}}}}}"#)
    };
    let requests = requests_for(
        Runtime::Codex,
        &[r#"{"id":1,"result":{}}"#, &thread('a'), &thread('b')],
    );
    let prompts = requests.iter().filter(
        |request| matches!(request, AgentRequest::Send(line) if line.contains(r#""method":"turn/start""#)),
    );
    assert_eq!(prompts.count(), 1, "{requests:?}");
}

/// Settings of Codex that Vik does not know may allow calls.
#[test]
fn codex_call_without_approval_request_is_reported() {
    let item = |method: &str, item: &str| {
        format!(r#"{{"method":"item/{method}","params":{{"threadId":"t","turnId":"u","item":{item}}}}}"#)
    };
    let command = |status: &str, code: &str| {
        let item_json = format!(
            r#"{{"id":"c","type":"commandExecution","command":"touch x","status":"{status}","exitCode":{code}}}"#
        );
        item("completed", &item_json)
    };
    let patch = |status: &str| {
        format!(
            r#"{{"id":"p","type":"fileChange","status":"{status}","changes":[{{"path":"/ws/a","kind":{{"type":"add"}},"diff":""}}]}}"#
        )
    };
    let tool = |result: &str| {
        let item_json = format!(
            r#"{{"id":"m","type":"mcpToolCall","server":"s","tool":"close","status":"completed","arguments":{{"path":"a"}},"result":{result}}}"#
        );
        item("completed", &item_json)
    };
    let unasked = |lines: &[&str]| -> Vec<String> {
        let requests = requests_for(Runtime::Codex, lines).into_iter();
        let calls = requests.filter_map(|request| match request {
            AgentRequest::Unasked(call) => Some(call),
            _ => None,
        });
        calls
            .map(|call| {
                format!(
                    "{} {} {}",
                    call.tool,
                    call.command.unwrap_or_default(),
                    call.paths.join(",")
                )
            })
            .collect()
    };
    assert_eq!(
        unasked(&[&command("completed", "0")]),
        ["command_execution touch x "]
    );
    assert_eq!(
        unasked(&[&command("failed", "1")]),
        ["command_execution touch x "]
    );
    assert_eq!(
        unasked(&[&command("declined", "null")]),
        [""; 0],
        "it had no effect"
    );
    let (started, completed) = (
        item("started", &patch("inProgress")),
        item("completed", &patch("completed")),
    );
    assert_eq!(unasked(&[&started, &completed]), ["file_change  /ws/a"]);
    assert_eq!(unasked(&[&tool("{}")]), ["mcp__s__close  a"]);

    let ask_command = r#"{"id":0,"method":"item/commandExecution/requestApproval","params":{"threadId":"t","turnId":"u","itemId":"c","command":"touch x"}}"#;
    let ask_tool = r#"{"id":1,"method":"mcpServer/elicitation/request","params":{"threadId":"t","turnId":"u","serverName":"s","_meta":{"codex_approval_kind":"mcp_tool_call","tool_name":"close"}}}"#;
    assert_eq!(
        unasked(&[ask_command, &command("completed", "0"), ask_tool, &tool("{}")]),
        [""; 0]
    );
    // One request is for one call.
    assert_eq!(unasked(&[ask_tool, &tool("{}"), &tool("{}")]).len(), 1);
}

#[test]
fn codex_requests_beyond_a_call_are_refused() {
    let start = [
        r#"{"id":1,"result":{}}"#,
        r#"{"id":2,"result":{"thread":{"id":"01a2064f-a111-7713-8406-06d53340135b"}}}"#,
    ];
    let command = r#"{"id":0,"method":"item/commandExecution/requestApproval","params":{"threadId":"t","turnId":"u"MORE}}"#;
    let command = |more: &str| command.replace("MORE", more);
    for (request, expected) in [
        // An unknown command, more permissions, another sandbox.
        (command(""), "decline"),
        (
            command(r#","command":"ls","additionalPermissions":{"network":{"enabled":true}}"#),
            "decline",
        ),
        (command(r#","command":"ls","reason":"retry without sandbox?""#), "decline"),
        // A patch that was not announced, a form for a person.
        (
            r#"{"id":0,"method":"item/fileChange/requestApproval","params":{"threadId":"t","turnId":"u","itemId":"x"}}"#
                .to_owned(),
            "decline",
        ),
        (
            r#"{"id":0,"method":"mcpServer/elicitation/request","params":{"threadId":"t","turnId":"u","serverName":"s","message":"?"}}"#
                .to_owned(),
            "decline",
        ),
        (
            r#"{"id":0,"method":"execCommandApproval","params":{}}"#.to_owned(),
            "error",
        ),
        (
            r#"{"id":0,"method":"item/tool/requestUserInput"}"#.to_owned(),
            "error",
        ),
    ] {
        let requests = requests_for(Runtime::Codex, &[start[0], start[1], &request]);
        let Some(AgentRequest::Send(line)) = requests.last() else {
            panic!("{request}: {requests:?}")
        };
        assert!(
            line.starts_with(r#"{"id":0,"#) && line.contains(expected),
            "{request}: {line}"
        );
    }
    let refused = r#"{"id":2,"error":{"code":-32600,"message":"no rollout found for thread id x"}}"#;
    let mut adapter = interactive(Runtime::Codex);
    for line in [start[0], refused] {
        adapter.line(line.as_bytes(), &mut |_| {});
    }
    assert_eq!(adapter.take_requests().pop(), Some(AgentRequest::Close));
    let conclusion = adapter.conclude(Exit::Code(0), "");
    assert!(conclusion.reason.unwrap().contains("no rollout found"));
}

#[test]
fn vex_approval_request_that_cannot_be_parsed_ends_the_session() {
    let requests = requests_for(Runtime::Vex, &[r#"{"v":1,"type":"ask","ask":7}"#]);
    assert!(has_protocol_error(&requests), "{requests:?}");
}

#[test]
fn approval_request_can_be_withdrawn() {
    let line = r#"{"type":"control_cancel_request","request_id":"q"}"#;
    let withdrawn = AgentRequest::Withdraw { id: "q".to_owned() };
    assert!(requests_for(Runtime::ClaudeCode, &[line]).contains(&withdrawn));
}

#[test]
fn interactive_adapter_refuses_runtime_command() {
    let driver = driver(Runtime::Command);
    let made = driver.interactive_adapter(&profile(Runtime::Command), None, &initial_input());
    assert!(matches!(made.err(), Some(LaunchError::NotInteractive { .. })));
}

/// Returns the approval request of Claude Code for this tool and input.
fn approval_request(tool: &str, input: &str) -> ApprovalRequest {
    let tool = serde_json::Value::from(tool);
    let line = format!(
        r#"{{"type":"control_request","request_id":"a\"b","request":{{"subtype":"hook_callback","callback_id":"vik-hook","input":{{"hook_event_name":"PreToolUse","tool_name":{tool},"tool_input":{input},"tool_use_id":"t"}}}}}}"#
    );
    match requests_for(Runtime::ClaudeCode, &[&line]).pop() {
        Some(AgentRequest::Approval(approval)) => approval,
        request => panic!("{request:?}"),
    }
}

#[test]
fn approval_request_names_command_and_paths() {
    let bash = approval_request("Bash", r#"{"command":"rm -rf \"$HOME\"\n","timeout":3}"#);
    assert_eq!(bash.call.command.as_deref(), Some("rm -rf \"$HOME\"\n"));
    assert!(bash.call.paths.is_empty());
    let write = approval_request("Write", r#"{"file_path":"/ws/a","content":"x"}"#);
    assert_eq!(
        (write.writes, &*write.call.paths),
        (true, &["/ws/a".to_owned()][..])
    );
    assert!(!approval_request("Read", r#"{"file_path":"/ws/a"}"#).writes);
    assert!(approval_request("NotebookEdit", r#"{"notebook_path":"/ws/a"}"#).writes);
    // A value that is not a string is checked in its JSON form.
    let server = approval_request("mcp__db__run", r#"{"command":["rm","-rf"],"path":{"a":1}}"#);
    assert_eq!(server.call.command.as_deref(), Some(r#"["rm","-rf"]"#));
    assert_eq!(
        (server.writes, &*server.call.paths),
        (false, &[r#"{"a":1}"#.to_owned()][..])
    );
}

/// Generates recordings with some lines broken, repeated or removed.
fn mutated() -> impl proptest::strategy::Strategy<Value = (Runtime, Vec<Vec<u8>>)> {
    use proptest::prelude::*;
    let names = [
        "claude/interactive/session",
        "codex/interactive/session",
        "codex/interactive/server-tools",
    ];
    let change = (0..100_usize, 0..4_u8, any::<prop::sample::Index>(), any::<u8>());
    let changes = prop::collection::vec(change, 0..12);
    let recordings = prop::sample::select(names.map(find).to_vec());
    (recordings, changes).prop_map(|(recording, changes)| {
        let text = &recording.stdout;
        let mut lines: Vec<Vec<u8>> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
        for (at, mutation, index, byte) in changes {
            let at = at % lines.len();
            match mutation {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                2 => {
                    let place = index.index(lines[at].len().max(1)).min(lines[at].len());
                    lines[at].truncate(place);
                }
                _ => {
                    let place = index.index(lines[at].len().max(1));
                    if let Some(found) = lines[at].get_mut(place) {
                        *found = byte;
                    }
                }
            }
        }
        (recording.runtime(), lines)
    })
}

proptest::proptest! {
    /// Any output is handled without a panic, and reading it again gives the same requests.
    #[test]
    fn requests_are_the_same_for_the_same_lines((runtime, lines) in mutated()) {
        let read = || {
            let mut adapter = interactive(runtime);
            let mut requests = adapter.take_requests();
            for line in &lines {
                adapter.line(line, &mut |_| {});
                requests.append(&mut adapter.take_requests());
            }
            for request in &requests {
                if let AgentRequest::Approval(approval) = request {
                    for verdict in [Verdict::Allow, Verdict::Refuse("no")] {
                        let lines = adapter.answer(approval, verdict);
                        let last = lines.last().map(String::as_str).unwrap_or_default();
                        assert!(last.starts_with(&approval.answer_prefix), "{last}");
                        assert!(lines.iter().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
                    }
                }
            }
            requests
        };
        let requests = read();
        let closes = requests.iter().filter(|request| matches!(request, AgentRequest::Close)).count();
        proptest::prop_assert!(closes <= 1);
        proptest::prop_assert_eq!(requests, read());
    }

    /// For any refusal message, the answer is one JSON line with this message and the required
    /// prefix.
    #[test]
    fn answer_is_one_line_with_the_refusal_message(message in ".*") {
        let approval = approval_request("Bash", r#"{"command":"x"}"#);
        let adapter = interactive(Runtime::ClaudeCode);
        let lines = adapter.answer(&approval, Verdict::Refuse(&message));
        proptest::prop_assert_eq!(lines.len(), 1);
        proptest::prop_assert!(!lines[0].contains('\n') && lines[0].starts_with(&approval.answer_prefix));
        let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        let response = &line["response"];
        proptest::prop_assert_eq!(response["request_id"].as_str(), Some("a\"b"));
        let reason = response["response"]["hookSpecificOutput"]["permissionDecisionReason"].as_str().unwrap();
        proptest::prop_assert_eq!(reason.strip_prefix("Refused by Vik: "), Some(&*message));
    }
}
