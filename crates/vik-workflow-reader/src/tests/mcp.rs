use vik_core::workflow::{HeaderValue, McpTools, McpTransport, edits};

use super::*;

/// Returns the minimal workflow with one MCP server, whose keys are these, and its secret.
fn server(keys: &str) -> String {
    minimal_with(&[
        (
            "agents:\n",
            &format!("mcp: {{tickets: {{{keys}}}}}\nsecrets: {{TOKEN: {{env: T}}}}\nagents:\n"),
        ),
        (
            "    model:",
            "    mcp: [tickets]\n    secrets: [TOKEN]\n    model:",
        ),
    ])
}

fn codes(text: &str) -> Vec<(&'static str, String)> {
    let found = load(text).diagnostics;
    found.into_iter().map(|one| (one.code, one.path)).collect()
}

#[test]
fn server_has_a_program_or_an_address() {
    for good in [
        "command: [npx, -y, some-server], tools: [list]",
        "command: [./server], env: {LEVEL: debug}, secrets: [TOKEN], tools: ['*']",
        "command: [a], secrets: [TOKEN], sandbox: own, tools: [a]",
        "command: [a], sandbox: agent, tools: [a]",
        "url: 'https://mcp.example.com/mcp', tools: [a]",
        "url: 'http://127.0.0.1:9/mcp', headers: {authorization: 'Bearer ${TOKEN}'}, secrets: [TOKEN], tools: [a]",
        "url: 'http://localhost/mcp', headers: {X-Key: '${TOKEN}', X-Team: core}, secrets: [TOKEN], tools: [a]",
    ] {
        assert_eq!(codes(&server(good)), [], "{good}");
    }
    for (bad, code, path) in [
        ("tools: [a]", "bad_mcp", "mcp.tickets"),
        (
            "command: [a], url: 'https://b', tools: [a]",
            "bad_mcp",
            "mcp.tickets",
        ),
        ("command: [], tools: [a]", "bad_mcp", "mcp.tickets.command"),
        (
            "url: 'http://example.com/', tools: [a]",
            "bad_mcp",
            "mcp.tickets.url",
        ),
        (
            "url: 'https://u:p@example.com/', tools: [a]",
            "bad_mcp",
            "mcp.tickets.url",
        ),
        (
            "url: 'https://a/?key=sk-aaaaaaaaaaaaaaaaaaaa', tools: [a]",
            "bad_mcp",
            "mcp.tickets.url",
        ),
        (
            "url: 'https://a', env: {A: b}, tools: [a]",
            "bad_mcp",
            "mcp.tickets.env",
        ),
        (
            "command: [a], headers: {A: b}, tools: [a]",
            "bad_mcp",
            "mcp.tickets.headers",
        ),
        ("command: [a], tools: ['a b']", "bad_mcp", "mcp.tickets.tools"),
        ("command: [a], tools: ['a*']", "bad_mcp", "mcp.tickets.tools"),
        (
            "command: [a], tools: [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]",
            "bad_mcp",
            "mcp.tickets.tools.0",
        ),
        (
            "command: [a, '${TOKEN}'], tools: [a]",
            "mcp_secret",
            "mcp.tickets.command.1",
        ),
        (
            "command: [a, --key=ghp_0123456789abcdefghijKLMN], tools: [a]",
            "mcp_secret",
            "mcp.tickets.command.1",
        ),
        (
            "command: [a], env: {T: '${TOKEN}'}, tools: [a]",
            "mcp_secret",
            "mcp.tickets.env.T",
        ),
        (
            "url: 'https://a', headers: {X: '${TOKEN}'}, tools: [a]",
            "bad_mcp",
            "mcp.tickets.headers.X",
        ),
        (
            "url: 'https://a', headers: {X: 'token ${TOKEN}'}, secrets: [TOKEN], tools: [a]",
            "bad_mcp",
            "mcp.tickets.headers.X",
        ),
        (
            "url: 'https://a', headers: {X: 'Bearer ${TOKEN}'}, secrets: [TOKEN], tools: [a]",
            "bad_mcp",
            "mcp.tickets.headers.X",
        ),
        (
            "url: 'https://a', headers: {Authorization: hunter2}, tools: [a]",
            "bad_mcp",
            "mcp.tickets.headers.Authorization",
        ),
        (
            "url: 'https://a', headers: {'a b': c}, tools: [a]",
            "bad_header",
            "mcp.tickets.headers.a b",
        ),
        (
            "command: [a], sandbox: none, tools: [a]",
            "unknown_value",
            "mcp.tickets.sandbox",
        ),
        (
            "url: 'https://a', sandbox: own, tools: [a]",
            "bad_mcp",
            "mcp.tickets.sandbox",
        ),
        (
            "command: [a], max_output: 2MiB, tools: [a]",
            "out_of_range",
            "mcp.tickets.max_output",
        ),
        ("command: [a]", "mcp_without_tools", "mcp.tickets"),
        (
            "command: [a], secrets: [OTHER], tools: [a]",
            "unknown_secret",
            "mcp.tickets.secrets.0",
        ),
        (
            "command: [a], args: [b], tools: [a]",
            "unknown_key",
            "mcp.tickets.args",
        ),
    ] {
        assert_eq!(codes(&server(bad)), [(code, path.to_owned())], "{bad}");
    }
}

#[test]
fn list_of_servers_names_known_ones() {
    let finding = agent("mcp: [^tickets]", "unknown_mcp");
    assert_eq!(finding.hint.as_deref(), Some("define servers in `mcp`"));
    let text = server("command: [a], tools: [a]");
    let with = |keys: &str| text.replace("      agent: codex", &format!("      {keys}\n      agent: codex"));
    assert_eq!(
        codes(&with("mcp: [tikets]")),
        [("unknown_mcp", "issue.stages.plan.mcp.0".to_owned())]
    );
    assert!(
        load(&with("mcp: [tikets]"))
            .render("f", false)
            .contains("did you mean `tickets`?")
    );
    assert_eq!(
        codes(&with("mcp: [tickets, tickets]")),
        [("bad_mcp", "issue.stages.plan.mcp.1".to_owned())]
    );
    let unused = text.replace("    mcp: [tickets]\n", "");
    assert_eq!(codes(&unused), [("unused_mcp", "mcp.tickets".to_owned())]);
    let named = text.replace("tickets", "Ticket_s");
    assert_eq!(codes(&named), [("bad_mcp", "mcp.Ticket_s".to_owned())]);
}

#[test]
fn list_of_a_stage_replaces_that_of_the_profile() {
    let text = server("command: [a], secrets: [TOKEN], tools: [a]").replace("    secrets: [TOKEN]\n", "");
    let workflow = load(&text).workflow.unwrap();
    let (profile, stage) = (&workflow.agents["codex"], &workflow.issue.stages[0]);
    let names: Vec<_> = workflow
        .mcp_servers(profile, stage)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["tickets"]);
    assert_eq!(workflow.agent_secrets(profile, stage), ["TOKEN"]);
    let none = text.replace("      agent: codex", "      mcp: []\n      agent: codex");
    let workflow = load(&none).workflow.unwrap();
    let (profile, stage) = (&workflow.agents["codex"], &workflow.issue.stages[0]);
    assert_eq!(workflow.mcp_servers(profile, stage).count(), 0);
    assert!(workflow.agent_secrets(profile, stage).is_empty());
}

#[test]
fn servers_and_skills_need_an_agent_that_takes_them() {
    let text = minimal_with(&[(
        "runtime: codex\n    model: gpt-5.5",
        "runtime: command\n    command: [x]",
    )]);
    let with = text.replace("    command: [x]", "    command: [x]\n    skills: [a]");
    assert_eq!(
        codes(&with),
        [("no_extensions", "agents.codex.skills".to_owned())]
    );
    let with = text.replace("      agent: codex", "      mcp: [t]\n      agent: codex");
    let with = with.replace("agents:\n", "mcp: {t: {command: [a], tools: [a]}}\nagents:\n");
    assert_eq!(
        codes(&with),
        [("no_extensions", "issue.stages.plan.mcp".to_owned())]
    );
    assert_eq!(
        stage("skills: [^../a]", "bad_path").path,
        "issue.stages.plan.skills"
    );
}

#[test]
fn sandbox_permits_the_address() {
    for (network, url, is_permitted) in [
        ("on", "https://a.example/mcp", true),
        ("off", "https://a.example/mcp", false),
        ("off", "http://localhost:80/mcp", false),
        ("[a.example]", "https://a.example/mcp", true),
        ("[a.example]", "https://b.example/mcp", false),
        ("['a.example:8443']", "https://a.example/mcp", false),
        ("['localhost:90']", "http://localhost:90/mcp", true),
    ] {
        let text = server(&format!("url: '{url}', tools: [a]"));
        let text = text.replace(
            "    model:",
            &format!("    sandbox: {{network: {network}}}\n    model:"),
        );
        let expected = [("mcp_network", "agents.codex.mcp.0".to_owned())];
        let expected = if is_permitted { &[] } else { expected.as_slice() };
        assert_eq!(codes(&text), expected, "{network} {url}");
    }
    let text = server("url: 'https://a.example', tools: [a]");
    assert_eq!(
        codes(&text.replace("    model:", "    sandbox: off\n    model:")),
        []
    );
}

#[test]
fn own_sandbox_separates_secrets_and_needs_one_for_the_agent() {
    let text = server("command: [a], secrets: [TOKEN], sandbox: own, tools: [a]");
    let text = text.replace("    secrets: [TOKEN]\n", "");
    let workflow = load(&text).workflow.unwrap();
    let (profile, stage) = (&workflow.agents["codex"], &workflow.issue.stages[0]);
    assert!(workflow.mcp["tickets"].has_own_sandbox());
    assert!(workflow.agent_secrets(profile, stage).is_empty());
    let off = text.replace("    model:", "    sandbox: off\n    model:");
    let found = load(&off);
    assert_eq!(codes(&off), [("mcp_sandbox", "agents.codex.mcp.0".to_owned())]);
    insta::assert_snapshot!(found.render("workflow.yml", false));
    let sockets = text.replace("    model:", "    sandbox: {unix_sockets: true}\n    model:");
    assert_eq!(
        codes(&sockets),
        [("mcp_sandbox", "agents.codex.mcp.0".to_owned())]
    );
    let message = load(&sockets).render("workflow.yml", false);
    assert!(message.contains("`plan` permits `unix_sockets`"), "{message}");
    let of_stage = text.replace(
        "      agent: codex",
        "      mcp: [tickets]\n      sandbox: off\n      agent: codex",
    );
    assert_eq!(
        codes(&of_stage),
        [("mcp_sandbox", "issue.stages.plan.mcp.0".to_owned())]
    );
    // A stage with a sandbox may use it although the profile has none.
    let on = off.replace("      agent: codex", "      sandbox: on\n      agent: codex");
    assert_eq!(codes(&on), []);
    let agent = text.replace("sandbox: own, ", "");
    let (before, after) = (load(&text).workflow.unwrap(), load(&agent).workflow.unwrap());
    let shown = format!("{:?}", edits(&before, &after));
    assert!(shown.contains("\"mcp.tickets.sandbox\""), "{shown}");
}

#[test]
fn messages_name_place_and_remedy() {
    let text = minimal_with(&[
        (
            "agents:\n",
            "mcp:\n  a: {command: [x, '--token=${TOKEN}']}\n  b: {url: 'http://example.com/mcp', tools: [a]}\n  c: {command: [x], sandbox: other}\n  \
             d: {url: 'https://d.example:8443', tools: [a]}\nagents:\n",
        ),
        (
            "    model:",
            "    mcp: [a, b, c, d, e]\n    sandbox: {network: [a.example]}\n    model:",
        ),
    ]);
    insta::assert_snapshot!(load(&text).render("workflow.yml", false));
    let text = text
        .replace("url: 'http://example.com/mcp'", "command: [y]")
        .replace("'--token=${TOKEN}'", "y");
    insta::assert_snapshot!(load(&text).render("workflow.yml", false));
}

#[test]
fn server_is_read_and_its_edits_hide_values() {
    let workflow = load(FULL).workflow.unwrap();
    let docs = &workflow.mcp["docs"];
    assert_eq!(docs.tools, McpTools::All);
    let McpTransport::Http { headers, .. } = &docs.transport else {
        panic!("{docs:?}");
    };
    assert_eq!(
        headers["Authorization"],
        HeaderValue::Bearer("DEPLOY_KEY".to_owned())
    );
    let text = FULL
        .replace("LOG_LEVEL: debug", "LOG_LEVEL: hidden-value")
        .replace("tools: [list, read]", "tools: [list]");
    let changed = load(&text).workflow.unwrap();
    let shown: Vec<_> = edits(&workflow, &changed)
        .iter()
        .map(|edit| format!("{edit:?}"))
        .collect();
    let shown = shown.join("\n");
    assert!(
        shown.contains("mcp.tickets.env.LOG_LEVEL") && shown.contains("mcp.tickets.tools"),
        "{shown}"
    );
    assert!(!shown.contains("hidden-value"), "{shown}");
    let json = serde_json::to_string(&workflow).unwrap();
    assert_eq!(serde_json::from_str::<Workflow>(&json).unwrap(), workflow);
}
