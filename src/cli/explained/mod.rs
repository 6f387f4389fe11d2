//! What is known of one issue, from the daemon or from the ledger of the last one: for `vik explain`
//! and `vik show`.

pub mod attempts;
pub mod text;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use vik_api::{Daemon, DaemonState, Explained, Explanation, HoldView, SCHEMA, StageState};
use vik_core::changes::Decision;
use vik_core::decision_kind::DecisionKind;
use vik_core::ids::IssueId;
use vik_core::machine::IssueMachine;
use vik_core::scheduler::{Filter, Hold, Scheduler, nearest};
use vik_core::time::{Mono, Now};
use vik_core::workflow::Workflow;
use vik_store::ledger::Reader;

use vik_base::report::{ErrorCode, Exit, Failure, one_line};
use vik_daemon::{Instance, Presence};
use vik_orchestrator::api_view;
use vik_workflow::WorkflowFile;

use super::history;
use super::{client, warn};

/// The maximum number of decisions in the output.
const MAX_DECISIONS: u32 = 200;

/// Returns everything that is known of an issue, from the daemon or from the ledger of the last
/// one.
///
/// # Errors
/// If nothing is known of the issue, or nothing can be read.
pub fn load(path: &Path, issue: &IssueId) -> Result<Explained, Failure> {
    if let Some(explained) = ask(path, issue)? {
        return Ok(explained);
    }
    let layout = history::layout(path)?;
    let ledger = history::ledger(layout.root());
    let (mut now, mut decisions) = (None, Vec::new());
    if let Some(ledger) = &ledger {
        now = from_ledger(path, ledger, issue)?;
        decisions = self::decisions(ledger, issue)?;
    }
    if let Some(explanation) = &mut now {
        explain_no_stage(path, explanation);
    }
    let runs = history::runs(&layout, ledger.as_ref(), None, issue)?;
    let known = decisions.iter().any(|decision| decision.issue.is_some());
    if now.is_none() && runs.is_empty() && !known {
        return Err(unknown(path, issue));
    }
    let issue_title = vik_control::history::issue_title(now.as_ref(), ledger.as_ref(), issue)?;
    let details = vik_control::history::issue_details(None, ledger.as_ref(), issue)?;
    Ok(Explained {
        schema: SCHEMA,
        daemon: absent(&Instance::of(path)?, path),
        issue_id: issue.clone(),
        issue_title,
        issue: details,
        now,
        decisions: decisions.into_iter().map(api_view::decision).collect(),
        runs,
    })
}

/// Returns the explanation of the running daemon, or `None` if none answers.
fn ask(path: &Path, issue: &IssueId) -> Result<Option<Explained>, Failure> {
    let Ok((instance, info)) = client::find(path) else {
        return Ok(None);
    };
    match client::request(&instance, &info, async |client| client.issue(issue).await) {
        Ok(Some(mut explained)) => {
            if let Some(explanation) = &mut explained.now {
                explain_no_stage(path, explanation);
            }
            Ok(Some(explained))
        }
        Err(failure) if failure.exit == Exit::NotFound => Err(unknown(path, issue)),
        // The ledger of a hub that follows does not have what waits.
        Err(failure) if failure.code() == ErrorCode::NoLeader.as_str() => Err(failure),
        Ok(None) | Err(_) => Ok(None),
    }
}

/// Returns the error for an unknown issue. Usually no stage takes issues in its state, so the error
/// lists the states of the stages.
fn unknown(path: &Path, issue: &IssueId) -> Failure {
    let failure = api_view::unknown_issue(issue.as_str());
    match states(path) {
        None => failure,
        Some(states) => failure
            .cause(format!(
                "no pull returned it in a state that a stage handles: {states}"
            ))
            .hint(
                "check its state in the tracker: Vik ignores issues in other states. `vik refresh` pulls now",
            ),
    }
}

/// Returns the states that stages take, in file order, or `None` if the workflow cannot be read.
fn states(path: &Path) -> Option<String> {
    let loaded = WorkflowFile::valid(path, |_| {}).ok()?;
    let mut states: Vec<&str> = Vec::new();
    for state in loaded
        .workflow
        .issue
        .stages
        .iter()
        .flat_map(|stage| &stage.when.states)
    {
        if !states.contains(&state.as_str()) {
            states.push(state);
        }
    }
    let states: Vec<_> = states
        .iter()
        .map(|state| format!("`{}`", one_line(state, 60)))
        .collect();
    Some(states.join(", "))
}

/// Explains that no stage takes the issue: adds its state and the states of the stages.
fn explain_no_stage(path: &Path, explanation: &mut Explanation) {
    let state = one_line(&explanation.issue_state, 60);
    let stage_holds = explanation.stages.iter_mut().map(|stage| &mut stage.hold);
    for hold in stage_holds.chain([&mut explanation.hold]).flatten() {
        if hold.reason == "no_stage" {
            hold.detail = format!("no stage handles the state `{state}`");
            if let Some(states) = states(path) {
                hold.detail.push_str(&format!("; stages handle {states}"));
            }
            hold.freed_by
                .get_or_insert_with(|| "moving the issue to one of these states".to_owned());
        }
    }
}

/// Returns the explanation for the state at the end of the last daemon. It works on a copy: the
/// ledger does not change.
fn from_ledger(path: &Path, ledger: &Reader, issue: &IssueId) -> Result<Option<Explanation>, Failure> {
    let workflow = match WorkflowFile::valid(path, |_| {}) {
        Ok(loaded) => loaded.workflow,
        Err(failure) => {
            let reason = failure.body().message;
            warn(&format!(
                "warning: {reason}: showing the history only, without the current hold\n"
            ));
            return Ok(None);
        }
    };
    let mut stored = ledger.stored()?;
    if !stored.machines.iter().any(|machine| machine.issue().id == *issue) {
        stored
            .machines
            .extend(ledger.recall(std::slice::from_ref(issue))?);
    }
    let now = Now {
        wall: Timestamp::now(),
        mono: Mono(Duration::ZERO),
    };
    let block = block(ledger, &workflow, issue)?;
    let (scheduler, _) = Scheduler::restore(Arc::clone(&workflow), Filter::default(), [0; 6], stored, now);
    // An attempt is left by the last daemon, so these are the stages whose results wait for a person.
    let results = scheduler.pending_approvals().into_iter();
    let results = results.filter(|pending| pending.issue == issue && pending.run.active().is_some());
    let results: HashMap<_, _> = results
        .map(|pending| (&pending.run.stage, Box::new(pending.request.clone())))
        .collect();
    let mut explanation = api_view::explanation(&scheduler, &workflow, issue, now);
    if let Some(explanation) = &mut explanation {
        let state = &explanation.issue_state;
        let is_taken = workflow
            .issue
            .stages
            .iter()
            .any(|stage| stage.when.has_state(state));
        if let (false, Some(hold)) = (is_taken, &mut explanation.hold) {
            // This would hold the issue with a daemon too, so it is the more useful reason.
            if hold.reason == "not_pulled" {
                "no_stage".clone_into(&mut hold.reason);
            }
        }
        for stage in &mut explanation.stages {
            if let Some(request) = results.get(&stage.stage) {
                let request = request.clone();
                stage.hold = Some(api_view::hold(&Hold::Approval { request }));
                continue;
            }
            let is_open = stage
                .hold
                .as_ref()
                .is_some_and(|hold| hold.reason == "not_pulled");
            if let Some(block) = block.as_ref().filter(|_| is_open) {
                stage.hold = Some(block.clone());
                stage.state = StageState::Held;
            }
        }
        let stage_holds = explanation.stages.iter_mut().map(|stage| &mut stage.hold);
        for hold in stage_holds.chain([&mut explanation.hold]).flatten() {
            explain_no_daemon(hold);
        }
    }
    Ok(explanation)
}

/// Returns what blocked the issue at the end of the last daemon: other issues, with the parked
/// issue that is the root cause, or a cycle.
fn block(ledger: &Reader, workflow: &Workflow, issue: &IssueId) -> Result<Option<HoldView>, Failure> {
    let Some(last) = ledger.last_block(issue)? else {
        return Ok(None);
    };
    if last.kind == DecisionKind::Cycle {
        let mut view = api_view::hold(&Hold::Cycle {
            issues: Arc::default(),
        });
        view.detail = last.detail;
        return Ok(Some(view));
    }
    let machines = machines_ahead(ledger, issue)?;
    let is_open = |id: &IssueId| {
        let known = machines.get(id);
        known.is_none_or(|machine| !workflow.is_terminal(&machine.issue().state))
    };
    let blockers = |id: &IssueId| -> Vec<IssueId> {
        let blocked_by = machines.get(id).map(|machine| machine.issue().blocked_by.iter());
        let open = blocked_by.into_iter().flatten().filter(|id| is_open(id));
        open.cloned().collect()
    };
    let by: Arc<[IssueId]> = blockers(issue).into();
    if by.is_empty() {
        return Ok(None);
    }
    let parked = |id: &IssueId| machines.get(id).and_then(|machine| machine.parked(workflow));
    let open = machines.keys().map(|id| (id.clone(), blockers(id))).collect();
    let roots = nearest(&open, |id| parked(id).is_some());
    let root = roots.get(issue).and_then(parked);
    Ok(Some(api_view::hold(&Hold::Blocked { by, root })))
}

/// Returns the machine of the issue and those of all issues that it waits for, directly or
/// indirectly.
fn machines_ahead(ledger: &Reader, issue: &IssueId) -> Result<HashMap<IssueId, IssueMachine>, Failure> {
    let mut found: HashMap<IssueId, IssueMachine> = HashMap::new();
    let mut asked = HashSet::from([issue.clone()]);
    let mut next = vec![issue.clone()];
    while !next.is_empty() {
        let machines = ledger.recall(&next)?;
        let ahead = machines
            .iter()
            .flat_map(|machine| machine.issue().blocked_by.iter());
        next = ahead.filter(|id| asked.insert((*id).clone())).cloned().collect();
        found.extend(
            machines
                .into_iter()
                .map(|machine| (machine.issue().id.clone(), machine)),
        );
    }
    Ok(found)
}

/// Replaces the reason that no pull has happened, which is always true of a copy, with the missing
/// daemon.
fn explain_no_daemon(hold: &mut HoldView) {
    if hold.reason == "not_pulled" {
        *hold = HoldView {
            reason: "no_daemon".to_owned(),
            detail: "no daemon is running".to_owned(),
            since: None,
            until: None,
            freed_by: Some("`vik run -d`".to_owned()),
            root_cause: None,
        };
    }
}

/// Returns the decisions about the issue, and those about all issues while it was known, oldest
/// first.
fn decisions(ledger: &Reader, issue: &IssueId) -> Result<Vec<Decision>, Failure> {
    let mut decisions = ledger.decisions(Some(issue), MAX_DECISIONS)?;
    decisions.reverse();
    Ok(decisions)
}

/// Returns the state of a daemon that cannot answer.
fn absent(instance: &Instance, path: &Path) -> Daemon {
    let state = match instance.presence() {
        Presence::Dead(_) => DaemonState::Dead,
        _ => DaemonState::NotRunning,
    };
    Daemon {
        state,
        workflow_path: path.to_owned(),
        ..Daemon::default()
    }
}
