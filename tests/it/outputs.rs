//! Safe outputs: the requests of an agent are checked as a whole and carried out once, by commands
//! whose credentials the agent never sees.

mod agents;
mod once;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::*;

const COMMENT: &str = r#"{"kind":"comment","body":"Done.\nSee `a`; it's \"fine\" $(touch pwned)"}"#;
const LABEL: &str = r#"{"kind":"label","label":"area/ui"}"#;
const STATE: &str = r#"{"kind":"state","state":"review"}"#;

/// Returns a script command that requests these outputs.
fn request_command(world: &World, lines: &[&str]) -> String {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let name = name_of(&text);
    let file = world.env.write(name, text);
    format!("run cat {} >> \"$VIK_OUTPUTS\"", file.display())
}

/// Returns a file name for this text.
fn name_of(text: &str) -> String {
    let sum = text.bytes().fold(7_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    format!("asked-{sum:x}")
}

/// A world whose agent requests these outputs, and whose commands record what they do in `done`.
struct Asking {
    world: World,
}

impl Asking {
    fn new(lines: &[&str]) -> Self {
        let world = World::new(&[("1", "todo")]);
        let command = request_command(&world, lines);
        Self::with(world.script(&format!("{command}; ok")))
    }

    fn with(world: World) -> Self {
        let done = world.env.path("done").display().to_string();
        let note = format!(
            "echo \"$VIK_OUTPUT_KIND|{{{{ output.label }}}}{{{{ output.state }}}}{{{{ output.title }}}}|$(cat \"$VIK_OUTPUT_FILE\")\" >> {done}"
        );
        let world = world.set("/agents/a/sandbox", json!({})).work(
            "outputs",
            json!({
                "comment": {"run": note},
                "label": {"max": 2, "allow": ["needs-review", "area/*"], "run": note},
                "state": {"allow": ["review"], "run": note},
            }),
        );
        Self { world }
    }

    fn work(self, key: &str, value: Value) -> Self {
        Self {
            world: self.world.work(key, value),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.world.env.path(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Returns what `vik explain` shows.
    fn explained(&self) -> String {
        self.world.vik(&["explain", "1", "--json"]).expect(0).out
    }

    /// Returns the events about outputs: the kind and the status.
    fn output_events(&self) -> Vec<(String, String)> {
        let sessions = self.world.sessions("1");
        let events = sessions.iter().flat_map(|session| session.of_kind("output"));
        let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
        events
            .map(|event| (text(&event, "output"), text(&event, "status")))
            .collect()
    }
}

fn expected_events(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(kind, status)| ((*kind).to_owned(), (*status).to_owned()))
        .collect()
}

#[test]
fn allowed_outputs_are_applied_in_order_and_recorded() {
    let asking = Asking::new(&[COMMENT, LABEL, STATE]);
    let seen = asking.path("seen").display().to_string();
    let asking = asking.work(
        "outputs/state/run",
        json!(format!(
            "cat > {seen}; echo >> {seen}; pwd >> {seen}; echo {{{{ output.key }}}} {{{{ issue.id }}}} \"$VIK_OUTPUT_KEY $VIK_OUTPUT_STATE\" >> {seen}"
        )),
    );
    asking.world.once().expect(0);
    assert_eq!(
        asking.text("done"),
        "comment||Done.\nSee `a`; it's \"fine\" $(touch pwned)\nlabel|area/ui|\n"
    );
    let session = asking.world.session("1");
    session.expect("succeeded", None);
    assert_eq!(
        asking.output_events(),
        expected_events(&[("comment", "applied"), ("label", "applied"), ("state", "applied")])
    );
    let events = session.of_kind("output");
    assert_eq!(events[0]["summary"], "Done.");
    let key = events[2]["key"].as_str().unwrap();
    let folder = asking.world.env.work().canonicalize().unwrap();
    assert_eq!(
        asking.text("seen"),
        format!("{STATE}\n{}\n{key} 1 {key} review\n", folder.display())
    );
    let prompt = session.text(".prompt.md");
    assert_contains(
        &prompt,
        "- `{\"kind\":\"label\",\"label\":\"…\"}`: a label for the issue; 2 at most, one of: needs-review, area/*",
    );
    // The folder of the agent is removed; its requests and their results are kept.
    assert!(!session.file(".outputs").exists());
    assert_eq!(
        session.text(".outputs.raw.jsonl"),
        format!("{COMMENT}\n{LABEL}\n{STATE}\n")
    );
}

#[test]
fn applied_outputs_are_in_runs_and_show() {
    let asking = Asking::new(&[COMMENT, LABEL, STATE]);
    asking.world.once().expect(0);
    let outputs = asking.world.runs()[0]["attempts"][0]["outputs"].clone();
    assert_eq!(outputs.as_array().unwrap().len(), 3);
    assert_eq!(outputs[1]["kind"], "label");
    assert_eq!(outputs[1]["progress"], "applied");
    let show = asking.world.vik(&["show", "1"]).expect(0).out;
    assert_contains(&show, "state applied: review");
}

#[test]
fn applied_outputs_are_in_logs() {
    let asking = Asking::new(&[COMMENT, LABEL, STATE]);
    asking.world.once().expect(0);
    let logs = asking.world.vik(&["logs", "--issue", "1"]).expect(0).out;
    assert_contains(&logs, "✓ label applied  area/ui");
}

#[test]
fn refused_line_refuses_all_and_is_fed_back_to_the_agent() {
    let bad = [
        (
            r#"{"kind":"label","label":"bug"}"#,
            "the label `bug` does not match needs-review, area/* (not_allowed)",
        ),
        (
            r#"{"kind":"state","state":"done"}"#,
            "the state `done` does not match review (not_allowed)",
        ),
        (
            r#"{"kind":"issue","title":"more"}"#,
            "this stage does not permit `issue` (not_allowed)",
        ),
        (
            r#"{"kind":"comment","body":"b"}"#,
            "this stage permits 1 `comment` per run (too_many)",
        ),
        (
            r#"{"kind":"comment","body":"b","as":"admin"}"#,
            "not a valid output: unknown field `as`, expected `body` (schema)",
        ),
        (
            "label it",
            "not valid JSON: expected value at line 1 column 1 (not_json)",
        ),
        (
            r#"{"kind":"label","label":"area/\u200bx"}"#,
            "`label` contains an invisible character: `area/⟦U+200B⟧x` (character)",
        ),
    ];
    for (line, why) in bad {
        let asking = Asking::new(&[COMMENT, line]);
        let (first, second) = (
            request_command(&asking.world, &[COMMENT, line]),
            request_command(&asking.world, &[LABEL]),
        );
        let prompt = format!(
            "{{{{ attempt.feedback }}}}\nSCRIPT: {{% if attempt.number == 1 %}}{first}{{% else %}}{second}{{% endif %}}; ok"
        );
        let asking = asking.work("prompt", json!(prompt));
        asking.world.once().expect(0);
        let sessions = asking.world.sessions("1");
        let ended = sessions[0].expect("failed", Some("verify"));
        assert_eq!(
            ended["reason"],
            format!("its outputs were rejected: line 2: {why}")
        );
        sessions[1].expect("succeeded", None);
        let prompt = sessions[1].text(".prompt.md");
        assert_contains(
            &prompt,
            format!("is refused, and none of it was done:\n- line 2: {why}\n"),
        );
        assert_eq!(
            asking.text("done"),
            "label|area/ui|\n",
            "nothing of the first attempt"
        );
        let of_first: Vec<_> = sessions[0].of_kind("output");
        assert!(
            of_first.len() == 1 && of_first[0]["status"] == "refused",
            "{of_first:?}"
        );
    }
}

#[test]
fn file_that_is_not_the_agents_own_is_not_read() {
    let secret = r#"{"kind":"comment","body":"of another file"}"#;
    for script in [
        "run rm $VIK_OUTPUTS && ln -s $PWD/other $VIK_OUTPUTS; ok",
        "run rm $VIK_OUTPUTS && mkfifo $VIK_OUTPUTS; ok",
        "run head -c 1048577 /dev/zero > $VIK_OUTPUTS; ok",
    ] {
        let script = format!("write other {secret}; {script}");
        let asking = Asking::with(World::new(&[("1", "todo")]).script(&script).attempts(1));
        asking.world.once().expect(1);
        let ended = asking.world.session("1").expect("failed", Some("verify"));
        let reason = ended["reason"].as_str().unwrap();
        assert!(
            reason.starts_with("its outputs were rejected: cannot read the file: "),
            "{reason}"
        );
        assert_eq!(asking.text("done"), "");
    }
    // An agent that requests nothing, or removes its file, requests nothing.
    for script in ["ok", "run rm $VIK_OUTPUTS; ok"] {
        let asking = Asking::with(World::new(&[("1", "todo")]).script(script));
        asking.world.once().expect(0);
        assert_eq!(
            (asking.output_events(), asking.text("done")),
            (Vec::new(), String::new())
        );
    }
}

#[test]
fn outputs_are_not_applied_when_verify_fails() {
    let asking = Asking::new(&[COMMENT])
        .work("verify", json!("false"))
        .work("retry/max_attempts", json!(1));
    asking.world.once().expect(1);
    asking.world.session("1").expect("failed", Some("verify"));
    assert_eq!(asking.text("done"), "");
    // The requests are fixed when the agent exits, because `verify` runs its code.
    let asking = Asking::new(&[LABEL]).work(
        "verify",
        json!("test -z \"$VIK_OUTPUTS\"; for file in ../../sessions/1/*.outputs/*; do echo x >> \"$file\" || true; done"),
    );
    asking.world.once().expect(0);
    assert_eq!(asking.text("done"), "label|area/ui|\n");
}

#[test]
fn scripts_depend_on_the_state_that_the_agent_asks_for() {
    for (line, is_accepted) in [(STATE, true), (LABEL, false)] {
        let asking = Asking::new(&[line])
            .work(
                "verify",
                json!("{% if outputs.state == 'review' %}exit 0{% endif %}\necho there is no commit; exit 1"),
            )
            .work("retry", json!({"max_attempts": 1}));
        let file = asking.path("requested").display().to_string();
        let moves = asking.world.on_success("done");
        let after_run = format!("echo {{{{ outputs.state }}}} > {file}\n{moves}");
        let asking = asking.work("hooks", json!({"after_run": after_run}));
        asking.world.once();
        assert_eq!(!asking.text("done").is_empty(), is_accepted, "{line}");
        assert_eq!(
            asking.text("requested").trim(),
            if is_accepted { "review" } else { "" }
        );
    }
}

#[test]
fn output_with_a_secret_is_refused() {
    let body = r#"{"kind":"comment","body":"I found correct-horse-battery"}"#;
    let asking = Asking::new(&[LABEL, body]).work("retry/max_attempts", json!(1));
    let world = asking
        .world
        .set("/secrets", json!({"POST_TOKEN": {"env": "POST_SOURCE"}}))
        .work("outputs/secrets", json!(["POST_TOKEN"]));
    let asking = Asking { world };
    let env = [("POST_SOURCE", "correct-horse-battery")];
    asking.world.start_with(&["run", "--once"], &env).done().expect(1);
    let ended = asking.world.session("1").expect("failed", Some("verify"));
    assert_eq!(
        ended["reason"],
        "its outputs were rejected: line 2: `body` contains a secret (secret)"
    );
    assert_eq!(asking.text("done"), "");
}

#[test]
fn agent_sees_no_credential_and_commands_have_theirs() {
    let asking = Asking::with(World::new(&[("1", "todo")]));
    let root = asking.world.env.root().display().to_string();
    let script = format!(
        "dump-env env; try cat ~/.config/gh/hosts.yml > hosts; try cat {root}/xdg/gh/hosts.yml >> hosts; \
         try cat {root}/work/token.txt >> hosts; run git config --get-all credential.helper > helper; {}; ok",
        request_command(&asking.world, &[LABEL])
    );
    asking
        .world
        .env
        .write("home/.config/gh/hosts.yml", "oauth_token: x");
    asking.world.env.write("xdg/gh/hosts.yml", "oauth_token: y");
    asking.world.env.write("work/token.txt", "of-the-outputs");
    let world = asking
        .world
        .script(&script)
        .set("/secrets", json!({"GITEA_TOKEN": {"file": "token.txt"}}))
        .work("outputs/secrets", json!(["GITEA_TOKEN"]))
        .work("hooks/secrets", json!(["GITEA_TOKEN"]))
        .work(
            "verify",
            json!(format!(
                "env > verify-env; cat ~/.config/gh/hosts.yml {root}/xdg/gh/hosts.yml {root}/work/token.txt > verify-hosts; true"
            )),
        )
        .work("outputs/label/run", json!(format!("env > {root}/run-env")));
    let asking = Asking { world };
    let config = format!("{root}/xdg");
    let env = [
        ("GITHUB_TOKEN", "ghs-of-the-daemon"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-agent"),
        ("JIRA_API_TOKEN", "of-jira"),
        ("XDG_CONFIG_HOME", &config),
        ("ADDRESS", "https://x:ghs-of-the-daemon@github.example"),
    ];
    asking.world.start_with(&["run", "--once"], &env).done().expect(0);
    for seen in ["env", "verify-env"] {
        let text = asking.world.workspace_file("1", seen);
        for hidden in [
            "GITHUB_TOKEN",
            "SSH_AUTH_SOCK",
            "JIRA_",
            "GITEA_TOKEN",
            "of-the-outputs",
            "ghs-of-the",
        ] {
            assert!(!text.contains(hidden), "{seen} has {hidden}:\n{text}");
        }
        assert_contains(&text, "VIK_STAGE=work");
    }
    let text = asking.world.workspace_file("1", "env");
    for setting in [
        "GIT_TERMINAL_PROMPT=0",
        "GIT_SSH_COMMAND=false",
        "GIT_ASKPASS=false",
    ] {
        assert_contains(&text, setting);
    }
    assert_eq!(asking.world.workspace_file("1", "helper"), "\n");
    assert_eq!(asking.world.workspace_file("1", "hosts"), "");
    assert_eq!(asking.world.workspace_file("1", "verify-hosts"), "");
    let text = asking.text("run-env");
    for has in [
        "GITHUB_TOKEN=ghs-of-the-daemon",
        "GITEA_TOKEN=of-the-outputs",
        "VIK_OUTPUT_LABEL=area/ui",
    ] {
        assert!(text.contains(has), "{has} is missing:\n{text}");
    }
}

#[test]
fn agent_with_access_to_a_credential_is_not_started() {
    let refused = |asking: &Asking, env: &[(&str, &str)], why: &str| {
        asking.world.start_with(&["run", "--once"], env).done().expect(1);
        let session = asking.world.session("1");
        let reason = session.expect("failed", Some("usage"))["reason"].clone();
        assert!(reason.as_str().unwrap().contains(why), "{reason}");
        assert!(!session.file(".exit.json").exists(), "it was not started");
    };
    let asking = Asking::with(World::new(&[("1", "todo")]).set("/agents/a/env_pass", json!(["MINE"])));
    let env = [("GITHUB_TOKEN", "the-one-token"), ("MINE", "x:the-one-token@")];
    refused(
        &asking,
        &env,
        "the variable MINE of its profile contains the value of GITHUB_TOKEN",
    );
    let create = "git init -q; git remote add origin https://x:pass@git.example/a/b";
    let asking =
        Asking::with(World::new(&[("1", "todo")]).set("/issue/hooks", json!({"after_create": create})));
    refused(&asking, &[], "/.git/config contains a credential of a git remote");
    let asking = Asking::with(World::new(&[("1", "todo")]));
    asking.world.env.write("home/.netrc", "machine x");
    let asking = Asking {
        world: asking.world.set("/agents/a/sandbox", json!({"read": ["~"]})),
    };
    refused(&asking, &[], "its sandbox gives it access to ");
    let asking = Asking::with(World::new(&[("1", "todo")]));
    asking.world.env.write("work/issues/1.md", "");
    let open = asking.world.env.work();
    let asking = Asking {
        world: asking.world.set("/agents/a/sandbox", json!({"write": [open]})),
    };
    refused(
        &asking,
        &[],
        "its sandbox gives it write access to the issues in ",
    );

    let asking = Asking::with(World::new(&[("1", "todo")]));
    let world = asking.world.set("/agents/a/sandbox", json!("off"));
    let doctor = world.vik(&["run", "--once"]).expect(3);
    assert_contains(&doctor.err, "output_sandbox");
}

/// Returns the workflows of the documentation page.
fn examples() -> Vec<String> {
    let page = include_str!("../../docs/usage/outputs.md");
    let blocks = page.split("```yaml\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

#[test]
fn documented_examples_are_valid_workflows() {
    let examples = examples();
    assert_eq!(examples.len(), 4);
    for example in examples {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_vik"));
        env.write("work/prompts/implement.md", "Do it.");
        let path = env.workflow(&example);
        if let Err(failure) = vik_workflow::WorkflowFile::valid(&path, |found| {
            assert_eq!(found.trim(), "", "no warnings");
        }) {
            panic!("{failure:?}");
        }
    }
}

#[test]
fn documented_example_with_files_runs() {
    let world = World::new(&[]);
    let lines = [
        r#"{"kind":"comment","body":"It is done.\n\nSee `total`."}"#,
        r#"{"kind":"state","state":"review"}"#,
        r#"{"kind":"issue","title":"The footer","body":"It is cut off."}"#,
    ];
    let script = format!("SCRIPT: {}; ok", request_command(&world, &lines));
    let example = examples().remove(0).replace(
        "        When you are done,",
        &format!("        {script}\n\n        When you are done,"),
    );
    world.env.workflow(&example);
    let vik = |args: &[&str]| world.vik(args).expect(0).out;
    vik(&["issue", "new", "Show the total"]);
    vik(&["run", "--once"]);
    let shown: Value = serde_json::from_str(&vik(&["issue", "show", "--json", "1"])).unwrap();
    assert_eq!(shown["state"], "review");
    assert!(shown.to_string().contains("It is done."), "{shown}");
    let list = vik(&["issue", "list", "--state", "triage"]);
    assert_contains(&list, "The footer");
}
