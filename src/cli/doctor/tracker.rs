//! Checks whether the tracker has what the workflow uses, and creates states that it lacks.

use std::io::{self, IsTerminal};

use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use vik_base::report::{ErrorCode, Failure, chain};
use vik_core::outputs::OutputKind;
use vik_core::workflow::{Intake, Workflow, shell_quoted};
use vik_orchestrator::intake::run_pull_command;
use vik_session::host::Host;
use vik_tracker::protocol::{Capabilities, Request, States, call};

use super::check::{Check, Examination, Group};
use super::{Scratch, issues};
use crate::cli::tracker::{failure, of_workflow};
use crate::cli::{confirm, print};

/// The name of the check.
const STATES: &str = "tracker.states";

/// The characters of a glob that is no plain state.
const GLOB: [char; 6] = ['!', '*', '?', '[', '{', '\\'];

/// What the tracker lacks.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) checks: Vec<Check>,
    /// States that the tracker can create.
    pub(super) missing: Vec<String>,
}

/// Compares what the stages use with what the tracker has. One that does not answer is not checked:
/// the pull shows that.
pub(super) async fn check(
    host: &Host,
    workflow: &Workflow,
    scratch: &Scratch,
    cancel: &CancellationToken,
) -> Found {
    let call = Call {
        host,
        workflow,
        scratch,
    };
    let answer = call.answer::<Capabilities>(&["capabilities"], cancel.cancelled());
    let Ok(tracker) = answer.await else {
        return Found::default();
    };
    let mut found = states(&call, &tracker, cancel).await;
    found.checks.extend(unsupported(workflow, &tracker));
    found
}

/// Returns an error if a stage leaves an output to the tracker which that cannot carry out.
fn unsupported(workflow: &Workflow, tracker: &Capabilities) -> Option<Check> {
    let verb = |kind: OutputKind| match kind {
        OutputKind::Comment => "comment",
        OutputKind::Label => "label",
        OutputKind::State => "move",
        OutputKind::PullRequest => "pull_request",
        OutputKind::Issue => "create",
    };
    let mut missing = Vec::new();
    for stage in &workflow.issue.stages {
        let rules = stage.outputs.iter().flat_map(|outputs| &outputs.rules);
        let lacking = rules.filter(|(kind, rule)| rule.is_keyed && !tracker.has(verb(**kind)));
        missing.extend(lacking.map(|(kind, _)| format!("issue.stages.{}.outputs.{kind}", stage.name)));
    }
    (!missing.is_empty()).then(|| {
        let message = format!("the tracker cannot carry out `{}`", missing.join("`, `"));
        Check::error(Group::Issues, "tracker.outputs", "output_unsupported", message)
            .hint("add the command `run`, or remove the output")
    })
}

/// Compares the states of the stages with those of the tracker.
async fn states(call: &Call<'_>, tracker: &Capabilities, cancel: &CancellationToken) -> Found {
    let workflow = call.workflow;
    let can_create = tracker.has("states");
    let known = match &tracker.states {
        Some(states) => states.clone(),
        None if can_create => match call.answer::<States>(&["states"], cancel.cancelled()).await {
            Ok(found) => found.states,
            Err(reason) => {
                let message = format!("cannot read the states of the tracker: {reason}");
                let check = Check::warning(Group::Issues, STATES, "states_unknown", message);
                return Found {
                    checks: vec![check],
                    missing: Vec::new(),
                };
            }
        },
        None => return Found::default(),
    };
    let terminal = &workflow.issue.terminal_states;
    let has_closed_state = terminal.is_empty() || terminal.iter().any(|state| known.contains(state));
    let ignored = (!has_closed_state)
        .then(|| issues::closing_ignored(workflow, "the tracker has none of the `issue.terminal_states`"));
    let mut missing = used_states(workflow);
    missing.retain(|state| !known.contains(state));
    if missing.is_empty() {
        let message = "the tracker has all states that the workflow uses";
        let check = Check::ok(Group::Issues, STATES, message);
        return Found {
            checks: ignored.flatten().into_iter().chain([check]).collect(),
            missing,
        };
    }
    let list = missing.join("`, `");
    let check = if can_create {
        let message = format!("the tracker lacks the states `{list}`: nobody can give them to an issue yet");
        let args: Vec<_> = create_args(&missing)
            .iter()
            .map(|arg| shell_quoted(arg))
            .collect();
        let hint = format!("create them with `vik tracker workflow {}`", args.join(" "));
        Check::warning(Group::Issues, STATES, "states_missing", message).hint(hint)
    } else {
        let message = format!(
            "the tracker has no states `{list}`; it has `{}`",
            known.join("`, `")
        );
        missing.clear();
        Check::error(Group::Issues, STATES, "states_missing", message)
            .hint("add them to the tracker, or correct `when.state` and the moves of the stages")
    };
    Found {
        checks: ignored.flatten().into_iter().chain([check]).collect(),
        missing,
    }
}

/// Returns the states of the stages, those to which their hooks move issues, and those that their
/// agents may ask for.
pub(in crate::cli) fn used_states(workflow: &Workflow) -> Vec<String> {
    let mut used = Vec::new();
    for stage in &workflow.issue.stages {
        let rule = stage
            .outputs
            .iter()
            .filter_map(|outputs| outputs.rules.get(&OutputKind::State));
        let globs = rule
            .filter_map(|rule| rule.allow.as_ref())
            .flat_map(|allow| allow.globs());
        let allowed = globs.map(String::as_str).filter(|glob| !glob.contains(GLOB));
        let hooks = [&stage.before_run, &stage.after_run];
        let scripts = hooks.into_iter().flatten();
        let moves = scripts.flat_map(|script| script.lines()).filter_map(moved_to);
        let states = stage.when.states.iter().map(String::as_str);
        for state in states.chain(moves).chain(allowed) {
            if !used.iter().any(|known| known == state) {
                used.push(state.to_owned());
            }
        }
    }
    used
}

/// Returns the state to which a line such as `vik tracker workflow move --from todo --to "in review"`
/// moves an issue; `None` for another line, and for a state that the shell or a template computes.
fn moved_to(line: &str) -> Option<&str> {
    let (command, arg) = line.trim_start().split_once(" --to")?;
    if !command.starts_with("vik tracker ") || !command.contains(" move") {
        return None;
    }
    let arg = arg.strip_prefix(['=', ' '])?.trim_start();
    let state = match arg.chars().next()? {
        quote @ ('"' | '\'') => arg[1..].split_once(quote)?.0,
        _ => arg.split([' ', ';', '&', '|']).next()?,
    };
    (!state.is_empty() && !state.contains(['$', '`', '{', '\\'])).then_some(state)
}

/// Asks at a terminal whether to create the states that the tracker lacks, and creates them: then
/// they are no finding any more.
///
/// # Errors
/// If they cannot be created.
pub fn offer(examination: &mut Examination) -> Result<(), Failure> {
    let missing = &examination.missing_states;
    if missing.is_empty() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(());
    }
    let question = format!(
        "Create the states `{}` in the tracker? [y/N] ",
        missing.join("`, `")
    );
    let (mut input, mut output) = (io::stdin().lock(), io::stderr().lock());
    let is_confirmed = confirm(&mut input, &mut output, &question)
        .map_err(|error| Failure::failed(ErrorCode::NoAnswer, "the question was not answered", &error))?;
    if is_confirmed {
        let tracker = of_workflow(&examination.workflow_path)?;
        let request = Request::States {
            create: missing.clone(),
        };
        let created: States = call(&tracker, &request).map_err(|error| failure(&error))?;
        print(&format!("created `{}`\n", created.created.join("`, `")));
        examination.checks.retain(|check| check.check != STATES);
    }
    Ok(())
}

fn create_args(missing: &[String]) -> Vec<String> {
    let create = missing
        .iter()
        .flat_map(|state| ["--create".to_owned(), state.clone()]);
    ["states".to_owned()].into_iter().chain(create).collect()
}

/// A request to the tracker of a workflow, with its secrets and in its folder, as for a pull.
struct Call<'c> {
    host: &'c Host,
    workflow: &'c Workflow,
    scratch: &'c Scratch,
}

impl Call<'_> {
    async fn answer<T: DeserializeOwned>(
        &self,
        request: &[&str],
        cancel: impl Future<Output = ()>,
    ) -> Result<T, String> {
        let command = self.workflow.tracker_command(request);
        let workflow = Workflow {
            pull: Intake {
                command: command.ok_or_else(|| "the workflow names no tracker".to_owned())?,
                ..self.workflow.pull.clone()
            },
            ..self.workflow.clone()
        };
        let stderr = self.scratch.path().join("tracker.stderr");
        let answer = run_pull_command(self.host, &workflow, &stderr, cancel).await;
        let answer = answer.map_err(|error| chain(&error))?;
        serde_json::from_slice(&answer).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_a_move_is_found_in_a_hook() {
        assert_eq!(
            moved_to("  vik tracker workflow move --from todo --to review"),
            Some("review")
        );
        assert_eq!(
            moved_to("vik tracker github move 7 --from a --to=b && x"),
            Some("b")
        );
        assert_eq!(
            moved_to(r#"vik tracker workflow move --from "In Progress" --to "In Review""#),
            Some("In Review")
        );
        assert_eq!(
            moved_to("vik tracker workflow move --to 'it' --from x"),
            Some("it")
        );
        for line in [
            "vik tracker workflow move --from a --to $STATE",
            r#"vik tracker workflow move --from a --to "$STATE""#,
            "vik tracker workflow move --from a --to {{ issue.state }}",
            "vik tracker workflow comment --to x",
            "# vik tracker workflow move --from a --to b",
            "vik tracker workflow move --to",
            "vik tracker workflow move --from a",
            "",
        ] {
            assert_eq!(moved_to(line), None, "{line}");
        }
    }
}
