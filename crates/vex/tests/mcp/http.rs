//! A server that is reached by HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::{Bench, DATA};

/// A server of streamable HTTP on a port of its own. It answers with JSON, and keeps the headers.
struct HttpServer {
    url: String,
    authorizations: Arc<Mutex<Vec<String>>>,
}

impl HttpServer {
    fn start() -> Self {
        Self::answering(answer)
    }

    fn answering(answer: fn(&Value) -> Option<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let authorizations = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&authorizations);
        // It ends with the program of the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || serve(stream, &seen, answer));
            }
        });
        Self { url, authorizations }
    }
}

fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Vec<String>>,
    answer: fn(&Value) -> Option<Value>,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).ok()? == 0 {
            return None;
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().ok()?,
                "authorization" => seen.lock().unwrap().push(value.to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let answer = if first.starts_with("POST") {
            serde_json::from_slice(&body)
                .ok()
                .and_then(|message| answer(&message))
        } else {
            None
        };
        let (status, body) = match &answer {
            Some(Value::String(status)) => (status.as_str(), "<html>not now</html>".to_owned()),
            Some(answer) => ("200 OK", answer.to_string()),
            None if first.starts_with("POST") => ("202 Accepted", String::new()),
            None => ("405 Method Not Allowed", String::new()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).ok()?;
    }
}

fn answer(message: &Value) -> Option<Value> {
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "web", "version": "1"}}),
        "tools/list" => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            json!({"tools": [tool("echo"), tool("big")]})
        }
        "tools/call" if message["params"]["name"] == "big" => {
            json!({"content": [{"type": "text", "text": "x".repeat(20_000_000)}]})
        }
        "tools/call" => {
            json!({"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]})
        }
        _ => {
            return Some(
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}}),
            );
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Answers like [`answer`], but with an error page to `tools/list`.
fn locked_answer(message: &Value) -> Option<Value> {
    match message["method"].as_str() {
        Some("tools/list") => Some(json!("401 Unauthorized")),
        _ => answer(message),
    }
}

#[test]
fn status_of_an_http_server_is_the_reason() {
    let server = HttpServer::answering(locked_answer);
    let ran = Bench::with(json!({"url": server.url}), &[]).allowed();
    let message = ran.end()["message"].as_str().unwrap();
    let reason = message.strip_prefix("the MCP server s does not start: it does not list its tools: ");
    assert!(reason.is_some_and(|reason| reason.contains("401")), "{message}");
    assert!(!message.contains("::"), "{message}");
}

/// Answers like [`answer`], but methods that it does not know with an empty result.
fn vague_answer(message: &Value) -> Option<Value> {
    let answer = answer(message)?;
    let is_unknown = answer.get("error").is_some();
    Some(match is_unknown {
        true => json!({"jsonrpc": "2.0", "id": answer["id"], "result": {}}),
        false => answer,
    })
}

#[test]
fn http_server_with_empty_answers_is_used() {
    let server = HttpServer::answering(vague_answer);
    let bench = Bench::with(json!({"url": server.url}), &[("echo", json!({"text": "hello"}))]);
    let ran = bench.allowed();
    assert_eq!(
        ran.outputs(),
        [format!("[mcp.s.echo; {DATA}\nhello")],
        "{}",
        ran.end()
    );
}

#[test]
fn http_server_is_called_with_its_headers() {
    let server = HttpServer::start();
    let config = json!({"type": "http", "url": server.url, "headers": {"Authorization": "Bearer ${NONE:-abc123456789}"}});
    let bench = Bench::with(
        config,
        &[
            ("echo", json!({"text": "hello abc123456789"})),
            ("!big", json!({})),
            ("echo", json!({"text": "still here"})),
        ],
    );
    let ran = bench.allowed();
    let outputs = ran.outputs();
    assert_eq!(outputs[0], format!("[mcp.s.echo; {DATA}\nhello [REDACTED:key]"));
    assert!(
        outputs[1].starts_with("!the MCP server s "),
        "{}",
        &outputs[1][..200.min(outputs[1].len())]
    );
    assert!(outputs[1].len() < 1000);
    assert!(outputs[2].ends_with("still here"), "{outputs:?}");
    let seen = server.authorizations.lock().unwrap();
    assert!(
        seen.len() > 3 && seen.iter().all(|value| value == "Bearer abc123456789"),
        "{seen:?}"
    );
}

#[test]
fn unreachable_http_server_ends_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let ran = Bench::with(json!({"url": format!("http://127.0.0.1:{port}/mcp")}), &[]).allowed();
    assert_eq!(ran.output.status.code(), Some(3));
    let message = ran.end()["message"].as_str().unwrap();
    assert!(
        message.starts_with("the MCP server s does not start: ") && message.contains("refused"),
        "{message}"
    );
    for url in ["file:///etc/passwd", "host"] {
        let ran = Bench::with(json!({"url": url}), &[]).allowed();
        assert!(
            ran.end()["message"].as_str().unwrap().contains("url: "),
            "{}",
            ran.end()
        );
    }
}
