//! The JSON of `vik takeover` and `vik handback`, against their schemas.

use super::*;

/// Checks an output against its schema in the reference.
pub fn validate(name: &str, output: &Value) {
    let path = vik_testkit::bins::workspace().join(format!("docs/reference/{name}.schema.json"));
    let mut schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    // A field that the schema does not name is an error here, though later versions may add some.
    schema["additionalProperties"] = false.into();
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.add_resource("schema:///", schema).unwrap();
    let index = compiler.compile("schema:///", &mut schemas).unwrap();
    if let Err(error) = schemas.validate(output, index) {
        panic!("{error:#}\n{output:#}");
    }
}

#[test]
fn outputs_of_takeover_and_handback_match_their_schemas() {
    // An agent with a conversation, one with a shell, and an issue without an attempt.
    let world = World::new(&[("1", "todo"), ("2", "other"), ("3", "todo")])
        .set(
            "/agents/b",
            serde_json::json!({"runtime": "claude_code", "model": "scripted"}),
        )
        .set("/loop", serde_json::json!({"max_issue_concurrency": 2}))
        .script("touch up; wait-file go; ok")
        .stage("talks", "other", "SCRIPT: start; touch up; wait-file go; done")
        .set("/issue/stages/talks/agent", "b".into());
    let daemon = world.daemon();
    for id in ["1", "2"] {
        eventually("the agent is up", || world.workspace(id).join("up").exists());
    }
    // Both slots are in use, so the third issue has not started.
    let none = world.vik(&["takeover", "3", "--json"]).expect(0).json();
    assert_eq!(
        (&none["workdir"], &none["argv"]),
        (&Value::Null, &serde_json::json!([]))
    );
    let shell = world.vik(&["takeover", "1", "--json"]).expect(0).json();
    assert_eq!(
        (&shell["conversation"], &shell["argv"]),
        (&Value::Null, &serde_json::json!(["/bin/sh"]))
    );
    eventually("the conversation is known", || {
        !world.sessions("2")[0].of_kind("session_started").is_empty()
    });
    let talks = world.vik(&["takeover", "2", "--json"]).expect(0).json();
    let started = &world.sessions("2")[0].of_kind("session_started")[0];
    assert_eq!(talks["conversation"], started["provider_session_id"]);
    assert_eq!(talks["argv"][0], "claude");
    for (id, output) in [("1", shell), ("2", talks), ("3", none)] {
        validate("takeover", &output);
        std::fs::write(world.workspace(id).join("go"), "").unwrap_or_default();
        let back = world.vik(&["handback", id, "--json"]).expect(0).json();
        assert_eq!(back["issue_id"], *id);
        validate("handback", &back);
    }
    let again = world.vik(&["handback", "1", "--json"]).expect(1).json();
    assert_eq!(again["error"]["code"], "nothing_waits", "{again}");
    validate("error", &again["error"]);
    daemon.stop();
}
