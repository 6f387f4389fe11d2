//! The differences between two versions of a workflow, by the keys of the file and without possible
//! secrets.

mod leaves;
mod sections;
use std::collections::BTreeMap;
use std::fmt;

use leaves::{Leaf, Leaves, Shown};
use serde::Serialize;
use vik_yaml::text::quoted;

use super::model::{
    AgentProfile, ArgValue, Intake, IssuePolicy, Notifier, NotifyAddress, NotifyChannel, NotifyEvent,
    Pressure, Price, PromptSource, Retry, SecretSource, Show, Stage, Workflow, WorkspaceRoot,
};
use super::triggers::{Hook, Job, ScheduleEntry, Webhooks};
use crate::limits::Spend;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The key of the file, such as `issue.stages.plan.timeout`, or the name of a prompt file.
    pub path: String,
    #[serde(flatten)]
    pub kind: EditKind,
    /// Whether a running daemon keeps the old value until it is restarted.
    pub needs_restart: bool,
}

/// How a value changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EditKind {
    Value {
        from: String,
        to: String,
    },
    /// The text changed. The text itself is omitted, because a command may contain a secret.
    Text {
        /// The former number of lines; 0 if there was no text.
        from_lines: usize,
        /// The new number of lines; 0 if there is no text.
        to_lines: usize,
    },
    /// The value changed and is omitted.
    Hidden,
    /// The key was added.
    Added,
    /// The key was removed.
    Removed,
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        match &self.kind {
            EditKind::Value { from, to } => write!(f, "{from} -> {to}")?,
            EditKind::Text {
                from_lines: 0,
                to_lines,
            } => write!(f, "added ({})", lines(*to_lines))?,
            EditKind::Text { to_lines: 0, .. } | EditKind::Removed => f.write_str("removed")?,
            EditKind::Text { from_lines, to_lines } => {
                write!(f, "changed ({from_lines} -> {})", lines(*to_lines))?;
            }
            EditKind::Hidden => f.write_str("changed")?,
            EditKind::Added => f.write_str("added")?,
        }
        if self.needs_restart {
            f.write_str(" (needs a restart)")?;
        }
        Ok(())
    }
}

fn lines(count: usize) -> String {
    format!("{count} line{}", if count == 1 { "" } else { "s" })
}

impl Edit {
    /// Returns the edit of a text, such as a prompt file.
    pub fn of_text(path: impl Into<String>, from: &str, to: &str) -> Self {
        Self {
            path: path.into(),
            kind: EditKind::Text {
                from_lines: from.lines().count(),
                to_lines: to.lines().count(),
            },
            needs_restart: false,
        }
    }
}

/// Returns the differences; empty exactly if both are equal.
pub fn edits(old: &Workflow, new: &Workflow) -> Vec<Edit> {
    let mut edits = compare(&settings(old), &settings(new));
    let agents = |workflow: &Workflow| -> Vec<(String, Leaves)> {
        let agents = workflow.agents.iter();
        agents
            .map(|(name, profile)| (format!("agents.{name}"), agent(profile)))
            .collect()
    };
    let stages = |workflow: &Workflow| -> Vec<(String, Leaves)> {
        let stages = workflow.issue.stages.iter();
        stages
            .map(|one| (format!("issue.stages.{}", one.name), stage(one)))
            .collect()
    };
    let notifiers = |workflow: &Workflow| -> Vec<(String, Leaves)> {
        let notifiers = workflow.notify.iter();
        notifiers
            .map(|(name, one)| (format!("notify.{name}"), notifier(one)))
            .collect()
    };
    named(&mut edits, agents(old), agents(new));
    named(&mut edits, stages(old), stages(new));
    named(&mut edits, notifiers(old), notifiers(new));
    let hooks = |workflow: &Workflow| -> Vec<(String, Leaves)> {
        let hooks = workflow.webhooks.hooks.iter();
        hooks
            .map(|(name, one)| (format!("webhooks.hooks.{name}"), hook(one)))
            .collect()
    };
    named(&mut edits, hooks(old), hooks(new));
    let schedule = |workflow: &Workflow| -> Vec<(String, Leaves)> {
        let entries = workflow.schedule.iter();
        entries
            .map(|(name, one)| (format!("schedule.{name}"), entry(one)))
            .collect()
    };
    named(&mut edits, schedule(old), schedule(new));
    edits
}

/// Returns the edited workflow as a running daemon can apply it: values that need a restart are
/// kept.
pub fn applied(running: &Workflow, edited: Workflow) -> Workflow {
    Workflow {
        workspace_root: running.workspace_root.clone(),
        retention_days: running.retention_days,
        log_format: running.log_format,
        webhooks: Webhooks {
            listen: running.webhooks.listen,
            ..edited.webhooks
        },
        ..edited
    }
}

// Each of these destructures its struct completely, so that a new field does not compile until it
// is listed.

/// Returns the values outside of agents and stages.
fn settings(workflow: &Workflow) -> Leaves {
    let Workflow {
        max_issue_concurrency,
        max_iterations,
        orphan_grace,
        pressure: Pressure {
            min_available_memory,
            max_memory_pressure,
        },
        day_limit,
        workspace_root,
        agents: _,
        pull:
            Intake {
                command,
                secrets: pull_secrets,
                idle,
                timeout,
            },
        show,
        issue:
            IssuePolicy {
                after_create,
                before_remove,
                hook_secrets,
                hook_timeout,
                hooks_in_sandbox,
                terminal_states,
                terminal_grace,
                remove_workspace,
                max_attempts,
                limit,
                scope_conflicts,
                stages,
            },
        webhooks: Webhooks {
            listen,
            min_gap,
            hooks: _,
        },
        schedule: _,
        trust,
        retention_days,
        log_format,
        notify: _,
        secrets,
    } = workflow;
    let mut leaves = Leaves::default();
    leaves.plain("loop.max_issue_concurrency", max_issue_concurrency);
    leaves.optional("loop.max_iterations", *max_iterations);
    let grace = orphan_grace.map_or_else(|| "null".to_owned(), |grace| grace.to_string());
    leaves.put(
        "loop.orphan_grace",
        orphan_grace.map(|grace| grace.0),
        Shown::As(grace),
    );
    leaves.optional("loop.pressure.min_available_memory", *min_available_memory);
    leaves.optional("loop.pressure.max_memory_pressure", *max_memory_pressure);
    leaves.limit("limits", "_per_day", *day_limit);
    let root = match workspace_root {
        WorkspaceRoot::BesideWorkflow => "`.vik` next to the workflow".to_owned(),
        WorkspaceRoot::UserHome => "the home directory of the user".to_owned(),
        WorkspaceRoot::Path(path) => quoted(path),
    };
    leaves.put("workspace.root", workspace_root, Shown::As(root));
    leaves.until_restart();
    for (name, source) in secrets {
        let path = |key: &str| format!("secrets.{name}.{key}");
        match source {
            SecretSource::Env(variable) => leaves.quoted(&path("env"), variable),
            SecretSource::File(file) => leaves.quoted(&path("file"), file),
            SecretSource::Command(command) => leaves.text(&path("command"), Some(command)),
        }
    }
    leaves.text("issues.pull.command", Some(command));
    leaves.list("issues.pull.secrets", pull_secrets.iter().map(String::as_str));
    leaves.span("issues.pull.idle_sec", *idle);
    leaves.span("issues.pull.timeout", *timeout);
    let (command, timeout) = show
        .as_ref()
        .map(
            |Show {
                 command,
                 secrets,
                 timeout,
             }| (command.as_str(), (secrets, *timeout)),
        )
        .unzip();
    leaves.text("issues.show.command", command);
    if let Some((secrets, timeout)) = timeout {
        leaves.list("issues.show.secrets", secrets.iter().map(String::as_str));
        leaves.span("issues.show.timeout", timeout);
    }
    leaves.list(
        "issue.terminal_states",
        terminal_states.iter().map(String::as_str),
    );
    leaves.span("issue.terminal_grace", *terminal_grace);
    leaves.choice("issue.remove_workspace", remove_workspace);
    leaves.plain("issue.limits.attempts", max_attempts);
    leaves.limit("issue.limits", "", *limit);
    leaves.choice("issue.scope_conflicts", scope_conflicts);
    leaves.text("issue.hooks.after_create", after_create.as_deref());
    leaves.text("issue.hooks.before_remove", before_remove.as_deref());
    leaves.list("issue.hooks.secrets", hook_secrets.iter().map(String::as_str));
    leaves.span("issue.hooks.timeout", *hook_timeout);
    leaves.plain("issue.hooks.sandbox", hooks_in_sandbox);
    leaves.list("issue.stages", stages.iter().map(|stage| stage.name.as_str()));
    leaves.optional("webhooks.listen", *listen);
    leaves.until_restart();
    leaves.span("webhooks.min_gap", *min_gap);
    leaves.trust(trust.as_ref());
    leaves.plain("logging.retention_days", retention_days);
    leaves.until_restart();
    leaves.choice("logging.format", log_format);
    leaves.until_restart();
    leaves
}

fn agent(profile: &AgentProfile) -> Leaves {
    let AgentProfile {
        runtime,
        model,
        args,
        args_style,
        permission,
        sandbox,
        command,
        output,
        env,
        env_pass,
        secrets,
        home,
        price,
        provider,
        base_url,
        max_concurrency,
        estimate: Spend { tokens, usd },
    } = profile;
    let mut leaves = Leaves::default();
    leaves.choice("runtime", runtime);
    leaves.optional_quoted("model", model.as_deref());
    leaves.list("args", args.iter().map(|(name, _)| name.as_str()));
    for (name, value) in args {
        let shown = match value {
            ArgValue::Switch(on) => Shown::As(on.to_string()),
            ArgValue::Text(_) | ArgValue::List(_) => Shown::Hidden,
        };
        leaves.put(&format!("args.{name}"), value, shown);
    }
    leaves.choice("args_style", args_style);
    leaves.choice("permission", permission);
    leaves.optional("sandbox", sandbox.as_ref());
    leaves.put("command", command, Shown::Hidden);
    leaves.choice("output", output);
    for (name, value) in env {
        leaves.put(&format!("env.{name}"), value, Shown::Hidden);
    }
    leaves.list("env_pass", env_pass.iter().map(String::as_str));
    leaves.list("secrets", secrets.iter().map(String::as_str));
    leaves.choice("home", home);
    let prices = price.map(|price| {
        let Price {
            input,
            cached_input,
            cache_write,
            output,
        } = price;
        [input, cached_input, cache_write, output]
    });
    for (index, key) in ["input", "cached_input", "cache_write", "output"]
        .into_iter()
        .enumerate()
    {
        leaves.optional(&format!("price.{key}"), prices.map(|prices| prices[index]));
    }
    leaves.optional_quoted("provider", provider.as_deref());
    // An address may contain a password or a key.
    match base_url.as_deref() {
        Some(url) if url.contains(['@', '?', '#']) => leaves.put("base_url", base_url, Shown::Hidden),
        url => leaves.optional_quoted("base_url", url),
    }
    leaves.optional("max_concurrency", *max_concurrency);
    leaves.plain("estimate.usd", usd.usd());
    leaves.plain("estimate.tokens", tokens);
    leaves
}

fn hook(hook: &Hook) -> Leaves {
    let Hook {
        kind,
        secret_env,
        header,
        id_header,
    } = hook;
    let mut leaves = Leaves::default();
    leaves.choice("kind", kind);
    leaves.quoted("secret_env", secret_env);
    leaves.optional_quoted("header", header.as_deref());
    leaves.optional_quoted("id_header", id_header.as_deref());
    leaves
}

fn entry(entry: &ScheduleEntry) -> Leaves {
    let ScheduleEntry {
        cron,
        time_zone,
        job,
        catch_up,
    } = entry;
    let mut leaves = Leaves::default();
    leaves.quoted("cron", cron);
    leaves.quoted("time_zone", time_zone);
    let (command, timeout) = job
        .as_ref()
        .map(|Job { command, timeout }| (command.as_str(), *timeout))
        .unzip();
    leaves.text("command", command);
    if let Some(timeout) = timeout {
        leaves.span("timeout", timeout);
    }
    leaves.plain("catch_up", catch_up);
    leaves
}

fn stage(stage: &Stage) -> Leaves {
    let Stage {
        name: _,
        when_state,
        agent,
        sandbox,
        prompt,
        before_run,
        after_run,
        hook_secrets,
        hook_timeout,
        hooks_in_sandbox,
        intent,
        approve,
        outputs,
        verify,
        timeout,
        stall_timeout,
        tool_timeout,
        retry:
            Retry {
                max_attempts,
                initial_backoff,
                max_backoff,
            },
        limit,
        max_concurrency,
        parallel,
        on_state_change,
        resume,
        resume_prompt,
    } = stage;
    let mut leaves = Leaves::default();
    leaves.quoted("when.state", when_state);
    leaves.quoted("agent", agent.as_str());
    leaves.optional("sandbox", sandbox.as_ref());
    let (file, inline) = match prompt {
        PromptSource::File(file) => (Some(file.as_str()), None),
        PromptSource::Inline(text) => (None, Some(text.as_str())),
    };
    leaves.optional_quoted("prompt_file", file);
    leaves.text("prompt", inline);
    leaves.text("hooks.before_run", before_run.as_deref());
    leaves.text("hooks.after_run", after_run.as_deref());
    leaves.list("hooks.secrets", hook_secrets.iter().map(String::as_str));
    leaves.span("hooks.timeout", *hook_timeout);
    leaves.plain("hooks.sandbox", hooks_in_sandbox);
    leaves.intent(intent);
    leaves.approve(approve.as_ref());
    leaves.outputs(outputs.as_ref());
    leaves.text("verify", verify.as_deref());
    leaves.span("timeout", *timeout);
    leaves.span("stall_timeout", *stall_timeout);
    leaves.span("tool_timeout", *tool_timeout);
    leaves.plain("retry.max_attempts", max_attempts);
    leaves.span("retry.initial_backoff", *initial_backoff);
    leaves.span("retry.max_backoff", *max_backoff);
    leaves.limit("limits", "", *limit);
    leaves.optional("max_concurrency", *max_concurrency);
    leaves.plain("parallel", parallel);
    leaves.choice("on_state_change", on_state_change);
    leaves.plain("resume", resume);
    leaves.text("resume_prompt", resume_prompt.as_deref());
    leaves
}

fn notifier(notifier: &Notifier) -> Leaves {
    let Notifier {
        on,
        channel,
        timeout,
        debounce,
        daily_at,
        time_zone,
    } = notifier;
    let mut leaves = Leaves::default();
    leaves.list("on", on.iter().copied().map(NotifyEvent::as_str));
    match channel {
        NotifyChannel::Command(command) => {
            leaves.plain("kind", "command");
            leaves.text("command", Some(command));
        }
        NotifyChannel::Webhook { address, secret_env } => {
            leaves.plain("kind", "webhook");
            match address {
                // Whoever knows the address can post to it.
                NotifyAddress::Url(url) => leaves.put("url", url, Shown::Hidden),
                NotifyAddress::Env(name) => leaves.quoted("url_env", name),
            }
            leaves.optional_quoted("secret_env", secret_env.as_deref());
        }
    }
    leaves.span("timeout", *timeout);
    leaves.span("debounce", *debounce);
    leaves.plain("daily_at", daily_at);
    leaves.quoted("time_zone", time_zone);
    leaves
}

/// Compares named sections: those that were added, removed or changed.
fn named(edits: &mut Vec<Edit>, old: Vec<(String, Leaves)>, new: Vec<(String, Leaves)>) {
    let whole = |path: String, kind| Edit {
        path,
        kind,
        needs_restart: false,
    };
    let mut old: BTreeMap<String, Leaves> = old.into_iter().collect();
    for (path, leaves) in new {
        match old.remove(&path) {
            Some(before) => edits.extend(compare(&before, &leaves).into_iter().map(|edit| Edit {
                path: format!("{path}.{}", edit.path),
                ..edit
            })),
            None => edits.push(whole(path, EditKind::Added)),
        }
    }
    edits.extend(old.into_keys().map(|path| whole(path, EditKind::Removed)));
}

fn compare(old: &Leaves, new: &Leaves) -> Vec<Edit> {
    let mut before: BTreeMap<&str, &Leaf> = old.0.iter().map(|(path, leaf)| (path.as_str(), leaf)).collect();
    let mut edits = Vec::new();
    for (path, leaf) in &new.0 {
        let kind = match before.remove(path.as_str()) {
            None => EditKind::Added,
            Some(old) if old.exact == leaf.exact => continue,
            Some(old) => match (&old.shown, &leaf.shown) {
                (Shown::As(from), Shown::As(to)) => EditKind::Value {
                    from: from.clone(),
                    to: to.clone(),
                },
                (Shown::Lines(from_lines), Shown::Lines(to_lines)) => EditKind::Text {
                    from_lines: *from_lines,
                    to_lines: *to_lines,
                },
                _ => EditKind::Hidden,
            },
        };
        edits.push(Edit {
            path: path.clone(),
            kind,
            needs_restart: leaf.needs_restart,
        });
    }
    edits.extend(before.into_iter().map(|(path, leaf)| Edit {
        path: path.to_owned(),
        kind: EditKind::Removed,
        needs_restart: leaf.needs_restart,
    }));
    edits
}
