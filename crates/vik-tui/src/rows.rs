//! The columns of the tables.

mod approval;
mod issue;
mod parked;
mod session;
mod waiting;
mod worker;

use vik_api::{Explanation, SessionView, StageState, StageView};
use vik_core::ids::IssueId;

use crate::table::{CellText, RowContext, Tone};
pub(crate) use waiting::starts_in;
pub(crate) use worker::worker_state;

fn issue_cell(issue: &IssueId, context: &RowContext) -> CellText {
    if context.paused.contains(issue) {
        CellText::new(format!("{issue} ||"), Tone::Warn)
    } else {
        CellText::new(issue.as_str(), Tone::Strong)
    }
}

/// Returns a short text about what a session is doing.
pub(crate) fn activity(session: &SessionView) -> String {
    match (session.phase.as_str(), session.activity.as_deref()) {
        ("running", Some(activity)) => activity.to_owned(),
        (phase, Some(activity)) => format!("{phase}: {activity}"),
        (phase, None) => phase.to_owned(),
    }
}

/// Returns the used share of a session's budget, from 0 to 1: of tokens or money, whichever is
/// higher.
pub(crate) fn budget_share(session: &SessionView) -> Option<f64> {
    let money = session
        .budget
        .usd
        .filter(|&limit| limit > 0.0)
        .map(|limit| session.charged.cost_usd / limit);
    let tokens = session
        .budget
        .tokens
        .filter(|&limit| limit > 0)
        .map(|limit| session.charged.tokens as f64 / limit as f64);
    match (money, tokens) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

/// Returns the tone of a share of a limit.
pub(crate) fn share_tone(share: f64) -> Tone {
    match share {
        s if s >= 1.0 => Tone::Bad,
        s if s >= 0.8 => Tone::Warn,
        _ => Tone::Plain,
    }
}

/// Returns the status of an issue as one term, and its tone. The busiest stage decides.
pub(crate) fn issue_status(issue: &Explanation) -> (&'static str, Tone) {
    let has = |state| issue.stages.iter().any(|stage| stage.state == state);
    if has(StageState::Running) {
        ("running", Tone::Good)
    } else if issue.paused {
        ("paused", Tone::Warn)
    } else if has(StageState::Ready) {
        ("ready", Tone::Good)
    } else if has(StageState::Waiting) {
        ("waiting", Tone::Plain)
    } else if let Some(held) = issue.stages.iter().find(|stage| stage.state == StageState::Held) {
        stage_state(held)
    } else if is_finished(issue) {
        ("finished", Tone::Faint)
    } else if !issue.present {
        ("removed", Tone::Faint)
    } else {
        ("no stage", Tone::Faint)
    }
}

/// Returns whether an issue is in a terminal state and nothing of it runs or is parked.
pub(crate) fn is_finished(issue: &Explanation) -> bool {
    issue.stages.is_empty() && issue.hold.as_ref().is_some_and(|hold| hold.reason == "terminal")
}

/// Returns the name of a stage's state.
pub(crate) fn stage_state(stage: &StageView) -> (&'static str, Tone) {
    let tone = match stage.state {
        StageState::Running | StageState::Ready => Tone::Good,
        StageState::Waiting => Tone::Plain,
        StageState::Held => Tone::Warn,
    };
    (stage.state_label(), tone)
}
