//! Checks the pull command: whether it succeeds and whether its items are usable.

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;
use vik_base::report::{chain, count, one_line, optional};
use vik_core::issue::{Issue, Pull};
use vik_core::scheduler::LookupResult;
use vik_core::workflow::{OnStateChange, Stage, Workflow};
use vik_orchestrator::intake::{PullError, PullResult};
use vik_session::host::Host;

use super::check::{Check, Group, PULL};

/// The maximum number of listed items.
const SHOWN: usize = 3;

/// Returns the checks of one pull, and its issues.
pub(super) fn check(workflow: &Workflow, pull: PullResult) -> (Vec<Check>, Vec<Issue>) {
    let took = pull.duration.as_secs_f64();
    match pull.result {
        Err(error) => (vec![failed(workflow, &error)], Vec::new()),
        Ok(Pull {
            issues,
            skipped,
            warnings,
            ..
        }) => {
            let mut checks = Vec::new();
            let message = format!(
                "{} in {took:.1}s{}",
                count(issues.len(), "issue"),
                matches(workflow, &issues)
            );
            checks.push(Check::ok(Group::Issues, PULL, message));
            if !skipped.is_empty() {
                let verb = if skipped.len() == 1 { "is" } else { "are" };
                let mut message = format!("{} {verb} skipped:", count(skipped.len(), "item"));
                for item in skipped.iter().take(SHOWN) {
                    let id = item.id.as_deref().map(|id| one_line(id, 40));
                    let id = optional(" (", id, ")");
                    message.push_str(&format!("\nitem {}{id}: {}", item.index, item.reason));
                }
                if skipped.len() > SHOWN {
                    message.push_str(&format!("\nand {} more", skipped.len() - SHOWN));
                }
                checks.push(
                    Check::warning(Group::Issues, "pull.items", "items_skipped", message)
                        .hint("every item needs `id` (or `identifier`) and `state` (or `status`); ids must be unique"),
                );
            }
            if !warnings.is_empty() {
                let shown = warnings.iter().take(SHOWN);
                let shown: Vec<_> = shown.map(|warning| one_line(&warning.to_string(), 200)).collect();
                let omitted = warnings.len().saturating_sub(SHOWN);
                let omitted = if omitted > 0 {
                    format!("\nand {omitted} more")
                } else {
                    String::new()
                };
                let message = format!("fields with unexpected types:\n{}{omitted}", shown.join("\n"));
                checks.push(Check::warning(
                    Group::Issues,
                    "pull.fields",
                    "fields_mistyped",
                    message,
                ));
            }
            checks.extend(no_descriptions(workflow, &issues));
            checks.extend(state_case(workflow, &issues));
            checks.extend(closed_unseen(workflow, &issues));
            (checks, issues)
        }
    }
}

fn matches(workflow: &Workflow, issues: &[Issue]) -> String {
    if issues.is_empty() {
        return String::new();
    }
    let stages: Vec<String> = workflow
        .issue
        .stages
        .iter()
        .map(|stage| {
            let count = issues
                .iter()
                .filter(|issue| issue.is_taken_by(&stage.when))
                .count();
            format!("{count} for {}", stage.name)
        })
        .collect();
    format!(": {}", stages.join(", "))
}

/// Warns if the issues of the stages have titles only: the pull may leave the descriptions out, or
/// print them as something else than text. One such issue can be meant.
fn no_descriptions(workflow: &Workflow, issues: &[Issue]) -> Option<Check> {
    let is_taken = |issue: &&Issue| {
        let stages = &workflow.issue.stages;
        stages.iter().any(|stage| issue.is_taken_by(&stage.when))
    };
    let taken: Vec<_> = issues.iter().filter(is_taken).collect();
    let is_empty = |issue: &&Issue| issue.description().trim().is_empty();
    (taken.len() > 1 && taken.iter().all(is_empty)).then(|| {
        let message = format!("none of the {} issues for a stage has a description", taken.len());
        Check::warning(Group::Issues, "pull.descriptions", "descriptions_empty", message)
            .hint("let the pull print the text of each issue as `description`, or `body`")
    })
}

/// Compares an issue of the pull with what `issues.show` prints of it: if they differ, Vik takes the
/// lookup for a change by a person.
pub(super) async fn compare_with_show(
    host: &Host,
    workflow: &Workflow,
    issues: &[Issue],
    cancel: &CancellationToken,
) -> Option<Check> {
    const SHOW: &str = "show";
    let show = workflow.show.as_ref()?;
    let stages = &workflow.issue.stages;
    let is_taken = |issue: &&Issue| stages.iter().any(|stage| issue.is_taken_by(&stage.when));
    let pulled = issues.iter().find(is_taken).or(issues.first())?;
    let id = one_line(pulled.id.as_str(), 40);
    let found =
        match vik_orchestrator::intake::show(host, workflow, show, &pulled.id, cancel.cancelled()).await {
            Ok(LookupResult::Snapshot(found)) => found,
            Ok(_) => {
                let message = format!("`issues.show` does not find issue {id}, which the pull returned");
                return Some(Check::warning(Group::Issues, SHOW, "show_failed", message));
            }
            Err(error) => {
                let message = format!("`issues.show` for issue {id}: {}", chain(&error));
                return Some(Check::warning(Group::Issues, SHOW, "show_failed", message));
            }
        };
    let differing: Vec<_> = [
        ("title", pulled.title == found.title),
        ("description", pulled.description() == found.description()),
        ("state", pulled.state == found.state),
    ]
    .into_iter()
    .filter_map(|(field, is_same)| (!is_same).then_some(field))
    .collect();
    Some(if differing.is_empty() {
        Check::ok(Group::Issues, SHOW, format!("issue {id} is as in the pull"))
    } else {
        let message = format!(
            "`issues.show` and the pull differ in the {} of issue {id}",
            differing.join(" and ")
        );
        Check::warning(Group::Issues, SHOW, "show_differs", message).hint(
            "let both print the same values: a different title or description counts as a change by a person",
        )
    })
}

/// Warns about states that differ from a stage's state only in case or surrounding space, which is
/// hard to see.
fn state_case(workflow: &Workflow, issues: &[Issue]) -> Option<Check> {
    let mut near_matches: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for issue in issues {
        let stages = workflow.issue.stages.iter();
        if stages.clone().any(|stage| stage.when.has_state(&issue.state)) {
            continue;
        }
        let folded = issue.state.trim().to_lowercase();
        let mut states = stages.flat_map(|stage| &stage.when.states);
        if let Some(state) = states.find(|state| state.trim().to_lowercase() == folded) {
            *near_matches.entry((&issue.state, state)).or_default() += 1;
        }
    }
    if near_matches.is_empty() {
        return None;
    }
    let lines: Vec<String> = near_matches
        .iter()
        .map(|((state, wanted), count)| {
            format!(
                "{count} in state {:?}, but a stage expects {wanted:?}",
                one_line(state, 60)
            )
        })
        .collect();
    let message = format!("states differ only in upper and lower case: {}", lines.join("; "));
    Some(
        Check::warning(Group::Issues, "pull.states", "state_case", message)
            .hint("write `when.state` exactly as the pull command prints it"),
    )
}

/// Returns a warning that a person who closes an issue does not stop its agent; `None` if each
/// stage cancels its attempts when the issue leaves the state.
pub(super) fn closing_ignored(workflow: &Workflow, reason: &str) -> Option<Check> {
    let continues = |stage: &&Stage| stage.on_state_change == OnStateChange::Finish;
    let stage = workflow.issue.stages.iter().find(continues)?;
    let message = format!(
        "closing an issue does not stop the agent of the stage {}: {reason}",
        stage.name
    );
    Some(
        Check::warning(Group::Issues, "pull.closed", "closing_ignored", message).hint(
            "list the closed states in `issue.terminal_states`, or set `on_state_change: cancel` in each stage",
        ),
    )
}

/// Warns if nothing shows that an issue was closed, or if that stops nothing. The built-in trackers
/// list closed issues too.
fn closed_unseen(workflow: &Workflow, issues: &[Issue]) -> Option<Check> {
    let states = &workflow.issue.terminal_states;
    if states.is_empty() {
        return closing_ignored(workflow, "`issue.terminal_states` is empty");
    }
    let is_seen = workflow.show.is_some()
        || ["vik issue list", "vik tracker "]
            .iter()
            .any(|lists_closed| workflow.pull.command.starts_with(lists_closed))
        || issues.iter().any(|issue| workflow.is_terminal(&issue.state));
    if is_seen {
        return None;
    }
    let message = format!(
        "Vik may not notice that an issue was closed: the pull returned none in a terminal state ({}), and `issues.show` is \
         not set",
        states.join(", ")
    );
    Some(
        Check::warning(Group::Issues, "pull.closed", "closed_unseen", message)
            .hint("set `issues.show`, which looks up one issue, or let the pull return closed issues"),
    )
}

fn failed(workflow: &Workflow, error: &PullError) -> Check {
    let (code, hint) = match error {
        PullError::Failed { how, .. } if how.contains("127") => (
            "pull_failed",
            "a program in `issues.pull.command` is not installed, or not on PATH",
        ),
        PullError::Failed { .. } if workflow.tracker.is_some() => (
            "pull_failed",
            "run `vik tracker workflow list` to see its messages, and check the variables of the tracker",
        ),
        PullError::Failed { .. } => (
            "pull_failed",
            "run `issues.pull.command` manually in the workflow's folder",
        ),
        PullError::TimedOut(_) => (
            "pull_timed_out",
            "raise `issues.pull.timeout`, or make the command faster",
        ),
        PullError::Flooded => ("pull_flooded", "print only the necessary issues and fields"),
        PullError::Garbage { .. } => (
            "pull_garbage",
            "the command must print a single JSON array on stdout and nothing else",
        ),
        PullError::Prepare(_) | PullError::Secret(_) | PullError::Start(_) | PullError::Cancelled => (
            "pull_not_started",
            "check whether the disk is full or the process limit is reached",
        ),
        PullError::Bug(_) => ("pull_failed", "this is a bug in Vik, please report it"),
    };
    Check::error(Group::Issues, PULL, code, chain(error)).hint(hint)
}
