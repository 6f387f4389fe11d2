//! Decodes what a collector receives.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use opentelemetry::trace::Status;
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::trace::SpanData;
use serde_json::json;

use super::*;

const RUN: &str = "0198c0de-0000-7000-8000-00000000000a";
const SESSION: &str = "0198c0de-0000-7000-8000-00000000000b";

/// A workflow whose issue `7` has one attempt on disk.
struct Scene {
    _folder: tempfile::TempDir,
    layout: Layout,
    log: PathBuf,
}

impl Scene {
    fn new(ended: &serde_json::Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workflow = folder.path().join("workflow.yml");
        std::fs::write(&workflow, "").unwrap();
        let root = vik_core::workflow::WorkspaceRoot::Path(folder.path().join("home").display().to_string());
        let layout = Layout::resolve(&workflow, &root).unwrap();
        let dir = layout.issue_sessions_dir(&"7".into());
        std::fs::create_dir_all(&dir).unwrap();
        let record = json!({
            "schema": 2, "run_id": RUN, "session_id": SESSION, "issue_id": "7", "issue_title": "T", "issue_state": "todo",
            "stage": "work", "agent": "coder", "runtime": "claude_code", "model": "m-1", "attempt": 1,
            "started_at": "2026-01-01T00:00:00Z", "workdir": "/w",
        });
        let stem = format!("work-{SESSION}");
        let log = dir.join(format!("{stem}.jsonl"));
        std::fs::write(dir.join(format!("{stem}.attempt.json")), record.to_string()).unwrap();
        let lines = [
            json!({"seq": 1, "at": "2026-01-01T00:00:01Z", "kind": "message", "text": "a secret plan"}),
            json!({"seq": 2, "at": "2026-01-01T00:00:02Z", "kind": "tool_call", "call_id": "a", "tool": "Bash", "input": {"command": "a secret command"}}),
            json!({"seq": 3, "at": "2026-01-01T00:00:03Z", "kind": "tool_call", "call_id": "b", "tool": "Read"}),
            json!({"seq": 4, "at": "2026-01-01T00:00:04Z", "kind": "tool_result", "call_id": "a", "is_error": true, "output": "a secret output"}),
            ended.clone(),
        ];
        let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
        std::fs::write(&log, format!("{}\n", lines.join("\n"))).unwrap();
        Self {
            _folder: folder,
            layout,
            log,
        }
    }

    fn attempt(&self) -> Vec<SpanData> {
        spans::spans_of(&self.layout, Finished::Attempt(self.log.clone()))
    }

    fn run(&self, succeeded: bool) -> Vec<SpanData> {
        let run = Run {
            id: serde_json::from_value(json!(RUN)).unwrap(),
            issue: "7".into(),
            stage: serde_json::from_value(json!("work")).unwrap(),
            state: if succeeded { "succeeded" } else { "agent" }.to_owned(),
            succeeded,
            at: "2026-01-01T00:01:00Z".parse().unwrap(),
        };
        spans::spans_of(&self.layout, Finished::Run(run))
    }
}

fn ended(outcome: &str) -> serde_json::Value {
    json!({
        "seq": 5, "at": "2026-01-01T00:00:10Z", "kind": "ended", "outcome": outcome,
        "failure_class": if outcome == "succeeded" { None } else { Some("rate_limit") }, "exit_code": 0, "signal": null,
        "duration_ms": 10_000,
        "usage": {"input_tokens": 100, "cached_input_tokens": 60, "cache_write_input_tokens": 0, "output_tokens": 20},
        "cost_usd": 0.5, "cost_source": "reported", "reason": "a secret reason", "last_message": "a secret message",
        "provider_session_id": "conversation-1",
    })
}

fn attributes(span: &SpanData) -> HashMap<String, String> {
    let pairs = span.attributes.iter();
    pairs
        .map(|pair| (pair.key.to_string(), pair.value.to_string()))
        .collect()
}

fn seconds(span: &SpanData) -> (u64, u64) {
    let start = Timestamp::from_second(1_767_225_600).unwrap();
    let since = |at| {
        Timestamp::try_from(at)
            .unwrap()
            .duration_since(start)
            .as_secs()
            .unsigned_abs()
    };
    (since(span.start_time), since(span.end_time))
}

#[test]
fn attempt_and_its_tool_calls_are_one_trace() {
    let scene = Scene::new(&ended("succeeded"));
    let spans = scene.attempt();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(
        names,
        ["invoke_agent coder", "execute_tool Bash", "execute_tool Read"]
    );
    let [attempt, bash, read] = spans.as_slice() else {
        panic!()
    };
    let found = attributes(attempt);
    for (key, value) in [
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.provider.name", "anthropic"),
        ("gen_ai.agent.name", "coder"),
        ("gen_ai.request.model", "m-1"),
        ("gen_ai.conversation.id", "conversation-1"),
        ("gen_ai.usage.input_tokens", "100"),
        ("gen_ai.usage.cache_read.input_tokens", "60"),
        ("gen_ai.usage.output_tokens", "20"),
        ("vik.cost_usd", "0.5"),
        ("vik.issue.id", "7"),
        ("vik.outcome", "succeeded"),
    ] {
        assert_eq!(found.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert!(!found.contains_key("error.type"));
    assert_eq!(attempt.status, Status::Unset);
    assert_eq!(
        (seconds(attempt), seconds(bash), seconds(read)),
        ((0, 10), (2, 4), (3, 10))
    );
    for tool in [bash, read] {
        assert_eq!(tool.parent_span_id, attempt.span_context.span_id());
        assert_eq!(tool.span_context.trace_id(), attempt.span_context.trace_id());
    }
    assert_eq!(attributes(bash)["error.type"], "tool_error");
    assert_eq!(attributes(read)["error.type"], "no_result");
    let root = &scene.run(true)[0];
    assert_eq!(root.name, "run work");
    assert_eq!(root.span_context.span_id(), attempt.parent_span_id);
    assert_eq!(root.span_context.trace_id().to_string(), RUN.replace('-', ""));
    assert_eq!(seconds(root), (0, 60));
    assert_eq!(
        (
            attributes(root)["vik.run.tokens"].as_str(),
            attributes(root)["vik.run.cost_usd"].as_str()
        ),
        ("120", "0.5")
    );
    // Text from people, models and tools is not sent.
    assert!(!format!("{spans:?} {root:?}").contains("secret"));
}

#[test]
fn failed_attempt_span_has_its_error_class() {
    let scene = Scene::new(&ended("failed"));
    let spans = scene.attempt();
    assert_eq!(attributes(&spans[0])["error.type"], "rate_limit");
    assert_eq!(spans[0].status, Status::error("failed"));
    let root = &scene.run(false)[0];
    assert_eq!(
        (attributes(root)["error.type"].as_str(), &root.status),
        ("agent", &Status::error("agent"))
    );
}

#[test]
fn unreadable_logs_yield_no_spans() {
    let scene = Scene::new(&json!({"seq": 5, "torn": true}));
    assert_eq!(scene.attempt(), []);
    let nowhere = scene.layout.issue_sessions_dir(&"8".into()).join("work-x.jsonl");
    assert_eq!(spans::spans_of(&scene.layout, Finished::Attempt(nowhere)), []);
    std::fs::remove_dir_all(Path::new(&scene.layout.issue_sessions_dir(&"7".into()))).unwrap();
    assert_eq!(scene.run(true), [], "a run without attempts has no start");
}

#[test]
fn spans_are_all_sent_in_bounded_batches() {
    let scene = Scene::new(&ended("succeeded"));
    let (notes, receiver) = sync_channel(WAITING);
    for _ in 0..400 {
        notes.send(Finished::Attempt(scene.log.clone())).unwrap();
    }
    drop(notes);
    let mut batches = Vec::new();
    send(&scene.layout, &receiver, |batch| batches.push(batch.len()));
    assert_eq!(batches.iter().sum::<usize>(), 1_200);
    assert!(batches.iter().all(|batch| *batch <= BATCH), "{batches:?}");
}

#[test]
fn environment_selects_the_endpoint() {
    let endpoint_for = |pairs: &[(&str, &str)]| {
        let pairs: HashMap<_, _> = pairs.iter().copied().collect();
        endpoint(|name| pairs.get(name).map(|&value| value.to_owned()))
    };
    let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
    let traces = (
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "http://127.0.0.1:4319/v1/traces",
    );
    assert_eq!(endpoint_for(&[]), None);
    assert_eq!(endpoint_for(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), None);
    assert_eq!(endpoint_for(&[all]).as_deref(), Some(all.1));
    assert_eq!(endpoint_for(&[all, traces]).as_deref(), Some(traces.1));
    assert_eq!(endpoint_for(&[all, ("OTEL_SDK_DISABLED", "TRUE")]), None);
    assert_eq!(endpoint_for(&[all, ("OTEL_TRACES_EXPORTER", "none")]), None);
}

#[test]
fn shutdown_waits_until_the_collector_has_the_spans() {
    let collector = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = collector.local_addr().unwrap();
    let received = std::thread::spawn(move || {
        let (mut stream, _) = collector.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).unwrap();
        }
        let length = head
            .lines()
            .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap()];
        reader.read_exact(&mut body).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .unwrap();
        (head, body)
    });
    let url = format!("http://{address}/v1/traces");
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(vik_http::client(&Url::parse(&url).unwrap()).unwrap())
        .with_endpoint(url)
        .build()
        .unwrap();
    let scene = Scene::new(&ended("succeeded"));
    let traces = Traces::with_exporter(exporter, scene.layout).unwrap();
    traces.notes.send(Finished::Attempt(scene.log)).unwrap();
    traces.shutdown();
    let (head, body) = received.join().unwrap();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(
        head.to_lowercase()
            .contains("content-type: application/x-protobuf"),
        "{head}"
    );
    let text = String::from_utf8_lossy(&body);
    for name in [
        "invoke_agent coder",
        "execute_tool Bash",
        "gen_ai.usage.input_tokens",
    ] {
        assert!(text.contains(name), "{name}");
    }
}
