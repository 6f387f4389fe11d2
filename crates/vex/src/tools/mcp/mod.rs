//! Tools of MCP servers (Model Context Protocol).
//!
//! Servers are started before the first request of a run, only those that are configured, and end
//! with it. What they send is untrusted: it is bounded, masked, and marked as data in the
//! conversation. A call needs a rule that allows it; a tool whose definition changes during the run
//! is refused.

mod client;
mod connection;
mod name;
mod pipes;
mod runtime;
mod schema;
mod server;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

pub use settings::{ByteSize, McpServerConfig};

use self::client::{RemoteTool, ToolList};
use self::name::ToolNames;
use self::runtime::IoThread;
use self::schema::ToolSchema;
use self::server::Server;
use super::command::{Runner, ServerProcess};
use super::definition::{Need, ToolDefinition};
use super::rules::Rule;
use super::tool::Entry;
use super::{Subject, Toolbox};
use crate::interrupt::Interrupt;
use crate::net::unless_interrupted;
use crate::redact::learn_keys;
use crate::skills::text::one_line;

/// The maximum length of a shown name, in characters.
const MAX_SHOWN: usize = 80;
/// The maximum length of the reason why a tool is left out, in characters.
const MAX_REASON: usize = 300;

/// The servers of a run. They end when this is dropped.
pub(super) struct McpServers {
    io: IoThread,
    servers: Vec<Arc<Server>>,
}

/// What a started server offers.
#[derive(Debug)]
pub struct ServerTools {
    /// The version of the protocol and the name of the server.
    pub description: String,
    pub tools: Vec<ServerTool>,
    /// The tools that denies and hooks name, and that the server does not list: a run with them
    /// might permit what they were to prevent.
    pub unknown: Vec<String>,
    /// What is left out, and why, for people.
    pub warnings: Vec<String>,
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerTool {
    /// The name in rules.
    pub name: String,
    /// Whether the rules allow a call.
    pub allowed: bool,
    /// Whether a rule denies it, whatever others allow.
    pub denied: bool,
}

/// The start of a server; the error is for people.
pub struct ServerStart {
    pub name: String,
    /// Whether a run fails without it.
    pub required: bool,
    pub outcome: Result<ServerTools, String>,
}

/// What a server lists, by its own names and whatever the rules allow; or why it does not start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerListing {
    Listed {
        /// The version of the protocol and the name of the server.
        description: String,
        tools: Vec<String>,
        /// Why the list is not complete.
        cut: Option<String>,
    },
    /// The text is the reason, for people.
    Failed(String),
}

impl Toolbox {
    /// Starts the servers at the same time, lists their tools, and ends them. Returns `None` if
    /// interrupted.
    ///
    /// # Errors
    /// When the system has no thread for them.
    pub fn list_servers(
        &self,
        configs: &BTreeMap<String, McpServerConfig>,
        interrupt: &Interrupt,
    ) -> std::io::Result<Option<BTreeMap<String, ServerListing>>> {
        let started = McpServers::start(configs, &self.runner, self.root.path(), interrupt)?;
        let Some((_servers, outcomes)) = started else {
            return Ok(None);
        };
        let listings = outcomes.into_iter().map(|(name, _, outcome)| {
            let listing = match outcome {
                Ok((server, list)) => ServerListing::Listed {
                    description: server.description(),
                    tools: list
                        .tools
                        .iter()
                        .map(|tool| one_line(&tool.name, MAX_SHOWN))
                        .collect(),
                    cut: list.cut,
                },
                Err(reason) => ServerListing::Failed(reason),
            };
            (name.clone(), listing)
        });
        Ok(Some(listings.collect()))
    }

    /// Starts the servers at the same time, and adds their tools. Returns `None` if interrupted.
    ///
    /// # Errors
    /// When the system has no thread for them.
    pub fn start_servers(
        &mut self,
        configs: &BTreeMap<String, McpServerConfig>,
        interrupt: &Interrupt,
    ) -> std::io::Result<Option<Vec<ServerStart>>> {
        if configs.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let started = McpServers::start(configs, &self.runner, self.root.path(), interrupt)?;
        let Some((servers, outcomes)) = started else {
            return Ok(None);
        };
        let mut starts = Vec::new();
        for (name, config, outcome) in outcomes {
            starts.push(ServerStart {
                name: name.clone(),
                required: config.required,
                outcome: outcome.map(|(server, list)| self.add_server(name, config, &server, list)),
            });
        }
        self.servers = Some(servers);
        Ok(Some(starts))
    }

    /// Adds the tools of a server: those that the rules allow are offered to the model.
    fn add_server(
        &mut self,
        name: &str,
        config: &McpServerConfig,
        server: &Arc<Server>,
        list: ToolList,
    ) -> ServerTools {
        let mut warnings: Vec<String> = list.cut.into_iter().collect();
        let allowed = self.policy.rules.allow.iter().map(Rule::tool);
        let allowed = allowed.filter_map(|tool| tool.tool_of(name));
        let selected = config.tools.iter().flatten().map(String::as_str);
        let missing: BTreeSet<&str> = selected.chain(allowed).collect();
        let missing = missing
            .into_iter()
            .filter(|wanted| list.tools.iter().all(|tool| tool.name != *wanted));
        warnings.extend(missing.map(|wanted| format!("it has no tool {wanted:?}")));
        let unknown: BTreeSet<String> = self
            .policy
            .restricted()
            .filter_map(|tool| tool.tool_of(name))
            .filter(|wanted| list.tools.iter().all(|tool| tool.name != *wanted))
            .map(|tool| format!("mcp.{name}.{tool}"))
            .collect();
        let used = list
            .tools
            .into_iter()
            .filter(|tool| config.uses(&tool.name))
            .collect();
        let mut tools = Vec::new();
        for tool in usable(name, used, &self.definitions, &mut warnings) {
            let rule = &tool.names.rule;
            if !self.policy.gives(rule) {
                continue;
            }
            let allowed = self.policy.rules.allows_calls(rule);
            tools.push(ServerTool {
                name: rule.clone(),
                allowed,
                denied: self.policy.rules.denies_calls(rule),
            });
            let (entry, definition) = entry(tool, server);
            self.add(entry, definition, allowed);
        }
        if !tools.is_empty() && tools.iter().all(|tool| !tool.allowed) {
            warnings.push(match tools.iter().all(|tool| tool.denied) {
                true => "the rules deny all of its tools".to_owned(),
                false => format!("no rule allows any of its tools: --allow 'mcp.{name}.*' allows all"),
            });
        }
        ServerTools {
            description: server.description(),
            tools,
            unknown: unknown.into_iter().collect(),
            warnings,
        }
    }
}

impl ServerTools {
    /// Returns why no run may start with this server.
    pub fn refusal(&self) -> Option<String> {
        (!self.unknown.is_empty()).then(|| {
            let names = self.unknown.join(", ");
            format!("it has no such tools, which a deny or a hook names: {names}")
        })
    }
}

impl McpServers {
    /// Starts all servers in the workspace `cwd`. Returns `None` if interrupted.
    #[allow(clippy::type_complexity, reason = "it is taken apart at once")]
    fn start<'a>(
        configs: &'a BTreeMap<String, McpServerConfig>,
        runner: &Runner,
        cwd: &Path,
        interrupt: &Interrupt,
    ) -> std::io::Result<
        Option<(
            Self,
            Vec<(
                &'a String,
                &'a McpServerConfig,
                Result<(Arc<Server>, ToolList), String>,
            )>,
        )>,
    > {
        let io = IoThread::start()?;
        let pending = configs.iter().map(async |(name, config)| {
            let resolved = config.resolve(&|name| std::env::var(name).ok())?;
            learn_keys(resolved.env.iter().chain(&resolved.headers));
            let (connection, list) = server::open(&resolved, runner, cwd).await?;
            let server = Server::new(name, resolved, io.handle(), (connection, &list));
            Ok::<_, String>((Arc::new(server), list))
        });
        let opened = io
            .handle()
            .block_on(unless_interrupted(interrupt, join_all(pending)));
        let Some(opened) = opened else { return Ok(None) };
        let servers = opened
            .iter()
            .flatten()
            .map(|(server, _)| Arc::clone(server))
            .collect();
        let outcomes = configs
            .iter()
            .zip(opened)
            .map(|((name, config), outcome)| (name, config, outcome));
        Ok(Some((Self { io, servers }, outcomes.collect())))
    }
}

impl Drop for McpServers {
    fn drop(&mut self) {
        let closing = join_all(self.servers.iter().map(|server| server.close()));
        let processes = self.io.handle().block_on(closing);
        ServerProcess::end_all(processes.into_iter().flatten().collect());
    }
}

/// A tool that can be offered to a model.
struct UsableTool {
    names: ToolNames,
    /// The name that the server gives it.
    remote_name: String,
    description: String,
    schema: ToolSchema,
}

impl UsableTool {
    /// Checks a tool of a server.
    ///
    /// # Errors
    /// If it cannot be offered to a model. The text is the reason.
    fn new(server: &str, tool: RemoteTool) -> Result<Self, String> {
        Ok(Self {
            names: ToolNames::new(server, &tool.name)?,
            schema: schema::completed(tool.schema)?,
            remote_name: tool.name,
            description: tool.description,
        })
    }
}

/// Returns the usable tools, whose names are not those of `earlier` ones; the others become
/// warnings.
fn usable(
    server: &str,
    tools: Vec<RemoteTool>,
    earlier: &[ToolDefinition],
    warnings: &mut Vec<String>,
) -> Vec<UsableTool> {
    let mut leave_out = |name: &str, why: &str| {
        let shown: String = name.chars().take(MAX_SHOWN).collect();
        let why = one_line(why, MAX_REASON);
        warnings.push(format!("its tool {shown:?} is left out: {why}"));
    };
    let mut usable: Vec<UsableTool> = Vec::new();
    for tool in tools {
        let name = tool.name.clone();
        match UsableTool::new(server, tool) {
            Ok(tool) => usable.push(tool),
            Err(why) => leave_out(&name, &why),
        }
    }
    let collides = |at: usize| {
        let mut others = usable.iter().enumerate().filter(|(other, _)| *other != at);
        others.any(|(_, other)| other.names.collides_with(&usable[at].names.model))
    };
    let collisions: Vec<bool> = (0..usable.len()).map(collides).collect();
    let mut kept = Vec::new();
    for (tool, collides) in usable.into_iter().zip(collisions) {
        if collides {
            leave_out(&tool.remote_name, "another one has the same name");
        } else if earlier.iter().any(|other| tool.names.collides_with(&other.name)) {
            leave_out(&tool.remote_name, "one of another server has the same name");
        } else {
            kept.push(tool);
        }
    }
    kept
}

fn entry(tool: UsableTool, server: &Arc<Server>) -> (Entry, ToolDefinition) {
    let definition = ToolDefinition {
        name: tool.names.model.into(),
        description: tool.description.into(),
        input_schema: tool.schema.json,
        need: Need::Server,
        aliases: &[],
        arguments: &[],
    };
    let (server, name, rule) = (Arc::clone(server), tool.remote_name, tool.names.rule.clone());
    let entry = Entry {
        name: tool.names.rule.into(),
        aliases: &[],
        need: Need::Server,
        side_by_side: false,
        arguments: &[],
        paths: &[],
        mend: |_| {},
        subject: |_| Subject::Unknown,
        run: Box::new(move |context, input| server.call(&name, &rule, input, context)),
        schema: match tool.schema.is_recursive {
            // Only the server validates the arguments.
            true => OnceLock::from(None),
            false => OnceLock::new(),
        },
    };
    (entry, definition)
}
