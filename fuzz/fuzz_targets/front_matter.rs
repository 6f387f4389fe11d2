//! Checks that the intent in the description of an issue never widens the scope of the stage.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use vik_core::intent::Intent;
use vik_core::issue::Issue;
use vik_core::workflow::Stage;
use vik_workflow_reader::load;

static STAGE: LazyLock<Stage> = LazyLock::new(|| {
    let text = "issues: {pull: {command: x}}
agents: {a: {runtime: command, command: [x]}}
issue: {stages: {s: {when: {state: t}, agent: a, prompt: p, intent: {owned_scope: [src/**, '!src/x']}}}}
";
    load(text).workflow.expect("a workflow").issue.stages.remove(0)
});

fuzz_target!(|description: &str| {
    let item = serde_json::json!({"id": "1", "title": "t", "state": "t", "description": description});
    let Ok(issue) = Issue::parse(&item.to_string()) else { return };
    let Ok(intent) = Intent::resolve(&STAGE, &issue) else { return };
    let scope = intent.scope.expect("that of the stage at least");
    let stage = STAGE.intent.scope.as_ref().expect("a scope");
    for path in ["src/a", "src/x", "src/x/y", "docs/a", ".git/hooks/pre-commit", "a/../src/b", "/etc/passwd", ""] {
        assert!(!scope.matches(path) || stage.matches(path), "{path}");
    }
});
