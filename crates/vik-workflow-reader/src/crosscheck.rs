//! Checks across sections, which no single value can fail.

use std::collections::{HashMap, HashSet};

use vik_core::workflow::{Permission, Runtime};
use vik_yaml::{Diagnostic, Spot, join};

use super::agent::Agent;
use super::check::Check;
use super::file;
use super::text::{known_names, quoted};

fn agents(file: &file::File) -> impl Iterator<Item = &(String, Agent)> {
    file.agents.iter().flatten()
}

fn stages(file: &file::File) -> impl Iterator<Item = &(String, file::Stage)> {
    file.issue.stages.iter().flatten()
}

/// Profiles by name, because a file may contain thousands of stages.
type Agents<'f> = HashMap<&'f str, &'f Agent>;

fn agent_of<'f>(agents: &Agents<'f>, stage: &file::Stage) -> Option<&'f Agent> {
    agents.get(stage.agent.as_deref()?).copied()
}

fn states_of(stage: &file::Stage) -> impl Iterator<Item = &str> {
    let states = stage.when.state.iter().chain(&stage.when.follow_up).flatten();
    states.map(String::as_str)
}

/// Returns the key of a stage that lists a state.
fn key_of(stage: &file::Stage, state: &str) -> &'static str {
    let mut follow_up = stage.when.follow_up.iter().flatten();
    match follow_up.any(|known| known == state) {
        true => "follow_up",
        false => "state",
    }
}

impl Check<'_> {
    pub(crate) fn across(&mut self, file: &file::File) {
        let agents: Agents<'_> = agents(file).map(|(name, agent)| (name.as_str(), agent)).collect();
        self.references(file);
        self.terminal_stages(file);
        self.shared_states(file);
        self.successive_stages(file);
        self.prices(file);
        self.resumable(file, &agents);
        self.parallel_writers(file, &agents);
        self.askable(file, &agents);
        self.durable(file);
        if file.issues.show.command.is_none() {
            self.unused(
                "issues.show.timeout".to_owned(),
                "`timeout` has no effect without a `command`",
                None,
            );
        }
    }

    /// Checks that rules for calls have an agent that can be asked before its calls.
    fn askable(&mut self, file: &file::File, agents: &Agents<'_>) {
        for (name, stage) in stages(file) {
            let runtime = agent_of(agents, stage).and_then(|agent| agent.runtime);
            let has_rules = stage
                .approve
                .as_ref()
                .is_some_and(|approve| !approve.calls.is_empty());
            if let Some(runtime) = runtime.filter(|runtime| has_rules && !runtime.can_ask()) {
                let message = format!(
                    "the calls of an agent with the runtime `{}` cannot be approved",
                    runtime.as_str()
                );
                let hint = "use `before: true` or `after: true`, and restrict the agent with its sandbox";
                let at = format!("issue.stages.{name}.approve.calls");
                self.report_at_key(Diagnostic::error("cannot_ask", at, message).hint(hint));
            }
        }
    }

    /// Checks that stages name existing agents, and that each agent is used.
    fn references(&mut self, file: &file::File) {
        let names: Vec<&str> = agents(file).map(|(name, _)| name.as_str()).collect();
        let known: HashSet<&str> = names.iter().copied().collect();
        let mut used = HashSet::new();
        // A stage with an unreadable agent may mean any agent.
        let mut is_sure = file.issue.stages.is_some();
        for (stage, settings) in stages(file) {
            let Some(agent) = &settings.agent else {
                is_sure = false;
                continue;
            };
            if known.contains(agent.as_str()) {
                used.insert(agent.as_str());
            } else if file.agents.is_some() {
                is_sure = false;
                let hint = known_names(agent, &names);
                self.report(
                    Diagnostic::error(
                        "unknown_agent",
                        format!("issue.stages.{stage}.agent"),
                        format!("unknown agent {}", quoted(agent)),
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

    /// Checks that no stage takes the issues of a terminal state.
    fn terminal_stages(&mut self, file: &file::File) {
        let states = file.issue.terminal_states.iter().enumerate();
        let terminal: HashMap<&str, usize> = states.map(|(index, state)| (state.as_str(), index)).collect();
        for (name, stage) in stages(file) {
            let Some((state, index)) = states_of(stage).find_map(|state| Some((state, terminal.get(state)?)))
            else {
                continue;
            };
            let mut diagnostic = Diagnostic::error(
                "terminal_stage",
                format!("issue.stages.{name}.when.{}", key_of(stage, state)),
                format!("{} is a terminal state, in which no stage runs", quoted(state)),
            )
            .hint("remove the state from `issue.terminal_states`, or from the stage");
            if let Some((line, column)) = self.places.position(&format!("issue.terminal_states.{index}")) {
                diagnostic = diagnostic.related(Spot {
                    line,
                    column,
                    message: "declared terminal here".to_owned(),
                });
            }
            self.report(diagnostic);
        }
    }

    /// Checks that no stage with several states shares one with another stage: a move between these
    /// states would be one stay for the one stage and several for the other.
    fn shared_states(&mut self, file: &file::File) {
        let mut earlier: HashMap<&str, (&str, bool)> = HashMap::new();
        for (name, stage) in stages(file) {
            let has_several = states_of(stage).count() > 1;
            let shared = states_of(stage).find_map(|state| {
                let (first, is_shared) = earlier.get(state)?;
                (has_several || *is_shared).then_some((state, *first))
            });
            if let Some((state, first)) = shared {
                let message = format!(
                    "the stages {} and {} share the state {}",
                    quoted(first),
                    quoted(name),
                    quoted(state)
                );
                let hint = "all states of a stage are one stay of an issue: list each of them in one stage";
                let at = format!("issue.stages.{name}.when.{}", key_of(stage, state));
                self.report(Diagnostic::error("duplicate_state", at, message).hint(hint));
            }
            earlier.extend(states_of(stage).map(|state| (state, (name.as_str(), has_several))));
        }
    }

    /// Warns of stages of one state that run one after the other, which is rarely meant: the first one
    /// usually moves the issue. Labels can keep them apart, and `parallel` shows that it is meant.
    fn successive_stages(&mut self, file: &file::File) {
        let mut earlier: HashMap<&str, Vec<(&str, &file::Stage)>> = HashMap::new();
        for (name, stage) in stages(file).filter(|(_, stage)| states_of(stage).count() == 1) {
            let is_meant = |first: &file::Stage| {
                let (own, other) = (&stage.when.labels, &first.when.labels);
                let is_part = |part: &[String], of: &[String]| part.iter().all(|label| of.contains(label));
                first.parallel || stage.parallel || (!is_part(own, other) && !is_part(other, own))
            };
            for state in states_of(stage) {
                let stages = earlier.entry(state).or_default();
                if let Some((first, _)) = stages.iter().find(|(_, first)| !is_meant(first)) {
                    let message = format!(
                        "the stages {} and {} take the same issues in the state {}: one runs after the other",
                        quoted(first),
                        quoted(name),
                        quoted(state)
                    );
                    let at = format!("issue.stages.{name}.when.state");
                    self.report(Diagnostic::warning("shared_state", at, message).hint(
                        "give each stage its own state or labels, or set `parallel: true` if they may run at the same time",
                    ));
                }
                stages.push((name.as_str(), stage));
            }
        }
    }

    /// Checks that a limit on money has figures in money.
    fn prices(&mut self, file: &file::File) {
        let is_everywhere = file.limits.usd.is_some() || file.issue.limits.usd.is_some();
        let limited: HashSet<&str> = stages(file)
            .filter(|(_, stage)| is_everywhere || stage.limits.usd.is_some())
            .filter_map(|(_, stage)| stage.agent.as_deref())
            .collect();
        for (name, agent) in agents(file) {
            let has_cost = agent.price.is_some() || agent.runtime.is_none_or(Runtime::reports_cost);
            if !has_cost && limited.contains(name.as_str()) {
                self.report_at_key(
                    Diagnostic::warning(
                        "no_price",
                        join("agents", name),
                        format!(
                            "the limit in USD cannot be enforced for the agent {}, which reports no cost and has no `price`",
                            quoted(name)
                        ),
                    )
                    .hint(
                        "add `price: {input: …, cached_input: …, output: …}` in USD per million tokens, or limit \
                         `tokens`",
                    ),
                );
            }
        }
    }

    /// Warns of `resume`, `resume_prompt` and `turns` where they have no effect.
    fn resumable(&mut self, file: &file::File, agents: &Agents<'_>) {
        for (name, stage) in stages(file) {
            let runtime = agent_of(agents, stage).and_then(|agent| agent.runtime);
            let at = |key: &str| join(&join("issue.stages", name), key);
            let without = |runtime: Option<Runtime>| {
                format!("with the runtime `{}`", runtime.map_or("", Runtime::as_str))
            };
            let has_no_sessions = runtime.is_some_and(|runtime| !runtime.can_resume());
            if has_no_sessions && stage.resume.resumes() && !self.places.is_absent(&at("resume")) {
                let hint = "every attempt starts a new conversation".to_owned();
                let message = format!("`resume` has no effect {}", without(runtime));
                self.unused(at("resume"), message, Some(hint));
            }
            let unused = [
                ("resume_prompt", stage.resume_prompt.is_some()),
                ("turns", stage.turns.is_some()),
            ];
            for (key, is_set) in unused {
                if is_set && (has_no_sessions || !stage.resume.resumes()) {
                    let why = if has_no_sessions {
                        without(runtime)
                    } else {
                        "if `resume` is false".to_owned()
                    };
                    self.unused(at(key), format!("`{key}` has no effect {why}"), None);
                }
            }
        }
    }

    /// Warns of parallel stages that write in the shared workspace.
    fn parallel_writers(&mut self, file: &file::File, agents: &Agents<'_>) {
        let writes = |stage: &file::Stage| {
            agent_of(agents, stage).is_some_and(|agent| agent.permission != Permission::ReadOnly)
        };
        let mut earlier: HashMap<&str, &str> = HashMap::new();
        for (name, stage) in stages(file).filter(|(_, stage)| stage.parallel && writes(stage)) {
            let first = states_of(stage).find_map(|state| earlier.get(state));
            if let Some(first) = first {
                self.report_at_key(
                    Diagnostic::warning(
                        "parallel_writers",
                        format!("issue.stages.{name}.parallel"),
                        format!(
                            "the stages {} and {} can run at the same time for one issue, and both can write to its workspace",
                            quoted(first),
                            quoted(name)
                        ),
                    )
                    .hint("use an agent with `permission: read-only` in one of them, or remove `parallel`"),
                );
            }
            earlier.extend(states_of(stage).map(|state| (state, name.as_str())));
        }
    }
}
