//! Outputs that vex and the real agents request.

use vik_testkit::RealAgent;
use vik_testkit::server::{ModelServer, RecordedRequest};

use super::*;
use crate::real_agents::Real;

#[test]
fn vex_requests_outputs_from_a_read_only_workspace() {
    let command = format!("echo '{LABEL}' >> \"$VIK_OUTPUTS\"; ! touch changed");
    let server = ModelServer::start_json(json!([{"run": command}, {"text": "Done."}])).unwrap();
    let agent = json!({"runtime": "vex", "model": "scripted", "provider": "house", "env": {"HOUSE_KEY": "sk-scripted"}});
    let mut world = World::new(&[("1", "todo")])
        .set("/agents/a", agent)
        .work("prompt", json!("Do the task."))
        .work("sandbox", json!({"files": "read-only"}));
    world.house("chat", &server.v1());
    let asking = Asking::with(world);
    asking.world.once().expect(0);
    assert_eq!(server.failures(), [""; 0]);
    asking.world.session("1").expect("succeeded", None);
    assert_eq!(asking.text("done"), "label|area/ui|\n");
    assert!(!asking.world.workspace("1").join("changed").exists());
}

/// Checks that a real agent can request outputs from its shell, inside the sandbox of the stage.
fn asks_by_its_shell(agent: RealAgent) {
    let command = format!("printf '%s\\n' '{LABEL}' '{STATE}' >> \"$VIK_OUTPUTS\"");
    let script = json!([{"run": command}, {"text": "Finished."}]);
    let Some(Real { world, server }) = Real::new(agent, script) else {
        return;
    };
    let asking = Asking::with(world);
    asking.world.once().expect(0);
    assert_eq!(server.failures(), [""; 0]);
    asking.world.session("1").expect("succeeded", None);
    assert_eq!(asking.text("done"), "label|area/ui|\nstate|review|\n");
    let names_the_file = |request: &RecordedRequest| request.body.to_string().contains("$VIK_OUTPUTS");
    assert!(
        server.turns().iter().any(names_the_file),
        "the prompt says how to ask"
    );
    asking.world.env.assert_nothing_left();
}

#[test]
fn codex_requests_outputs_by_its_shell() {
    asks_by_its_shell(RealAgent::Codex);
}

#[test]
fn claude_code_requests_outputs_by_its_shell() {
    asks_by_its_shell(RealAgent::Claude);
}
