//! Builds the workflow from the sections of the file.

use std::collections::BTreeMap;

use vik_core::duration::Span;
use vik_core::ids::{AgentName, StageName};
use vik_core::limits::{Limit, Spend};
use vik_core::workflow::{
    AgentProfile, Intake, IssuePolicy, OutputFormat, PromptSource, Runtime, Show, Stage, Turns, When,
    Workflow, WorkspaceRoot,
};
use vik_yaml::{Diagnostic, Places, Sink, join};

use super::agent::Agent;
use super::check::Check;
use super::file;
use super::secrets::Listed;
use super::text::{choices, quoted};

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
        Some(path) => WorkspaceRoot::Path(path),
        None if places.contains("workspace") => WorkspaceRoot::UserHome,
        None => WorkspaceRoot::BesideWorkflow,
    };
    let agents = file.agents.map(|agents| {
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
    let stages = file.issue.stages.map(|stages| {
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
    let notify = file.notify.into_iter().flatten();
    let notify = notify
        .map(|(name, notifier)| check.notifier(&name, notifier).map(|notifier| (name, notifier)))
        .collect::<Vec<_>>();
    let engine = check.engine(file.engine);
    let http = check.http(file.http);
    let webhooks = check.webhooks(file.webhooks);
    let schedule = check.schedule(file.schedule);
    let trust = check.trust(file.trust);
    let servers: Vec<String> = file.mcp.iter().flatten().map(|(name, _)| name.clone()).collect();
    let mcp = check.mcp(file.mcp);
    let secrets = check.secrets(file.secrets, &listed);
    let of_tracker = [file.issues.pull.secrets.as_slice(), &file.issues.show.secrets];
    let profiles: BTreeMap<_, _> = agents
        .iter()
        .flatten()
        .flatten()
        .map(|(name, one)| (name, one))
        .collect();
    check.output_isolation(
        |name| profiles.get(name).copied(),
        stages.iter().flatten().flatten(),
        (
            secrets.as_ref().unwrap_or(&BTreeMap::new()),
            mcp.as_ref().unwrap_or(&BTreeMap::new()),
        ),
        &of_tracker,
    );
    let valid_stages: Vec<&Stage> = stages.iter().flatten().flatten().collect();
    check.extensions(
        &servers,
        mcp.as_ref().unwrap_or(&BTreeMap::new()),
        &profiles,
        &valid_stages,
    );
    let show = file.issues.show;
    Some(Workflow {
        max_issue_concurrency: file.looping.max_issue_concurrency,
        max_iterations: file.looping.max_iterations,
        orphan_grace: file.looping.orphan_grace,
        pressure: file.looping.pressure,
        day_limit: file.limits,
        workspace_root,
        workspace_durable: file.workspace.durable.flatten(),
        agents: agents?.into_iter().collect::<Option<BTreeMap<_, _>>>()?,
        tracker: check.tracker.map(|tracker| tracker.args),
        pull: Intake {
            command: file.issues.pull.command?,
            secrets: file.issues.pull.secrets,
            idle: file.issues.pull.idle_sec,
            timeout: file.issues.pull.timeout,
        },
        show: show.command.map(|command| Show {
            command,
            secrets: show.secrets,
            timeout: show.timeout,
        }),
        issue: IssuePolicy {
            after_create: file.issue.hooks.after_create,
            before_remove: file.issue.hooks.before_remove,
            hook_secrets: file.issue.hooks.secrets,
            hook_timeout: file.issue.hooks.timeout,
            hooks_in_sandbox: file.issue.hooks.sandbox,
            terminal_states: file.issue.terminal_states,
            terminal_grace: file.issue.terminal_grace,
            remove_workspace: file.issue.remove_workspace,
            unlisted: file.issue.unlisted,
            max_attempts: file.issue.limits.attempts,
            max_rounds: file.issue.limits.rounds,
            limit: Limit {
                tokens: file.issue.limits.tokens,
                usd: file.issue.limits.usd,
            },
            scope_conflicts: file.issue.scope_conflicts,
            stages: stages?.into_iter().collect::<Option<Vec<_>>>()?,
        },
        engine,
        http,
        webhooks: webhooks?,
        schedule: schedule?,
        trust,
        retention: file.retention,
        retention_days: file.logging.retention_days,
        log_format: file.logging.format,
        notify: notify.into_iter().collect::<Option<BTreeMap<_, _>>>()?,
        secrets: secrets?,
        mcp: mcp?,
    })
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

    /// Warns of a key, if it is written, that has no effect beside the others.
    pub(super) fn unused(&mut self, path: String, message: impl Into<String>, hint: Option<String>) {
        if !self.places.is_absent(&path) {
            self.report_at_key(Diagnostic::warning("unused_key", path, message).hint_opt(hint));
        }
    }

    fn agent(&mut self, name: &str, agent: Agent) -> Option<AgentProfile> {
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
            && agent.command.is_empty()
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
            if !users.contains(&runtime) {
                let message = format!("`{key}` has no effect with the runtime `{}`", runtime.as_str());
                let names = choices(users.iter().map(|user| user.as_str()));
                self.unused(at(key), message, Some(format!("the key applies to {names}")));
            }
        }
        Some(AgentProfile {
            runtime,
            model: agent.model,
            args: agent.args,
            args_style: agent.args_style.unwrap_or(runtime.args_style()),
            permission: agent.permission,
            sandbox: agent.sandbox,
            command: agent.command,
            output: if runtime == Runtime::Command {
                agent.output
            } else {
                OutputFormat::default()
            },
            env: agent.env,
            env_pass: agent.env_pass,
            secrets: agent.secrets,
            mcp: agent.mcp,
            skills: agent.skills,
            home: agent.home,
            price: agent.price,
            provider: agent.provider,
            base_url: agent.base_url,
            max_concurrency: agent.max_concurrency,
            worker_labels: self.worker_labels(&join("agents", name), agent.workers),
            steer: agent.steer,
            read_timeout: agent.read_timeout,
            stream: agent.stream,
            // Only its author knows the cost of an unknown program.
            estimate: if runtime == Runtime::Command && self.places.is_absent(&at("estimate")) {
                Spend::default()
            } else {
                agent.estimate
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
        let retry = stage.retry;
        self.check_backoffs(&at("retry"), retry.initial_backoff, retry.max_backoff);
        let hand_over = stage.hand_over;
        self.check_backoffs(&at("hand_over"), hand_over.initial_backoff, hand_over.max_backoff);
        let states = stage.when.state.unwrap_or_default();
        let follow_up = stage.when.follow_up.unwrap_or_default();
        self.states_for_tracker(&at("when.state"), &states);
        self.states_for_tracker(&at("when.follow_up"), &follow_up);
        if let Some(state) = follow_up.iter().find(|state| states.contains(state)) {
            let message = format!("the state {} is in `when.state` too", quoted(state));
            let hint = "list it once: a run starts at once in the states of `state`, and for new comments or failed checks in those of `follow_up`";
            self.report(Diagnostic::error("duplicate_state", at("when.follow_up"), message).hint(hint));
        }
        let all_states = [states.as_slice(), &follow_up].concat();
        let start_state = self.start_state(&at("start_state"), stage.start_state, &states, &all_states);
        let outputs = self.outputs(&at("outputs"), stage.outputs, &all_states);
        if states.is_empty() {
            return None;
        }
        Some(Stage {
            name: StageName::new(name),
            when: When {
                states,
                follow_up,
                labels: stage.when.labels,
            },
            start_state,
            agent: AgentName::new(stage.agent?),
            sandbox: stage.sandbox,
            mcp: stage.mcp,
            skills: stage.skills,
            prompt: match (stage.prompt, stage.prompt_file) {
                (Some(prompt), None) => PromptSource::Inline(prompt),
                (None, Some(file)) => PromptSource::File(file),
                _ => return None,
            },
            before_run: stage.hooks.before_run,
            after_run: stage.hooks.after_run,
            hook_secrets: stage.hooks.secrets,
            hook_timeout: stage.hooks.timeout,
            hooks_in_sandbox: stage.hooks.sandbox,
            intent: stage.intent,
            approve: self.approve(&path, stage.approve),
            questions: stage.questions,
            outputs,
            verify: stage.verify,
            timeout: stage.timeout,
            stall_timeout: stage.stall_timeout,
            tool_timeout: stage.tool_timeout,
            retry,
            hand_over,
            limit: stage.limits,
            max_concurrency: stage.max_concurrency,
            worker_labels: self.worker_labels(&path, stage.workers),
            parallel: stage.parallel,
            on_state_change: stage.on_state_change,
            resume: stage.resume,
            resume_prompt: stage.resume_prompt,
            turns: stage.turns.and_then(|turns| Some(Turns { max: turns.max? })),
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
