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

use super::Scratch;
use super::check::{Check, Examination, Group};
use crate::cli::tracker::{failure, of_workflow};
use crate::cli::{confirm, print};

/// The name of the check.
const STATES: &str = "tracker.states";

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
    let mut missing: Vec<String> = Vec::new();
    for state in workflow.issue.stages.iter().flat_map(|stage| &stage.when.states) {
        if !known.contains(state) && !missing.contains(state) {
            missing.push(state.clone());
        }
    }
    if missing.is_empty() {
        let message = "the tracker has the states of all stages";
        return Found {
            checks: vec![Check::ok(Group::Issues, STATES, message)],
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
            .hint("correct `when.state` of the stages")
    };
    Found {
        checks: vec![check],
        missing,
    }
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
