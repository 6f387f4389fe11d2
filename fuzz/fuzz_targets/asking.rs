//! Any output of an interactive agent: the same lines give the same requests, so that a daemon that
//! reads them again sends nothing else; no call is allowed by itself; an answer differs from any
//! other line.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use vik_agents::{AgentRequest, Exit, InitialInput, Verdict};
use vik_core::workflow::{AgentProfile, load};

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

/// Text of an agent cannot contain these: quotation marks in a JSON string are escaped.
const YES: &[&str] = &[r#""decision":"allow""#, r#""decision":"accept""#, r#""action":"accept""#, r#""permissionDecision":"allow""#];

fn is_line(text: &str) {
    assert!(!text.contains('\n'), "{text}");
    let _: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).expect("an object");
}

fn replay(profile: &AgentProfile, how: u8, lines: &[u8]) -> String {
    let input = InitialInput {
        prompt: "Do it.",
        workdir: Path::new("/ws"),
        resume: (how & 4 != 0).then_some("0190d6a5-7b1c-7000-8000-000000000000"),
        in_sandbox: how & 8 != 0,
    };
    let Ok(mut adapter) = vik_agents::interactive_adapter(profile, None, &input) else { return String::new() };
    let mut out = String::new();
    for line in std::iter::once(&b""[..]).chain(lines.split(|byte| *byte == b'\n')) {
        adapter.line(line, &mut |event| {
            out.push_str(&serde_json::to_string(&event).expect("an event can be written"));
        });
        for request in adapter.take_requests() {
            match &request {
                AgentRequest::Send(line) => {
                    is_line(line);
                    assert!(!YES.iter().any(|yes| line.contains(yes)), "nobody said yes: {line}");
                }
                AgentRequest::Approval(ask) => {
                    for verdict in [Verdict::Allow, Verdict::Refuse("no\n\"way\"")] {
                        let lines = adapter.answer(ask, verdict);
                        lines.iter().for_each(|line| is_line(line));
                        let last = lines.last().expect("an answer is a line at least");
                        assert!(last.starts_with(&ask.answer_prefix), "{last}");
                    }
                }
                AgentRequest::Withdraw { .. }
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
    let Some((how, lines)) = data.split_first() else { return };
    let profile = &PROFILES[usize::from(how & 3) % PROFILES.len()];
    assert_eq!(replay(profile, *how, lines), replay(profile, *how, lines));
});
