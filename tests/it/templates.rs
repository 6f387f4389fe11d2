//! Values in prompts, hooks and commands: text stays text everywhere.

use std::path::Path;

use serde_json::json;

use crate::support::*;

const EVIL: &str = "x'; touch PWNED; echo \"$(touch PWNED)\" `touch PWNED` \\ {{ 7*7 }} {% raw %} `exec(touch PWNED)` !`exec(touch PWNED)` \n-rf --help $HOME * ~ ;|&><";

fn evil_world() -> (World, String) {
    let world = World::new(&[("1", "todo")]).attempts(1);
    let evil = EVIL.replace("PWNED", world.env.path("PWNED").to_str().unwrap());
    world.tracker.set("1", "title", json!(evil));
    world.tracker.set("1", "description", json!(evil));
    world.tracker.set("1", "labels", json!([evil]));
    (world, evil)
}

#[test]
fn title_is_one_argument_in_all_scripts() {
    let (world, evil) = evil_world();
    let script = |name: &str| {
        format!(
            "printf '%s' {{{{ issue.title }}}} > {name}.bare; printf '%s' \"a {{{{ issue.title }}}} b\" > {name}.double; \
             printf '%s' 'a {{{{ issue.title }}}} b' > {name}.single; printf '%s' pre{{{{ issue.labels[0] }}}}post > {name}.part"
        )
    };
    let moves = world.on_success("done");
    let world = world
        .set("/issue/hooks", json!({"after_create": script("after_create")}))
        .work("hooks/before_run", json!(script("before_run")))
        .work("verify", json!(script("verify")))
        .work("hooks/after_run", json!(script("after_run") + "\n" + &moves));
    world.once().expect(0);
    for name in ["after_create", "before_run", "verify", "after_run"] {
        assert_eq!(world.workspace_file("1", &format!("{name}.bare")), evil, "{name}");
        assert_eq!(
            world.workspace_file("1", &format!("{name}.double")),
            format!("a {evil} b"),
            "{name}"
        );
        assert_eq!(
            world.workspace_file("1", &format!("{name}.single")),
            format!("a {evil} b"),
            "{name}"
        );
        assert_eq!(
            world.workspace_file("1", &format!("{name}.part")),
            format!("pre{evil}post"),
            "{name}"
        );
    }
    assert!(!world.env.path("PWNED").exists());
}

#[test]
fn prompt_command_quotes_values_and_its_output_is_text() {
    let (world, evil) = evil_world();
    let world = world.work(
        "prompt",
        json!("A !`exec(printf '%s' {{ issue.title }})` B `exec(printf '%s' \"{{ issue.title }}\")` C\nSCRIPT: ok"),
    );
    world.once().expect(0);
    assert!(!world.env.path("PWNED").exists());
    let prompt = world.session("1").text(".prompt.md");
    assert!(prompt.starts_with(&format!("A {evil} B {evil} C\n")), "{prompt}");
}

#[test]
fn commands_in_data_never_run_whatever_their_source() {
    let (world, evil) = evil_world();
    world.env.write("work/evil.txt", &evil);
    // The value comes from the issue, from the output of a command and from the environment,
    // through filters and loops.
    let world = world.work(
        "prompt",
        json!("{{ issue.description | trim }}\n`exec(cat {{ workflow_dir }}/evil.txt)`\n{{ env.EVIL }}\n\
            {% for label in issue.labels %}{{ label }}{% endfor %}\n{{ \"`exec(touch \" ~ workflow_dir ~ \"/PWNED)`\" }}\nSCRIPT: ok"),
    );
    let mut command = world.env.vik(["run", "--once"]);
    command.env("EVIL", &evil);
    world.start_command(command).done().expect(0);
    assert!(!world.env.path("PWNED").exists() && !world.env.work().join("PWNED").exists());
    let prompt = world.session("1").text(".prompt.md");
    assert_eq!(prompt.matches(evil.trim()).count(), 4, "{prompt}");
}

#[test]
fn prompt_command_in_a_skipped_branch_does_not_run() {
    let world = World::new(&[("1", "todo")]).work(
        "prompt",
        json!("{% if issue.title == 'never' %}`exec(touch {{ workflow_dir }}/ran)`{% endif %}[`exec(pwd; echo end; echo)`]\nSCRIPT: ok"),
    );
    world.once().expect(0);
    assert!(!world.env.work().join("ran").exists());
    let workdir = world.workspace("1").canonicalize().unwrap();
    let prompt = world.session("1").text(".prompt.md");
    // The command runs in the issue workspace; one trailing newline is trimmed.
    assert!(
        prompt.starts_with(&format!("[{}\nend\n]\n", workdir.display())),
        "{prompt}"
    );
}

#[test]
fn prompt_command_failure_fails_the_attempt() {
    let world = World::new(&[("1", "todo")]).attempts(1).work(
        "prompt",
        json!("`exec(echo out; echo no such issue >&2; exit 4)`\nSCRIPT: touch ran; ok"),
    );
    world.once().expect(1);
    let ended = world.session("1").expect("failed", Some("hook"));
    let reason = ended["reason"].as_str().unwrap();
    assert_contains(reason, "exited with 4");
    assert_contains(reason, "no such issue");
    assert!(!world.workspace("1").join("ran").exists());
}

#[test]
fn unknown_field_is_an_error_and_a_missing_value_is_empty() {
    let world = World::new(&[("1", "todo")]).attempts(1).work(
        "prompt",
        json!("{{ issue.no_such_field }}\nSCRIPT: touch ran; ok"),
    );
    world.once().expect(1);
    let ended = world.session("1").expect("failed", Some("hook"));
    assert_contains(ended["reason"].as_str().unwrap(), "no_such_field");
    assert!(!world.workspace("1").join("ran").exists());
    // A missing optional field is empty, or has its default.
    let world = World::new(&[("1", "todo")]).work(
        "prompt",
        json!("{{ issue.description }}|{{ issue.url | default('none') }}\nSCRIPT: ok"),
    );
    world.once().expect(0);
    assert!(world.session("1").text(".prompt.md").starts_with("|none\n"));
}

#[test]
fn values_in_ambiguous_shell_contexts_are_refused() {
    for hook in [
        "cat <<END\n{{ issue.title }}\nEND",
        "echo \"$(echo {{ issue.title }})\"",
        "{% set x = issue.title %}echo {{ x }}; {% filter upper %}{{ issue.title }}{% endfilter %}",
    ] {
        let world = World::new(&[("1", "todo")])
            .attempts(1)
            .work("hooks/before_run", json!(hook))
            .script("touch ran; ok");
        let pwned = world.env.path("PWNED");
        world.tracker.set(
            "1",
            "title",
            json!(format!("$(touch {0})\nEND\ntouch {0}", pwned.display())),
        );
        let done = world.once();
        assert!(matches!(done.code, 1 | 3), "{hook}: {done:?}");
        assert!(!pwned.exists(), "{hook}");
        assert!(
            done.err.contains("hint") || done.err.contains("help") || done.err.contains("before_run"),
            "{hook}: {}",
            done.err
        );
    }
}

#[test]
fn prompt_is_passed_on_stdin_and_not_as_an_argument() {
    let world = World::new(&[("1", "todo")])
        .agent("claude_code")
        .script("dump-argv argv; dump-stdin stdin; ok");
    let secret = "a-very-long-description ".repeat(10_000);
    world.tracker.set("1", "description", json!(secret));
    let prompt = format!(
        "{{{{ issue.description }}}}\nSCRIPT: dump-argv {0}/argv; dump-stdin {0}/stdin; ok",
        world.env.work().display()
    );
    let world = world.work("prompt", json!(prompt));
    world.once().expect(0);
    assert!(!world.env.read("work/argv").contains("a-very-long"));
    assert_eq!(
        world.env.read("work/stdin"),
        world.session("1").text(".prompt.md")
    );
    assert!(world.env.read("work/stdin").starts_with(&secret));
}

#[test]
fn hostile_ids_become_neither_options_nor_paths() {
    let ids = [
        "--help",
        "-w",
        "$(touch PWNED)",
        "a;touch PWNED",
        "../../PWNED",
        "'\"`\\",
        "{{ 7*7 }}",
        "\u{1b}[31mred",
    ];
    let issues: Vec<_> = ids.iter().map(|id| (*id, "todo")).collect();
    let world = World::new(&issues);
    let hook = format!(
        "printf '%s\\n' {{{{ issue.id }}}} > id; test \"$(cat id)\" = \"$VIK_ISSUE_ID\"; {}",
        world
            .tracker
            .move_command("done")
            .replace("move {{", "move -- {{")
    );
    let world = world.work("hooks/after_run", json!(hook.replace(" -- ", " ")));
    let done = world.once();
    assert!(
        !done.err.contains('\x1b') && !done.out.contains('\x1b'),
        "control characters are shown, not obeyed"
    );
    for folder in list(&world.workspaces()) {
        let id = std::fs::read_to_string(folder.join("id")).unwrap();
        assert!(ids.contains(&id.trim_end_matches('\n')), "{id:?}");
    }
    assert_eq!(list(&world.workspaces()).len(), ids.len());
    let found: Vec<_> = [world.env.work(), world.home(), world.env.root().to_owned()]
        .iter()
        .flat_map(|folder| list(folder))
        .filter(|path| path.ends_with("PWNED"))
        .collect();
    assert!(found.is_empty(), "{found:?}");
    let text = world.vik(&["runs"]).expect(0).out;
    assert!(!text.contains('\x1b'));
}

/// A name that a page documents, and the templates that have it according to the page.
struct Documented {
    name: String,
    places: String,
}

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs/usage")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

/// Collects the names in backticks of a table cell; `.title` after `issue.id` is `issue.title`.
fn names_of(cell: &str, names: &mut Vec<String>) {
    for name in cell.split('`').skip(1).step_by(2) {
        let full = match (name.strip_prefix('.'), names.last()) {
            (Some(part), Some(last)) => format!("{}.{part}", last.rsplit_once('.').unwrap().0),
            _ => name.to_owned(),
        };
        names.push(full);
    }
}

/// Returns all rows of the table of names, and of the table of output fields.
fn documented() -> Vec<Documented> {
    let mut all: Vec<Documented> = Vec::new();
    let names = page("hooks-and-prompts.md");
    let table = names.split("\n## Names\n").nth(1).unwrap();
    for row in table.lines().skip(3).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let places = match (cells[2], all.last()) {
            ("the same", Some(last)) => last.places.clone(),
            (places, _) => places.to_owned(),
        };
        let mut names = Vec::new();
        names_of(cells[1], &mut names);
        // A name with parts.
        if names == ["session.usage"] {
            names_of(&format!("`session.usage.total` {}", cells[3]), &mut names);
            names.retain(|name| name != "session.usage.total");
        }
        all.extend(names.into_iter().map(|name| Documented {
            name,
            places: places.clone(),
        }));
    }
    let outputs = page("outputs.md");
    for row in outputs.lines().filter(|line| line.starts_with("| `output.")) {
        let mut names = Vec::new();
        names_of(row.split('|').nth(1).unwrap(), &mut names);
        all.extend(names.into_iter().map(|name| Documented {
            name,
            places: "commands of `outputs`".to_owned(),
        }));
    }
    // Replaces placeholders for any field and any variable with examples.
    for entry in &mut all {
        match entry.name.as_str() {
            "issue.NAME" => entry.name = "issue.labels".to_owned(),
            "env.NAME" => entry.name = "env.PATH".to_owned(),
            _ => {}
        }
    }
    all.retain(|entry| entry.name != "output.…");
    all
}

#[test]
fn documented_names_are_known_at_their_documented_places() {
    let documented = documented();
    assert!(documented.len() > 40, "only {} names found", documented.len());
    for name in [
        "approval.message",
        "session.usage.cache_write_input_tokens",
        "output.title",
    ] {
        assert!(documented.iter().any(|entry| entry.name == name), "no {name}");
    }
    // Prints the names in a text, or passes them to a command that ignores its arguments.
    let all = |place: &str, separator: &str| -> String {
        let holds = |entry: &&Documented| match entry.places.as_str() {
            "everywhere" => place != "before_remove" || entry.name != "issue.labels",
            "not in `after_create` and `before_remove`" => !matches!(place, "after_create" | "before_remove"),
            "`after_run`" => place == "after_run",
            "commands of `outputs`" => place == "output",
            other => panic!("{}: {other:?} is no place that this test knows", entry.name),
        };
        let printed = documented
            .iter()
            .filter(holds)
            .map(|entry| format!("{{{{ {} }}}}", entry.name));
        printed.collect::<Vec<_>>().join(separator)
    };
    let script = |place: &str| format!(": {}", all(place, " "));
    let world = World::new(&[("1", "todo")]).attempts(1);
    world.tracker.set("1", "labels", json!(["a"]));
    let moved = world.on_success("done");
    let hooks = json!({"after_create": script("after_create"), "before_remove": script("before_remove")});
    let requests = world
        .env
        .write("asked", "{\"kind\":\"comment\",\"body\":\"hello\"}\n");
    let request_script = format!("run cat {} >> \"$VIK_OUTPUTS\"; ok", requests.display());
    let world = world
        .set("/agents/a/sandbox", json!({}))
        .set("/issue/hooks", hooks)
        .work("prompt", json!(format!("{}\nSCRIPT: {request_script}", all("prompt", "\n"))))
        .work("verify", json!(script("verify")))
        .work(
            "hooks",
            json!({"before_run": script("before_run"), "after_run": format!("{}\n{moved}", script("after_run"))}),
        )
        .work("outputs", json!({"comment": {"run": script("output")}}));
    // No run of this test reaches this hook, but it is rendered, too.
    let doctor = world.vik(&["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    for place in [
        "prompt.work",
        "after_create",
        "before_remove",
        "before_run.work",
        "verify.work",
        "after_run.work",
    ] {
        let check = checks.iter().find(|check| check["check"] == place);
        let check = check.unwrap_or_else(|| panic!("{place} is not among {checks:#?}"));
        assert_eq!(check["status"], "ok", "{check:#}");
    }
    world.once().expect(0);
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"));
}

#[test]
fn expressions_in_the_docs_use_documented_names() {
    let roots: Vec<String> = documented()
        .iter()
        .map(|entry| entry.name.split('.').next().unwrap().to_owned())
        .collect();
    let mut pages = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/usage")];
    let mut seen = 0;
    while let Some(path) = pages.pop() {
        if path.is_dir() {
            pages.extend(
                std::fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let loops = text.split("{% for ").skip(1);
        let variables: Vec<_> = loops.filter_map(|tail| tail.split(' ').next()).collect();
        // `${{ … }}` is the syntax of GitHub.
        for at in text
            .match_indices("{{")
            .map(|(at, _)| at)
            .filter(|at| !text[..*at].ends_with('$'))
        {
            let inner = text[at + 2..].trim_start();
            let root: String = inner
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect();
            // Some examples are about expressions themselves: they have no name, a text, or an
            // invented name.
            if root.is_empty()
                || ["value", "x"].contains(&root.as_str())
                || variables.contains(&root.as_str())
            {
                continue;
            }
            seen += 1;
            assert!(roots.contains(&root), "{}: {{{{ {inner:.40}", path.display());
        }
    }
    assert!(seen > 25, "only {seen} expressions found");
}

#[test]
fn agent_does_not_start_if_a_later_script_names_a_missing_value() {
    for (key, script) in [
        ("verify", "echo {{ issue.idd }}"),
        (
            "hooks/after_run",
            "{% if session.outcome == 'succeeded' %}echo {{ issue.idd }}{% endif %}",
        ),
        ("hooks/after_run", "echo {{ session.outcom }}"),
    ] {
        let world = World::new(&[("1", "todo")])
            .work(key, json!(script))
            .script("run touch started; ok");
        world.once().expect(1);
        assert!(!world.workspace("1").join("started").exists(), "{script}");
        let explained = world.vik(&["explain", "1"]).expect(0).out;
        let name = if script.contains("idd") {
            "issue.idd"
        } else {
            "session.outcom"
        };
        assert_contains(&explained, name);
    }
    // A result is known only when the agent has ended.
    let world = World::new(&[("1", "todo")]);
    let after_run = format!(
        "{{% if session.result %}}echo {{{{ session.result.answer }}}}{{% endif %}}\n{}",
        world.on_success("done")
    );
    world.work("hooks/after_run", json!(after_run)).once().expect(0);
}
