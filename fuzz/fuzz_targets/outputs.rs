//! Checks any outputs file of an agent: each accepted output is one that the stage allows, and it
//! has the same key when it is read again.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use vik_core::ids::{IssueId, RunId, StageName};
use vik_core::outputs::{MAX_BODY, OutputPolicy, Pursuit, check, read};
use vik_workflow_reader::load;

static POLICY: LazyLock<OutputPolicy> = LazyLock::new(|| {
    let text = "issues: {pull: {command: x}}
agents: {a: {runtime: command, command: [x]}}
issue:
  stages:
    s:
      when: {state: t}
      agent: a
      prompt: p
      outputs:
        comment: {max: 2, run: x}
        label: {allow: ['area/*', '!area/secret'], run: x}
        state: {allow: [review], run: x}
        pull_request: {run: x}
        issue: {run: x}
";
    let stages = load(text).workflow.expect("a workflow").issue.stages;
    stages.into_iter().next().expect("a stage").outputs.expect("outputs")
});

fuzz_target!(|data: &[u8]| {
    let (issue, stage) = (IssueId::new("7"), StageName::new("s"));
    let run: RunId = serde_json::from_str("\"0190d6a5-7b1c-7000-8000-000000000000\"").expect("an id");
    let pursuit = Pursuit { issue: &issue, stage: &stage, run };
    let lines = match read(data, &pursuit) {
        Ok(lines) => lines,
        Err(refusals) => {
            assert!(!refusals.is_empty());
            return;
        }
    };
    if !check(&lines, &POLICY, &BTreeMap::new()).is_empty() {
        return;
    }
    let mut keys = BTreeSet::new();
    for line in &lines {
        let kind = line.output.kind();
        let rule = POLICY.rules.get(&kind).expect("the stage knows it");
        let count = lines.iter().filter(|other| other.output.kind() == kind).count();
        assert!(count <= rule.max as usize, "{count} of {kind:?}");
        for (name, value) in line.output.fields() {
            assert!(!value.chars().any(|c| c.is_control()), "{name}: {value:?}");
            if kind.allows() == Some(name) {
                assert!(rule.allow.as_ref().expect("a list").allows(value), "{name}: {value:?}");
            }
        }
        assert!(line.output.body().chars().count() <= MAX_BODY as usize);
        assert!(keys.insert(line.key.clone()), "twice");
        let serialized = serde_json::to_vec(&line.output).expect("it can be written");
        let parsed = read(&serialized, &pursuit).expect("what was read can be read again");
        assert_eq!((parsed.len(), &parsed[0].key), (1, &line.key));
    }
});
