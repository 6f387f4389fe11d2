//! Checks any output of an interactive agent: the same lines give the same requests, so that a
//! daemon that reads them again sends nothing else; no call is allowed without a verdict; an answer
//! begins with the prefix of its request.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use vik_agents::{AgentRequest, Exit, InitialInput, Verdict};
use vik_core::workflow::AgentProfile;
use vik_workflow_reader::load;

static PROFILES: LazyLock<Vec<AgentProfile>> = LazyLock::new(|| {
    let text = "issues: {pull: {command: x}}
agents:
  a: {runtime: codex, model: m}
  b: {runtime: claude_code, model: m}
  c: {runtime: vex, model: m, provider: anthropic}
issue: {stages: {s: {when: {state: t}, agent: a, prompt: p}}}
";
    load(text).workflow.expect("a workflow").agents.into_values().collect()
});

/// Texts that only an approval sends. The text of an agent cannot contain them, because quotation
/// marks in a JSON string are escaped.
const ALLOW_TEXTS: &[&str] = &[r#""decision":"allow""#, r#""decision":"accept""#, r#""action":"accept""#, r#""permissionDecision":"allow""#];

/// A message of a person.
const MESSAGE: &str = r#"{"id":"01993c00-0000-7000-8000-000000000001","text":"a\n\"b\"","by":"a person","at":"2026-03-01T10:00:00Z","interrupt":true}"#;

fn assert_is_json_line(text: &str) {
    assert!(!text.contains('\n'), "{text}");
    let _: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).expect("an object");
}

fn replay(profile: &AgentProfile, flags: u8, lines: &[u8]) -> String {
    let input = InitialInput {
        prompt: "Do it.",
        workdir: Path::new("/ws"),
        resume: (flags & 4 != 0).then_some("0190d6a5-7b1c-7000-8000-000000000000"),
        in_sandbox: flags & 8 != 0,
        asks: flags & 16 != 0,
    };
    let Ok(mut adapter) = vik_agents::driver(profile.runtime).interactive_adapter(profile, None, &input) else { return String::new() };
    let message: vik_core::message::Message = serde_json::from_str(MESSAGE).expect("a message");
    let mut out = String::new();
    for line in std::iter::once(&b""[..]).chain(lines.split(|byte| *byte == b'\n')) {
        adapter.line(line, &mut |event| {
            out.push_str(&serde_json::to_string(&event).expect("an event can be written"));
        });
        for request in adapter.take_requests() {
            match &request {
                AgentRequest::Send(line) => {
                    assert_is_json_line(line);
                    assert!(!ALLOW_TEXTS.iter().any(|allow| line.contains(allow)), "nobody said yes: {line}");
                }
                AgentRequest::Approval(approval) => {
                    for verdict in [Verdict::Allow, Verdict::Refuse("no\n\"way\"")] {
                        let lines = adapter.answer(approval, verdict);
                        lines.iter().for_each(|line| assert_is_json_line(line));
                        let last = lines.last().expect("an answer is a line at least");
                        assert!(last.starts_with(&approval.answer_prefix), "{last}");
                    }
                }
                AgentRequest::TurnEnded { .. } => {
                    let lines = adapter.message_lines(&message).into_iter().flatten();
                    lines.for_each(|line| assert_is_json_line(&line));
                }
                AgentRequest::Withdraw { .. }
                | AgentRequest::MessageTaken { .. }
                | AgentRequest::MessageRejected { .. }
                | AgentRequest::Unasked(_)
                | AgentRequest::Close
                | AgentRequest::ProtocolError(_) => {}
            }
            out.push_str(&format!("{request:?}"));
        }
    }
    out.push_str(&format!("{:?}", adapter.conclude(Exit::Code(0), "")));
    out
}

fuzz_target!(|data: &[u8]| {
    let Some((flags, lines)) = data.split_first() else { return };
    let profile = &PROFILES[usize::from(flags & 3) % PROFILES.len()];
    assert_eq!(replay(profile, *flags, lines), replay(profile, *flags, lines));
});
