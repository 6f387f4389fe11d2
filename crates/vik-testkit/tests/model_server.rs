//! The model server with requests like those of its clients.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vik_testkit::server::{ModelServer, ModelServerOptions, Script};

struct Reply {
    head: String,
    body: String,
    /// Whether the last chunk or the announced length was received.
    complete: bool,
}

impl Reply {
    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn data(&self) -> Vec<Value> {
        self.body
            .lines()
            .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
            .collect()
    }

    fn kinds(&self) -> Vec<String> {
        self.data()
            .iter()
            .map(|data| data["type"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

fn ask(server: &ModelServer, method: &str, path: &str, headers: &str, body: &str) -> Reply {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let Some((head, remaining)) = text.split_once("\r\n\r\n") else {
        return Reply {
            head: text,
            body: String::new(),
            complete: false,
        };
    };
    if !head.contains("transfer-encoding: chunked") {
        return Reply {
            head: head.to_owned(),
            body: remaining.to_owned(),
            complete: true,
        };
    }
    let (mut body, mut remaining, mut complete) = (String::new(), remaining, false);
    while let Some((size, more)) = remaining.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        complete = size == 0;
        body.push_str(&more[..size]);
        remaining = &more[size + 2..];
    }
    Reply {
        head: head.to_owned(),
        body,
        complete,
    }
}

fn post(server: &ModelServer, path: &str, body: &Value) -> Reply {
    ask(
        server,
        "POST",
        path,
        "authorization: Bearer sk-very-secret\r\n",
        &body.to_string(),
    )
}

fn shell_tool() -> Value {
    json!([{"name": "Bash", "input_schema": {"properties": {"command": {}, "description": {}}}},
        {"name": "Write", "input_schema": {"properties": {"file_path": {}, "content": {}}}}])
}

fn claude(server: &ModelServer, prompt: &str, stream: bool) -> Reply {
    let body = json!({"model": "m", "stream": stream, "max_tokens": 10, "tools": shell_tool(),
        "messages": [{"role": "user", "content": [{"type": "text", "text": prompt}]}]});
    post(server, "/v1/messages?beta=true", &body)
}

fn responses(server: &ModelServer, prompt: &str, tools: &Value) -> Reply {
    let body = json!({"model": "m", "stream": true, "tools": tools, "input": [{"type": "message", "role": "user",
        "content": [{"type": "input_text", "text": prompt}]}]});
    post(server, "/v1/responses", &body)
}

#[test]
fn anthropic_streams_thinking_text_and_parallel_tools() {
    let turn = json!({"thinking": "hm", "text": "Now.", "tools": [{"run": "true"}, {"write": {"path": "a", "content": "b"}}],
        "usage": {"input": 100, "cached": 60, "cache_write": 10, "output": 7}});
    let server = ModelServer::start_json(json!([turn, turn])).unwrap();
    let reply = claude(&server, "go", true);
    assert!(reply.complete && reply.head.contains("text/event-stream"));
    let data = reply.data();
    assert_eq!(data[0]["message"]["usage"]["input_tokens"], 30);
    let starts: Vec<_> = data
        .iter()
        .filter(|d| d["type"] == "content_block_start")
        .collect();
    let names: Vec<_> = starts
        .iter()
        .map(|d| d["content_block"]["name"].as_str().unwrap_or("-"))
        .collect();
    assert_eq!(names, ["-", "-", "Bash", "Write"]);
    let signed = data.iter().any(|d| d["delta"]["type"] == "signature_delta");
    let arguments: String = data
        .iter()
        .filter(|d| d["index"] == 3)
        .filter_map(|d| d["delta"]["partial_json"].as_str())
        .collect();
    assert!(signed);
    assert_eq!(
        serde_json::from_str::<Value>(&arguments).unwrap(),
        json!({"file_path": "a", "content": "b"})
    );
    let end = &data[data.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    assert_eq!(end["usage"]["output_tokens"], 7);

    let whole = claude(&server, "go", false).json();
    assert_eq!(whole["content"].as_array().unwrap().len(), 4);
    assert_eq!(whole["content"][2]["input"]["command"], "true");
}

#[test]
fn responses_support_classic_tools_and_code_mode() {
    let script =
        json!([{"text": "a", "run": "echo 'x'"}, {"tools": [{"write": {"path": "p", "content": "1\n2\n"}}]}]);
    let server = ModelServer::start_json(script).unwrap();
    let classic = json!([{"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {}}}},
        {"type": "custom", "name": "apply_patch"}]);
    let item = |reply: &Reply| {
        let data = reply.data();
        let done = data
            .iter()
            .rfind(|d| d["type"] == "response.output_item.done")
            .unwrap();
        (done["item"].clone(), data.last().unwrap()["type"].clone())
    };
    let (call, end) = item(&responses(&server, "KEY: classic", &classic));
    assert_eq!(
        (call["name"].as_str(), end.as_str()),
        (Some("exec_command"), Some("response.completed"))
    );
    assert_eq!(call["arguments"], r#"{"cmd":"echo 'x'"}"#);
    let (call, _) = item(&responses(&server, "KEY: classic", &classic));
    assert_eq!(call["type"], "custom_tool_call");
    assert_eq!(
        call["input"],
        "*** Begin Patch\n*** Add File: p\n+1\n+2\n*** End Patch\n"
    );

    let code_mode = json!({"model": "m", "stream": true, "input": [
        {"type": "additional_tools", "tools": [{"type": "custom", "name": "exec"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "KEY: code"}]}]});
    let (call, _) = item(&post(&server, "/v1/responses", &code_mode));
    assert_eq!(
        (call["type"].as_str(), call["name"].as_str()),
        (Some("custom_tool_call"), Some("exec"))
    );
    assert!(
        call["input"]
            .as_str()
            .unwrap()
            .contains(r#"tools.exec_command({"cmd":"echo 'x'"})"#)
    );
}

#[test]
fn chat_completions_stream_or_come_as_one_body() {
    let server =
        ModelServer::start_json(json!([{"thinking": "t", "text": "hello", "run": "ls", "times": 2}]))
            .unwrap();
    let tools = json!([{"type": "function", "function": {"name": "run_command", "parameters": {"properties": {"command": {}}}}}]);
    let mut body = json!({"model": "m", "tools": tools, "messages": [{"role": "user", "content": "KEY: 1"}]});
    let whole = post(&server, "/v1/chat/completions", &body).json();
    assert_eq!(whole["choices"][0]["message"]["content"], "hello");
    assert_eq!(
        whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"],
        r#"{"command":"ls"}"#
    );
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let reply = post(&server, "/v1/chat/completions", &body);
    assert!(reply.body.ends_with("data: [DONE]\n\n"));
    let data = reply.data();
    assert_eq!(data.last().unwrap()["usage"]["prompt_tokens"], 1000);
    assert_eq!(data[data.len() - 2]["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn prompt_chooses_the_script_and_key_shares_the_position() {
    let named = Script::parse(r#"[{"text":"one"},{"text":"two"}]"#).unwrap();
    let options = ModelServerOptions {
        scripts: HashMap::from([("named".to_owned(), named)]),
        ..Default::default()
    };
    let server = ModelServer::start_with(options).unwrap();
    let text = |prompt: &str| claude(&server, prompt, false).json()["content"][0]["text"].clone();
    assert_eq!(text("x\nSCRIPT: named\nKEY: k"), "one");
    assert_eq!(text("another run\n  SCRIPT: named\nKEY: k"), "two");
    assert_eq!(text("SCRIPT: named\nKEY: k"), "Done.");
    // Without a key the same message starts again when the script has ended.
    let again: Vec<Value> = (0..3).map(|_| text("SCRIPT: named")).collect();
    assert_eq!(again, ["one", "two", "one"]);
    assert_eq!(text("SCRIPT_JSON: [{\"text\":\n\"inline\"}]\nmore"), "inline");
    let wrong = claude(&server, "SCRIPT: nowhere", true);
    assert_eq!(wrong.status(), 400);
    assert!(server.failures()[0].contains("nowhere"));
}

#[test]
fn errors_have_their_status_headers_and_dialect() {
    let script = json!([{"status": 429, "retry_after": 2, "headers": {"x-limit": "0"}, "times": 2}, {"status": 529},
        {"status": 500, "error": {"error": {"message": "own"}}}]);
    let server = ModelServer::start_json(script).unwrap();
    let reply = claude(&server, "KEY: 1", true);
    assert_eq!(
        (reply.status(), &reply.json()["error"]["type"]),
        (429, &json!("rate_limit_error"))
    );
    assert!(reply.head.contains("retry-after: 2\r\n") && reply.head.contains("x-limit: 0"));
    let reply = responses(&server, "KEY: 1", &json!([]));
    assert_eq!(
        (reply.status(), &reply.json()["error"]["code"]),
        (429, &json!("rate_limit_exceeded"))
    );
    assert_eq!(
        claude(&server, "KEY: 1", true).json()["error"]["type"],
        "overloaded_error"
    );
    assert_eq!(
        claude(&server, "KEY: 1", true).json(),
        json!({"error": {"message": "own"}})
    );
}

#[test]
fn streams_break_at_the_scripted_point() {
    let text = "x".repeat(200);
    let script = json!([
        {"text": text, "drop": "mid"}, {"text": text, "drop": "before_done"}, {"run": "echo a long command", "drop": "tool"},
        {"drop": "headers"}, {"text": text, "sse_error": "overloaded_error"}, {"malformed": "html"},
        {"run": "ls", "malformed": "args"}]);
    let server = ModelServer::start_json(script).unwrap();
    let mid = claude(&server, "KEY: 1", true);
    assert!(!mid.complete && mid.kinds().last().unwrap() == "content_block_delta");
    let before_done = claude(&server, "KEY: 1", true);
    assert!(!before_done.complete && before_done.kinds().last().unwrap() == "message_delta");
    let tool = claude(&server, "KEY: 1", true);
    assert!(
        !tool.complete && tool.body.contains("input_json_delta") && !tool.body.contains("content_block_stop")
    );
    assert_eq!(claude(&server, "KEY: 1", true).head, "");
    let error = claude(&server, "KEY: 1", true);
    assert_eq!(error.data().last().unwrap()["error"]["type"], "overloaded_error");
    assert!(claude(&server, "KEY: 1", true).body.starts_with("<html>"));
    let call: String = claude(&server, "KEY: 1", true)
        .data()
        .iter()
        .filter_map(|d| d["delta"]["partial_json"].as_str().map(str::to_owned))
        .collect();
    assert!(serde_json::from_str::<Value>(&call).is_err());
    let outcomes: Vec<_> = server.turns().iter().map(|turn| turn.outcome).collect();
    assert_eq!(
        outcomes,
        ["drop", "drop", "drop", "drop", "sse_error", "malformed", "ok"]
    );
}

#[test]
fn server_stops_at_once_while_it_stalls() {
    let server = ModelServer::start_json(
        json!([{"text": "abc", "stall": "mid", "ping": true}, {"delay_ms": 600_000}]),
    )
    .unwrap();
    let addr = server.addr();
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let mut stream = TcpStream::connect(addr).unwrap();
            let body =
                json!({"stream": true, "messages": [{"role": "user", "content": "KEY: 1"}]}).to_string();
            write!(
                stream,
                "POST /v1/messages HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
            stream
        })
        .collect();
    vik_testkit::eventually("both have asked", || server.turns().len() == 2);
    let started = Instant::now();
    server.stop();
    assert!(started.elapsed() < Duration::from_secs(5));
    for mut client in clients {
        let _ = client.read_to_end(&mut Vec::new());
    }
}

#[test]
fn side_calls_and_probes_take_no_turn_and_no_secret_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("r.jsonl");
    let default = Script::parse(r#"[{"text":"first"}]"#).unwrap();
    let options = ModelServerOptions {
        default,
        record: Some(record.clone()),
        ..Default::default()
    };
    let server = ModelServer::start_with(options).unwrap();
    assert_eq!(ask(&server, "HEAD", "/", "", "").status(), 200);
    assert_eq!(ask(&server, "GET", "/v1/models", "", "").json()["object"], "list");
    assert!(
        post(&server, "/v1/messages/count_tokens?beta=true", &json!({"a": "b"})).json()["input_tokens"]
            .is_u64()
    );
    let title =
        json!({"messages": [{"role": "user", "content": "SCRIPT: none"}], "output_config": {"format": {}}});
    let reply = ask(
        &server,
        "POST",
        "/v1/messages",
        "user-agent: claude-cli/2\r\n",
        &title.to_string(),
    );
    assert!(
        reply.json()["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("title")
    );
    assert_eq!(claude(&server, "go", false).json()["content"][0]["text"], "first");
    assert_eq!((server.requests().len(), server.turns().len()), (5, 1));
    let lines = std::fs::read_to_string(record).unwrap();
    assert_eq!(lines.lines().count(), 5);
    assert!(!lines.contains("very-secret") && lines.contains("[secret]"));
}

#[test]
fn turn_fails_without_the_expected_text() {
    let server =
        ModelServer::start_json(json!([{"expect": "a\"b", "text": "fine"}, {"expect": "missing"}])).unwrap();
    assert_eq!(claude(&server, "KEY: 1 a\"b", false).status(), 200);
    assert_eq!(claude(&server, "KEY: 1 a\"b", false).status(), 400);
    assert!(server.failures()[0].contains("missing"));
}
