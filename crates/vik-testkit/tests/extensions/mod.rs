//! MCP servers and skills of the real agents: what the model is offered, and which calls run.

use serde_json::{Value, json};
use vik_agents::Extensions;
use vik_core::workflow::{McpSandbox, McpServer, McpTools, McpTransport, Permission};
use vik_testkit::{RealAgent, RealMcpServer};

use crate::agent_run::{AgentRun, start_with};
use crate::{Setup, setup};

/// The value of a secret of the server.
const SECRET: &str = "secret-0123456789";

/// Returns the server with one permitted tool, and a skill.
fn extensions(setup: &Setup, tools: McpTools) -> Option<Extensions> {
    let folder = setup.env.root().join("extensions");
    let skill = Extensions::skills_dir(&folder).join("tally");
    std::fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: tally\ndescription: Counts apples and pears.\n---\nCount them.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    let server = McpServer {
        transport: McpTransport::Stdio {
            command: vec![RealMcpServer::Everything.or_skip()?.display().to_string()],
            env: [("PLAIN".to_owned(), "plain value".to_owned())].into(),
            sandbox: McpSandbox::Agent,
        },
        secrets: vec!["SERVER_TOKEN".to_owned()],
        tools,
        startup_timeout: Some(vik_core::duration::Span::secs(60)),
        call_timeout: None,
        max_output: None,
    };
    Some(Extensions {
        servers: vec![("every".to_owned(), server)],
        skills: vec![skill],
        folder,
    })
}

fn call(agent: RealAgent, tool: &str, input: &Value) -> Value {
    match agent {
        // Codex replaces the characters that are no part of an identifier.
        RealAgent::Codex => {
            let name = tool.replace('-', "_");
            json!({"call": {"name": name, "namespace": "mcp__every", "input": input}})
        }
        RealAgent::Claude => json!({"call": {"name": format!("mcp__every__{tool}"), "input": input}}),
    }
}

/// Runs an agent that calls a permitted tool, and then one that is not.
fn calls_only_permitted_tools(agent: RealAgent, permission: Permission) {
    let script = json!([
        {"tools": [call(agent, "echo", &json!({"message": "over the server"}))]},
        {"tools": [call(agent, "get-env", &json!({}))], "expect": "Echo: over the server"},
        {"text": "Finished."}
    ]);
    let Some(mut setup) = setup(agent, script) else {
        return;
    };
    setup.profile.permission = permission;
    setup.profile.env = [("SERVER_TOKEN".to_owned(), SECRET.to_owned())].into();
    let Some(extensions) = extensions(&setup, McpTools::Named(vec!["echo".to_owned()])) else {
        return;
    };
    let child = start_with(&setup.env, &setup.profile, "Do the task.\n", Some(&extensions));
    let run = AgentRun::wait(child, &setup.profile);
    let turns = setup.server.turns();
    let offered = turns[0].body.to_string();
    match agent {
        // It offers the tools of servers through a search.
        RealAgent::Codex => assert!(offered.contains("tool_search"), "{offered}"),
        RealAgent::Claude => assert!(offered.contains("mcp__every__echo"), "{offered}"),
    }
    assert_eq!(setup.server.failures(), [""; 0], "{:?}", run.events);
    assert!(run.conclusion.ok, "{:?}", run.conclusion);
    // The server would print its whole environment.
    let last = turns.last().unwrap().body.to_string();
    assert!(!last.contains("plain value") && !last.contains(SECRET), "{last}");
    if agent == RealAgent::Codex {
        assert!(last.contains("unsupported call: mcp__everyget_env"), "{last}");
    } else {
        assert!(last.contains("Refused by Vik"), "{last}");
        assert!(
            offered.contains("Counts apples and pears."),
            "the skill is not offered: {offered}"
        );
    }
}

#[test]
fn codex_calls_only_permitted_tools_of_a_server() {
    calls_only_permitted_tools(RealAgent::Codex, Permission::WorkspaceWrite);
    calls_only_permitted_tools(RealAgent::Codex, Permission::ReadOnly);
}

#[test]
fn claude_calls_only_permitted_tools_of_a_server() {
    calls_only_permitted_tools(RealAgent::Claude, Permission::WorkspaceWrite);
    calls_only_permitted_tools(RealAgent::Claude, Permission::ReadOnly);
}

/// The server gets its variables, and the secret is passed by name.
fn passes_variables(agent: RealAgent) {
    let script = json!([
        {"tools": [call(agent, "get-env", &json!({}))]},
        {"text": "Finished.", "expect": SECRET}
    ]);
    let Some(mut setup) = setup(agent, script) else {
        return;
    };
    setup.profile.env = [("SERVER_TOKEN".to_owned(), SECRET.to_owned())].into();
    let Some(extensions) = extensions(&setup, McpTools::All) else {
        return;
    };
    let child = start_with(&setup.env, &setup.profile, "Do the task.\n", Some(&extensions));
    let run = AgentRun::wait(child, &setup.profile);
    assert_eq!(setup.server.failures(), [""; 0], "{:?}", run.events);
    let last = setup.server.turns().last().unwrap().body.to_string();
    assert!(last.contains("plain value"), "{last}");
}

#[test]
fn codex_passes_variables_to_a_server() {
    passes_variables(RealAgent::Codex);
}

#[test]
fn claude_passes_variables_to_a_server() {
    passes_variables(RealAgent::Claude);
}

/// Runs an agent whose server does not start.
fn run_without_server(agent: RealAgent) -> Option<(Setup, AgentRun)> {
    let setup = setup(agent, json!([{"text": "Finished."}]))?;
    let mut extensions = extensions(&setup, McpTools::All)?;
    extensions.servers[0].1.transport = McpTransport::Stdio {
        command: vec!["false".to_owned()],
        env: [].into(),
        sandbox: McpSandbox::Agent,
    };
    let child = start_with(&setup.env, &setup.profile, "Do the task.\n", Some(&extensions));
    let run = AgentRun::wait(child, &setup.profile);
    Some((setup, run))
}

#[test]
fn codex_fails_without_its_server() {
    let Some((setup, run)) = run_without_server(RealAgent::Codex) else {
        return;
    };
    assert!(!run.conclusion.ok, "{:?}", run.conclusion);
    let reason = run.conclusion.reason.unwrap();
    assert!(
        reason.contains("every"),
        "{:?} {reason}",
        run.conclusion.failure_class
    );
    assert!(setup.server.turns().is_empty());
}

#[test]
fn claude_starts_without_its_server() {
    let Some((_, run)) = run_without_server(RealAgent::Claude) else {
        return;
    };
    assert!(run.conclusion.ok, "{:?}", run.conclusion);
}
