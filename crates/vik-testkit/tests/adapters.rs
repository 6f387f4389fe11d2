//! The scripted agent against Vik's adapters: both must match the agents' formats, so that neither
//! can drift alone.

#![allow(clippy::unwrap_used, reason = "a test")]

mod agent_run;

use vik_core::outcome::FailureClass;
use vik_core::workflow::Runtime;
use vik_testkit::TestEnv;

use agent_run::{AgentRun, profile};

const RUNTIMES: [(Runtime, &str); 3] = [
    (Runtime::Codex, "codex"),
    (Runtime::ClaudeCode, "claude"),
    (Runtime::Vex, "vex"),
];

fn scripted(env: &TestEnv, runtime: Runtime, name: &str, script: &str) -> AgentRun {
    let mut profile = profile(runtime);
    profile.command = vec!["vik-scripted-agent".to_owned()];
    AgentRun::run(env, &profile, &format!("Do it.\nSCRIPT: as {name}; {script}\n"))
}

#[test]
fn adapters_read_a_successful_session() {
    let env = TestEnv::new("/bin/true");
    let script = "start; reasoning Hm; message Well; do echo hi; file a.txt; retry 500 Wait; usage 100 7 40; done All good";
    for (runtime, name) in RUNTIMES {
        let run = scripted(&env, runtime, name, script);
        assert!(run.conclusion.ok, "{name}: {:?}", run.conclusion);
        assert_eq!(run.conclusion.last_message.as_deref(), Some("All good"), "{name}");
        assert_eq!(
            (
                run.conclusion.usage.input_tokens,
                run.conclusion.usage.cached_input_tokens,
                run.conclusion.usage.output_tokens
            ),
            (100, 40, 7),
            "{name}"
        );
        assert!(run.conclusion.provider_session_id.is_some(), "{name}");
        for kind in [
            "session_started",
            "reasoning",
            "message",
            "tool_call",
            "tool_result",
            "error",
            "token_usage",
            "completed",
        ] {
            assert!(
                run.kinds().contains(&kind.to_owned()),
                "{name} has no {kind}: {:?}",
                run.events
            );
        }
        let strange = |kind: &String| kind == "unknown" || kind == "malformed";
        assert!(!run.kinds().iter().any(strange), "{name}: {:?}", run.events);
    }
}

#[test]
fn adapters_read_a_failed_session() {
    let env = TestEnv::new("/bin/true");
    for (runtime, name) in RUNTIMES {
        let run = scripted(
            &env,
            runtime,
            name,
            "fail 429 exceeded retry limit, last status: 429 Too Many Requests",
        );
        assert!(!run.conclusion.ok, "{name}");
        assert_eq!(
            run.conclusion.failure_class,
            Some(FailureClass::RateLimit),
            "{name}: {:?}",
            run.conclusion
        );
    }
    let over = scripted(
        &env,
        Runtime::ClaudeCode,
        "claude",
        "start; stopped error_max_budget_usd; exit 1",
    );
    assert!(
        over.conclusion.over_budget && !over.conclusion.ok,
        "{:?}",
        over.conclusion
    );
}
