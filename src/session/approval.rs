//! Waiting for a person's word.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;
use vik_core::approval::{Answer, Gate, Request, TIME_LIMIT};
use vik_core::event::Event;
use vik_core::ids::{AttemptId, IssueId};
use vik_core::limits::Spend;
use vik_core::machine::Answered;
use vik_core::outcome::FailureClass;
use vik_core::scheduler::Start;
use vik_core::workflow::ApprovePolicy;
use vik_store::{AttemptFailure, Step};

use super::attempt::{Abort, AttemptRunner};
use super::commands::StopCause;
use super::live::LivePhase;
use crate::crash;
use crate::report;
use crate::template;

/// What an attempt tells the scheduler while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptUpdate {
    /// The issue it is for.
    pub issue: IssueId,
    /// The attempt.
    pub session: AttemptId,
    /// What is new.
    pub kind: AttemptUpdateKind,
}

/// What is new of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptUpdateKind {
    /// It has spent this much so far.
    Spent(Spend),
    /// It waits for a person with this, or does no longer.
    Awaits(Option<Box<Request>>),
}

/// The longest message that stands in a reason.
const LONGEST_REASON: usize = 2000;

impl AttemptRunner<'_> {
    /// Tells the scheduler something new.
    pub(super) fn send_update(&self, what: AttemptUpdateKind) {
        let start = self.start();
        let _ = self.attempt.updates.send(AttemptUpdate {
            issue: start.issue.id.clone(),
            session: start.attempt_id,
            kind: what,
        });
    }

    /// Where the stage asks for it, or there are outputs that are to be approved, waits until a person has accepted what was
    /// done.
    ///
    /// # Errors
    /// When the person did not, or the attempt must stop; [`Cut::Detached`] where the daemon ends: the next one waits on.
    pub(super) async fn accept_result(&mut self, outputs: Vec<String>) -> Result<(), Abort> {
        let policy = self.start().stage.approve.clone().unwrap_or_default();
        if !policy.after && outputs.is_empty() {
            return Ok(());
        }
        let id = format!("{}.after", self.id);
        let known = self.journal().answer_to(&id).cloned();
        let answered = match known {
            Some(answered) => answered,
            None => {
                let request = self.ask_after(id, &policy, outputs).await?;
                self.attempt.live.set(|facts| {
                    facts.phase = LivePhase::Awaiting;
                    facts.activity = None;
                });
                self.send_update(AttemptUpdateKind::Awaits(Some(Box::new(request.clone()))));
                let answered = self.wait_for_answer(&request).await?;
                self.note_for_good(Step::Answered {
                    answered: answered.clone(),
                })
                .await?;
                crash::point("answered");
                self.log_note(&answer_text(&answered));
                answered
            }
        };
        self.send_update(AttemptUpdateKind::Awaits(None));
        judge(&answered)
    }

    async fn ask_after(
        &mut self,
        id: String,
        policy: &ApprovePolicy,
        outputs: Vec<String>,
    ) -> Result<Request, AttemptFailure> {
        let known = self.journal().asked(&id).cloned();
        if let Some(request) = known {
            return Ok(request);
        }
        let request = Request {
            outputs,
            ..Request::new(id, Gate::After, policy, Timestamp::now())
        };
        self.note_for_good(Step::Asked {
            request: Box::new(request.clone()),
        })
        .await?;
        crash::point("asked");
        self.log_note("a person has to accept what was done");
        Ok(request)
    }

    async fn wait_for_answer(&self, request: &Request) -> Result<Answered, Abort> {
        let orders = self.attempt.commands.clone();
        let left = SignedDuration::try_from(request.until - Timestamp::now()).ok();
        let left = left
            .and_then(|left| Duration::try_from(left).ok())
            .unwrap_or_default();
        tokio::select! {
            biased;
            answered = orders.answered(&request.id) => Ok(answered),
            halt = orders.halted() => Err(match halt {
                // Nothing runs: what is done is not thrown away.
                StopCause::All => Abort::Detached,
                StopCause::Own(_) => Abort::Failed(halt.trouble()),
            }),
            () = orders.detached() => Err(Abort::Detached),
            () = sleep(left) => Ok(Answered {
                request: request.id.clone(),
                answer: Answer::at_the_limit(request.on_timeout),
                by: TIME_LIMIT.to_owned(),
            }),
        }
    }

    /// Writes a line of Vik's own into the session log.
    fn log_note(&mut self, text: &str) {
        let Some(log) = &mut self.log else { return };
        let written = log
            .push(Timestamp::now(), &Event::note(text.to_owned()))
            .and_then(|_| log.flush());
        if let Err(error) = written {
            self.note_disk_error(&error);
            let error = report::chain(&error);
            tracing::warn!(session = self.id, error, "a line is not in the session log");
        }
    }
}

/// What a person says to the agent, for a prompt whose template does not speak of it itself; "" where nobody said anything.
pub(super) fn human_message(start: &Start, template: &str) -> String {
    let previous = start.previous.as_ref();
    let asked_for = previous
        .filter(|report| report.failure_class == Some(FailureClass::Verify))
        .and_then(|report| report.feedback.as_deref());
    let said = [
        (
            "approval",
            "the person who let this start says",
            start.message.as_deref(),
        ),
        ("attempt", "what was wrong with the attempt before", asked_for),
    ];
    let mut out = String::new();
    for (name, heading, text) in said {
        if let Some(text) = text.filter(|_| !template::uses(template, name)) {
            let _ = write!(out, "\n\n---\nVik: {heading}\n\n{text}\n");
        }
    }
    out
}

fn answer_text(answered: &Answered) -> String {
    let (by, answer) = (&answered.by, &answered.answer);
    let what = match answer {
        Answer::Approve { .. } => "approved the result",
        Answer::Deny { .. } => "denied the result",
        Answer::Instruct { .. } => "asked for changes",
    };
    match answer.message() {
        Some(message) => format!("{by} {what}: {}", report::one_line(message, LONGEST_REASON)),
        None => format!("{by} {what}"),
    }
}

fn judge(answered: &Answered) -> Result<(), Abort> {
    match &answered.answer {
        Answer::Approve { .. } => Ok(()),
        Answer::Deny { .. } => {
            Err(AttemptFailure::failed(FailureClass::Denied, answer_text(answered)).into())
        }
        Answer::Instruct { message } => Err(AttemptFailure {
            feedback: Some(message.clone()),
            ..AttemptFailure::failed(FailureClass::Verify, answer_text(answered))
        }
        .into()),
    }
}
