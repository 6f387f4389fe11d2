//! Checks MCP servers and skills: whether programs exist, and which secrets agents can read.

use std::path::{Path, PathBuf};

use vik_agents::{Extensions, InputMode, LaunchContext, driver};
use vik_base::report::chain;
use vik_core::workflow::{AgentProfile, McpServer, McpTools, McpTransport, Stage, Workflow};
use vik_session::host::Host;

use super::check::{Check, Group};
use super::probe;

/// Returns the checks of all stages whose agents get servers or skills.
pub(super) fn check(host: &Host, workflow: &Workflow) -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, server) in &workflow.mcp {
        let stages = workflow.issue.stages.iter();
        let users: Vec<_> = stages.filter(|stage| uses(workflow, stage, name)).collect();
        if !users.is_empty() {
            checks.push(program(host, name, server, &users));
            checks.extend(secrets(workflow, name, server, &users));
        }
    }
    for stage in &workflow.issue.stages {
        if let Some(profile) = workflow.agents.get(&stage.agent) {
            checks.extend(command_line(host, workflow, stage, profile));
        }
    }
    checks
}

fn uses(workflow: &Workflow, stage: &Stage, server: &str) -> bool {
    let profile = workflow.agents.get(&stage.agent);
    profile.is_some_and(|profile| stage.mcp_names(profile).iter().any(|name| name == server))
}

fn program(host: &Host, name: &str, server: &McpServer, users: &[&Stage]) -> Check {
    let check = format!("mcp.{name}");
    let tools = match &server.tools {
        McpTools::None => "no tool".to_owned(),
        McpTools::All => "all tools".to_owned(),
        McpTools::Named(names) => names.join(", "),
    };
    let stages: Vec<_> = users.iter().map(|stage| stage.name.as_str()).collect();
    let ok = |place: &str| {
        let message = format!(
            "{name}: {place}; agents may call {tools}; in {}",
            stages.join(", ")
        );
        Check::ok(Group::Agents, check.clone(), message)
    };
    let sandbox = match server.has_own_sandbox() {
        true => "a sandbox of its own",
        false => "the sandbox of its agent",
    };
    let command = match &server.transport {
        McpTransport::Http { url, .. } => return ok(url.host()),
        McpTransport::Stdio { command, .. } => command,
    };
    let wanted = host.program_of_server(command);
    let path = host.environment.get("PATH").unwrap_or_default();
    match probe::find(&wanted, path) {
        Some(found) => ok(&format!("{} in {sandbox}", found.display())),
        None => {
            let message = if wanted.contains('/') {
                format!("the program of the MCP server {name}, {wanted}, is not an executable file")
            } else {
                format!("the program of the MCP server {name}, `{wanted}`, is not on PATH")
            };
            Check::error(Group::Agents, check, "mcp_not_found", message)
                .hint("install it, or set its path in `command`")
        }
    }
}

/// Returns whether the program of a server exists, if it has one.
#[cfg(feature = "vex")]
pub(super) fn found_program(host: &Host, server: &McpServer) -> bool {
    match &server.transport {
        McpTransport::Http { .. } => true,
        McpTransport::Stdio { command, .. } => {
            let path = host.environment.get("PATH").unwrap_or_default();
            probe::find(&host.program_of_server(command), path).is_some()
        }
    }
}

/// Returns the checks that stand for the tools of the servers, with the reason why none is listed.
pub(super) fn not_listed(workflow: &Workflow, reason: &str) -> Vec<Check> {
    let stages = &workflow.issue.stages;
    let is_used = |name: &&String| stages.iter().any(|stage| uses(workflow, stage, name));
    let check = |name: &String| {
        let message = format!("{name}: tools not listed: {reason}");
        Check::ok(Group::Agents, format!("mcp.{name}.tools"), message)
    };
    workflow.mcp.keys().filter(is_used).map(check).collect()
}

/// Returns the checks for the secrets of a server: which agents can read each.
fn secrets(workflow: &Workflow, name: &str, server: &McpServer, users: &[&Stage]) -> Vec<Check> {
    let gets = |stage: &Stage, secret: &String| {
        let profile = workflow.agents.get(&stage.agent);
        profile.is_some_and(|profile| workflow.agent_secrets(profile, stage).contains(secret))
    };
    let mut checks = Vec::new();
    for secret in &server.secrets {
        let (visible, separate): (Vec<_>, Vec<_>) = users.iter().partition(|stage| gets(stage, secret));
        let check = |message| Check::ok(Group::Secrets, format!("mcp.{name}.{secret}"), message);
        if !visible.is_empty() {
            let agents = agents_of(&visible);
            checks.push(check(match server.has_own_sandbox() {
                // The profile or another server gives it to the agent.
                true => format!(
                    "{secret} is visible to {agents}, although the MCP server {name} has a sandbox of its own"
                ),
                false => format!("{secret} is visible to {agents} through the MCP server {name}"),
            }));
        }
        if !separate.is_empty() {
            let agents = agents_of(&separate);
            checks.push(check(format!(
                "{secret} of the MCP server {name} is not visible to {agents}"
            )));
        }
    }
    checks
}

fn agents_of(stages: &[&&Stage]) -> String {
    let noun = if stages.len() == 1 {
        "the stage"
    } else {
        "the stages"
    };
    let names: Vec<_> = stages.iter().map(|stage| format!("`{}`", stage.name)).collect();
    format!("the agent of {noun} {}", names.join(", "))
}

/// Checks that the agent of a stage takes what it gets. Loading the workflow checked the skills.
fn command_line(host: &Host, workflow: &Workflow, stage: &Stage, profile: &AgentProfile) -> Option<Check> {
    let servers = workflow.mcp_servers(profile, stage);
    let skills = stage.skill_paths(profile);
    let folder = Path::new("/extensions");
    let extensions = Extensions {
        servers: servers
            .map(|(name, server)| (name.clone(), server.clone()))
            .collect(),
        skills: skills.iter().map(PathBuf::from).collect(),
        folder: folder.to_owned(),
    };
    if extensions.is_empty() {
        return None;
    }
    let input = match stage.asks_before_calls() {
        true => InputMode::Approvals,
        false => InputMode::Prompt,
    };
    let launch = driver(profile.runtime).launch(&LaunchContext {
        profile,
        workdir: &host.layout.issues_dir().join("sample"),
        vik: &host.vik,
        private_home: None,
        session_id: uuid::Uuid::nil(),
        resume: None,
        budget: vik_core::limits::Limit::default(),
        in_sandbox: false,
        input,
        scope: None,
        questions: None,
        extensions: Some(&extensions),
        is_root: nix::unistd::geteuid().is_root(),
        environment: &host.environment.shared(),
    });
    let check = format!("extensions.{}", stage.name);
    match launch {
        Err(error) => Some(Check::error(Group::Agents, check, "agent_profile", chain(&error))),
        Ok(_) if skills.is_empty() => None,
        Ok(_) => {
            let message = format!("skills of the stage {}: {}", stage.name, skills.join(", "));
            Some(Check::ok(Group::Agents, check, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::{Extent, Status, examine};

    const FILE: &str = "
mcp:
  tickets: {command: [sh, -c, x], secrets: [TOKEN], tools: [list]}
  missing: {command: [./no-such-server], tools: ['*']}
  docs: {url: 'https://docs.example/mcp'}
  other: {command: [sh], secrets: [OTHER], tools: [list]}
  apart: {command: [sh], secrets: [OTHER], tools: [list], sandbox: own}
secrets: {TOKEN: {env: T}, OTHER: {env: O}}
agents:
  coder: {runtime: claude_code, model: m, mcp: [tickets, docs, apart]}
  other: {runtime: claude_code, model: m, mcp: [missing], args: {settings: x}}
issues: {pull: {command: x}}
issue:
  stages:
    plan: {when: {state: a}, agent: coder, prompt: p, skills: [skills/review]}
    work: {when: {state: b}, agent: coder, prompt: p, mcp: [tickets, docs, apart, other]}
    last: {when: {state: c}, agent: other, prompt: p}
";

    #[test]
    fn servers_secrets_and_skills_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let skill = folder.path().join("skills/review");
        std::fs::create_dir_all(&skill).unwrap();
        std::fs::write(skill.join("SKILL.md"), "---\ndescription: Reviews.\n---\n").unwrap();
        let path = folder.path().join("workflow.yml");
        std::fs::write(&path, FILE).unwrap();
        let checks = examine(&path, Extent::Files).unwrap().checks;
        let shown: Vec<_> = checks.iter().map(|check| check.message.as_str()).collect();
        let all = shown.join("\n");
        for expected in [
            "docs: docs.example; agents may call no tool; in plan, work",
            "no-such-server, is not an executable file",
            "/sh in the sandbox of its agent; agents may call list; in plan, work",
            "/sh in a sandbox of its own; agents may call list; in plan, work",
            "OTHER of the MCP server apart is not visible to the agent of the stage `plan`",
            "OTHER is visible to the agent of the stage `work`, although the MCP server apart has a sandbox of its own",
            "TOKEN is visible to the agent of the stages `plan`, `work` through the MCP server tickets",
            "skills of the stage plan: skills/review",
            "`args.settings` cannot be set for runtime `claude_code`",
        ] {
            assert!(all.contains(expected), "{expected}\n{all}");
        }
        let of_servers =
            |check: &&Check| check.check.starts_with("mcp.") || check.check.starts_with("extensions.");
        let errors = checks
            .iter()
            .filter(of_servers)
            .filter(|check| check.status == Status::Error);
        let codes: Vec<_> = errors.filter_map(|check| check.code.as_deref()).collect();
        assert_eq!(codes, ["mcp_not_found", "agent_profile"], "{all}");
    }
}
