//! MCP servers in runs of the real `vex`: what the model gets, what rules allow, and what a hostile
//! server can do.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values are made for the call"
)]

#[path = "../common/mod.rs"]
mod common;
mod hostile;
mod http;
mod real;
mod start;
mod support;

use serde_json::json;
use vik_testkit::alive;
use vik_testkit::bins::mcp_server;

use common::events;
use support::{Bench, DATA, Ran};

#[test]
fn allowed_tool_is_called_and_its_result_is_data() {
    for modes in [&[][..], &["modern"], &["garbage"], &["stderr"], &["empty"]] {
        let bench = Bench::new(modes, &[("echo", json!({"text": "hello"}))]);
        let ran = bench.allowed();
        assert_eq!(
            ran.outputs(),
            [format!("[mcp.s.echo; {DATA}\nhello")],
            "{modes:?}"
        );
        assert_eq!(ran.of("tool_call")[0]["tool"], "mcp.s.echo");
        assert_eq!(ran.end()["reason"], "done");
        assert_eq!(ran.warnings(), Vec::<&str>::new());
    }
}

#[test]
fn call_without_a_rule_is_denied() {
    // Whatever its arguments are.
    let calls = [json!({"text": "hello"}), json!({"text": []})].map(|input| ("!echo", input));
    let bench = Bench::new(&[], &calls);
    let ran = bench.run(&["--permission", "full"]);
    assert_eq!(ran.outputs().len(), 2);
    for output in ran.outputs() {
        assert!(
            output.starts_with("!{\"code\":\"permission\",\"message\":\"no rule allows mcp.s.echo\""),
            "{output}"
        );
    }
    let output = &ran.outputs()[0];
    assert!(output.contains("--allow 'mcp.s.echo'"), "{output}");
    assert_eq!(
        ran.warnings(),
        ["the MCP server s: no rule allows any of its tools: --allow 'mcp.s.*' allows all"]
    );
    let ran = bench.run(&["--allow", "mcp.s.*", "--deny", "mcp.s.e*"]);
    assert!(
        ran.outputs()[0].contains("mcp.s.echo is denied by the rule mcp.s.e*"),
        "{:?}",
        ran.outputs()
    );
    assert_eq!(ran.of("tool_result")[0]["denied"], true);
}

#[test]
fn rules_name_tools_of_servers_exactly() {
    let bench = Bench::new(&[], &[("echo", json!({"text": "a"}))]);
    for rule in ["mcp.s", "mcp.s.", "mcp..echo", "mcp.s.echo(a)"] {
        let ran = bench.run(&["--allow", rule]);
        assert_eq!(ran.output.status.code(), Some(3), "{rule}");
    }
    assert!(!bench.run(&["--allow", "mcp.*.ec?o"]).outputs()[0].starts_with('!'));
    assert!(
        bench
            .run(&["--allow", "mcp.s.*", "--tools", "read_file,mcp.s.fail"])
            .outputs()[0]
            .contains("there is no tool")
    );
}

#[test]
fn restriction_that_names_no_tool_ends_the_run() {
    let bench = Bench::new(&[], &[("echo", json!({"text": "a"}))]);
    let hook = |tool: &str| format!("hooks=[{{event=\"pre_tool\",tools=[\"{tool}\"],command=\"false\"}}]");
    for server in [
        &["--deny", "mcp.typo.*"][..],
        &["--allow", "mcp.typo.echo"],
        &["--config", &hook("mcp.typo.echo")],
        &["--tools", "mcp.typo.echo"],
    ] {
        let ran = bench.run(server);
        assert_eq!(ran.output.status.code(), Some(3), "{server:?}");
        let message = ran.end()["message"].as_str().unwrap();
        assert!(
            message.contains("there is no MCP server typo in the settings"),
            "{message}"
        );
    }
    for tool in [&["--deny", "mcp.s.ehco"][..], &["--config", &hook("mcp.s.ehco")]] {
        let ran = bench.run(&[&["--allow", "mcp.s.*"], tool].concat());
        assert_eq!(ran.output.status.code(), Some(3), "{tool:?}");
        assert_eq!(
            ran.end()["message"],
            "the MCP server s: it has no such tools, which a deny or a hook names: mcp.s.ehco"
        );
    }
    let ran = bench.run(&[
        "--allow",
        "mcp.s.echo",
        "--allow",
        "mcp.s.ehco",
        "--deny",
        "mcp.*.x*",
    ]);
    assert_eq!(ran.warnings(), ["the MCP server s: it has no tool \"ehco\""]);
    assert!(!ran.outputs()[0].starts_with('!'), "{:?}", ran.outputs());
}

#[test]
fn selection_without_tools_selects_none() {
    let server = |tools: &[&str]| json!({"command": mcp_server(), "tools": tools});
    let calls = [("!echo", json!({"text": "a"}))];
    // A rule may deny a tool that is not selected.
    let ran = Bench::with(server(&[]), &calls).run(&["--allow", "mcp.s.*", "--deny", "mcp.s.env"]);
    assert!(
        ran.outputs()[0].starts_with("!there is no tool"),
        "{:?}",
        ran.outputs()
    );
    assert_eq!(ran.end()["reason"], "done");
}

#[test]
fn tools_of_different_servers_are_not_confused() {
    let bench = Bench::new(&[], &[]);
    let server = |value: &str, tools: &[&str]| json!({"command": mcp_server(), "env": {"SERVER": value}, "tools": tools});
    let servers = json!({"mcpServers": {
        "git-hub": server("first", &["env"]), "git_hub": server("second", &["env", "echo"]),
    }});
    std::fs::write(bench.fixture.path("mcp.json"), servers.to_string()).unwrap();
    let call =
        |tool: &str| json!({"kind": "turn", "tool_calls": [{"tool": tool, "input": {"name": "SERVER"}}]});
    let turns = [
        json!({"kind": "recording", "version": 1}),
        json!({"kind": "conversation", "name": "only"}),
        call("mcp__git-hub__env"),
        call("mcp.git-hub.env"),
        json!({"kind": "turn", "text": "All of it is done now, as far as it went."}),
    ];
    let turns: String = turns.iter().map(|turn| format!("{turn}\n")).collect();
    std::fs::write(bench.fixture.path("model.jsonl"), turns).unwrap();
    let ran = bench.run(&["--allow", "mcp.*.*"]);
    let first = format!("[mcp.git-hub.env; {DATA}\nfirst");
    assert_eq!(ran.outputs(), [first.clone(), first], "{:?}", ran.warnings());
    assert_eq!(
        ran.warnings(),
        ["the MCP server git_hub: its tool \"env\" is left out: one of another server has the same name"]
    );
}

#[test]
fn server_gets_its_variables_and_those_of_commands() {
    let call = |name: &str| ("env", json!({"name": name}));
    let server = json!({"command": mcp_server(), "env": {"PLAIN": "${GIVEN}-${NONE:-x}", "API_TOKEN": "tok-1234567890"}});
    let bench = Bench::with(
        server,
        &[
            call("PLAIN"),
            call("API_TOKEN"),
            call("VEX_API_KEY"),
            call("GIT_TERMINAL_PROMPT"),
        ],
    );
    let output = bench
        .fixture
        .replay(&["--mcp-config", "../mcp.json", "--allow", "mcp.s.env", "go"])
        .env("GIVEN", "given")
        .env("VEX_API_KEY", "sk-0123456789abcdef")
        .output()
        .unwrap();
    let ran = Ran {
        events: events(&output.stdout),
        output,
    };
    let values: Vec<String> = ran
        .outputs()
        .iter()
        .map(|output| output.lines().skip(1).collect())
        .collect();
    assert_eq!(values, ["given-x", "[REDACTED:key]", "", "0"]);
}

#[test]
fn results_of_every_kind_are_text() {
    let bench = Bench::new(
        &[],
        &[
            ("image", json!({})),
            ("!fail", json!({})),
            ("!nothing", json!({})),
            ("echo", json!({"text": 5})),
        ],
    );
    let outputs = bench.allowed().outputs();
    assert_eq!(
        outputs[0],
        format!(
            "[mcp.s.image; {DATA}\n[image, image/png, about 3 bytes: not shown]\n[resource file:///a.txt]\nin the \
             resource\n[link to the resource b at file:///b.txt]"
        )
    );
    assert_eq!(outputs[1], format!("![mcp.s.fail; {DATA}\nit did not work"));
    assert!(
        outputs[2].starts_with("!there is no tool \"mcp__s__nothing\""),
        "{}",
        outputs[2]
    );
    assert_eq!(outputs[3], format!("[mcp.s.echo; {DATA}\n5"));
}

#[test]
fn server_is_confined_like_a_command() {
    // Neither the workspace nor the temporary folder, in which commands may write.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let log = folder.path().join("log");
    let mode = format!("log={}", log.display());
    let bench = Bench::new(&[&mode], &[]);
    let ran = bench.allowed();
    let sandbox = ran.of("session_start")[0]["sandbox"].as_str().unwrap();
    assert_eq!(log.exists(), !sandbox.starts_with("landlock"), "{sandbox}");
    bench.run(&["--allow", "mcp.s.*", "--permission", "full"]);
    assert!(log.exists());
}

#[test]
fn no_server_is_left_after_a_run() {
    let bench = Bench::new(&[], &[("fork", json!({}))]);
    let ran = bench.allowed();
    let sleeping: i32 = ran.outputs()[0].lines().last().unwrap().parse().unwrap();
    assert!(!alive(sleeping));
}

#[test]
fn doctor_lists_servers_and_their_tools() {
    let server = json!({"command": mcp_server(), "env": {"API_TOKEN": "${GIVEN}"}, "tools": ["echo", "env", "nothing"]});
    let bench = Bench::with(server, &[]);
    let doctor = |args: &[&str]| {
        let rules = ["--config", "allow=[\"mcp.s.echo\"]", "--provider", "replay"];
        let mut command = bench.fixture.vex(&["doctor", "--mcp-config", "../mcp.json"]);
        let output = command
            .args(rules)
            .args(args)
            .env("GIVEN", "t0-123456789")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = doctor(&[]);
    for line in [
        "ok       mcp       s: 2 tools (protocol 2025-11-25, fake 1)\n",
        "allowed  mcp.s.echo\n",
        "no rule  mcp.s.env\n",
        "warning  mcp       s: it has no tool \"nothing\"\n",
        "warning  mcp       s gets GIVEN, and so does the model\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let findings: serde_json::Value = serde_json::from_str(&doctor(&["--json"])).unwrap();
    let found = findings
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["check"] == "mcp");
    assert_eq!(
        found.unwrap()["tools"],
        json!([{"name": "mcp.s.echo", "allowed": true, "denied": false}, {"name": "mcp.s.env", "allowed": false, "denied": false}])
    );
}

#[test]
fn doctor_shows_text_of_servers_as_data() {
    let server =
        json!({"command": mcp_server(), "args": ["loud", "odd"], "env": {"API_TOKEN": "tok-1234567890"}});
    let bench = Bench::with(server, &[]);
    for (args, escaped) in [
        (&[][..], "fake\\u{1b}[2J\\u{202e}"),
        (&["--json"], "fake\\\\u{1b}[2J\\\\u{202e}"),
    ] {
        let mut command = bench.fixture.vex(&["doctor", "--mcp-config", "../mcp.json"]);
        let output = command
            .args(["--provider", "replay"])
            .args(args)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(escaped), "{text}");
        assert!(text.lines().all(|line| line.len() < 800), "{text}");
        assert!(!text.contains("tok-1234567890"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }
}

#[test]
fn settings_of_servers_have_an_origin_and_no_secret() {
    let bench = Bench::with(json!({"command": "file", "env": {"TOKEN": "s3cret-1"}}), &[]);
    std::fs::create_dir_all(bench.fixture.path("vex")).unwrap();
    let user =
        "[mcp.s]\nurl = \"https://host/mcp\"\nheaders = {A = \"s3cret-2\"}\n[mcp.t]\ncommand = \"user\"\n";
    std::fs::write(bench.fixture.path("vex/config.toml"), user).unwrap();
    let show = |args: &[&str]| {
        let output = bench
            .fixture
            .vex(&["config", "show"])
            .args(args)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
        text.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n")
            .collect::<String>()
    };
    let text = show(&["--mcp-config", "../mcp.json", "--config", "mcp.s.call_timeout=5s"]);
    assert!(text.contains("mcp.s.command \"file\" ../mcp.json\n"), "{text}");
    assert!(text.contains("mcp.s.env.TOKEN \"[set]\" ../mcp.json\n"), "{text}");
    assert!(text.contains("mcp.s.call_timeout \"5s\" --config\n"), "{text}");
    assert!(text.contains("mcp.t.command \"user\""), "{text}");
    assert!(
        !text.contains("mcp.s.url"),
        "the file replaces the whole server: {text}"
    );
    assert!(show(&[]).contains("mcp.s.headers.A \"[set]\""));
    assert!(!(text + &show(&[])).contains("s3cret"));

    for (content, expected) in [
        (
            "{\"mcpServers\": {\"s\": {\"comand\": \"x\"}}}",
            "../mcp.json: mcpServers.s: unknown key `comand`; did you mean `command`?",
        ),
        (
            "{\"mcpServers\": {\"s\": {}}}",
            "../mcp.json: mcpServers.s: `command` or `url` is missing",
        ),
        (
            "{\"mcpServers\": {\"a.b\": {\"command\": \"x\"}}}",
            "../mcp.json: mcpServers.a.b: the name of a server has 1 to 32",
        ),
    ] {
        // Without the user's own server, to whose layer nothing is added.
        std::fs::write(bench.fixture.path("vex/config.toml"), "").unwrap();
        std::fs::write(bench.fixture.path("mcp.json"), content).unwrap();
        let text = show(&["--mcp-config", "../mcp.json"]);
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let text = show(&["--mcp-config", "../missing.json"]);
    assert!(text.contains("missing.json"), "{text}");
}

#[test]
fn workspace_cannot_add_a_server() {
    let bench = Bench::new(&[], &[("!other", json!({}))]);
    std::fs::create_dir_all(bench.fixture.path("work/.vex")).unwrap();
    std::fs::write(
        bench.fixture.path("work/.vex/config.toml"),
        "[mcp.evil]\ncommand = \"touch\"\nargs = [\"started\"]\n",
    )
    .unwrap();
    let ran = bench.allowed();
    assert!(
        ran.warnings()[0].contains("`mcp` is ignored"),
        "{:?}",
        ran.warnings()
    );
    assert!(!bench.fixture.path("work/started").exists());
}

#[test]
fn hooks_know_tools_of_servers_by_their_rule_names() {
    let bench = Bench::new(&[], &[("!echo", json!({"text": "hello"}))]);
    std::fs::create_dir_all(bench.fixture.path("vex")).unwrap();
    let hook = "[[hooks]]\nevent = \"pre_tool\"\ntools = [\"mcp.s.*\"]\ncommand = '''\
                cat > ../question.json; echo '{\"decision\": \"deny\", \"message\": \"not now\"}'\n'''\n";
    std::fs::write(bench.fixture.path("vex/config.toml"), hook).unwrap();
    let ran = bench.allowed();
    assert!(ran.outputs()[0].contains("not now"), "{:?}", ran.outputs());
    let question: serde_json::Value = serde_json::from_str(&bench.fixture.read("question.json")).unwrap();
    assert_eq!(question["tool"], "mcp.s.echo");
    assert_eq!(question["input"], json!({"text": "hello"}));
}
