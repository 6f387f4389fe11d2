//! The approval of an attempt's result by a person.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;
use vik_base::{failpoint, report};
use vik_core::approval::{Answer, Gate, Request, TIME_LIMIT};
use vik_core::attempt::{HandedBack, Start};
use vik_core::machine::Answered;
use vik_core::outcome::FailureClass;
use vik_core::visible::visible;
use vik_core::workflow::ApprovePolicy;
use vik_store::{AttemptFailure, Step};

use super::acceptance::{Acceptance, Unaccepted};
use super::commands::StopCause;
use super::live::{LivePhase, Waiting, WaitsFor};

/// The maximum length of a message in a reason.
const LONGEST_REASON: usize = 2000;

impl Acceptance<'_> {
    /// Waits until a person has accepted the result, if the stage requires it or outputs need
    /// approval.
    ///
    /// # Errors
    /// When the person did not accept, or the attempt must stop; [`Unaccepted::Detached`] if the daemon
    /// exits: the next one continues to wait.
    pub(super) async fn accept_result(&mut self, outputs: Vec<String>) -> Result<(), Unaccepted> {
        let policy = self.cx().start().stage.approve.clone().unwrap_or_default();
        if !policy.after && outputs.is_empty() {
            return Ok(());
        }
        let id = format!("{}.after", self.cx().id);
        let known = self.cx().journal().answer_to(&id).cloned();
        let answered = match known {
            Some(answered) => answered,
            None => {
                let request = self.ask_after(id, &policy, outputs).await?;
                self.cx().attempt.updates.set_facts(|facts| {
                    facts.phase = LivePhase::Awaiting;
                    facts.activity = None;
                    facts.waits_for = Some(WaitsFor::since(Timestamp::now(), Waiting::Person, None));
                });
                self.cx().attempt.updates.awaits(Some(Box::new(request.clone())));
                let answered = self.wait_for_answer(&request).await?;
                self.cx()
                    .note_for_good(Step::Answered {
                        answered: answered.clone(),
                    })
                    .await?;
                failpoint::reach("answered");
                self.cx().log_note(self.log, &answer_text(&answered));
                answered
            }
        };
        self.cx()
            .attempt
            .updates
            .set_facts(|facts| facts.waits_for = None);
        self.cx().attempt.updates.awaits(None);
        judge(&answered)
    }

    async fn ask_after(
        &mut self,
        id: String,
        policy: &ApprovePolicy,
        outputs: Vec<String>,
    ) -> Result<Request, AttemptFailure> {
        let known = self.cx().journal().request(&id).cloned();
        if let Some(request) = known {
            return Ok(request);
        }
        let request = Request {
            outputs,
            ..Request::new(id, Gate::After, policy, Timestamp::now())
        };
        self.cx()
            .note_for_good(Step::Asked {
                request: Box::new(request.clone()),
            })
            .await?;
        failpoint::reach("asked");
        self.cx().log_note(self.log, "a person must approve the result");
        Ok(request)
    }

    async fn wait_for_answer(&self, request: &Request) -> Result<Answered, Unaccepted> {
        let commands = self.cx().attempt.commands.clone();
        let remaining = SignedDuration::try_from(request.until - Timestamp::now()).ok();
        let remaining = remaining
            .and_then(|remaining| Duration::try_from(remaining).ok())
            .unwrap_or_default();
        tokio::select! {
            biased;
            answered = commands.answered(&request.id) => Ok(answered),
            cause = commands.stopped() => Err(match cause {
                // No process runs, and the finished work is not discarded.
                StopCause::All => Unaccepted::Detached,
                StopCause::Own(_) | StopCause::LeaseLost => Unaccepted::Failed(cause.failure()),
            }),
            () = commands.detached() => Err(Unaccepted::Detached),
            () = sleep(remaining) => Ok(Answered {
                request: request.id.clone(),
                answer: Answer::at_the_limit(request.on_timeout),
                by: TIME_LIMIT.to_owned(),
            }),
        }
    }
}

/// Returns a person's messages to the agent, for a prompt whose template does not use them itself;
/// "" if there are none.
pub(super) fn human_message(start: &Start, template: &str) -> String {
    let previous = start.previous.as_ref();
    let asked_for = previous
        .filter(|report| report.failure_class == Some(FailureClass::Verify))
        .and_then(|report| report.feedback.as_deref());
    let sections = [
        (
            "approval",
            "the person who let this start says",
            start.message.as_deref(),
        ),
        ("attempt", "what was wrong with the attempt before", asked_for),
    ];
    let mut out = String::new();
    if let Some(note) = &start.handed_back {
        out.push_str(&handed_back(note));
    }
    for (name, heading, text) in sections {
        if let Some(text) = text.filter(|_| !vik_template::uses(template, name)) {
            let _ = write!(out, "\n\n---\nVik: {heading}\n\n{text}\n");
        }
    }
    out
}

/// Returns what an agent must know of a person who had taken the issue over.
fn handed_back(note: &HandedBack) -> String {
    let mut out = format!(
        "\n\n---\nVik: {} had taken this issue over and worked in this folder. It is handed back since \
         {:.0}; do not undo that work.\n",
        note.by, note.at
    );
    if note.files.is_empty() {
        out.push_str("No file was changed meanwhile.\n");
    } else {
        out.push_str("Files that were changed meanwhile:\n");
        for file in &note.files {
            // Whoever made the file chose its name.
            let _ = writeln!(out, "- {}", visible(&file.replace(['\n', '\r'], " ")));
        }
        if note.more_files > 0 {
            let _ = writeln!(out, "- and {} more", note.more_files);
        }
    }
    if let Some(message) = &note.message {
        let _ = write!(out, "\nTheir message to you:\n\n{message}\n");
    }
    out
}

fn answer_text(answered: &Answered) -> String {
    let (by, answer) = (&answered.by, &answered.answer);
    let action = match answer {
        Answer::Approve { .. } => "approved the result",
        Answer::Deny { .. } => "denied the result",
        Answer::Instruct { .. } => "asked for changes",
    };
    match answer.message() {
        Some(message) => format!("{by} {action}: {}", report::one_line(message, LONGEST_REASON)),
        None => format!("{by} {action}"),
    }
}

fn judge(answered: &Answered) -> Result<(), Unaccepted> {
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
