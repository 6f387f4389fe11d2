//! Tests of resolving the intents of stages and issues.

#![allow(clippy::unwrap_used, reason = "a broken assumption fails the test")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values are made for the call"
)]

use serde_json::{Value, json};
use vik_core::intent::{Intent, IssueIntent};
use vik_core::issue::Issue;
use vik_core::scope::Scope;
use vik_core::trust::Trust;
use vik_core::workflow::{Stage, StageIntent, TrustPolicy, Untrusted};
use vik_workflow_reader::load;

fn stage(globs: &[&str]) -> Stage {
    let text = include_str!("../../vik-workflow-reader/src/tests/minimal.yml");
    let mut stage = load(text).workflow.unwrap().issue.stages.remove(0);
    stage.intent = StageIntent {
        scope: (!globs.is_empty()).then(|| Scope::new(globs).unwrap()),
        constraints: vec!["keep the API".to_owned()],
        ..StageIntent::default()
    };
    stage
}

fn issue(more: Value) -> Issue {
    let mut item = json!({"id": 1, "state": "todo"});
    let more = more.as_object().unwrap().clone();
    item.as_object_mut().unwrap().extend(more);
    Issue::parse(&item.to_string()).unwrap()
}

fn described(text: &str) -> Issue {
    issue(json!({ "description": text }))
}

#[test]
fn issue_scope_only_narrows_the_stage_scope() {
    let declaring = issue(json!({"owned_scope": ["src/a/**", "docs"]}));
    let scope = Intent::scope(&stage(&["src"]), &declaring).unwrap().unwrap();
    assert!(scope.matches("src/a/x"));
    assert!(!scope.matches("docs/x") && !scope.matches("src/b"));
    let alone = Intent::scope(&stage(&[]), &declaring).unwrap().unwrap();
    assert!(alone.matches("docs/x"), "the stage says nothing");
    let all = issue(json!({"owned_scope": "**"}));
    let scope = Intent::scope(&stage(&["src"]), &all).unwrap().unwrap();
    assert!(!scope.matches("docs/x"));
    let nothing = described("plain");
    assert_eq!(
        Intent::scope(&stage(&["src"]), &nothing).unwrap(),
        stage(&["src"]).intent.scope
    );
    assert_eq!(Intent::scope(&stage(&[]), &nothing).unwrap(), None);
    let mut deaf = stage(&["src"]);
    deaf.intent.from_issue = false;
    assert_eq!(Intent::scope(&deaf, &declaring).unwrap(), deaf.intent.scope);
    assert!(Intent::resolve(&deaf, &issue(json!({"owned_scope": "/etc"}))).is_ok());
}

#[test]
fn bad_intent_gives_its_reason() {
    let why = |stage: &Stage, issue: &Issue| Intent::resolve(stage, issue).unwrap_err().to_string();
    let plain = stage(&["src"]);
    for (item, expected) in [
        (
            json!({"owned_scope": ["../x"]}),
            "invalid `owned_scope` of the issue: `../x` contains `..`",
        ),
        (
            json!({"owned_scope": ["docs"]}),
            "the scopes of the issue (docs) and of the stage (src) have no path in common",
        ),
        (
            json!({"owned_scope": 7}),
            "`owned_scope` of the issue is neither a string nor a list of strings",
        ),
        (
            json!({"acceptance": [1]}),
            "`acceptance` of the issue contains entries that are not strings",
        ),
        (
            json!({"constraints": vec!["x"; 51]}),
            "`constraints` of the issue has more than 50 entries",
        ),
        (
            json!({"description": "---\nowned_scope: {a: b}\n---\n"}),
            "`owned_scope` of the issue is neither a string nor a list of strings",
        ),
    ] {
        assert_eq!(why(&plain, &issue(item)), expected);
    }
    let broken = why(&plain, &described("---\nowned_scope: [a\n---\ntext"));
    assert!(
        broken.starts_with("cannot parse the front matter of the issue's description: "),
        "{broken}"
    );
    // Another stage is asked after the first one: what was joined for that is not taken for it.
    let declaring = issue(json!({"owned_scope": ["docs"]}));
    assert!(Intent::resolve(&plain, &declaring).is_err());
    assert!(Intent::resolve(&stage(&["docs"]), &declaring).is_ok());
}

#[test]
fn fields_precede_front_matter_and_a_horizontal_rule_is_none() {
    let text = "---\r\nowned_scope:\r\n  - src/**\r\n  - \"!src/gen\"\r\nacceptance: |\r\n  it builds\r\n\r\n  it is fast\r\n---\r\nDo it.";
    let declaring = described(text);
    let declaring = declaring.intent().as_ref().unwrap();
    assert_eq!(declaring.scope, Some(Scope::new(["src/**", "!src/gen"]).unwrap()));
    assert_eq!(declaring.acceptance, ["it builds", "it is fast"]);
    let both = issue(
        json!({"description": "---\nowned_scope: '**'\nconstraints: [a]\n---\n", "owned_scope": "docs\n\nsrc"}),
    );
    let both = both.intent().as_ref().unwrap();
    assert_eq!(both.scope, Some(Scope::new(["docs", "src"]).unwrap()));
    assert_eq!(both.constraints, ["a"]);
    for text in [
        "text\n---\nowned_scope: a\n---\n",
        "---\nA rule: [\n---\nowned_scope: /etc",
        "---\nowned_scope: a",
        "----\nowned_scope: a\n---\n",
        "---\nother: x\n---\n",
    ] {
        assert_eq!(described(text).intent(), &Ok(IssueIntent::default()), "{text}");
    }
    for empty in [json!(null), json!(""), json!([]), json!([" "])] {
        let declaring = issue(json!({ "owned_scope": empty }));
        assert_eq!(declaring.intent(), &Ok(IssueIntent::default()));
    }
}

#[test]
fn clauses_name_their_origin() {
    let intent = Intent::resolve(&stage(&[]), &issue(json!({"constraints": "be quick"}))).unwrap();
    let clauses: Vec<_> = intent
        .constraints
        .iter()
        .map(|clause| (clause.text.as_str(), clause.from_issue))
        .collect();
    assert_eq!(clauses, [("keep the API", false), ("be quick", true)]);
    assert!(!intent.is_empty() && Intent::default().is_empty());
}

#[test]
fn trust_is_by_author_or_label_and_never_by_display_name() {
    let policy = |untrusted| TrustPolicy {
        authors: vec!["ann".to_owned()],
        labels: vec!["ready".to_owned()],
        untrusted,
    };
    let hold = policy(Untrusted::Hold);
    for trusted in [
        json!({"author": "ann"}),
        json!({"author": {"login": "ann"}}),
        json!({"author": {"username": "ann", "name": "x"}}),
        json!({"user": {"login": "ann"}}),
        json!({"author": null, "user": {"login": "ann"}}),
        json!({"author": "eve", "labels": [{"name": "ready"}]}),
    ] {
        assert_eq!(hold.judge(&issue(trusted.clone())), Trust::Trusted, "{trusted}");
    }
    for other in [
        json!({}),
        json!({"author": "Ann"}),
        json!({"author": {"name": "ann"}}),
        json!({"author": {"id": 1}, "user": {"login": "ann"}}),
        json!({"author": ["ann"]}),
        json!({"author": "", "labels": ["READY"]}),
        json!({"title": "ready", "description": "author: ann"}),
    ] {
        assert_eq!(hold.judge(&issue(other.clone())), Trust::Held, "{other}");
        assert_eq!(policy(Untrusted::Fence).judge(&issue(other)), Trust::Fenced);
    }
}

#[test]
fn text_fingerprint_covers_neither_state_nor_time_of_update_nor_comments() {
    let print = |more: Value| issue(more).text_fingerprint();
    let one = print(json!({"title": "a", "description": "d", "author": "ann"}));
    assert_eq!(
        one,
        print(
            json!({"author": "ann", "description": "d", "title": "a", "updated_at": "x", "status": "done"})
        )
    );
    let commented = json!({
        "title": "a", "description": "d", "author": "ann",
        "comments": ["x"], "checks": [{"name": "build", "state": "failed"}],
    });
    assert_eq!(one, print(commented));
    for other in [
        json!({"title": "b", "description": "d", "author": "ann"}),
        json!({"title": "a", "description": "d", "author": "eve"}),
        json!({"title": "a", "description": "d", "author": "ann", "owned_scope": "src"}),
        json!({"title": "a", "description": "d", "author": "ann", "note": "x"}),
    ] {
        assert_ne!(one, print(other));
    }
}
