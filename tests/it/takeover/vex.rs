//! vex asks the person before each call in a session that continues its conversation.

use serde_json::json;
use vik_testkit::server::ModelServer;

use super::*;

#[test]
fn vex_continues_its_conversation_with_the_person() {
    let script = json!([
        {"text": "I start.", "run": "touch up; while [ ! -e go ]; do sleep 0.1; done"},
        {"text": "By hand it is.", "expect": "Do it by hand.", "run": "echo by hand > fixed.txt"},
        {"text": "All done now."},
        {"text": "Thank you.", "expect": "- fixed.txt"}
    ]);
    let server = ModelServer::start_json(script).unwrap();
    let agent = json!({"runtime": "vex", "provider": "local", "base_url": server.v1(), "model": "scripted"});
    let world = World::new(&[("1", "todo")])
        .set("/agents/a", agent)
        .work("prompt", json!("Do the task."));
    let daemon = world.daemon();
    world.wait_for_agent(1);
    let mut typed = Typed::start(&world, &["takeover", "1", "--open"], &[]);
    typed.wait_for("Type a prompt");
    typed.type_line("Do it by hand.");
    typed.wait_for("allow run_command: echo by hand > fixed.txt");
    assert_eq!(
        world.workspace_file("1", "fixed.txt"),
        "",
        "the person is asked first"
    );
    typed.type_line("y");
    typed.wait_for("All done now.");
    // Ctrl-D.
    typed.type_keys("\x04");
    let (code, shown) = typed.end();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(world.workspace_file("1", "fixed.txt"), "by hand\n");
    world.vik(&["handback", "1"]).expect(0);
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
    assert_eq!(server.failures(), [""; 0]);
    let sessions = world.sessions("1");
    let ended = sessions[1].expect("succeeded", None);
    assert_eq!(ended["last_message"], "Thank you.");
    let id = &sessions[0].of_kind("session_started")[0]["provider_session_id"];
    assert_eq!(&ended["provider_session_id"], id);
}
