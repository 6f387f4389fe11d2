//! What an edit changed.

#![allow(clippy::unwrap_used, reason = "a broken assumption fails the test")]

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use vik_core::workflow::{AgentProfile, ArgValue, Workflow, applied, edits};
use vik_workflow_reader::load;

/// A workflow with every key.
const FULL: &str = include_str!("../../vik-workflow-reader/src/tests/full.yml");

fn full() -> Workflow {
    load(FULL).workflow.unwrap()
}

fn shown(old: &Workflow, new: &Workflow) -> Vec<String> {
    edits(old, new).iter().map(ToString::to_string).collect()
}

/// Every place in a tree, as JSON pointers.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                pointers(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                pointers(value, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Values of every kind in a workflow.
fn candidates() -> Vec<Value> {
    let mut values = vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(77),
        json!(2.5),
        json!("5m"),
        json!("09:15"),
        json!("10.0.0.1"),
        json!("trouble"),
        json!("over_budget"),
        json!("other text"),
        json!("https://other.example"),
        json!("${OTHER}"),
        json!("serialize"),
        json!("fail"),
        json!("revert"),
        json!("hold"),
        json!([["x"]]),
        json!("two\nlines"),
        json!([]),
        json!(["x"]),
        json!(["x", true]),
        json!([["x", true]]),
        json!({}),
        json!({"input": 3.5}),
        json!({"Path": "elsewhere"}),
        json!({"Inline": "x"}),
        json!({"File": "x"}),
        json!({"A": "b"}),
        json!({"command": "x", "timeout": "5s"}),
        json!({"state": "doing", "command": "x", "secrets": []}),
        json!({"on": {"pids": 3}}),
        json!({"before": true, "after": false, "calls": [], "timeout": "5m", "on_timeout": "deny"}),
        json!("deny"),
        json!("off"),
        json!("on"),
    ];
    let words = "UserHome BesideWorkflow clean never always finish cancel codex vex command read-only full repeat join \
                 text jsonl user private github gitlab linear hmac agent own 127.0.0.1:9";
    values.extend(words.split(' ').map(Value::from));
    values
}

/// Returns the workflow with another value at one place, where that still is a workflow.
fn changed(workflow: &Value, pointer: &str, value: &Value) -> Option<(Value, Workflow)> {
    let mut tree = workflow.clone();
    *tree.pointer_mut(pointer)? = value.clone();
    let workflow: Workflow = serde_json::from_value(tree.clone()).ok()?;
    // No file has a name twice.
    let stages: Vec<_> = workflow
        .issue
        .stages
        .iter()
        .map(|stage| stage.name.as_str())
        .collect();
    let args = |agent: &AgentProfile| -> bool { is_set(agent.args.iter().map(|(name, _)| name.as_str())) };
    let is_sound = is_set(stages) && workflow.agents.values().all(args);
    is_sound.then_some((tree, workflow))
}

fn is_set<'t>(names: impl IntoIterator<Item = &'t str>) -> bool {
    let mut seen = BTreeSet::new();
    names.into_iter().all(|name| seen.insert(name))
}

#[test]
fn edits_compare_every_value_of_the_model() {
    let (full, tree) = (full(), serde_json::to_value(full()).unwrap());
    let mut places = Vec::new();
    pointers(&tree, "", &mut places);
    let mut untouched = Vec::new();
    for pointer in &places {
        let mut touched = false;
        for candidate in candidates() {
            let Some((_, other)) = changed(&tree, pointer, &candidate) else {
                continue;
            };
            let edits = edits(&full, &other);
            assert_eq!(edits.is_empty(), other == full, "{pointer} {candidate} {edits:?}");
            // Other values at this place are the property test's.
            if other != full {
                touched = true;
                break;
            }
        }
        if !touched {
            untouched.push(pointer.as_str());
        }
    }
    // Whole structs have no candidate, but all their fields have.
    let leaves: Vec<_> = untouched
        .iter()
        .filter(|pointer| !tree.pointer(pointer).unwrap().is_object())
        .collect();
    assert_eq!(leaves, Vec::<&&str>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn edits_exist_exactly_where_workflows_differ(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..12),
        others in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..2),
    ) {
        let mut tree = serde_json::to_value(full()).unwrap();
        let mut places = Vec::new();
        pointers(&tree, "", &mut places);
        let candidates = candidates();
        let mut step = |changes: &[(prop::sample::Index, prop::sample::Index)]| {
            for (place, value) in changes {
                if let Some((next, _)) = changed(&tree, place.get::<String>(&places), value.get(&candidates)) {
                    tree = next;
                }
            }
            serde_json::from_value::<Workflow>(tree.clone()).unwrap()
        };
        let (first, second) = (step(&changes), step(&others));
        prop_assert_eq!(edits(&first, &first.clone()), []);
        prop_assert_eq!(edits(&first, &second).is_empty(), first == second);
        let running = applied(&first, second.clone());
        prop_assert!(edits(&running, &second).iter().all(|edit| edit.needs_restart));
        prop_assert!(edits(&first, &running).iter().all(|edit| !edit.needs_restart));
    }
}

#[test]
fn edits_name_the_keys_of_the_file() {
    let edited = FULL
        .replace("usd_per_day: 49.99", "usd_per_day: 0.07")
        .replace("  max_issue_concurrency: 4\n", "")
        .replace("root: ../home", "root: ../other")
        .replace("echo one", "echo one\n          echo more")
        .replace("    after_create: git clone . .\n", "")
        .replace("  durable: {remote: upstream}\n", "")
        .replace("      verify: cargo test\n", "")
        .replace("      prompt: do it\n", "      prompt: do it\n      verify: x\n")
        .replace("PORT: 8080", "PORT: 9090\n      NEW: secret")
        .replace("c: x", "c: z")
        .replace("search: true", "search: false")
        .replace("runtime: vex", "runtime: vex\n    home: private")
        .replace("  tool:", "  tool2:")
        .replace("agent: tool", "agent: tool2")
        .replace("    last:", "    final:")
        .replace(
            "resume_prompt: Go on.",
            "resume_prompt: Go on.\n      timeout: 3h",
        )
        .replace("      timeout: 2h\n", "")
        .replace("[done, dropped]", "[done]")
        .replace("max_memory_pressure: 12.5", "max_memory_pressure: 20")
        .replace("after: 3d", "after: 4d")
        .replace("sessions: keep", "sessions: 30d")
        .replace("retention_days: 3", "retention_days: 4")
        .replace("format: json", "format: text");
    let new = load(&edited);
    assert_eq!(new.diagnostics, [], "{}", new.render("", false));
    insta::assert_snapshot!(shown(&full(), &new.workflow.unwrap()).join("\n"));
}

#[test]
fn edits_of_the_engine_need_a_restart() {
    let engine = "engine:\n  temporal: {address: \"a:1\", task_queue: q}\n";
    let with = |engine: &str| {
        let (before, tail) = FULL.split_once("engine:\n").unwrap();
        let (_, after) = tail.split_once("webhooks:\n").unwrap();
        let loaded = load(&format!("{before}{engine}webhooks:\n{after}"));
        loaded.workflow.unwrap()
    };
    let with_tls = with(&engine.replace("task_queue: q", "task_queue: q, tls: {}"));
    let with_key = with(&engine.replace("task_queue: q", "task_queue: r, api_key: \"${DEPLOY_KEY}\""));
    let engine = with(engine);
    assert_eq!(
        shown(&engine, &with_tls),
        ["engine.temporal.tls: null -> on (needs a restart)"]
    );
    assert_eq!(
        shown(&engine, &with_key),
        [
            "engine.temporal.task_queue: `q` -> `r` (needs a restart)",
            "engine.temporal.api_key: null -> `${DEPLOY_KEY}` (needs a restart)",
        ]
    );
    assert_eq!(applied(&engine, with_key).engine, engine.engine);
}

#[test]
fn edits_hold_no_secret() {
    let secret = |mark: &str| {
        let mut workflow = full();
        let agent = workflow.agents.values_mut().next().unwrap();
        agent.env.insert("TOKEN".to_owned(), format!("{mark}-env"));
        agent
            .args
            .push(("key".to_owned(), ArgValue::Text(format!("{mark}-arg"))));
        agent.command = vec![format!("{mark}-command")];
        agent.base_url = Some(format!("https://{mark}-user@host/"));
        workflow.pull.command = format!("curl -H {mark}-pull");
        workflow.issue.after_create = Some(format!("git clone https://{mark}-hook@host/"));
        workflow
    };
    let (old, new) = (secret("s3cret"), secret("s4cret"));
    let edits = edits(&old, &new);
    assert_eq!(edits.len(), 6, "{edits:?}");
    let text = format!(
        "{edits:?} {:?} {}",
        shown(&old, &new),
        serde_json::to_string(&edits).unwrap()
    );
    assert!(!text.contains("s3cret") && !text.contains("s4cret"), "{text}");
}
