//! Helpers of the unit tests.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use vik_core::limits::Limit;
use vik_core::workflow::{AgentProfile, Runtime};

use crate::{Adapter, Event, InputMode, LaunchContext};

pub(crate) const RUNTIMES: [Runtime; 4] = [
    Runtime::Codex,
    Runtime::ClaudeCode,
    Runtime::Vex,
    Runtime::Command,
];

pub(crate) fn profile(runtime: Runtime) -> AgentProfile {
    AgentProfile {
        model: Some("some-model".to_owned()),
        ..AgentProfile::new(runtime)
    }
}

pub(crate) fn context(profile: &AgentProfile) -> LaunchContext<'_> {
    static ENVIRONMENT: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
        BTreeMap::from([
            ("PATH".to_owned(), "/bin".to_owned()),
            ("HOME".to_owned(), "/home/u".to_owned()),
        ])
    });
    LaunchContext {
        profile,
        workdir: Path::new("/ws/issue-1"),
        vik: Path::new("/opt/vik"),
        private_home: None,
        session_id: uuid::Uuid::from_u128(0x0123_4567_89ab_7def_8123_4567_89ab_cdef),
        resume: None,
        budget: Limit::default(),
        in_sandbox: false,
        input: InputMode::Prompt,
        scope: None,
        questions: None,
        extensions: None,
        is_root: false,
        environment: &ENVIRONMENT,
    }
}

/// Returns the events of some lines as JSON.
pub(crate) fn events(adapter: &mut dyn Adapter, lines: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    for line in lines {
        adapter.line(line.as_bytes(), &mut |event: Event<'_>| {
            out.push(serde_json::to_string(&event).unwrap());
        });
    }
    out
}
