//! Converts values of the scheduler to wire types.

mod refusal;

use vik_api::{
    ApprovalView, DayView, DecisionView, Explanation, HoldView, LifeView, MessageView, QuestionView,
    RootCauseView, SpendView, StageState, StageView, TakenOverView, WaitingView,
};
use vik_base::report::one_line;
use vik_core::approval::Request;
use vik_core::changes::Decision;
use vik_core::duration::Span;
use vik_core::ids::IssueId;
use vik_core::machine::{IssueMachine, RunEvent};
use vik_core::message::WaitingMessage;
use vik_core::outcome::Outcome;
use vik_core::question::PendingQuestion;
use vik_core::scheduler::{
    Hold, NoWorker, OpenQuestion, PendingApproval, Scheduler, StageExplanation, Waiting,
};
use vik_core::time::Now;
use vik_core::workflow::Workflow;

pub use refusal::{answer_refused, idle_issue, message_refused, unknown_issue, unknown_stage};

/// The maximum number of characters shown of an external text.
const SHOWN: usize = 300;

/// The maximum number of issues listed in one line.
const NAMED: usize = 10;

/// Returns the state of an issue, or `None` if the scheduler does not know the issue.
pub fn explanation(
    scheduler: &Scheduler,
    workflow: &Workflow,
    issue: &IssueId,
    now: Now,
) -> Option<Explanation> {
    let explanation = scheduler.explain(issue, now)?;
    Some(Explanation {
        issue_id: explanation.issue,
        issue_title: explanation.title.to_string(),
        issue_state: explanation.state.to_string(),
        issue_url: explanation.url,
        labels: explanation.labels,
        trust: explanation.trust,
        present: explanation.present,
        paused: explanation.paused,
        hold: explanation.hold.as_ref().map(hold),
        stages: explanation.stages.iter().map(stage).collect(),
        life: LifeView {
            attempts: explanation.life.attempts,
            max_attempts: Some(explanation.allowed_attempts),
            spent: SpendView::of(explanation.life.spend, explanation.life.estimated),
            limit: explanation.limit.into(),
        },
        day: Some(day(scheduler, workflow, now)),
        workspace: None,
        messages_waiting: explanation.messages_waiting,
    })
}

/// Returns today's spending and its limit.
pub fn day(scheduler: &Scheduler, workflow: &Workflow, now: Now) -> DayView {
    DayView {
        date: jiff::tz::Offset::UTC.to_datetime(now.wall).date(),
        spent: SpendView::of(scheduler.spent_today(now), scheduler.estimated_today(now)),
        limit: workflow.day_limit.into(),
    }
}

fn stage(explanation: &StageExplanation) -> StageView {
    let state = match &explanation.hold {
        _ if explanation.attempt_id.is_some() => StageState::Running,
        None => StageState::Ready,
        Some(hold) if is_temporary(hold) => StageState::Waiting,
        Some(_) => StageState::Held,
    };
    StageView {
        stage: explanation.stage.clone(),
        state,
        run_id: explanation.run.map(|run| run.to_string()),
        session_id: explanation.attempt_id.map(|session| session.to_string()),
        turn: explanation.turn,
        last_outcome: explanation.last_outcome,
        last_class: explanation.last_class,
        attempts: explanation.attempts,
        max_attempts: explanation.allowed_attempts,
        hold: explanation.hold.as_ref().map(hold),
        intent: explanation.intent.as_ref().map(Into::into),
    }
}

/// Returns whether a hold ends without a person.
fn is_temporary(hold: &Hold) -> bool {
    !matches!(
        hold,
        Hold::Paused { .. }
            | Hold::TakenOver { .. }
            | Hold::Draining
            | Hold::Cycle { .. }
            | Hold::Parked { .. }
            | Hold::Filtered
            | Hold::NoStage
            | Hold::NothingNew { .. }
            | Hold::MissingLabels { .. }
            | Hold::Terminal
            | Hold::NotPresent
            | Hold::Missing
            | Hold::BadIntent { .. }
            | Hold::Untrusted { .. }
            | Hold::Approval { .. }
            | Hold::Question { .. }
    )
}

/// Converts the hold of a stage.
pub fn hold(hold: &Hold) -> HoldView {
    let freed_by = match hold {
        Hold::Paused { all: true } => Some("`vik resume`".to_owned()),
        Hold::Paused { all: false } => Some("`vik resume ISSUE`".to_owned()),
        Hold::TakenOver { .. } => Some("`vik handback ISSUE`".to_owned()),
        Hold::Draining => Some("the next start of the daemon".to_owned()),
        Hold::Blocked { root: Some(root), .. } => {
            let issue = one_line(root.issue.as_str(), 60);
            Some(format!("retrying issue {issue}: {}", root.reason.freed_by()))
        }
        Hold::Blocked { .. } => Some("finishing these issues".to_owned()),
        Hold::Cycle { .. } => Some("changing the blockers of one of them".to_owned()),
        Hold::Parked { freed_by, .. } => Some(freed_by.clone()),
        Hold::Approval { request } => Some(request.freed_by()),
        Hold::Question { question } => Some(one_line(&question.freed_by(), SHOWN)),
        Hold::NothingNew { .. } => {
            Some("a comment by a trusted author, a check that fails, or another state".to_owned())
        }
        Hold::MissingLabels { labels } => Some(format!("adding {} to the issue", named(labels))),
        Hold::NoWorker {
            reason: NoWorker::MissingLabels { .. },
        } => Some("a worker with these labels".to_owned()),
        Hold::BadIntent { .. } => Some("a change of `owned_scope` of the issue or the stage".to_owned()),
        Hold::Untrusted { .. } => {
            Some("an author or label that `trust` names, or a change of `trust`".to_owned())
        }
        _ => None,
    };
    HoldView {
        reason: hold.as_str().to_owned(),
        detail: detail(hold),
        since: match hold {
            Hold::Parked { since, .. } | Hold::TakenOver { since, .. } => Some(*since),
            Hold::Approval { request } => Some(request.since),
            Hold::Question { question } => Some(question.since),
            _ => None,
        },
        until: hold.until(),
        freed_by,
        root_cause: root_cause(hold),
    }
}

/// Returns the parked issue at the end of a chain of blockers.
fn root_cause(hold: &Hold) -> Option<RootCauseView> {
    match hold {
        Hold::Blocked { root: Some(root), .. } => Some(RootCauseView {
            issue_id: root.issue.clone(),
            stage: root.stage.clone(),
            reason: root.reason.as_str().to_owned(),
        }),
        _ => None,
    }
}

/// Describes a hold for a person.
fn detail(hold: &Hold) -> String {
    match hold {
        Hold::Paused { all: true } => "everything is paused".to_owned(),
        Hold::Paused { all: false } => "the issue is paused".to_owned(),
        Hold::TakenOver { by, .. } => format!("taken over by {}", one_line(by, 60)),
        Hold::Draining => "the daemon is draining".to_owned(),
        Hold::Slot => "no free slot (`loop.max_issue_concurrency`)".to_owned(),
        Hold::OpenFiles { max_sessions } => {
            let sessions = if *max_sessions == 1 { "session" } else { "sessions" };
            format!(
                "the limit on open files allows {max_sessions} {sessions} (raise `LimitNOFILE=` or `ulimit -Hn`)"
            )
        }
        Hold::AgentSlot { agent } => format!("the agent `{agent}` has reached `max_concurrency`"),
        Hold::StageSlot => "the stage has reached `max_concurrency`".to_owned(),
        Hold::NoWorker { reason } => no_worker(reason),
        Hold::Blocked { by, root: None } => format!("blocked by {}", issue_list(by)),
        Hold::Blocked { by, root: Some(root) } => {
            let (blockers, issue) = (issue_list(by), one_line(root.issue.as_str(), 60));
            let why = root.reason.as_str();
            if **by == [root.issue.clone()] {
                format!("blocked by {issue}, which is parked: {why}")
            } else {
                format!("blocked by {blockers}; the root cause is issue {issue}, which is parked: {why}")
            }
        }
        Hold::Cycle { issues } => format!("these issues wait for each other: {}", issue_list(issues)),
        Hold::ScopeConflict { with, waits } => {
            let with = one_line(with.as_str(), 60);
            let how = if *waits {
                "waits for overlapping paths and comes first"
            } else {
                "works on overlapping paths"
            };
            format!("issue {with} {how} (`issue.scope_conflicts`)")
        }
        Hold::BadIntent { why } => format!("invalid intent: {}", one_line(why, SHOWN)),
        Hold::Untrusted { author } => match author {
            Some(author) => format!(
                "not trusted: `trust` does not name its author {}",
                one_line(author, 60)
            ),
            None => {
                "not trusted: `trust` requires an author or a label, and the pull returned none".to_owned()
            }
        },
        Hold::DayLimit { limit, .. } => format!("the daily limit is used up: {limit}"),
        Hold::Pressure { why } => format!("the machine is too busy: {why}"),
        Hold::BackingOff {
            is_requested: true, ..
        } => "`before_run` asked to be tried again later; the next attempt waits".to_owned(),
        Hold::BackingOff { after, .. } => match after {
            None => "the next attempt waits".to_owned(),
            Some(Outcome::Succeeded) => {
                "the last attempt succeeded but the issue kept its state; the next attempt waits".to_owned()
            }
            Some(outcome) => format!("the outcome of the last attempt was {outcome}; the next attempt waits"),
        },
        Hold::HandOver {
            until,
            tries,
            max_tries,
            failure,
        } => {
            let failure = one_line(failure, SHOWN);
            match until {
                Some(_) => {
                    format!(
                        "the work is done, but its hand-over failed ({tries} of {max_tries} tries): {failure}"
                    )
                }
                None => format!("the work is done and is being handed over (try {tries} of {max_tries})"),
            }
        }
        Hold::Quota { .. } => "the provider's quota is used up".to_owned(),
        Hold::Parked { reason, detail, .. } => {
            format!("parked ({}): {}", reason.as_str(), one_line(detail, SHOWN))
        }
        Hold::Approval { request } => request.message(),
        Hold::Question { question } => describe_question(question),
        Hold::Settling => "an attempt ended, and no later pull has returned the issue".to_owned(),
        Hold::LookupPending => "checking the issue with `issues.show` before it starts".to_owned(),
        Hold::LookupFailed => "the check with `issues.show` failed; retrying after the next pull".to_owned(),
        Hold::OtherStage { stage } => format!("the stage `{stage}` of the issue runs first"),
        Hold::Filtered => "excluded by `--issue` or `--stage` of this daemon".to_owned(),
        Hold::NoStage => "no stage handles this state".to_owned(),
        Hold::NothingNew { pending } if pending.is_empty() => {
            "in this state the stage starts again only for new comments or failed checks".to_owned()
        }
        Hold::NothingNew { pending } => {
            format!(
                "nothing is new, and these checks have no result yet: {}",
                named(pending)
            )
        }
        Hold::MissingLabels { labels } => {
            format!("the stage takes only issues with the labels {}", named(labels))
        }
        Hold::Terminal => "the issue is in a terminal state".to_owned(),
        Hold::NotPulled => "no pull has returned the issue since the daemon started".to_owned(),
        Hold::NotPresent => "the last pull did not return the issue".to_owned(),
        Hold::Missing => "the tracker no longer has the issue, according to `issues.show`".to_owned(),
        Hold::Removing => "its workspace is being removed".to_owned(),
    }
}

/// Describes why no worker gets an attempt.
fn no_worker(reason: &NoWorker) -> String {
    match reason {
        NoWorker::NoneReady => "no worker is ready".to_owned(),
        NoWorker::MissingLabels { labels } => {
            let labels: Vec<_> = labels.iter().map(ToString::to_string).collect();
            let of = if labels.len() == 1 {
                "the label"
            } else {
                "all of the labels"
            };
            format!("no ready worker has {of} {}", named(&labels))
        }
        NoWorker::AllFull => "all workers that fit are full".to_owned(),
        NoWorker::WorkspaceFull { worker } => {
            format!("the worker `{worker}`, which has the workspace, is full")
        }
    }
}

/// Returns labels as a list for people.
fn named(labels: &[String]) -> String {
    let labels: Vec<_> = labels
        .iter()
        .take(NAMED)
        .map(|label| format!("`{}`", one_line(label, 60)))
        .collect();
    labels.join(", ")
}

/// Lists issue ids; of a long list, the first ones and a count.
pub fn issue_list(issues: &[IssueId]) -> String {
    let named: Vec<_> = issues
        .iter()
        .take(NAMED)
        .map(|id| one_line(id.as_str(), 60))
        .collect();
    let mut text = named.join(", ");
    if issues.len() > NAMED {
        text.push_str(&format!(" and {} more", issues.len() - NAMED));
    }
    text
}

/// Converts a waiting stage for `status`.
pub fn waiting(waiting: &Waiting, issue_title: String) -> WaitingView {
    let reason = match &waiting.hold {
        Hold::BackingOff { .. } => "backoff",
        Hold::Settling | Hold::NotPulled => "pull",
        hold => hold.as_str(),
    };
    WaitingView {
        run_id: waiting.run.map(|run| run.to_string()),
        issue_id: waiting.issue.clone(),
        issue_title,
        stage: waiting.stage.clone(),
        reason: reason.to_owned(),
        detail: detail(&waiting.hold),
        until: waiting.until,
        attempts: waiting.attempts,
        root_cause: root_cause(&waiting.hold),
    }
}

/// Converts the hold of a person for `status`.
pub fn taken_over(issue: &IssueId, machine: &IssueMachine) -> Option<TakenOverView> {
    let hold = machine.taken_over()?;
    Some(TakenOverView {
        issue_id: issue.clone(),
        issue_title: machine.issue().title.to_string(),
        issue_state: machine.issue().state.to_string(),
        session_id: hold.session.to_string(),
        by: hold.by.clone(),
        since: hold.since,
        stage: hold.stage.clone(),
        busy: machine.is_busy(),
    })
}

/// Converts a pending approval for `status`.
pub fn approval(awaited: &PendingApproval<'_>, issue_title: String) -> ApprovalView {
    let PendingApproval { issue, run, request } = awaited;
    ApprovalView {
        run_id: run.id.to_string(),
        session_id: run.active().map(|start| start.attempt_id.to_string()),
        issue_id: (*issue).clone(),
        issue_title,
        stage: run.stage.clone(),
        request: (*request).clone(),
        detail: describe_request(request),
    }
}

/// Converts an open question for `status`.
pub fn question(open: &OpenQuestion<'_>, issue_title: String) -> QuestionView {
    let OpenQuestion { issue, run, question } = open;
    QuestionView {
        run_id: run.id.to_string(),
        issue_id: (*issue).clone(),
        issue_title,
        stage: run.stage.clone(),
        question: (*question).clone(),
        needs_person: question.needs_person(),
    }
}

/// Describes a question on one line, with its choices.
pub fn describe_question(question: &PendingQuestion) -> String {
    let mut text = question.message();
    for (at, choice) in question.question.choices.iter().enumerate() {
        let between = if at == 0 { " — " } else { ", " };
        text.push_str(&format!("{between}{}: {choice}", at + 1));
    }
    one_line(&text, SHOWN)
}

/// Describes what a request asks for, including its tool call if there is one.
pub fn describe_request(request: &Request) -> String {
    let Some(call) = &request.call else {
        let outputs = one_line(&request.outputs.join("; "), SHOWN);
        return match request.outputs.is_empty() {
            true => request.message(),
            false => format!("{}, with the outputs: {outputs}", request.message()),
        };
    };
    let subject = match &call.command {
        Some(command) => command.clone(),
        None => call.paths.join(" "),
    };
    format!("{}: {}", request.message(), one_line(&subject, SHOWN))
}

pub fn decision(decision: Decision) -> DecisionView {
    DecisionView {
        at: decision.at,
        stage: decision.stage,
        run_id: decision.run.map(|run| run.to_string()),
        session_id: decision.attempt_id.map(|session| session.to_string()),
        kind: decision.kind.into(),
        detail: decision.detail,
    }
}

/// Converts the messages that wait for an agent of an issue.
pub fn messages(machine: &IssueMachine) -> Vec<MessageView> {
    let view = |waiting: &WaitingMessage| MessageView {
        session_id: waiting.attempt.map(|attempt_id| attempt_id.to_string()),
        in_prompt: machine.is_in_prompt(waiting),
        ..MessageView::from(waiting.message.clone())
    };
    machine.messages().iter().map(view).collect()
}

/// Describes a run event on one line.
pub fn note(note: &RunEvent) -> String {
    match note {
        RunEvent::Ended { stage, succeeded, .. } => {
            let how = if *succeeded { "succeeded" } else { "was given up" };
            format!("`{stage}` {how}")
        }
        RunEvent::BackingOff {
            stage,
            wait,
            is_requested: true,
            ..
        } => format!("`{stage}` waits {}, as `before_run` asked", Span(*wait)),
        RunEvent::BackingOff {
            stage,
            wait,
            attempts,
            ..
        } => format!("`{stage}` waits {} after attempt {attempts}", Span(*wait)),
        RunEvent::Continues { stage, turn, max, .. } => {
            format!("`{stage}` continues its conversation with turn {turn} of {max}")
        }
        RunEvent::HandOverFailed {
            stage, wait, failure, ..
        } => format!(
            "the work of `{stage}` is done, but its hand-over failed and is tried again in {}: {}",
            Span(*wait),
            one_line(&failure.to_string(), SHOWN)
        ),
        RunEvent::HandedOver { stage, .. } => format!("the work of `{stage}` is handed over"),
        RunEvent::Awaiting { stage, request, .. } => format!("`{stage}`: {}", request.message()),
        RunEvent::Answered {
            stage,
            request,
            answer,
            by,
            ..
        } => format!("`{stage}`: {}", request.answered(answer, by)),
        RunEvent::Asked { stage, question, .. } => {
            format!("`{stage}`: {}", describe_question(question))
        }
        RunEvent::QuestionAnswered { stage, answer, .. } => {
            let text = one_line(&answer.answer, SHOWN);
            format!("`{stage}`: {} answered: {text}", answer.by)
        }
        RunEvent::Parked { stage, reason, .. } => format!("`{stage}` is parked: {}", reason.as_str()),
        RunEvent::Closed { stage, .. } => format!("the issue was closed: `{stage}` is unparked"),
        RunEvent::Freed { stage, by, .. } => format!("{}: `{stage}` is unparked", by.as_str()),
        RunEvent::Unparked { stage, .. } => format!("`{stage}` is unparked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hold_for_a_worker_names_the_missing_part() {
        let labels = |labels: &[&str]| NoWorker::MissingLabels {
            labels: labels.iter().map(|label| label.parse().unwrap()).collect(),
        };
        let full = NoWorker::WorkspaceFull {
            worker: "host-1".parse().unwrap(),
        };
        let with_labels = Some("a worker with these labels".to_owned());
        for (reason, text, freed_by) in [
            (NoWorker::NoneReady, "no worker is ready", None),
            (
                labels(&["gpu"]),
                "no ready worker has the label `gpu`",
                with_labels.clone(),
            ),
            (
                labels(&["linux", "gpu"]),
                "no ready worker has all of the labels `gpu`, `linux`",
                with_labels,
            ),
            (NoWorker::AllFull, "all workers that fit are full", None),
            (
                full,
                "the worker `host-1`, which has the workspace, is full",
                None,
            ),
        ] {
            let view = hold(&Hold::NoWorker { reason });
            assert_eq!(
                (&*view.reason, &*view.detail, view.freed_by),
                ("no_worker", text, freed_by)
            );
        }
    }
}
