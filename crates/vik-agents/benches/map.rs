//! Measures how long it takes to map one line to its events. The target is about a microsecond for
//! 400 bytes.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vik_core::event::Event;
use vik_core::workflow::{AgentProfile, OutputFormat, Runtime};

fn profile(runtime: Runtime) -> AgentProfile {
    AgentProfile {
        model: Some("m".to_owned()),
        output: OutputFormat::Jsonl,
        ..AgentProfile::new(runtime)
    }
}

/// Lines of about 400 bytes.
fn lines() -> Vec<(&'static str, Runtime, Vec<String>)> {
    let prose = "The tests pass now; what is left is the error path of the parser. ".repeat(4);
    let log = "test result: ok. 12 passed; 0 failed; 0 ignored\\n".repeat(4);
    let uuid = "01a1ffcc-0000-7000-8000-000000000000";
    let codex_message = format!(
        r#"{{"type":"item.completed","item":{{"id":"item_7","type":"agent_message","text":"{prose}","extra":"0123456789012345678901234567"}}}}"#
    );
    let codex_command = format!(
        r#"{{"type":"item.completed","item":{{"id":"item_8","type":"command_execution","command":"/bin/bash -lc 'cargo test -p parser --quiet'","aggregated_output":"{log}","exit_code":0,"status":"completed"}}}}"#
    );
    let codex_started = r#"{"type":"item.started","item":{"id":"item_8","type":"command_execution","command":"/bin/bash -lc 'cargo test -p parser --quiet'","aggregated_output":"","exit_code":null,"status":"in_progress"}}"#;
    let text = &prose[..120];
    let claude_message = format!(
        r#"{{"type":"assistant","message":{{"id":"msg_01","type":"message","role":"assistant","model":"m","content":[{{"type":"text","text":"{text}"}}],"stop_reason":null,"usage":{{"input_tokens":900,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}},"parent_tool_use_id":null,"session_id":"{uuid}","uuid":"{uuid}"}}"#
    );
    let claude_result = format!(
        r#"{{"type":"user","message":{{"role":"user","content":[{{"tool_use_id":"toolu_01","type":"tool_result","content":"{log}","is_error":false}}]}},"parent_tool_use_id":null,"session_id":"{uuid}","uuid":"{uuid}"}}"#
    );
    vec![
        ("codex message", Runtime::Codex, vec![codex_message]),
        (
            "codex command",
            Runtime::Codex,
            vec![codex_started.to_owned(), codex_command],
        ),
        ("claude message", Runtime::ClaudeCode, vec![claude_message]),
        ("claude tool result", Runtime::ClaudeCode, vec![claude_result]),
        ("text line", Runtime::Command, vec![prose]),
    ]
}

fn map(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("map");
    for (name, runtime, lines) in lines() {
        group.throughput(Throughput::Bytes(
            lines.iter().map(|line| line.len() as u64).sum(),
        ));
        let mut profile = profile(runtime);
        if runtime == Runtime::Command {
            profile.output = OutputFormat::Text;
        }
        let mut adapter = vik_agents::driver(runtime).adapter(&profile, None);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for line in &lines {
                    adapter.line(black_box(line.as_bytes()), &mut |event: Event<'_>| {
                        black_box(&event);
                    });
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, map);
criterion_main!(benches);
