//! The agent's own session for a person who takes an issue over.

use super::*;
use crate::takeover::Typed;

/// A person continues the conversation of the stopped attempt in Codex itself, and the next attempt
/// continues theirs.
#[test]
fn codex_is_taken_over_in_its_own_session() {
    let script = json!([
        {"text": "Going on.", "run": ENDLESS},
        {"text": "By hand it is.", "expect": "Do it by hand.", "run": "echo by hand > fixed.txt; echo $VIK_STAGE > stage.txt"},
        {"text": "All done now."},
        {"text": "Thank you.", "expect": "- fixed.txt"}
    ]);
    let Some(mut real) = Real::new(RealAgent::Codex, script) else {
        return;
    };
    // Codex asks the person whether to replace an older model.
    real.world.put("/agents/a/model", json!("gpt-6-sol"));
    let world = &real.world;
    let daemon = world.daemon();
    eventually("the tool runs", || {
        !world.workspace_file("1", "started.txt").is_empty()
            && !world.session("1").of_kind("tool_call").is_empty()
    });
    let thread = world.session("1").of_kind("session_started")[0]["provider_session_id"].clone();
    let thread = thread.as_str().unwrap();
    let taken = world.vik(&["takeover", "1", "--json"]).expect(0).json();
    let argv: Vec<_> = taken["argv"].as_array().unwrap().iter().collect();
    assert_eq!(
        (argv[0], argv[1], argv[argv.len() - 1]),
        (&json!("codex"), &json!("resume"), &json!(thread))
    );
    assert_eq!(taken["workdir"], world.workspace("1").to_str().unwrap());
    let printed = world.vik(&["takeover", "1"]).expect(0).out;
    assert_contains(&printed, "codex resume ");
    assert_contains(&printed, thread);

    // It also asks once whether to trust a folder.
    let trusted = format!(
        "[projects.{:?}]\ntrust_level = \"trusted\"\n",
        world.workspace("1")
    );
    world.env.write("home/.codex/config.toml", trusted);
    let mut typed = Typed::start(world, &["takeover", "1", "--open"], &[("TERM", "xterm-256color")]);
    typed.wait_for("Going on.");
    typed.type_keys("Do it by hand.");
    typed.enter_until("All done now.");
    typed.type_keys("/quit");
    typed.enter_until("To continue this session, run");
    let (code, shown) = typed.end();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(world.workspace_file("1", "fixed.txt"), "by hand\n");
    assert_eq!(world.workspace_file("1", "stage.txt"), "work\n");

    world.vik(&["handback", "1"]).expect(0);
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
    real.close();
    let ended = world.sessions("1")[1].expect("succeeded", None);
    assert_eq!(ended["last_message"], "Thank you.");
    assert_eq!(ended["provider_session_id"], thread);
}
