//! The adapters as a daemon uses them.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

mod asking;
mod launch;
mod properties;
mod recording;
mod recordings;
mod semantics;
mod steering;

use std::path::Path;

use vik_agents::{Adapter, AgentRequest, InitialInput, driver};
use vik_core::workflow::{AgentProfile, OutputFormat, Runtime};

const PROMPT: &str = "Do it, \"well\".\n";

fn profile(runtime: Runtime) -> AgentProfile {
    AgentProfile {
        model: Some("m".to_owned()),
        output: OutputFormat::Jsonl,
        ..AgentProfile::new(runtime)
    }
}

fn adapter(profile: &AgentProfile) -> Box<dyn Adapter> {
    driver(profile.runtime).adapter(profile, None)
}

fn initial_input() -> InitialInput<'static> {
    InitialInput {
        prompt: PROMPT,
        workdir: Path::new("/ws"),
        resume: None,
        in_sandbox: false,
        asks: true,
    }
}

fn interactive(runtime: Runtime) -> Box<dyn Adapter> {
    let driver = driver(runtime);
    driver
        .interactive_adapter(&profile(runtime), None, &initial_input())
        .unwrap()
}

/// Reads lines and returns the events, as JSON, and the requests.
fn read(adapter: &mut dyn Adapter, lines: &[&str]) -> (Vec<String>, Vec<AgentRequest>) {
    let mut events = Vec::new();
    let mut requests = Vec::new();
    for line in lines {
        adapter.line(line.as_bytes(), &mut |event| {
            events.push(serde_json::to_string(&event).unwrap());
        });
        requests.append(&mut adapter.take_requests());
    }
    (events, requests)
}
