//! The facts that notifiers receive.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use vik_api::NotifiedItem;
use vik_base::report::one_line;
use vik_core::ids::{IssueId, RunId, StageName};
use vik_core::issue::Issue;
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

impl About {
    fn of(issue: &Issue, stage: &StageName, run: RunId) -> Self {
        Self {
            issue: issue.id.clone(),
            title: one_line(&issue.title, TITLE),
            stage: stage.clone(),
            run: run.to_string(),
        }
    }
}

impl Fact {
    fn new(
        at: Timestamp,
        events: Vec<NotifyEvent>,
        about: Option<About>,
        reason: &str,
        detail: &str,
    ) -> Self {
        Self {
            at,
            events,
            about,
            reason: reason.to_owned(),
            detail: one_line(detail, DETAIL),
            freed_by: None,
            day: None,
        }
    }

    pub(super) fn parked(parked: &Parked<'_>) -> Self {
        let about = About::of(parked.issue, parked.stage, parked.run);
        let (events, reason) = (events_of(parked.reason), parked.reason.as_str());
        let mut fact = Self::new(parked.since, events, Some(about), reason, parked.detail);
        if let held @ [_, ..] = parked.dependents {
            let issues = api_view::issue_list(held);
            let _ = match held.len() {
                1 => write!(fact.detail, "; 1 issue waits for it: {issues}"),
                count => write!(fact.detail, "; {count} issues wait for it: {issues}"),
            };
        }
        fact.freed_by = Some(parked.reason.freed_by().to_owned());
        fact
    }

    pub(super) fn awaiting(awaiting: &Awaiting<'_>) -> Self {
        let request = awaiting.request;
        let about = About::of(awaiting.issue, awaiting.stage, awaiting.run);
        let detail = api_view::describe_request(request);
        Self {
            freed_by: Some(request.freed_by()),
            ..Self::waiting_for_person(request.since, about, "approval", &detail)
        }
    }

    pub(super) fn asked(asked: &Asked<'_>) -> Self {
        let question = asked.question;
        let about = About::of(asked.issue, asked.stage, asked.run);
        let detail = api_view::describe_question(question);
        Self {
            freed_by: Some(one_line(&question.freed_by(), DETAIL)),
            ..Self::waiting_for_person(question.since, about, "question", &detail)
        }
    }

    fn waiting_for_person(at: Timestamp, about: About, reason: &str, detail: &str) -> Self {
        Self::new(
            at,
            vec![NotifyEvent::WaitingForPerson],
            Some(about),
            reason,
            detail,
        )
    }

    /// Creates the fact that a run was given up after its last attempt failed. The run is not parked,
    /// because its issue has changed its state.
    pub(super) fn given_up(at: Timestamp, about: About, outcome: Outcome, reason: &str) -> Self {
        let about = About {
            title: one_line(&about.title, TITLE),
            ..about
        };
        Self::new(
            at,
            vec![NotifyEvent::Failed],
            Some(about),
            outcome.as_str(),
            reason,
        )
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
        Self::new(at, vec![NotifyEvent::Trouble], None, reason, detail)
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
