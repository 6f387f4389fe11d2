//! The values of a serialised workflow, by their keys in the file.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use vik_yaml::text::{push_escaped, quoted};

use crate::money::MicroUsd;
use crate::scope::Scope;
use crate::workflow::{SandboxChoice, Workflow, WorkspaceRoot};

/// Values that may contain a secret and are never shown. `*` is a name of the user.
const SECRET: &[&str] = &[
    "agents.*.args.*",
    "agents.*.command",
    "agents.*.env.*",
    "issues.tracker",
    "mcp.*.command",
    "mcp.*.env.*",
    "mcp.*.headers.*",
    "mcp.*.url",
    // Whoever knows the address can post to it.
    "notify.*.url",
];

/// Texts of several lines and commands, of which only the number of lines is shown.
const TEXTS: &[&str] = &[
    "issue.hooks.after_create",
    "issue.hooks.before_remove",
    "issue.stages.*.hooks.after_run",
    "issue.stages.*.hooks.before_run",
    "issue.stages.*.outputs.*.check",
    "issue.stages.*.outputs.*.push",
    "issue.stages.*.outputs.*.run",
    "issue.stages.*.prompt",
    "issue.stages.*.resume_prompt",
    "issue.stages.*.start_state.command",
    "issue.stages.*.verify",
    "issues.pull.command",
    "issues.show.command",
    "notify.*.command",
    "schedule.*.command",
    "secrets.*.command",
];

/// Short texts of the user, which are shown in quotes. All others are words of Vik.
const QUOTED: &[&str] = &[
    "agents.*.base_url",
    "agents.*.mcp",
    "agents.*.model",
    "agents.*.provider",
    "agents.*.skills",
    "agents.*.where.labels",
    "engine.temporal.address",
    "engine.temporal.api_key",
    "engine.temporal.namespace",
    "engine.temporal.payload_key",
    "engine.temporal.task_queue",
    "engine.temporal.tls.ca_file",
    "engine.temporal.tls.cert_file",
    "engine.temporal.tls.key_file",
    "engine.temporal.tls.server_name",
    "http.bind",
    "http.names",
    "issue.stages.*.agent",
    "issue.stages.*.mcp",
    "issue.stages.*.prompt_file",
    "issue.stages.*.skills",
    "issue.stages.*.start_state",
    "issue.stages.*.when.follow_up",
    "issue.stages.*.when.state",
    "issue.stages.*.where.labels",
    "notify.*.secret_env",
    "notify.*.time_zone",
    "notify.*.url_env",
    "schedule.*.cron",
    "schedule.*.time_zone",
    "secrets.*.env",
    "secrets.*.file",
    "webhooks.hooks.*.header",
    "webhooks.hooks.*.id_header",
    "webhooks.hooks.*.secret_env",
];

/// Values and sections that a running daemon keeps until it is restarted.
const RESTART: &[&str] = &[
    "engine",
    "http",
    "logging.format",
    "logging.retention_days",
    "webhooks.listen",
    "workspace.root",
];

/// Paths of the model whose keys in the file have other names.
const KEYS: &[(&str, &str)] = &[
    ("agents.*.worker_labels", "agents.*.where.labels"),
    ("day_limit.tokens", "limits.tokens_per_day"),
    ("day_limit.usd", "limits.usd_per_day"),
    ("engine.temporal.tls.client", "engine.temporal.tls"),
    ("issue.after_create", "issue.hooks.after_create"),
    ("issue.before_remove", "issue.hooks.before_remove"),
    ("issue.hook_secrets", "issue.hooks.secrets"),
    ("issue.hook_timeout", "issue.hooks.timeout"),
    ("issue.hooks_in_sandbox", "issue.hooks.sandbox"),
    ("issue.limit", "issue.limits"),
    ("issue.max_attempts", "issue.limits.attempts"),
    ("issue.max_rounds", "issue.limits.rounds"),
    ("issue.stages.*.after_run", "issue.stages.*.hooks.after_run"),
    ("issue.stages.*.before_run", "issue.stages.*.hooks.before_run"),
    ("issue.stages.*.hook_secrets", "issue.stages.*.hooks.secrets"),
    ("issue.stages.*.hook_timeout", "issue.stages.*.hooks.timeout"),
    ("issue.stages.*.hooks_in_sandbox", "issue.stages.*.hooks.sandbox"),
    ("issue.stages.*.intent.scope", "issue.stages.*.intent.owned_scope"),
    ("issue.stages.*.limit", "issue.stages.*.limits"),
    ("issue.stages.*.outputs.rules", "issue.stages.*.outputs"),
    ("issue.stages.*.prompt.File", "issue.stages.*.prompt_file"),
    ("issue.stages.*.prompt.Inline", "issue.stages.*.prompt"),
    ("issue.stages.*.start_state.state", "issue.stages.*.start_state"),
    ("issue.stages.*.when.states", "issue.stages.*.when.state"),
    ("issue.stages.*.worker_labels", "issue.stages.*.where.labels"),
    ("log_format", "logging.format"),
    ("max_issue_concurrency", "loop.max_issue_concurrency"),
    ("max_iterations", "loop.max_iterations"),
    ("mcp.*.transport.Http", "mcp.*"),
    ("mcp.*.transport.Stdio", "mcp.*"),
    ("notify.*.channel.Command", "notify.*.command"),
    ("notify.*.channel.Webhook.address.Env", "notify.*.url_env"),
    ("notify.*.channel.Webhook.address.Url", "notify.*.url"),
    ("notify.*.channel.Webhook.secret_env", "notify.*.secret_env"),
    ("notify.*.channel", "notify.*.kind"),
    ("orphan_grace", "loop.orphan_grace"),
    ("pressure", "loop.pressure"),
    ("pull.idle", "issues.pull.idle_sec"),
    ("pull", "issues.pull"),
    ("retention_days", "logging.retention_days"),
    ("schedule.*.job.command", "schedule.*.command"),
    ("schedule.*.job.timeout", "schedule.*.timeout"),
    ("show", "issues.show"),
    ("tracker", "issues.tracker"),
    ("workspace_durable", "workspace.durable"),
    ("workspace_root", "workspace.root"),
];

/// Maps whose keys are names of the user.
const NAMED: &[&str] = &[
    "agents",
    "agents.*.args",
    "agents.*.env",
    "issue.stages",
    "issue.stages.*.outputs.rules",
    "mcp",
    "mcp.*.transport.Http.headers",
    "mcp.*.transport.Stdio.env",
    "notify",
    "schedule",
    "secrets",
    "webhooks.hooks",
];

/// Sections that are added and removed as a whole, in the order of their edits.
const SECTIONS: &[&str] = &[
    "agents",
    "issue.stages",
    "notify",
    "webhooks.hooks",
    "schedule",
    "mcp",
];

/// Returns the position of an edit: those outside of named sections come first.
pub(super) fn section_rank(key: &str) -> usize {
    SECTIONS
        .iter()
        .position(|section| is_inside(key, section))
        .map_or(0, |rank| rank + 1)
}

fn is_inside(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|key| key.starts_with('.'))
}

pub(super) enum Shown {
    As(String),
    Lines(usize),
    Hidden,
}

/// A value, with its place in the workflow.
#[derive(Default)]
pub(super) struct Leaf {
    /// Its path in the model.
    pub(super) path: Vec<String>,
    /// The same path with `*` for each name of the user.
    pattern: String,
    names: Vec<String>,
    /// The section that it is part of, such as `agents.coder`.
    pub(super) section: Option<String>,
    pub(super) value: Value,
}

/// All values of a workflow, in the order of the model.
#[derive(Default)]
pub(super) struct Leaves {
    pub(super) all: Vec<Leaf>,
    by_path: HashMap<Vec<String>, usize>,
    sections: HashSet<String>,
}

impl Leaves {
    pub(super) fn of(workflow: &Workflow) -> Self {
        let mut leaves = Self::default();
        let root = serde_json::to_value(workflow).unwrap_or_default();
        leaves.add(&Leaf::default(), &root);
        leaves
    }

    pub(super) fn get(&self, path: &[String]) -> Option<&Leaf> {
        self.by_path.get(path).map(|&index| &self.all[index])
    }

    pub(super) fn has(&self, section: &str) -> bool {
        self.sections.contains(section)
    }

    fn push(&mut self, leaf: Leaf) {
        self.by_path.insert(leaf.path.clone(), self.all.len());
        self.sections.extend(leaf.section.clone());
        self.all.push(leaf);
    }

    fn add(&mut self, node: &Leaf, value: &Value) {
        match (node.pattern.as_str(), value) {
            ("workspace_root", _) => self.push(node.with(value.clone())),
            ("agents.*.sandbox" | "issue.stages.*.sandbox", Value::Object(_)) => {
                let shown = serde_json::from_value::<SandboxChoice>(value.clone());
                self.push(node.with(shown.map(|choice| choice.to_string()).unwrap_or_default().into()));
            }
            ("issue.stages.*.intent.scope", Value::Array(_)) => {
                let shown = serde_json::from_value::<Scope>(value.clone());
                self.push(node.with(shown.map(|scope| scope.to_string()).unwrap_or_default().into()));
            }
            // Lists of pairs and of stages: the order of the names, and each by its name.
            ("agents.*.args", Value::Array(pairs)) => {
                self.push(node.with(pairs.iter().map(|pair| pair[0].clone()).collect()));
                for pair in pairs {
                    let child = node.child(pair[0].as_str().unwrap_or_default());
                    self.push(child.with(pair[1].clone()));
                }
            }
            ("issue.stages", Value::Array(stages)) => {
                self.push(node.with(stages.iter().map(|stage| stage["name"].clone()).collect()));
                for stage in stages {
                    self.add(&node.child(stage["name"].as_str().unwrap_or_default()), stage);
                }
            }
            ("issue.stages.*.outputs", outputs) => {
                self.push(node.with(if outputs.is_null() { "off" } else { "on" }.into()));
                self.children(node, value);
            }
            // The section has an effect without any key.
            ("engine.temporal.tls" | "workspace_durable", Value::Object(_)) => {
                self.push(node.with("on".into()));
                self.children(node, value);
            }
            ("notify.*.channel", Value::Object(channel)) => {
                let kind = channel.keys().map(|kind| kind.to_lowercase()).collect::<String>();
                self.push(node.with(kind.into()));
                self.children(node, value);
            }
            (_, Value::Object(_)) => self.children(node, value),
            _ => self.push(node.with(value.clone())),
        }
    }

    fn children(&mut self, node: &Leaf, value: &Value) {
        for (name, value) in value.as_object().into_iter().flatten() {
            self.add(&node.child(name), value);
        }
    }
}

impl Leaf {
    fn with(&self, value: Value) -> Self {
        Self {
            path: self.path.clone(),
            pattern: self.pattern.clone(),
            names: self.names.clone(),
            section: self.section.clone(),
            value,
        }
    }

    fn child(&self, name: &str) -> Self {
        let mut child = self.with(Value::Null);
        child.path.push(name.to_owned());
        let mut segment = name;
        if NAMED.contains(&self.pattern.as_str()) {
            segment = "*";
            child.names.push(name.to_owned());
        }
        if SECTIONS.contains(&self.pattern.as_str()) && segment == "*" {
            child.section = Some(child.path.join("."));
        }
        if !child.pattern.is_empty() {
            child.pattern.push('.');
        }
        child.pattern.push_str(segment);
        child
    }

    /// Returns its key in the file with `*` for each name.
    fn key_pattern(&self) -> String {
        let renamed = KEYS.iter().find_map(|(from, to)| {
            let inner = self.pattern.strip_prefix(from)?;
            (inner.is_empty() || inner.starts_with('.')).then(|| format!("{to}{inner}"))
        });
        renamed.unwrap_or_else(|| self.pattern.clone())
    }

    /// Returns its key in the file.
    pub(super) fn key(&self) -> String {
        let mut names = self.names.iter();
        let pattern = self.key_pattern();
        let segments = pattern.split('.').map(|segment| match segment {
            "*" => names.next().map_or(segment, String::as_str),
            _ => segment,
        });
        segments.collect::<Vec<_>>().join(".")
    }

    pub(super) fn needs_restart(&self) -> bool {
        let key = self.key_pattern();
        RESTART.iter().any(|kept| key == *kept || is_inside(&key, kept))
    }

    pub(super) fn shown(&self) -> Shown {
        let pattern = self.key_pattern();
        let is_one_of = |keys: &[&str]| keys.contains(&pattern.as_str());
        if is_one_of(TEXTS) {
            return Shown::Lines(self.value.as_str().map_or(0, |text| text.lines().count()));
        }
        if is_one_of(SECRET) && !self.value.is_boolean() {
            return Shown::Hidden;
        }
        Shown::As(match &self.value {
            root if pattern == "workspace.root" => match serde_json::from_value(root.clone()) {
                Ok(WorkspaceRoot::Path(path)) => quoted(&path),
                Ok(WorkspaceRoot::UserHome) => "the home directory of the user".to_owned(),
                Ok(WorkspaceRoot::BesideWorkflow) | Err(_) => "`.vik` next to the workflow".to_owned(),
            },
            Value::Number(number) => match number.as_u64() {
                Some(micros)
                    if pattern
                        .rsplit('.')
                        .next()
                        .is_some_and(|key| key.starts_with("usd")) =>
                {
                    MicroUsd(micros).usd().to_string()
                }
                Some(whole) => whole.to_string(),
                None => number.as_f64().unwrap_or_default().to_string(),
            },
            Value::Array(items) => {
                let item =
                    |item: &Value| quoted(item.as_str().map_or(item.to_string(), str::to_owned).as_str());
                format!("[{}]", items.iter().map(item).collect::<Vec<_>>().join(", "))
            }
            // An address may contain a password or a key.
            Value::String(text) if pattern == "agents.*.base_url" && text.contains(['@', '?', '#']) => {
                return Shown::Hidden;
            }
            Value::String(text) if is_one_of(QUOTED) => quoted(text),
            Value::String(text) => {
                let mut shown = String::new();
                text.chars().for_each(|c| push_escaped(&mut shown, c));
                shown
            }
            value => value.to_string(),
        })
    }
}
