//! Builds the workflow from the sections of the file.

use std::collections::BTreeMap;

use vik_core::duration::Span;
use vik_core::ids::{AgentName, StageName};
use vik_core::limits::{Limit, Spend};
use vik_core::workflow::{
    AgentProfile, HandOverRetry, Intake, IssuePolicy, OutputFormat, Pressure, Price, PromptSource,
    QuestionPolicy, Retry, Runtime, Show, Stage, Turns, When, Workflow, WorkspaceRoot,
};
use vik_yaml::{Diagnostic, Places, Sink, join};

use super::amounts::{SlotLimit, TokenLimit, UsdLimit};
use super::check::Check;
use super::decode::Named;
use super::file;
use super::secrets::Listed;
use super::text::choices;
use super::values::{PathText, Text};

/// Builds the workflow; `None` if a required part is missing, which was reported.
pub(crate) fn lower(mut file: file::File, places: &Places, sink: &mut Sink) -> Option<Workflow> {
    let mut check = Check {
        places,
        sink,
        tracker: None,
    };
    check.tracker(&mut file.issues);
    check.across(&file);
    let listed = Listed::of(&file);
    let workspace_root = match file.workspace.root {
        Some(PathText(path)) => WorkspaceRoot::Path(path),
        None if places.contains("workspace") => WorkspaceRoot::UserHome,
        None => WorkspaceRoot::BesideWorkflow,
    };
    let agents = file.agents.map(|Named(agents)| {
        if agents.is_empty() && places.is_empty_map("agents") {
            check.report(Diagnostic::error(
                "no_agents",
                "agents",
                "no agent profile is defined",
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
                Diagnostic::error("no_stages", "issue.stages", "no stage is defined")
                    .hint("add a stage to `issue.stages`"),
            );
        }
        stages
            .into_iter()
            .map(|(name, stage)| check.stage(&name, stage))
            .collect::<Vec<_>>()
    });
    let notify = file.notify.into_iter().flat_map(|Named(notifiers)| notifiers);
    let notify = notify
        .map(|(name, notifier)| check.notifier(&name, notifier).map(|notifier| (name, notifier)))
        .collect::<Vec<_>>();
    let http = check.http(file.http);
    let webhooks = check.webhooks(file.webhooks);
    let schedule = check.schedule(file.schedule);
    let trust = check.trust(file.trust);
    let secrets = check.secrets(file.secrets, &listed);
    let of_tracker = [file.issues.pull.secrets.0.as_slice(), &file.issues.show.secrets.0];
    let profiles: BTreeMap<_, _> = agents
        .iter()
        .flatten()
        .flatten()
        .map(|(name, one)| (name, one))
        .collect();
    check.output_isolation(
        |name| profiles.get(name).copied(),
        stages.iter().flatten().flatten(),
        secrets.as_ref().unwrap_or(&BTreeMap::new()),
        &of_tracker,
    );
    let pressure = file.looping.pressure;
    let show = file.issues.show;
    Some(Workflow {
        max_issue_concurrency: file.looping.max_issue_concurrency.get(),
        max_iterations: file.looping.max_iterations.map(|pulls| pulls.0),
        orphan_grace: file.looping.orphan_grace,
        pressure: Pressure {
            min_available_memory: pressure.min_available_memory.map(|memory| memory.0),
            max_memory_pressure: pressure.max_memory_pressure.map(|percent| percent.0),
        },
        day_limit: limit(file.limits.usd_per_day, file.limits.tokens_per_day),
        workspace_root,
        agents: agents?.into_iter().collect::<Option<BTreeMap<_, _>>>()?,
        tracker: check.tracker.map(|tracker| tracker.args),
        pull: Intake {
            command: file.issues.pull.command?.0,
            secrets: file.issues.pull.secrets.0,
            idle: file.issues.pull.idle_sec.0,
            timeout: file.issues.pull.timeout.0,
        },
        show: show.command.map(|Text(command)| Show {
            command,
            secrets: show.secrets.0,
            timeout: show.timeout.0,
        }),
        issue: IssuePolicy {
            after_create: file.issue.hooks.after_create.map(|hook| hook.0),
            before_remove: file.issue.hooks.before_remove.map(|hook| hook.0),
            hook_secrets: file.issue.hooks.secrets.0,
            hook_timeout: file.issue.hooks.timeout.0,
            hooks_in_sandbox: file.issue.hooks.sandbox,
            terminal_states: file.issue.terminal_states.0,
            terminal_grace: file.issue.terminal_grace,
            remove_workspace: file.issue.remove_workspace,
            unlisted: file.issue.unlisted.0,
            max_attempts: file.issue.limits.attempts.0,
            limit: limit(file.issue.limits.usd, file.issue.limits.tokens),
            scope_conflicts: file.issue.scope_conflicts,
            stages: stages?.into_iter().collect::<Option<Vec<_>>>()?,
        },
        http,
        webhooks: webhooks?,
        schedule: schedule?,
        trust,
        retention: file.retention.into(),
        retention_days: u32::try_from(file.logging.retention_days.0).unwrap_or(u32::MAX),
        log_format: file.logging.format,
        notify: notify.into_iter().collect::<Option<BTreeMap<_, _>>>()?,
        secrets: secrets?,
    })
}

fn limit(usd: Option<UsdLimit>, tokens: Option<TokenLimit>) -> Limit {
    Limit {
        tokens: tokens.map(|tokens| tokens.0),
        usd: usd.map(|usd| usd.0),
    }
}

impl Check<'_> {
    pub(super) fn report(&mut self, mut diagnostic: Diagnostic) {
        if let Some(place) = self.places.nearest(&diagnostic.path) {
            diagnostic = diagnostic.place(place);
        }
        self.sink.push(diagnostic);
    }

    /// Reports at the key instead of the value.
    pub(super) fn report_at_key(&mut self, mut diagnostic: Diagnostic) {
        if let Some(place) = self.places.key(&diagnostic.path) {
            diagnostic = diagnostic.place(place);
            self.sink.push(diagnostic);
        } else {
            self.report(diagnostic);
        }
    }

    fn agent(&mut self, name: &str, agent: file::Agent) -> Option<AgentProfile> {
        let at = |key: &str| join(&join("agents", name), key);
        // The other checks depend on the runtime.
        let runtime = agent.runtime?;
        if runtime != Runtime::Command && self.places.is_absent(&at("model")) {
            self.report(
                Diagnostic::error(
                    "missing_key",
                    at("model"),
                    format!("the runtime `{}` needs a `model`", runtime.as_str()),
                )
                .hint("only the runtime `command` does not need a `model`"),
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
                .hint("add the program and its arguments: `command: [my-agent, --flag]`"),
            );
        }
        let with_server = [Runtime::Vex, Runtime::Codex, Runtime::ClaudeCode];
        for (key, users) in [
            ("provider", [Runtime::Vex].as_slice()),
            ("base_url", &with_server),
            ("output", &[Runtime::Command]),
            ("steer", &with_server),
            ("stream", &[Runtime::ClaudeCode]),
            ("read_timeout", &[Runtime::Codex]),
        ] {
            if !users.contains(&runtime) && !self.places.is_absent(&at(key)) {
                let names = users.iter().map(|user| user.as_str());
                self.report_at_key(
                    Diagnostic::warning(
                        "unused_key",
                        at(key),
                        format!("`{key}` has no effect with the runtime `{}`", runtime.as_str()),
                    )
                    .hint(format!("the key applies to {}", choices(names))),
                );
            }
        }
        Some(AgentProfile {
            runtime,
            model: agent.model.map(|model| model.0),
            args: agent.args.0,
            args_style: agent.args_style.unwrap_or(runtime.args_style()),
            permission: agent.permission,
            sandbox: agent.sandbox,
            command: agent.command.0,
            output: if runtime == Runtime::Command {
                agent.output
            } else {
                OutputFormat::default()
            },
            env: agent.env.0,
            env_pass: agent.env_pass.0,
            secrets: agent.secrets.0,
            home: agent.home,
            price: agent.price.map(|price| Price {
                input: price.input.0,
                cached_input: price.cached_input.0,
                cache_write: price.cache_write.0,
                output: price.output.0,
            }),
            provider: agent.provider.map(|provider| provider.0),
            base_url: agent.base_url.map(|url| url.0),
            max_concurrency: agent.max_concurrency.map(SlotLimit::get),
            steer: agent.steer,
            read_timeout: agent.read_timeout.0,
            stream: agent.stream,
            // Only its author knows the cost of an unknown program.
            estimate: if runtime == Runtime::Command && self.places.is_absent(&at("estimate")) {
                Spend::default()
            } else {
                Spend {
                    tokens: agent.estimate.tokens.0,
                    usd: agent.estimate.usd.0,
                }
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
                    "the stage has both `prompt` and `prompt_file`",
                )
                .hint("remove one of them"),
            );
        } else if !is_inline && !is_file && self.places.is_map(&path) {
            self.report_at_key(
                Diagnostic::error("prompt_source", path.clone(), "the stage has no prompt")
                    .hint("add `prompt_file: FILE`, or `prompt: |` and the prompt"),
            );
        }
        let retry = Retry {
            max_attempts: stage.retry.max_attempts.get(),
            initial_backoff: stage.retry.initial_backoff,
            max_backoff: stage.retry.max_backoff,
        };
        self.check_backoffs(&at("retry"), retry.initial_backoff, retry.max_backoff);
        let hand_over = HandOverRetry {
            max_tries: stage.hand_over.max_tries.get(),
            max_time: stage.hand_over.max_time.0,
            initial_backoff: stage.hand_over.initial_backoff,
            max_backoff: stage.hand_over.max_backoff,
        };
        self.check_backoffs(&at("hand_over"), hand_over.initial_backoff, hand_over.max_backoff);
        let states = stage.when.state.map(|states| states.0).unwrap_or_default();
        self.states_for_tracker(&at("when.state"), &states);
        let start_state = self.start_state(&at("start_state"), stage.start_state, &states);
        let outputs = self.outputs(&at("outputs"), stage.outputs, &states);
        if states.is_empty() {
            return None;
        }
        Some(Stage {
            name: StageName::new(name),
            when: When {
                states,
                labels: stage.when.labels.0,
            },
            start_state,
            agent: AgentName::new(stage.agent?.0),
            sandbox: stage.sandbox,
            prompt: match (stage.prompt, stage.prompt_file) {
                (Some(Text(prompt)), None) => PromptSource::Inline(prompt),
                (None, Some(PathText(file))) => PromptSource::File(file),
                _ => return None,
            },
            before_run: stage.hooks.before_run.map(|hook| hook.0),
            after_run: stage.hooks.after_run.map(|hook| hook.0),
            hook_secrets: stage.hooks.secrets.0,
            hook_timeout: stage.hooks.timeout.0,
            hooks_in_sandbox: stage.hooks.sandbox,
            intent: stage.intent.into(),
            approve: self.approve(&path, stage.approve),
            questions: stage.questions.map(|questions| QuestionPolicy {
                timeout: questions.timeout.map(|timeout| timeout.0),
                default: questions.default.map(|text| text.0),
            }),
            outputs,
            verify: stage.verify.map(|command| command.0),
            timeout: stage.timeout.0,
            stall_timeout: stage.stall_timeout.0,
            tool_timeout: stage.tool_timeout.0,
            retry,
            hand_over,
            limit: limit(stage.limits.usd, stage.limits.tokens),
            max_concurrency: stage.max_concurrency.map(SlotLimit::get),
            parallel: stage.parallel,
            on_state_change: stage.on_state_change,
            resume: stage.resume,
            resume_prompt: stage.resume_prompt.map(|prompt| prompt.0),
            turns: stage.turns.and_then(|turns| {
                Some(Turns {
                    max: turns.max?.get(),
                })
            }),
        })
    }

    /// Reports back-offs of a section that begin with more than their maximum.
    fn check_backoffs(&mut self, section: &str, initial: Span, most: Span) {
        if initial <= most {
            return;
        }
        let (key, hint) = if self.places.is_absent(&join(section, "initial_backoff")) {
            ("max_backoff", format!("`initial_backoff` is {initial}"))
        } else {
            ("initial_backoff", format!("`max_backoff` is {most}"))
        };
        self.report(
            Diagnostic::error(
                "out_of_range",
                join(section, key),
                "`initial_backoff` is longer than `max_backoff`",
            )
            .hint(hint),
        );
    }
}
