//! Checks that each adapter accepts any line, gives the same events for the same bytes, and shows
//! nothing that a terminal would interpret as a command.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use vik_agents::Exit;
use vik_core::workflow::AgentProfile;
use vik_workflow_reader::load;

/// One profile for each kind of output.
static PROFILES: LazyLock<Vec<AgentProfile>> = LazyLock::new(|| {
    let text = "issues: {pull: {command: x}}
agents:
  a: {runtime: codex, model: m}
  b: {runtime: claude_code, model: m}
  c: {runtime: vex, model: m, provider: anthropic}
  d: {runtime: command, command: [x]}
  e: {runtime: command, command: [x], output: jsonl}
  f: {runtime: command, command: [copilot], output: jsonl}
  g: {runtime: command, command: [opencode], output: jsonl}
issue: {stages: {s: {when: {state: t}, agent: a, prompt: p}}}
";
    load(text).workflow.expect("a workflow").agents.into_values().collect()
});

fn replay(profile: &AgentProfile, lines: &[u8]) -> String {
    let mut adapter = vik_agents::driver(profile.runtime).adapter(profile, None);
    let mut out = String::new();
    for line in lines.split(|byte| *byte == b'\n') {
        adapter.line(line, &mut |event| {
            out.push_str(&serde_json::to_string(&event).expect("an event can be written"));
        });
        let _ = (adapter.open_tools(), adapter.usage());
        out.extend(adapter.activity());
    }
    out.push_str(&format!("{:?}", adapter.conclude(Exit::Code(0), "")));
    out
}

fuzz_target!(|data: &[u8]| {
    let Some((selector, lines)) = data.split_first() else { return };
    let profile = &PROFILES[usize::from(*selector) % PROFILES.len()];
    assert_eq!(replay(profile, lines), replay(profile, lines));
});
