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

use vik_agents::{Adapter, InitialInput, driver};
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
