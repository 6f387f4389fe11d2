//! Names and modes of the files that Vik leaves on disk.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::*;

fn all(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in list(folder) {
        found.push(path.clone());
        // Agents and hooks choose the modes of their files in a workspace.
        let workspace = path.parent().unwrap().ends_with("issues")
            && path.is_dir()
            && !path.parent().unwrap().parent().unwrap().ends_with("service");
        if path.symlink_metadata().unwrap().is_dir() && !workspace {
            found.extend(all(&path));
        }
    }
    found
}

#[test]
fn files_are_private_whatever_the_umask() {
    let world = World::new(&[("1", "todo"), ("a/b", "todo")])
        .set("/issue/hooks", json!({"after_create": "true"}))
        .work("hooks/before_run", json!("echo hook"))
        .work("verify", json!("echo fine"))
        .work("prompt", json!("`exec(echo x)`\nSCRIPT: stderr hm; ok"));
    let umask = |args: &str| {
        let mut command = world.env.command("sh");
        command.arg("-c").arg(format!("umask 000; exec vik {args}"));
        command
    };
    world.start_command(umask("run -d")).done().expect(0);
    eventually("both are done", || {
        ["1", "a/b"]
            .iter()
            .all(|id| world.tracker.state(id).as_deref() == Some("done"))
    });
    let check = || {
        let places = [world.env.work().join("home"), world.env.state()];
        let mut seen = 0;
        for path in places.iter().flat_map(|place| all(place)) {
            // A file can disappear between the listing and the check.
            let Ok(meta) = path.symlink_metadata() else {
                continue;
            };
            let wanted = if meta.is_dir() { 0o700 } else { 0o600 };
            if path.starts_with(world.env.state())
                && meta.is_dir()
                && !path.starts_with(world.env.state().join("vik"))
            {
                continue;
            }
            assert_eq!(meta.permissions().mode() & 0o777, wanted, "{path:?}");
            seen += 1;
        }
        assert!(seen > 25, "{seen}");
    };
    check();
    world.vik(&["stop"]).expect(0);
    check();
}

#[test]
fn file_names_are_stable_for_scripts() {
    let world = World::new(&[("1", "todo")])
        .work("hooks/before_run", json!("echo hook"))
        .script("stderr hm; message hi; ok");
    world.once().expect(0);
    let home = world.home();
    let key = world
        .env
        .work()
        .join("workflow.yml")
        .canonicalize()
        .unwrap()
        .to_str()
        .unwrap()
        .replace('/', "-");
    assert_eq!(home.file_name().unwrap().to_str().unwrap(), key);
    for path in ["service/state.json", "logs", "sessions/1", "issues/1"] {
        assert!(home.join(path).exists(), "{path}");
    }
    let names: Vec<String> = list(&home.join("sessions/1"))
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    let log = names
        .iter()
        .find(|name| name.ends_with(".jsonl") && !name.contains(".raw."))
        .unwrap();
    let stem = log.strip_suffix(".jsonl").unwrap();
    let id = stem.strip_prefix("work-").unwrap();
    assert_eq!((id.len(), &id[14..15]), (36, "7"), "a UUID of version 7: {id}");
    for suffix in [
        ".jsonl",
        ".raw.jsonl",
        ".stderr.log",
        ".prompt.md",
        ".exit.json",
        ".before_run.log",
        ".after_run.log",
    ] {
        assert!(names.contains(&format!("{stem}{suffix}")), "{suffix}: {names:?}");
    }
    assert_eq!(
        std::fs::read_to_string(world.env.work().join("home/.gitignore")).unwrap(),
        "*\n"
    );
    let instance: Vec<String> = list(&world.instance())
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert!(
        instance.contains(&"lock".to_owned()) && instance.contains(&"instance.json".to_owned()),
        "{instance:?}"
    );
}

#[test]
fn home_is_at_the_place_set_by_the_workflow() {
    // Without the section: `.vik` beside the workflow. With an empty section: `VIK_HOME`, or
    // `~/.vik`.
    let world = World::new(&[]).set("/workspace", json!(null));
    world.once().expect(0);
    assert!(world.env.home().join(".vik/workflows").exists());
    let mut command = world.env.vik(["run", "--once"]);
    command.env("VIK_HOME", world.env.path("elsewhere"));
    world.start_command(command).done().expect(0);
    assert!(world.env.path("elsewhere/workflows").exists());
    let yaml = world
        .env
        .read("work/workflow.yml")
        .replace("\"workspace\": null", "\"logging\": {}");
    world.env.workflow(&yaml);
    world.once().expect(0);
    assert!(world.env.work().join(".vik/workflows").exists());
}

#[test]
fn session_events_have_the_documented_fields() {
    let world = World::new(&[("1", "todo")]).agent("claude_code").script(
        "start; reasoning hm; message hello; tool t1 ls; toolend t1 0 files; usage 10 3; cost 0.5; done bye",
    );
    world.once().expect(0);
    let session = world.session("1");
    let events = session.events();
    assert_eq!(events[0]["kind"], "session_started");
    assert!(events[0]["provider_session_id"].is_string());
    for event in &events {
        let at = event["at"].as_str().unwrap();
        assert!(at.ends_with('Z') && at.parse::<jiff::Timestamp>().is_ok(), "{at}");
    }
    let ended = session.ended();
    for key in [
        "outcome",
        "failure_class",
        "exit_code",
        "signal",
        "duration_ms",
        "usage",
        "cost_usd",
        "cost_source",
    ] {
        assert!(ended.get(key).is_some(), "{key}: {ended}");
    }
    assert_eq!(ended["cost_source"], "reported");
    assert_eq!(ended["cost_usd"], 0.5);
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect();
    for kind in ["reasoning", "message", "tool_call", "tool_result", "completed"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
}
