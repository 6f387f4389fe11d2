//! The facts that notifiers receive.

use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use vik_api::NotifiedItem;
use vik_base::report::one_line;
use vik_core::ids::{IssueId, StageName};
use vik_core::limits::LimitHit;
use vik_core::machine::ParkReason;
use vik_core::outcome::Outcome;
use vik_core::workflow::NotifyEvent;
use vik_orchestrator::{Asked, Awaiting, Parked, api_view};

/// The maximum length of an issue's title, in characters.
const TITLE: usize = 200;

/// The maximum length of a reason, in characters.
const DETAIL: usize = 600;

/// One event. All of its text is safe for a terminal or a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fact {
    pub(super) at: Timestamp,
    /// All events that the fact stands for, the preferred one first.
    pub(super) events: Vec<NotifyEvent>,
    pub(super) about: Option<About>,
    pub(super) reason: String,
    /// The reason, for a person.
    pub(super) detail: String,
    /// What would unpark the run or end the problem.
    pub(super) freed_by: Option<String>,
    /// The day whose limit was reached, if the fact is about that.
    #[serde(default)]
    pub(super) day: Option<Date>,
}

/// The issue that a fact is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) issue: IssueId,
    pub(super) title: String,
    pub(super) stage: StageName,
    pub(super) run: String,
}

/// Returns all events that a parked run stands for.
fn events_of(reason: ParkReason) -> Vec<NotifyEvent> {
    use NotifyEvent::{Failed, OverBudget, Parked, WaitingForPerson};
    match reason {
        // A person parked it, or a change of the issue's text unparks it.
        ParkReason::Questions => vec![Parked, WaitingForPerson],
        ParkReason::NoProgress | ParkReason::Cancelled | ParkReason::Denied => vec![Parked],
        ParkReason::AttemptsUsedUp | ParkReason::Lost => vec![Parked, Failed],
        ParkReason::UnprovenEnd
        | ParkReason::Auth
        | ParkReason::Config
        | ParkReason::Hook
        | ParkReason::HandOver
        | ParkReason::Internal => vec![Parked, Failed, WaitingForPerson],
        ParkReason::OverBudget | ParkReason::IssueLimit => vec![Parked, OverBudget, WaitingForPerson],
    }
}

impl Fact {
    pub(super) fn parked(parked: &Parked<'_>) -> Self {
        Self {
            at: parked.since,
            events: events_of(parked.reason),
            about: Some(About {
                issue: parked.issue.id.clone(),
                title: one_line(&parked.issue.title, TITLE),
                stage: parked.stage.clone(),
                run: parked.run.to_string(),
            }),
            reason: parked.reason.as_str().to_owned(),
            detail: match parked.dependents {
                [] => one_line(parked.detail, DETAIL),
                held => format!(
                    "{}; {} for it: {}",
                    one_line(parked.detail, DETAIL),
                    if held.len() == 1 {
                        "1 issue waits".to_owned()
                    } else {
                        format!("{} issues wait", held.len())
                    },
                    api_view::issue_list(held)
                ),
            },
            freed_by: Some(parked.reason.freed_by().to_owned()),
            day: None,
        }
    }

    pub(super) fn awaiting(awaiting: &Awaiting<'_>) -> Self {
        let request = awaiting.request;
        Self {
            at: request.since,
            events: vec![NotifyEvent::WaitingForPerson],
            about: Some(About {
                issue: awaiting.issue.id.clone(),
                title: one_line(&awaiting.issue.title, TITLE),
                stage: awaiting.stage.clone(),
                run: awaiting.run.to_string(),
            }),
            reason: "approval".to_owned(),
            detail: one_line(&api_view::describe_request(request), DETAIL),
            freed_by: Some(request.freed_by()),
            day: None,
        }
    }

    pub(super) fn asked(asked: &Asked<'_>) -> Self {
        let question = asked.question;
        Self {
            at: question.since,
            events: vec![NotifyEvent::WaitingForPerson],
            about: Some(About {
                issue: asked.issue.id.clone(),
                title: one_line(&asked.issue.title, TITLE),
                stage: asked.stage.clone(),
                run: asked.run.to_string(),
            }),
            reason: "question".to_owned(),
            detail: one_line(&api_view::describe_question(question), DETAIL),
            freed_by: Some(one_line(&question.freed_by(), DETAIL)),
            day: None,
        }
    }

    /// Creates the fact that a run was given up after its last attempt failed. The run is not parked,
    /// because its issue has changed its state.
    pub(super) fn given_up(at: Timestamp, about: About, outcome: Outcome, reason: &str) -> Self {
        let about = About {
            title: one_line(&about.title, TITLE),
            ..about
        };
        Self {
            at,
            events: vec![NotifyEvent::Failed],
            about: Some(about),
            reason: outcome.as_str().to_owned(),
            detail: one_line(reason, DETAIL),
            freed_by: None,
            day: None,
        }
    }

    pub(super) fn day_limit(at: Timestamp, day: Date, hit: &LimitHit) -> Self {
        Self {
            events: vec![NotifyEvent::OverBudget],
            freed_by: Some("the next day (UTC), or higher `limits`".to_owned()),
            day: Some(day),
            ..Self::trouble(at, "day_limit", &format!("no more attempts start today: {hit}"))
        }
    }

    pub(super) fn trouble(at: Timestamp, reason: &str, detail: &str) -> Self {
        Self {
            at,
            events: vec![NotifyEvent::Trouble],
            about: None,
            reason: reason.to_owned(),
            detail: one_line(detail, DETAIL),
            freed_by: None,
            day: None,
        }
    }

    /// Returns whether the fact replaces another one that was not sent yet.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        let key = |fact: &Self| {
            let about = fact.about.as_ref();
            about.map(|about| (about.issue.clone(), about.stage.clone()))
        };
        key(self) == key(other) && (self.about.is_some() || self.reason == other.reason)
    }

    /// Returns the item for a notifier that subscribes to these events, or `None` if it subscribes
    /// to none of the fact's events.
    pub(super) fn item(&self, on: &[NotifyEvent]) -> Option<NotifiedItem> {
        let event = self.events.iter().find(|event| on.contains(event))?;
        let about = self.about.as_ref();
        Some(NotifiedItem {
            at: self.at,
            event: event.as_str().to_owned(),
            events: self
                .events
                .iter()
                .map(|event| event.as_str().to_owned())
                .collect(),
            issue_id: about.map(|about| about.issue.clone()),
            issue_title: about.map(|about| about.title.clone()).unwrap_or_default(),
            stage: about.map(|about| about.stage.clone()),
            run_id: about.map(|about| about.run.clone()),
            reason: self.reason.clone(),
            detail: self.detail.clone(),
            freed_by: self.freed_by.clone(),
        })
    }
}
