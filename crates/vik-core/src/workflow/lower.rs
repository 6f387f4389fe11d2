//! From what the file says to the workflow: checks what no single value can tell.

use std::collections::{BTreeMap, HashSet};

use super::decode::{Named, join};
use super::diagnostic::{Diagnostic, Sink};
use super::file;
use super::model::{
    AgentProfile, ArgsStyle, Intake, IssuePolicy, OutputFormat, Price, PromptSource, Retry, Runtime, Stage,
    Workflow, WorkspaceRoot,
};
use super::places::Places;
use super::text::{choices, did_you_mean, quoted};
use super::values::Text;
use crate::duration::Span;
use crate::ids::{AgentName, StageName};
use crate::limits::Spend;
use crate::money::MicroUsd;

/// The providers that vex can use in this version.
const PROVIDERS: &[&str] = &["replay"];

struct Check<'a> {
    places: &'a Places,
    sink: &'a mut Sink,
}

/// Makes the workflow; `None` where something required is not there (which was already said).
pub(crate) fn lower(file: file::File, places: &Places, sink: &mut Sink) -> Option<Workflow> {
    let mut check = Check { places, sink };
    check.references(&file);
    let workspace_root = match file.workspace.root {
        Some(Text(path)) => WorkspaceRoot::Path(path),
        None if places.contains("workspace") => WorkspaceRoot::UserHome,
        None => WorkspaceRoot::BesideWorkflow,
    };
    let agents = file.agents.map(|Named(agents)| {
        if agents.is_empty() && places.is_empty_map("agents") {
            check.report(Diagnostic::error(
                "no_agents",
                "agents",
                "there is no agent profile",
            ));
        }
        agents
            .into_iter()
            .map(|(name, agent)| {
                let profile = check.agent(&name, agent);
                Some((AgentName::new(name), profile?))
            })
            .collect::<Vec<_>>()
    });
    let stages = file.issue.stages.map(|Named(stages)| {
        if stages.is_empty() && places.is_empty_map("issue.stages") {
            check.report(
                Diagnostic::error("no_stages", "issue.stages", "there is no stage")
                    .hint("without one nothing can run"),
            );
        }
        stages
            .into_iter()
            .map(|(name, stage)| check.stage(&name, stage))
            .collect::<Vec<_>>()
    });
    Some(Workflow {
        max_issue_concurrency: file.looping.max_issue_concurrency.get(),
        max_iterations: file.looping.max_iterations.map(|pulls| pulls.0),
        orphan_grace: None,
        pressure: Default::default(),
        day_limit: Default::default(),
        workspace_root,
        agents: agents?.into_iter().collect::<Option<BTreeMap<_, _>>>()?,
        pull: Intake {
            command: file.issues.pull.command?.0,
            idle: file.issues.pull.idle_sec.0,
            timeout: file.issues.pull.timeout.0,
        },
        show: None,
        issue: IssuePolicy {
            after_create: file.issue.hooks.after_create.map(|hook| hook.0),
            before_remove: file.issue.hooks.before_remove.map(|hook| hook.0),
            hook_timeout: file.issue.hooks.timeout.0,
            terminal_states: Vec::new(),
            terminal_grace: Span::secs(60),
            remove_workspace: Default::default(),
            max_attempts: 15,
            limit: Default::default(),
            stages: stages?.into_iter().collect::<Option<Vec<_>>>()?,
        },
        retention_days: u32::try_from(file.logging.retention_days.0).unwrap_or(u32::MAX),
    })
}

impl Check<'_> {
    fn report(&mut self, mut diagnostic: Diagnostic) {
        if let Some(place) = self.places.nearest(&diagnostic.path) {
            diagnostic = diagnostic.place(place);
        }
        self.sink.push(diagnostic);
    }

    /// Reports at the key instead of the value.
    fn report_at_key(&mut self, mut diagnostic: Diagnostic) {
        if let Some(place) = self.places.key(&diagnostic.path) {
            diagnostic = diagnostic.place(place);
            self.sink.push(diagnostic);
        } else {
            self.report(diagnostic);
        }
    }

    /// Stages name agents that exist, and agents are named by stages.
    fn references(&mut self, file: &file::File) {
        let names: Vec<&str> = file
            .agents
            .iter()
            .flat_map(|agents| &agents.0)
            .map(|(name, _)| name.as_str())
            .collect();
        let known: HashSet<&str> = names.iter().copied().collect();
        let mut used = HashSet::new();
        // A stage whose agent cannot be read may mean any agent.
        let mut is_sure = file.issue.stages.is_some();
        for (stage, settings) in file.issue.stages.iter().flat_map(|stages| &stages.0) {
            let Some(Text(agent)) = &settings.agent else {
                is_sure = false;
                continue;
            };
            if known.contains(agent.as_str()) {
                used.insert(agent.as_str());
            } else if file.agents.is_some() {
                is_sure = false;
                let hint = did_you_mean(agent, names.iter().copied()).or_else(|| {
                    (!names.is_empty())
                        .then(|| format!("there is {}", choices(names.iter().copied().take(10))))
                });
                self.report(
                    Diagnostic::error(
                        "unknown_agent",
                        format!("issue.stages.{stage}.agent"),
                        format!("no agent is named {}", quoted(agent)),
                    )
                    .hint_opt(hint),
                );
            }
        }
        if is_sure {
            for name in names.iter().filter(|name| !used.contains(*name)) {
                let path = join("agents", name);
                self.report_at_key(Diagnostic::warning(
                    "unused_agent",
                    path,
                    format!("no stage uses the agent {}", quoted(name)),
                ));
            }
        }
    }

    fn agent(&mut self, name: &str, agent: file::Agent) -> Option<AgentProfile> {
        let at = |key: &str| join(&join("agents", name), key);
        // What depends on the runtime cannot be told without it.
        let runtime = agent.runtime?;
        if runtime != Runtime::Command && self.places.is_absent(&at("model")) {
            self.report(
                Diagnostic::error(
                    "missing_key",
                    at("model"),
                    format!("the runtime `{}` needs a `model`", runtime.as_str()),
                )
                .hint("only the runtime `command` goes without one"),
            );
        }
        if runtime == Runtime::Command
            && agent.command.0.is_empty()
            && self.places.is_empty_list(&at("command"))
        {
            self.report(
                Diagnostic::error(
                    "missing_key",
                    at("command"),
                    "the runtime `command` needs a `command`",
                )
                .hint("write the program and its arguments: `command: [my-agent, --flag]`"),
            );
        }
        let with_server = [Runtime::Vex, Runtime::Codex, Runtime::ClaudeCode];
        for (key, users) in [
            ("provider", [Runtime::Vex].as_slice()),
            ("base_url", &with_server),
            ("output", &[Runtime::Command]),
        ] {
            if !users.contains(&runtime) && !self.places.is_absent(&at(key)) {
                let names = users.iter().map(|user| user.as_str());
                self.report_at_key(
                    Diagnostic::warning(
                        "unused_key",
                        at(key),
                        format!("`{key}` has no effect with the runtime `{}`", runtime.as_str()),
                    )
                    .hint(format!("it is for {}", choices(names))),
                );
            }
        }
        if let Some(Text(provider)) = &agent.provider
            && runtime == Runtime::Vex
            && !PROVIDERS.contains(&provider.as_str())
        {
            self.report(
                Diagnostic::error(
                    "not_yet",
                    at("provider"),
                    format!(
                        "the provider {} comes with a later version of Vik",
                        quoted(provider)
                    ),
                )
                .hint(format!("this version has {}", choices(PROVIDERS.iter().copied()))),
            );
        }
        Some(AgentProfile {
            runtime,
            model: agent.model.map(|model| model.0),
            args: agent.args.0,
            args_style: agent.args_style.unwrap_or(match runtime {
                Runtime::Codex => ArgsStyle::Repeat,
                Runtime::ClaudeCode | Runtime::Vex | Runtime::Command => ArgsStyle::Join,
            }),
            permission: agent.permission,
            command: agent.command.0,
            output: if runtime == Runtime::Command {
                agent.output
            } else {
                OutputFormat::default()
            },
            env: agent.env.0,
            env_pass: agent.env_pass.0,
            home: agent.home,
            price: agent.price.map(|price| Price {
                input: price.input.0,
                cached_input: price.cached_input.0,
                cache_write: price.cache_write.0,
                output: price.output.0,
            }),
            provider: agent.provider.map(|provider| provider.0),
            base_url: agent.base_url.map(|url| url.0),
            max_concurrency: None,
            estimate: Spend {
                tokens: 100_000,
                usd: MicroUsd(500_000),
            },
        })
    }

    fn stage(&mut self, name: &str, stage: file::Stage) -> Option<Stage> {
        let path = join("issue.stages", name);
        let at = |key: &str| join(&path, key);
        let is_inline = !self.places.is_absent(&at("prompt"));
        let is_file = !self.places.is_absent(&at("prompt_file"));
        if is_inline && is_file {
            self.report_at_key(
                Diagnostic::error(
                    "prompt_source",
                    at("prompt"),
                    "this stage has both `prompt` and `prompt_file`",
                )
                .hint("remove one of them"),
            );
        } else if !is_inline && !is_file && self.places.is_map(&path) {
            self.report_at_key(
                Diagnostic::error("prompt_source", path.clone(), "this stage has no prompt")
                    .hint("write `prompt_file: FILE`, or `prompt: |` and the text itself"),
            );
        }
        let retry = Retry {
            max_attempts: stage.retry.max_attempts.get(),
            initial_backoff: stage.retry.initial_backoff,
            max_backoff: stage.retry.max_backoff,
        };
        if retry.initial_backoff > retry.max_backoff {
            let (key, hint) = if self.places.is_absent(&at("retry.initial_backoff")) {
                (
                    "retry.max_backoff",
                    format!("`initial_backoff` is {}", retry.initial_backoff),
                )
            } else {
                (
                    "retry.initial_backoff",
                    format!("`max_backoff` is {}", retry.max_backoff),
                )
            };
            self.report(
                Diagnostic::error(
                    "out_of_range",
                    at(key),
                    "the first wait is longer than the longest one",
                )
                .hint(hint),
            );
        }
        Some(Stage {
            name: StageName::new(name),
            when_state: stage.when.state?.0,
            agent: AgentName::new(stage.agent?.0),
            prompt: match (stage.prompt, stage.prompt_file) {
                (Some(Text(prompt)), None) => PromptSource::Inline(prompt),
                (None, Some(Text(file))) => PromptSource::File(file),
                _ => return None,
            },
            before_run: stage.hooks.before_run.map(|hook| hook.0),
            after_run: stage.hooks.after_run.map(|hook| hook.0),
            hook_timeout: stage.hooks.timeout.0,
            verify: stage.verify.map(|command| command.0),
            timeout: stage.timeout.0,
            stall_timeout: stage.stall_timeout.0,
            tool_timeout: stage.tool_timeout.0,
            retry,
            limit: Default::default(),
            max_concurrency: None,
            parallel: false,
            on_state_change: Default::default(),
            resume: true,
            resume_prompt: None,
        })
    }
}
