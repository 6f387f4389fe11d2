//! Who uses which MCP servers and skills.

use std::collections::{BTreeMap, BTreeSet};

use vik_core::ids::AgentName;
use vik_core::workflow::{
    AgentProfile, HttpUrl, McpServer, McpTools, McpTransport, Runtime, SandboxNetwork, SandboxPolicy, Stage,
};
use vik_yaml::{Diagnostic, join};

use super::check::Check;
use super::text::{choices, known_names, quoted};

impl Check<'_> {
    /// Checks who uses which servers and skills. `servers` has the names of all servers.
    pub(super) fn extensions<'w>(
        &mut self,
        servers: &[String],
        mcp: &BTreeMap<String, McpServer>,
        agents: &BTreeMap<&AgentName, &'w AgentProfile>,
        stages: &[&'w Stage],
    ) {
        let mut used = BTreeSet::new();
        for (name, profile) in agents {
            let path = join("agents", name.as_str());
            self.extension_lists(
                &path,
                Some(profile.runtime),
                &profile.mcp,
                &profile.skills,
                servers,
            );
            used.extend(&profile.mcp);
        }
        for stage in stages {
            let path = join("issue.stages", stage.name.as_str());
            let runtime = agents.get(&stage.agent).map(|profile| profile.runtime);
            let (own, skills) = (stage.mcp.as_deref(), stage.skills.as_deref());
            self.extension_lists(
                &path,
                runtime,
                own.unwrap_or_default(),
                skills.unwrap_or_default(),
                servers,
            );
            used.extend(own.unwrap_or_default());
            if let Some(profile) = agents.get(&stage.agent) {
                self.stage_servers(stage, profile, mcp);
            }
        }
        for name in servers {
            let path = join("mcp", name);
            if !used.contains(name) {
                let message = format!("no agent uses the MCP server {}", quoted(name));
                let hint = format!("add `mcp: [{name}]` to a profile or a stage");
                self.report_at_key(Diagnostic::warning("unused_mcp", path, message).hint(hint));
            } else if mcp.get(name).is_some_and(|server| server.tools == McpTools::None)
                && (self.places.is_absent(&join(&path, "tools"))
                    || self.places.is_empty_list(&join(&path, "tools")))
            {
                let message = format!("agents may call no tool of the MCP server {}", quoted(name));
                let hint = "list the permitted ones in `tools`, or write `tools: [\"*\"]` for all";
                self.report_at_key(Diagnostic::warning("mcp_without_tools", path, message).hint(hint));
            }
        }
    }

    fn extension_lists(
        &mut self,
        path: &str,
        runtime: Option<Runtime>,
        mcp: &[String],
        skills: &[String],
        servers: &[String],
    ) {
        let known: Vec<&str> = servers.iter().map(String::as_str).collect();
        for (index, name) in mcp.iter().enumerate() {
            let at = format!("{path}.mcp.{index}");
            if !servers.contains(name) {
                let hint = known_names(name, &known).unwrap_or_else(|| "define servers in `mcp`".to_owned());
                let message = format!("unknown MCP server {}", quoted(name));
                self.report(Diagnostic::error("unknown_mcp", at, message).hint(hint));
            } else if mcp[..index].contains(name) {
                let message = format!("the MCP server {} is listed twice", quoted(name));
                self.report(Diagnostic::error("bad_mcp", at, message).hint("remove one of them"));
            }
        }
        let Some(runtime) = runtime.filter(|runtime| !runtime.takes_extensions()) else {
            return;
        };
        for (key, things) in [("mcp", "MCP servers"), ("skills", "skills")] {
            let is_empty = if key == "mcp" {
                mcp.is_empty()
            } else {
                skills.is_empty()
            };
            if !is_empty {
                let message = format!(
                    "an agent with the runtime `{}` cannot get {things}",
                    runtime.as_str()
                );
                let able = [Runtime::Codex, Runtime::ClaudeCode, Runtime::Vex].map(Runtime::as_str);
                let hint = format!("the key applies to {}", choices(able));
                self.report_at_key(Diagnostic::error("no_extensions", join(path, key), message).hint(hint));
            }
        }
    }

    /// Checks the servers of a stage against its sandbox.
    fn stage_servers(&mut self, stage: &Stage, profile: &AgentProfile, mcp: &BTreeMap<String, McpServer>) {
        let policy = SandboxPolicy::of(profile, stage);
        for (index, name) in stage.mcp_names(profile).iter().enumerate() {
            let Some(server) = mcp.get(name) else { continue };
            let at = match &stage.mcp {
                Some(_) => format!("issue.stages.{}.mcp.{index}", stage.name),
                None => format!("agents.{}.mcp.{index}", stage.agent),
            };
            match (&server.transport, &policy) {
                (McpTransport::Http { url, .. }, Some(policy)) => {
                    self.mcp_network(at, stage, name, url, &policy.network);
                }
                (McpTransport::Stdio { .. }, policy) if server.has_own_sandbox() => {
                    self.own_sandbox(at, stage, name, policy.as_ref());
                }
                _ => {}
            }
        }
    }

    /// Checks that the agent cannot reach the processes outside of its sandbox, of which a server with
    /// a sandbox of its own is one.
    fn own_sandbox(&mut self, at: String, stage: &Stage, name: &str, policy: Option<&SandboxPolicy>) {
        let (problem, hint) = match policy {
            None => (
                "has no sandbox: its agent can read the secrets of every process of this user",
                "remove `sandbox: off` from the stage and its agent, or use the server in another stage",
            ),
            Some(policy) if policy.unix_sockets => (
                "permits `unix_sockets`: through Docker or systemd its agent can read the secrets of every process of this user",
                "set `sandbox: {unix_sockets: false}` in the stage, or use the server in another stage",
            ),
            Some(_) => return,
        };
        let message = format!(
            "the MCP server {} has `sandbox: own`, and the stage {} {problem}",
            quoted(name),
            quoted(stage.name.as_str())
        );
        self.report(Diagnostic::error("mcp_sandbox", at, message).hint(hint));
    }

    /// Checks that the sandbox of a stage permits the address of a server.
    fn mcp_network(
        &mut self,
        at: String,
        stage: &Stage,
        name: &str,
        url: &HttpUrl,
        network: &SandboxNetwork,
    ) {
        if network.allows(url.host(), url.port()) {
            return;
        }
        let message = format!(
            "the sandbox of the stage {} does not permit the host {} of the MCP server {}",
            quoted(stage.name.as_str()),
            quoted(url.host()),
            quoted(name)
        );
        let host = if url.host().contains(':') {
            format!("[{}]", url.host())
        } else {
            url.host().to_owned()
        };
        let rule = match url.port() {
            80 | 443 => host,
            port => format!("{host}:{port}"),
        };
        let hint = match network {
            SandboxNetwork::Hosts(_) => format!("add `{rule}` to `sandbox.network`"),
            _ => {
                format!("write `sandbox: {{network: [\"{rule}\"]}}`, or use the server in another stage")
            }
        };
        self.report(Diagnostic::error("mcp_network", at, message).hint(hint));
    }
}
