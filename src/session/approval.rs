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
use vik_store::{Step, Trouble};

use super::attempt::{Cut, Work};
use super::live::LivePhase;
use super::orders::Halt;
use crate::crash;
use crate::report;
use crate::template;

/// What an attempt tells the scheduler while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// The issue it is for.
    pub issue: IssueId,
    /// The attempt.
    pub session: AttemptId,
    /// What is new.
    pub what: What,
}

/// What is new of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It has spent this much so far.
    Spent(Spend),
    /// It waits for a person with this, or does no longer.
    Awaits(Option<Box<Request>>),
}

/// The longest message that stands in a reason.
const LONGEST_REASON: usize = 2000;

impl Work<'_> {
    /// Tells the scheduler something new.
    pub(super) fn tell(&self, what: What) {
        let start = self.start();
        let _ = self.attempt.news.send(News {
            issue: start.issue.id.clone(),
            session: start.attempt_id,
            what,
        });
    }

    /// Where the stage asks for it, or there are outputs that are to be approved, waits until a person has accepted what was
    /// done.
    ///
    /// # Errors
    /// When the person did not, or the attempt must stop; [`Cut::Detached`] where the daemon ends: the next one waits on.
    pub(super) async fn accept_result(&mut self, outputs: Vec<String>) -> Result<(), Cut> {
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
                self.tell(What::Awaits(Some(Box::new(request.clone()))));
                let answered = self.wait_for_answer(&request).await?;
                self.note_for_good(Step::Answered {
                    answered: answered.clone(),
                })
                .await?;
                crash::point("answered");
                self.say(&said(&answered));
                answered
            }
        };
        self.tell(What::Awaits(None));
        judge(&answered)
    }

    async fn ask_after(
        &mut self,
        id: String,
        policy: &ApprovePolicy,
        outputs: Vec<String>,
    ) -> Result<Request, Trouble> {
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
        self.say("a person has to accept what was done");
        Ok(request)
    }

    async fn wait_for_answer(&self, request: &Request) -> Result<Answered, Cut> {
        let orders = self.attempt.orders.clone();
        let left = SignedDuration::try_from(request.until - Timestamp::now()).ok();
        let left = left
            .and_then(|left| Duration::try_from(left).ok())
            .unwrap_or_default();
        tokio::select! {
            biased;
            answered = orders.answered(&request.id) => Ok(answered),
            halt = orders.halted() => Err(match halt {
                // Nothing runs: what is done is not thrown away.
                Halt::All => Cut::Detached,
                Halt::Own(_) => Cut::Trouble(halt.trouble()),
            }),
            () = orders.detached() => Err(Cut::Detached),
            () = sleep(left) => Ok(Answered {
                request: request.id.clone(),
                answer: Answer::at_the_limit(request.on_timeout),
                by: TIME_LIMIT.to_owned(),
            }),
        }
    }

    /// Writes a line of Vik's own into the session log.
    fn say(&mut self, text: &str) {
        let Some(log) = &mut self.log else { return };
        let written = log
            .push(Timestamp::now(), &Event::note(text.to_owned()))
            .and_then(|_| log.flush());
        if let Err(error) = written {
            self.see_disk(&error);
            let error = report::chain(&error);
            tracing::warn!(session = self.id, error, "a line is not in the session log");
        }
    }
}

/// What a person says to the agent, for a prompt whose template does not speak of it itself; "" where nobody said anything.
pub(super) fn words_of_a_person(start: &Start, template: &str) -> String {
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

fn said(answered: &Answered) -> String {
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

fn judge(answered: &Answered) -> Result<(), Cut> {
    match &answered.answer {
        Answer::Approve { .. } => Ok(()),
        Answer::Deny { .. } => Err(Trouble::failed(FailureClass::Denied, said(answered)).into()),
        Answer::Instruct { message } => Err(Trouble {
            feedback: Some(message.clone()),
            ..Trouble::failed(FailureClass::Verify, said(answered))
        }
        .into()),
    }
}
