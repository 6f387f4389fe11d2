//! `vex doctor`: checks whether a run could start.

use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;
use serde::Serialize;

use super::args::ChoiceArgs;
use super::exec::policy;
use super::{models, output, provider, skills};
use crate::config::{LoadedConfig, Settings};
use crate::events::ExitReason;
use crate::interrupt::Interrupt;
use crate::provider::catalog::{self, process_env};
use crate::provider::http::{list_models, probe};
use crate::provider::open;
use crate::redact::redact;
use crate::skills::text::one_line;
use crate::tools::{McpServerConfig, Permission, Root, ServerTool, Toolbox};

/// The maximum length of a message with text of an MCP server, in characters.
const MAX_MESSAGE: usize = 500;

/// `vex doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Send a small request to the model
    #[arg(long)]
    pub probe: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// What is looked at.
    #[command(flatten)]
    pub choice: ChoiceArgs,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    Warning,
    Error,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    level: Level,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The tools of an MCP server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ServerTool>,
}

impl Finding {
    fn new(check: &'static str, level: Level, message: impl Into<String>) -> Self {
        Self {
            check,
            level,
            message: redact(&message.into()).into_owned(),
            hint: None,
            tools: Vec::new(),
        }
    }

    /// Creates a finding with text of an MCP server, which is data: one line, and cut.
    fn of_server(level: Level, message: &str) -> Self {
        Self::new("mcp", level, one_line(&redact(message), MAX_MESSAGE))
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

pub(super) fn run(args: &DoctorArgs) -> ExitReason {
    let interrupt = Interrupt::new();
    if let Err(error) = interrupt.install(|| {}) {
        return output::fail(ExitReason::Failed, &format!("cannot handle signals: {error}"));
    }
    let mut findings = Vec::new();
    let mut worst = match args.choice.load(Vec::new()) {
        Ok(loaded) => {
            findings.extend(settings(&loaded));
            findings.push(git());
            findings.extend(workspace(args, &loaded.settings, &interrupt));
            findings.push(keys(&loaded.settings));
            let (found, reason) = server(&loaded.settings, args.probe, &interrupt);
            findings.extend(found);
            reason
        }
        Err(error) => {
            findings.push(Finding::new(
                "settings",
                Level::Error,
                output::with_source(&error),
            ));
            ExitReason::Config
        }
    };
    if interrupt.is_set() {
        return ExitReason::Interrupted;
    }
    if worst == ExitReason::Done && findings.iter().any(|finding| finding.level == Level::Error) {
        worst = ExitReason::Failed;
    }
    let outcome = if args.json {
        output::print_json(&findings)
    } else {
        output::print(&text(&findings))
    };
    if worst == ExitReason::Done { outcome } else { worst }
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.level {
            Level::Ok => "ok     ",
            Level::Warning => "warning",
            Level::Error => "error  ",
        };
        text += &format!("{mark}  {:9} {}\n", finding.check, finding.message);
        if let Some(hint) = &finding.hint {
            text += &format!("         {:9} → {hint}\n", "");
        }
        for tool in &finding.tools {
            let mark = match (tool.allowed, tool.denied) {
                (true, _) => "allowed",
                (false, true) => "denied ",
                (false, false) => "no rule",
            };
            text += &format!("         {:9} {mark}  {}\n", "", tool.name);
        }
    }
    redact(&text).into_owned()
}

fn settings(loaded: &LoadedConfig) -> Vec<Finding> {
    let set = loaded
        .shown()
        .iter()
        .filter(|shown| shown.origin != "default")
        .count();
    let mut findings = vec![Finding::new("settings", Level::Ok, format!("{set} values set"))];
    let warning = |warning: &String| Finding::new("settings", Level::Warning, warning);
    findings.extend(loaded.warnings.iter().map(warning));
    findings
}

fn git() -> Finding {
    let asked = Command::new("git")
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    match asked {
        Ok(output) if output.status.success() => Finding::new(
            "git",
            Level::Ok,
            String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        ),
        _ => Finding::new("git", Level::Warning, "cannot run git")
            .hint("install git: without it, the git tools are missing and the evidence lists no commits"),
    }
}

fn workspace(args: &DoctorArgs, settings: &Settings, interrupt: &Interrupt) -> Vec<Finding> {
    let root = match Root::open(args.choice.dir(), false) {
        Ok(root) => root,
        Err(error) => {
            return vec![
                Finding::new("workspace", Level::Error, output::with_source(&error))
                    .hint("name another workspace with -C DIR"),
            ];
        }
    };
    let place = root.path().display().to_string();
    let cwd = root.path().to_owned();
    let mut tools = Toolbox::new(root, policy(settings));
    let sandbox = match tools.sandbox() {
        Ok(sandbox) if sandbox.starts_with("none") && settings.permission != Permission::Full => {
            Finding::new("sandbox", Level::Warning, sandbox)
                .hint("commands are not confined to the workspace: run vex in a container, or with --permission read-only")
        }
        Ok(sandbox) => Finding::new("sandbox", Level::Ok, sandbox),
        Err(why) => Finding::new("sandbox", Level::Error, why),
    };
    let mut findings = vec![Finding::new("workspace", Level::Ok, place), sandbox];
    findings.extend(found_skills(settings, &cwd));
    findings.extend(mcp_servers(&mut tools, settings, interrupt));
    findings
}

/// Counts the skills that a run could load, and lists what is wrong with them.
fn found_skills(settings: &Settings, cwd: &Path) -> Vec<Finding> {
    let found = match skills::load(&[], settings, cwd) {
        Ok(found) => found,
        Err(error) => return vec![Finding::new("skills", Level::Error, error.to_string())],
    };
    let count = match found.iter().len() {
        _ if !settings.skills => "switched off".to_owned(),
        0 => "none".to_owned(),
        count => format!("{count} found"),
    };
    let mut findings = vec![Finding::new("skills", Level::Ok, count)];
    let warning = |warning: &String| Finding::new("skills", Level::Warning, warning);
    findings.extend(found.warnings.iter().map(warning));
    findings.extend(found.untrusted_hint().as_ref().map(warning));
    findings
}

/// Starts each MCP server, and lists its tools.
fn mcp_servers(tools: &mut Toolbox, settings: &Settings, interrupt: &Interrupt) -> Vec<Finding> {
    let starts = match tools.start_servers(&settings.mcp, interrupt) {
        Ok(starts) => starts.unwrap_or_default(),
        Err(error) => return vec![Finding::new("mcp", Level::Error, error.to_string())],
    };
    let mut findings = Vec::new();
    for start in starts {
        let name = &start.name;
        match start.outcome {
            Ok(server) => {
                let message = format!("{name}: {} tools ({})", server.tools.len(), server.description);
                let refusal = server.refusal();
                let refusal = refusal.map(|why| Finding::of_server(Level::Error, &format!("{name}: {why}")));
                findings.push(Finding {
                    tools: server.tools,
                    ..Finding::of_server(Level::Ok, &message)
                });
                let warning =
                    |warning: &String| Finding::of_server(Level::Warning, &format!("{name}: {warning}"));
                findings.extend(server.warnings.iter().map(warning));
                findings.extend(refusal);
            }
            Err(error) => {
                let level = if start.required {
                    Level::Error
                } else {
                    Level::Warning
                };
                findings.push(Finding::of_server(
                    level,
                    &format!("{name} does not start: {error}"),
                ));
            }
        }
        findings.extend(
            settings
                .mcp
                .get(name)
                .and_then(|config| given_secrets(name, config)),
        );
    }
    findings
}

/// Reports the variables that a program of the run gets: commands of the model can read them.
fn given_secrets(name: &str, config: &McpServerConfig) -> Option<Finding> {
    let variables = config.variables();
    if config.command.is_none() || variables.is_empty() {
        return None;
    }
    let message = format!("{name} gets {}, and so does the model", variables.join(", "));
    Some(Finding::new("mcp", Level::Warning, message).hint(
        "the server runs in the sandbox of commands, which can read its environment: reach it by `url`, or outside of the run",
    ))
}

/// Lists which keys are set, by the names of their variables.
fn keys(settings: &Settings) -> Finding {
    let mut variables = catalog::key_variables(&settings.providers);
    variables.sort();
    variables.dedup();
    let (set, unset): (Vec<_>, Vec<_>) = variables
        .into_iter()
        .partition(|name| process_env(name).is_some_and(|value| !value.trim().is_empty()));
    if set.is_empty() {
        return Finding::new(
            "keys",
            Level::Ok,
            format!("no API key is set ({})", unset.join(", ")),
        )
        .hint("set one of these variables, or use a local server: --provider ollama, or --base-url URL");
    }
    Finding::new("keys", Level::Ok, format!("{} set", set.join(", ")))
}

/// Checks the provider that a run would use.
fn server(settings: &Settings, ask_model: bool, interrupt: &Interrupt) -> (Vec<Finding>, ExitReason) {
    let failed = |reason, message: String| (vec![Finding::new("provider", Level::Error, message)], reason);
    if settings.provider.as_deref() == Some(provider::REPLAY) {
        return (
            vec![Finding::new("provider", Level::Ok, "replay (a recording)")],
            ExitReason::Done,
        );
    }
    let endpoint = match open::endpoint(settings, &process_env) {
        Ok(endpoint) => endpoint,
        Err(error) => return failed(ExitReason::Config, error.to_string()),
    };
    let place = format!(
        "{} at {} ({})",
        endpoint.name,
        endpoint.base_url,
        endpoint.protocol.as_str()
    );
    let mut findings = vec![Finding::new("provider", Level::Ok, place)];
    if settings.model.is_none() {
        let hint = format!(
            "set a model with -m MODEL; `vex models --provider {}` lists them",
            endpoint.name
        );
        findings.push(Finding::new("model", Level::Warning, "no model is set").hint(hint));
    }
    if !ask_model {
        return (findings, ExitReason::Done);
    }
    let probed = if settings.model.is_some() {
        open::http_settings(settings, &process_env, None, interrupt)
            .and_then(|settings| probe(settings, interrupt))
            .map(|probe| format!("{} answered in {} ms", probe.model, probe.took.as_millis()))
    } else {
        list_models(endpoint, settings.ca_file.as_deref(), interrupt)
            .map(|models| format!("the provider lists {} models", models.len()))
    };
    match probed {
        Ok(message) => {
            findings.push(Finding::new("probe", Level::Ok, message));
            (findings, ExitReason::Done)
        }
        Err(error) => {
            findings.push(Finding::new("probe", Level::Error, error.to_string()));
            (findings, models::reason(&error))
        }
    }
}
