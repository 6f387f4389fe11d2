//! Starts each MCP server of the stages once, and lists its tools.
//!
//! `vik vex mcp-tools` starts the servers of a stage, whatever the agent of the stage is: under the
//! shim, in the sandbox of the stage, and with the secrets of the servers, of which one with a sandbox
//! of its own is started alone. What they send is data: it is masked, escaped and cut.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vex::tools::{McpServerConfig, ServerListing};
use vik_agents::{Extensions, InputMode, Launch, LaunchContext, driver};
use vik_base::report::{chain, count, describe_exit, one_line};
use vik_core::ids::IssueId;
use vik_core::workflow::{
    AgentProfile, Home, McpServer, McpTools, McpTransport, Runtime, SandboxPolicy, Stage, Workflow,
};
use vik_proc::{Limits, Mark, Output, Reads, ShimSpec};
use vik_session::host::{ATTEMPT_MARK, Host, os_env};
use vik_session::sandbox::SandboxSubject;
use vik_session::secrets::masked::{masked, read_tail};
use vik_session::secrets::{NAMES, Resolver};
use vik_workspace::fs::{create_parent, create_private_dir_all, write_private};

use super::check::{Check, Group, ServerTool};
use super::extensions::found_program;
use super::probe::{Scratch, sandbox_of, scratch_host, with_progress_message};

/// The time for the shim and for vex, in addition to that of the servers.
const MARGIN: Duration = Duration::from_secs(15);
/// The code of a server that does not start.
const START_FAILED: &str = "mcp_start_failed";
const MAX_BYTES: usize = 1024 * 1024;
const STDERR_BYTES: u64 = 4 * 1024;
/// The maximum number of tools in a message.
const MAX_SHOWN: usize = 20;

/// Starts the servers, and returns the checks of each.
pub(super) async fn check(
    host: &Host,
    workflow: &Workflow,
    scratch: &Scratch,
    cancel: &CancellationToken,
) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut started = BTreeSet::new();
    for stage in &workflow.issue.stages {
        let Some(profile) = workflow.agents.get(&stage.agent) else {
            continue;
        };
        let servers: Vec<_> = workflow
            .mcp_servers(profile, stage)
            // Another check reports a missing program.
            .filter(|(name, server)| found_program(host, server) && started.insert((*name).clone()))
            .map(|(name, server)| (name.clone(), located(host, server)))
            .collect();
        for servers in separated(servers) {
            if cancel.is_cancelled() {
                break;
            }
            let starts = Starts {
                host,
                workflow,
                scratch,
                cancel,
                stage,
                profile,
                servers,
                secrets: BTreeMap::new(),
            };
            checks.extend(starts.check().await);
        }
    }
    checks
}

/// Returns the servers that are started together: each gets the environment of its run, so one with
/// a sandbox of its own, whose secrets the others must not get, is started alone.
fn separated(servers: Vec<(String, McpServer)>) -> Vec<Vec<(String, McpServer)>> {
    let (own, together): (Vec<_>, Vec<_>) = servers
        .into_iter()
        .partition(|(_, server)| server.has_own_sandbox());
    let together = (!together.is_empty()).then_some(together);
    together
        .into_iter()
        .chain(own.into_iter().map(|server| vec![server]))
        .collect()
}

/// Returns the program of a server that is a path.
fn program(server: &McpServer) -> Option<&str> {
    match &server.transport {
        McpTransport::Stdio { command, .. } => command.first().map(String::as_str),
        McpTransport::Http { .. } => None,
    }
    .filter(|program| program.contains('/'))
}

/// Returns a server with the path of its program.
fn located(host: &Host, server: &McpServer) -> McpServer {
    let mut server = server.clone();
    if let McpTransport::Stdio { command, .. } = &mut server.transport {
        let program = host.program_of_server(command);
        if let Some(first) = command.first_mut() {
            *first = program;
        }
    }
    server
}

/// The servers of a stage that are started together.
struct Starts<'p> {
    host: &'p Host,
    workflow: &'p Workflow,
    scratch: &'p Scratch,
    cancel: &'p CancellationToken,
    stage: &'p Stage,
    profile: &'p AgentProfile,
    servers: Vec<(String, McpServer)>,
    /// The variables with their secrets.
    secrets: BTreeMap<String, String>,
}

impl Starts<'_> {
    /// Starts the servers, and returns the checks of each.
    async fn check(mut self) -> Vec<Check> {
        let mut checks = self.resolve_secrets().await;
        if self.servers.is_empty() {
            return checks;
        }
        let awaited = format!("the MCP servers of the stage {}", self.stage.name);
        let listings = with_progress_message(&awaited, self.list()).await;
        for (name, server) in &self.servers {
            let listing = match &listings {
                Ok(listings) => listings.get(name).cloned(),
                Err(error) => Some(ServerListing::Failed(error.to_string())),
            };
            let listing = listing.unwrap_or_else(|| ServerListing::Failed("it was not listed".to_owned()));
            checks.extend(of_listing(name, server, self.stage.name.as_str(), listing));
        }
        checks
    }

    /// Starts the servers at the same time, and returns what each lists.
    async fn list(&self) -> Result<BTreeMap<String, ServerListing>, String> {
        let id = uuid::Uuid::now_v7();
        let mut secrets = self.secrets.clone();
        let host = scratch_host(self.host, self.workflow, self.scratch);
        host.add_own(&mut secrets);
        let mut spec = self
            .spec(&host, id, secrets)
            .map_err(|error| chain(error.as_ref()))?;
        let stderr = self.scratch.path().join(format!("{id}.stderr"));
        spec.stderr = Output::Append(stderr.clone());
        let limits = Limits {
            timeout: self.startup_timeout() + MARGIN,
            max_bytes: MAX_BYTES,
        };
        let run = host
            .supervisor
            .output(&spec, limits, self.cancel.cancelled())
            .await;
        let run = run.map_err(|error| chain(&error))?;
        if run.timed_out {
            return Err(format!("no answer within {}s", limits.timeout.as_secs()));
        }
        if run.flooded {
            return Err("the servers of the stage list too much: more than 1 MiB".to_owned());
        }
        serde_json::from_slice(&run.stdout).map_err(|_| match read_tail(&stderr, STDERR_BYTES) {
            text if text.trim().is_empty() => format!("vex {}", describe_exit(&run.exit)),
            text => text,
        })
    }

    /// Returns the command that starts the servers, whose files and folders it creates.
    fn spec(
        &self,
        host: &Host,
        id: uuid::Uuid,
        more: BTreeMap<String, String>,
    ) -> Result<ShimSpec, Box<dyn Error>> {
        let issue = IssueId::new(format!("probe-{id}"));
        let workdir = host.layout.issue_dir(&issue);
        create_private_dir_all(&workdir)?;
        let extensions = Extensions {
            servers: self.servers.clone(),
            skills: Vec::new(),
            folder: self.scratch.path().join(format!("mcp-{id}")),
        };
        let policy = SandboxPolicy::of(self.profile, self.stage);
        let launch = driver(Runtime::Vex).launch(&LaunchContext {
            profile: &as_vex(self.profile),
            workdir: &workdir,
            vik: &host.vik,
            private_home: None,
            session_id: id,
            resume: None,
            budget: vik_core::limits::Limit::default(),
            in_sandbox: policy.is_some(),
            input: InputMode::Prompt,
            scope: None,
            questions: None,
            extensions: Some(&extensions),
            is_root: nix::unistd::geteuid().is_root(),
            environment: &host.environment.shared(),
        })?;
        let permission = self.permission(&launch);
        let mut spec = ShimSpec::command(&host.vik, &workdir);
        spec.args = ["vex", "mcp-tools", "--permission", &permission]
            .map(Into::into)
            .to_vec();
        for file in &launch.files {
            create_parent(&file.path)?;
            write_private(&file.path, file.text.as_bytes())?;
            spec.args
                .extend(["--mcp-config".into(), file.path.clone().into()]);
        }
        let mut env = launch.env;
        env.extend(more);
        let subject = SandboxSubject {
            issue: &issue,
            workflow: self.workflow,
            workdir: &workdir,
            // The folder of an agent is not created for its servers.
            agent: None,
            scope: None,
            scratch: None,
        };
        spec.sandbox = sandbox_of((self.host, host), policy.as_ref(), subject, &mut env)?;
        if let Some(Reads::AllBut { shown, .. }) = spec.sandbox.as_mut().map(|sandbox| &mut sandbox.read) {
            let programs = self.servers.iter().filter_map(|(_, server)| program(server));
            let places = programs.map(PathBuf::from).chain([extensions.folder]);
            shown.extend(places.map(|path| path.canonicalize().unwrap_or(path)));
        }
        // The folders for temporary files and caches replaced these.
        env.extend(self.profile.env.clone());
        spec.env = os_env(env);
        spec.mark = Some(Mark::new(ATTEMPT_MARK, format!("doctor-{id}")));
        Ok(spec)
    }

    /// Returns the profile of vex in which the servers run. Other agents do not confine them.
    fn permission(&self, launch: &Launch) -> String {
        let mut args = launch.argv.iter();
        let given = args.find_map(|arg| match arg.strip_prefix("--permission") {
            Some("") => Some(None),
            Some(value) => Some(value.strip_prefix('=')),
            None => None,
        });
        let value = match given {
            _ if self.profile.runtime != Runtime::Vex => Some("full"),
            Some(None) => args.next().map(String::as_str),
            Some(value) => value,
            None => None,
        };
        value.unwrap_or("workspace-write").to_owned()
    }

    /// Resolves the secrets of the servers. Leaves those out that lack one, and returns their checks.
    async fn resolve_secrets(&mut self) -> Vec<Check> {
        let names = self.servers.iter().flat_map(|(_, server)| &server.secrets);
        let names: BTreeSet<String> = names.cloned().collect();
        let resolver = Resolver {
            host: self.host,
            secrets: &self.workflow.secrets,
            folder: self.scratch.path(),
        };
        let mut missing = BTreeMap::new();
        for name in names {
            match resolver.value(&name, self.cancel.cancelled()).await {
                Ok(value) => drop(self.secrets.insert(name, value)),
                Err(error) => drop(missing.insert(name, chain(&error))),
            }
        }
        let names: Vec<&str> = self.secrets.keys().map(String::as_str).collect();
        let list = names.join(",");
        self.secrets.insert(NAMES.to_owned(), list);
        let mut checks = Vec::new();
        self.servers.retain(|(name, server)| {
            let lack = server.secrets.iter().find_map(|secret| missing.get(secret));
            checks.extend(lack.map(|reason| {
                let message = format!("the MCP server {name} is not started: {reason}");
                Check::error(Group::Agents, format!("mcp.{name}.tools"), START_FAILED, message)
            }));
            lack.is_none()
        });
        checks
    }

    /// Returns the longest time for the start of a server.
    fn startup_timeout(&self) -> Duration {
        let default = McpServerConfig::default().startup_timeout.get();
        let times = self
            .servers
            .iter()
            .map(|(_, server)| server.startup_timeout.map_or(default, |span| span.0));
        times.max().unwrap_or(default)
    }
}

/// Returns the profile with which vex starts servers in the environment of another agent.
fn as_vex(profile: &AgentProfile) -> AgentProfile {
    AgentProfile {
        runtime: Runtime::Vex,
        model: Some("none".to_owned()),
        args: if profile.runtime == Runtime::Vex {
            profile.args.clone()
        } else {
            Vec::new()
        },
        command: Vec::new(),
        home: Home::User,
        ..profile.clone()
    }
}

/// Returns the checks of a server that was started.
fn of_listing(name: &str, server: &McpServer, stage: &str, listing: ServerListing) -> Vec<Check> {
    let check = format!("mcp.{name}.tools");
    let (description, tools, cut) = match listing {
        ServerListing::Listed {
            description,
            tools,
            cut,
        } => (description, tools, cut),
        ServerListing::Failed(reason) => {
            let reason = one_line(&masked(reason), 300);
            let message = format!("the MCP server {name} does not start: {reason}");
            let hint = match &server.transport {
                McpTransport::Stdio { .. } => format!(
                    "run its command by hand; in an attempt it runs in the sandbox of the stage `{stage}`"
                ),
                McpTransport::Http { .. } => {
                    format!("check `url`, `headers`, and the network of the sandbox of the stage `{stage}`")
                }
            };
            return vec![Check::error(Group::Agents, check, START_FAILED, message).hint(hint)];
        }
    };
    let is_permitted = |tool: &str| match &server.tools {
        McpTools::None => false,
        McpTools::All => true,
        McpTools::Named(names) => names.iter().any(|name| name == tool),
    };
    let listed: Vec<ServerTool> = tools
        .iter()
        .map(|tool| ServerTool {
            permitted: is_permitted(tool),
            name: one_line(&masked(tool.clone()), 80),
        })
        .collect();
    let some = |permitted: bool| {
        let tools = listed.iter().filter(|tool| tool.permitted == permitted);
        list(&tools.map(|tool| tool.name.as_str()).collect::<Vec<_>>())
    };
    let message = format!(
        "{name} ({}) has {}; agents may call: {}; not: {}",
        one_line(&masked(description), 100),
        count(listed.len(), "tool"),
        some(true),
        some(false)
    );
    let names: Vec<&str> = listed.iter().map(|tool| tool.name.as_str()).collect();
    let names = list(&names);
    let mut checks = vec![Check {
        tools: listed,
        ..Check::ok(Group::Agents, check.clone(), message)
    }];
    if let Some(cut) = cut {
        let message = format!("the tools of the MCP server {name} are not complete: {cut}");
        checks.push(Check::warning(Group::Agents, check, "mcp_tools_cut", message));
    } else if let McpTools::Named(wanted) = &server.tools {
        let missing = wanted.iter().filter(|name| !tools.contains(name));
        checks.extend(missing.map(|tool| {
            let message = format!("the MCP server {name} has no tool `{tool}`, which `tools` lists");
            Check::warning(Group::Agents, check.clone(), "mcp_tool_missing", message)
                .hint(format!("correct `mcp.{name}.tools`; its tools: {names}"))
        }));
    }
    checks
}

/// Returns the first names of a list.
fn list(names: &[&str]) -> String {
    match names.len() {
        0 => "none".to_owned(),
        number if number > MAX_SHOWN => {
            format!(
                "{} and {} more",
                names[..MAX_SHOWN].join(", "),
                number - MAX_SHOWN
            )
        }
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Status;
    use serde_json::json;

    fn server(tools: &[&str]) -> McpServer {
        let stdio = json!({"command": ["x"], "env": {}});
        serde_json::from_value(json!({"transport": {"Stdio": stdio}, "tools": tools})).unwrap()
    }

    fn listed(tools: &[&str], cut: Option<&str>) -> ServerListing {
        ServerListing::Listed {
            description: "protocol 1".to_owned(),
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            cut: cut.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn tools_are_permitted_or_not_and_missing_ones_are_warnings() {
        let checks = of_listing(
            "s",
            &server(&["a", "nope"]),
            "work",
            listed(&["a", "b\u{1b}[31m"], None),
        );
        assert_eq!(
            checks[0].message,
            "s (protocol 1) has 2 tools; agents may call: a; not: b⟦U+001B⟧[31m"
        );
        let permitted: Vec<bool> = checks[0].tools.iter().map(|tool| tool.permitted).collect();
        assert_eq!(permitted, [true, false]);
        assert_eq!(checks[1].code.as_deref(), Some("mcp_tool_missing"));
        assert_eq!(
            checks[1].message,
            "the MCP server s has no tool `nope`, which `tools` lists"
        );
        assert_eq!((checks[1].status, checks.len()), (Status::Warning, 2));
    }

    #[test]
    fn long_lists_are_cut_and_prove_nothing() {
        let names: Vec<String> = (0..128).map(|number| format!("tool{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let checks = of_listing(
            "s",
            &server(&["*"]),
            "work",
            listed(&names, Some("only the first 128")),
        );
        assert!(checks[0].message.contains("tool19 and 108 more; not: none"));
        let checks = of_listing("s", &server(&["nope"]), "work", listed(&names, Some("only 128")));
        assert_eq!(checks[1].code.as_deref(), Some("mcp_tools_cut"));
        assert_eq!(checks.len(), 2);
    }

    #[test]
    fn failure_is_an_error_with_a_hint() {
        let failed = ServerListing::Failed("it ended\u{7}\nwith exit code 3".to_owned());
        let checks = of_listing("s", &server(&[]), "work", failed);
        assert_eq!(
            checks[0].message,
            "the MCP server s does not start: it ended⟦U+0007⟧ with exit code 3"
        );
        assert_eq!(checks[0].code.as_deref(), Some("mcp_start_failed"));
        assert!(checks[0].hint.as_ref().unwrap().ends_with("of the stage `work`"));
    }
}
