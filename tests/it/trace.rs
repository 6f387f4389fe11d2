//! The trace: every line that agents changed is attributed to its attempt, whatever they did to
//! hide it, and no program that they left is run.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::*;

/// The `after_create` hook: the workspace starts as a repository with one commit.
const START: &str = "
git init -q . && git config user.name n && git config user.email a@b.c
printf '*.log\\n' > .gitignore
printf 'base 1\\nbase 2\\nbase 3\\nbase 4\\nbase 5\\nbase 6\\n' > shared
printf 'one\\r\\ntwo\\r\\n' > crlf
printf 'no end' > no-end
printf 'to be moved 1\\nto be moved 2\\nto be moved 3\\n' > old-name
printf 'x\\n' > gone
printf '#!/bin/sh\\n' > tool
ln -s shared link
git add . && git commit -qm base
";

/// The first agent: a tool call of a shell, a commit, an amended commit, uncommitted files.
const FIRST: &str = r"
sed -i 's/base 2/first 2/' shared
printf 'first\n' > committed && git add . && git commit -qm first && git commit -q --amend -m first-again
printf 'first\n' > untracked
printf 'first\n' > staged && git add staged
printf 'hidden\n' > hidden.log
printf 'one\r\ntwo\n' > crlf
printf 'no end\n' > no-end
";

/// The second agent hides behind ignore rules, attributes, filters, hooks and a file monitor.
const SECOND: &str = r#"
printf '*\n' > .gitignore
printf '* filter=evil diff=evil\n' > .gitattributes
printf '#!/bin/sh\ntouch "$RAN"\n' > evil.sh && chmod +x evil.sh
for key in filter.evil.clean filter.evil.smudge filter.evil.process diff.evil.textconv diff.evil.command diff.external core.fsmonitor core.pager gpg.program core.sshCommand; do git config $key "$PWD/evil.sh"; done
for hook in post-index-change pre-commit post-checkout reference-transaction; do cp evil.sh .git/hooks/$hook; done
printf 'second\n' > ignored-by-its-own-rule
printf 'second\n' > forced.log && git -c core.fsmonitor=false -c filter.evil.clean= -c filter.evil.process= -c core.hooksPath=/dev/null add -f forced.log
sed -i 's/base 4/second 4/' shared
mkdir inner && cd inner && git init -q . && printf 'second\n' > nested && cd ..
rm -f "$RAN"
"#;

/// The third agent moves and removes files, changes modes and links, and deletes the repository.
const THIRD: &str = r#"
mv old-name new-name && printf 'third\n' >> new-name
rm gone && chmod +x tool && ln -sf crlf link
printf 'third\0\n' > binary
printf 'third\n' > "$(printf 'caf\351')"
sed -i 's/base 6/third 6/' shared
rm -rf .git
"#;

/// The fourth agent creates another repository with another history.
const FOURTH: &str = r"
rm -rf inner/.git && git init -q . && git config user.name n && git config user.email a@b.c
printf 'fourth\n' >> shared
mv committed committed-elsewhere
git add -f . && git commit -qm 'all mine'
";

fn world() -> World {
    let world = World::new(&[("1", "s1")]);
    let ran = world.env.path("ran").display().to_string();
    let mut world = world.set("/issue/hooks", json!({"after_create": START}));
    for (at, script) in [FIRST, SECOND, THIRD, FOURTH].iter().enumerate() {
        let (number, next) = (
            at + 1,
            if at == 3 {
                "done".to_owned()
            } else {
                format!("s{}", at + 2)
            },
        );
        let path = format!("agent{number}.sh");
        world.env.write(format!("work/{path}"), script);
        let script = world.env.work().join(path).display().to_string();
        let agent = json!({"runtime": "command", "command": ["sh", script], "model": format!("maker/model-{number}"), "env": {"RAN": ran}});
        // Changes of hooks and `verify` belong to no attempt.
        let moves = world.on_success(&next);
        let hooks = json!({
            "before_run": format!("printf 'hook {number}\\n' >> by-hook"),
            "after_run": format!("printf 'after {number}\\n' >> by-hook\n{moves}"),
        });
        world = world
            .set(&format!("/agents/agent{number}"), agent)
            .stage(&format!("stage{number}"), &format!("s{number}"), "go")
            .set(
                &format!("/issue/stages/stage{number}/agent"),
                json!(format!("agent{number}")),
            )
            .set(
                &format!("/issue/stages/stage{number}/verify"),
                json!(format!("printf 'verify {number}\\n' >> by-hook")),
            )
            .set(&format!("/issue/stages/stage{number}/hooks"), hooks);
    }
    world
}

fn by(log: &Value, path: &str) -> Vec<String> {
    let entries = log.as_array().unwrap().iter();
    let touched = entries.filter_map(|entry| {
        let file = entry["files"]
            .as_array()
            .unwrap()
            .iter()
            .find(|file| file["path"] == path)?;
        let agent = entry["agent"].as_str().unwrap();
        Some(format!("{agent} {}", file["change"].as_str().unwrap()))
    });
    touched.collect()
}

/// Returns the `author lines` of a file from `trace blame`.
fn blamed(world: &World, path: &str) -> Vec<String> {
    let view = world
        .vik(&["trace", "blame", "--json", "--issue", "1", path])
        .expect(0)
        .json();
    let agent = |of: &Value| {
        of["agent"]
            .as_str()
            .or(of["author"].as_str())
            .unwrap_or("-")
            .to_owned()
    };
    if !view["whole"].is_null() {
        return vec![agent(&view["whole"])];
    }
    let lines = view["lines"].as_array().unwrap().iter();
    lines
        .map(|lines| format!("{} {}-{}", agent(lines), lines["start"], lines["end"]))
        .collect()
}

#[test]
fn changes_of_four_agents_are_all_attributed() {
    let world = world();
    world.once().expect(0);
    assert!(
        !world.env.path("ran").exists(),
        "nothing that an agent left was run"
    );
    let log = world.vik(&["trace", "log", "--json"]).expect(0).json();
    let agents: Vec<_> = log
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["agent"].as_str().unwrap())
        .collect();
    assert_eq!(agents, ["agent1", "agent2", "agent3", "agent4"]);
    for (path, expected) in [
        (
            "shared",
            &[
                "agent1 modified",
                "agent2 modified",
                "agent3 modified",
                "agent4 modified",
            ][..],
        ),
        ("committed", &["agent1 added"]),
        ("committed-elsewhere", &["agent4 renamed"]),
        ("untracked", &["agent1 added"]),
        ("staged", &["agent1 added"]),
        // The file was ignored until an agent added it to the repository.
        ("hidden.log", &["agent4 added"]),
        ("crlf", &["agent1 modified"]),
        ("no-end", &["agent1 modified"]),
        (".gitignore", &["agent2 modified"]),
        (".gitattributes", &["agent2 added"]),
        ("ignored-by-its-own-rule", &["agent2 added"]),
        ("forced.log", &["agent2 added"]),
        ("inner/nested", &["agent2 added"]),
        ("new-name", &["agent3 renamed"]),
        ("gone", &["agent3 deleted"]),
        ("tool", &["agent3 modified"]),
        ("link", &["agent3 modified"]),
        ("binary", &["agent3 added"]),
        (r#""caf\351""#, &["agent3 added"]),
        ("by-hook", &[]),
    ] {
        let expected: Vec<_> = expected.iter().map(|text| (*text).to_owned()).collect();
        let found = by(&log, path);
        assert_eq!(found, expected, "{path}: {log:#}");
    }
    assert_eq!(
        blamed(&world, "shared"),
        [
            "outside 1-1",
            "agent1 2-2",
            "outside 3-3",
            "agent2 4-4",
            "outside 5-5",
            "agent3 6-6",
            "agent4 7-7"
        ]
    );
    assert_eq!(blamed(&world, "committed-elsewhere"), ["agent1 1-1"]);
    assert_eq!(blamed(&world, "new-name"), ["outside 1-3", "agent3 4-4"]);
    assert_eq!(blamed(&world, "crlf"), ["outside 1-1", "agent1 2-2"]);
    assert_eq!(blamed(&world, "by-hook"), ["outside 1-12"]);
    assert_eq!(blamed(&world, "binary"), ["agent3"]);
    // A later change of a person belongs to no attempt.
    let shared = world.workspace("1").join("shared");
    let text = std::fs::read_to_string(&shared)
        .unwrap()
        .replace("third 6", "a person");
    std::fs::write(&shared, text).unwrap();
    assert_eq!(blamed(&world, "shared")[4..], ["outside 5-6", "agent4 7-7"]);
    world.vik(&["trace", "blame", "--issue", "1", "none"]).expect(8);
    world
        .vik(&["trace", "blame", "--issue", "1", "../1/shared"])
        .expect(1);
    let done = world.vik(&["trace", "blame", shared.to_str().unwrap()]).expect(0);
    assert_contains(&done.out, "#1 1 stage1 agent1 maker/model-1");
    // The trace is in a folder that no agent can access, and only its owner may read it.
    let file = world.home().join("trace/trace.jsonl");
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    checked(&world, &file);
}

/// Checks `verify`, `map` and `export` of that trace.
fn checked(world: &World, file: &Path) {
    let check = world.vik(&["trace", "verify", "--json"]).expect(0).json();
    assert_eq!((&check["ok"], &check["records"]), (&json!(true), &json!(4)));
    let map = world.vik(&["trace", "map", "--json"]).expect(0).json();
    let files = map[0]["files"].as_array().unwrap();
    let shared = files.iter().find(|file| file["path"] == "shared").unwrap();
    assert_eq!(shared["changes"], 4);
    assert_eq!(shared["added"], 4);
    assert_eq!(shared["removed"], 3);
    let text = std::fs::read(file).unwrap();
    assert_eq!(world.vik(&["trace", "export"]).expect(0).out.as_bytes(), text);
    world.vik(&["trace", "log", "--issue", "none"]).expect(8);
    world.vik(&["trace", "export", "--format", "notes"]).expect(2);
    let workspace = world.workspace("1").display().to_string();
    world
        .vik(&["trace", "export", "--format", "notes", "--repo", &workspace])
        .expect(2);
    // A clone has the commit of the last agent.
    let clone = world.env.path("clone").display().to_string();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args([
            "-c",
            "user.name=n",
            "-c",
            "user.email=a@b.c",
            "-c",
            "core.fsmonitor=false",
        ])
        .args(args);
        let done = git.env("HOME", world.env.path("home")).output().unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    git(&["clone", "-q", &workspace, &clone]);
    git(&["-C", &clone, "config", "user.name", "n"]);
    git(&["-C", &clone, "config", "user.email", "a@b.c"]);
    for _ in 0..2 {
        let done = world
            .vik(&["trace", "export", "--format", "notes", "--repo", &clone])
            .expect(0);
        assert!(done.out.starts_with("1 record written to"), "{}", done.out);
    }
    let note = git(&["-C", &clone, "notes", "--ref", "agent-trace", "show", "HEAD"]);
    assert_eq!(note.trim_end().lines().count(), 1);
    let record: Value = serde_json::from_str(&note).unwrap();
    assert_eq!(record["metadata"]["dev.vik"]["agent"], "agent4");
    // `verify` detects one flipped bit, and names its record.
    let mut flipped = text.clone();
    let second = text.iter().position(|byte| *byte == b'\n').unwrap() + 40;
    flipped[second] ^= 1;
    std::fs::write(file, &flipped).unwrap();
    let done = world.vik(&["trace", "verify"]).expect(1);
    assert_contains(&done.out, "broken at line 2");
    let check = world.vik(&["trace", "verify", "--json"]).expect(1).json();
    assert_eq!(check["ok"], false);
    assert_eq!(check["broken"]["line"], 2);
    std::fs::write(file, &text).unwrap();
}

#[test]
fn empty_trace_is_reported_as_empty() {
    let world = World::new(&[]);
    assert_eq!(
        world.vik(&["trace", "log"]).expect(0).out,
        "no attempt has changed files yet\n"
    );
    assert_eq!(world.vik(&["trace", "log", "--json"]).expect(0).json(), json!([]));
    assert_eq!(
        world.vik(&["trace", "verify"]).expect(0).out,
        "the trace is intact: 0 records\n"
    );
    assert_eq!(world.vik(&["trace", "map", "--json"]).expect(0).json(), json!([]));
    assert_eq!(world.vik(&["trace", "export"]).expect(0).out, "");
}

#[test]
fn secrets_in_file_names_are_masked_and_not_stored() {
    let value = "PlainSecretValue0123456789";
    let script = "mkdir -p \"d-$PLAIN\"; echo x > \"d-$PLAIN/$PLAIN.txt\"; echo y > \"quoted $PLAIN\"; true";
    let world = World::new(&[("1", "todo")])
        .script("echo no")
        .set("/secrets", json!({"PLAIN": {"file": "plain"}}));
    world.env.write("work/plain", format!("{value}\n"));
    let agent = json!({"runtime": "command", "command": ["sh", "-c", script], "secrets": ["PLAIN"]});
    let world = world.set("/agents/a", agent);
    world.once().expect(0);
    for args in [
        &["trace", "log"][..],
        &["trace", "log", "--json"],
        &["trace", "map"],
        &["trace", "map", "--json"],
        &["trace", "export"],
        &["trace", "verify"],
        &["show", "1"],
    ] {
        let shown = world.vik(args).expect(0).out;
        assert!(!shown.contains(value), "{args:?}: {shown}");
        let names_it = shown.contains("[secret PLAIN]");
        assert!(
            names_it || args[1] == "verify" || args[0] == "show",
            "{args:?}: {shown}"
        );
    }
    let name = format!("quoted {value}");
    for args in [
        &["trace", "blame", "--issue", "1", &name][..],
        &["trace", "blame", "--issue", "1", "--json", &name],
    ] {
        let shown = world.vik(args).expect(0).out;
        assert!(!shown.contains(value) && shown.contains("work"), "{shown}");
    }
    let trace = std::fs::read_to_string(world.home().join("trace/trace.jsonl")).unwrap();
    let changes = world.session("1").text(".changes.json");
    for kept in [trace, changes] {
        assert!(!kept.contains(value) && kept.contains("[secret PLAIN]"), "{kept}");
    }
}
