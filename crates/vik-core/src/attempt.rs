//! An attempt: what starts it, why it is stopped, and how it ended.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, RunId};
use crate::intent::Intent;
use crate::issue::Issue;
use crate::limits::{Limit, LimitHit, Spend};
use crate::message::Message;
use crate::money::MicroUsd;
use crate::outcome::{CostSource, FailureClass, Outcome, Usage};
use crate::question::{AnsweredQuestion, Question};
use crate::worker::{WorkerLoss, WorkerName};
use crate::workflow::{Stage, TrustPolicy};

/// Why an attempt is stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The issue left the state of the stage (`on_state_change: cancel`).
    StateChanged,
    /// The issue is in a terminal state, and the grace period is over.
    Terminal,
    /// The tracker no longer has the issue.
    #[serde(rename = "gone")]
    Missing,
    /// A person cancelled it.
    Cancelled,
    /// A person took the issue over.
    TakenOver,
    /// A limit was crossed: the outcome is `over_budget`.
    OverBudget(LimitHit),
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StateChanged => f.write_str("the issue left the state of the stage"),
            Self::Terminal => f.write_str("the issue is in a terminal state"),
            Self::Missing => f.write_str("the tracker no longer has the issue"),
            Self::Cancelled => f.write_str("cancelled by a person"),
            Self::TakenOver => f.write_str("a person took the issue over"),
            Self::OverBudget(limit) => write!(f, "limit reached: {limit}"),
        }
    }
}

/// The conversation that an attempt resumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The attempt that held the conversation.
    #[serde(rename = "session")]
    pub attempt_id: AttemptId,
    /// The provider's id of the conversation, as the agent reported it: untrusted text that is
    /// checked before use.
    pub provider_session_id: String,
    /// The usage of the conversation in all earlier attempts.
    pub total: Usage,
    /// The cost of the conversation in all earlier attempts, as far as the agent reported it.
    #[serde(default)]
    pub cost: MicroUsd,
    /// The worker that has the conversation; `None` for this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerName>,
}

/// Everything that is needed to start an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The snapshot of the issue at the start.
    pub issue: Issue,
    /// The stage; an attempt keeps the definition it started with.
    pub stage: Stage,
    pub run: RunId,
    /// The id of the attempt, also the name of its session log.
    #[serde(rename = "session")]
    pub attempt_id: AttemptId,
    /// The worker that carries it out; `None` for this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerName>,
    /// The number of the attempt within its run, from 1.
    pub attempt: u32,
    /// A number that is larger than that of each earlier attempt of the issue, so that what an
    /// earlier one writes elsewhere can be refused. 0 if an earlier version of Vik started it.
    #[serde(default, skip_serializing_if = "is_unnumbered")]
    pub fencing_number: u64,
    /// The number of its turn within the conversation, from 1; 0 in a stage without `turns`. All
    /// turns of a conversation together use up one attempt.
    #[serde(default, skip_serializing_if = "is_no_turn")]
    pub turn: u32,
    /// The result of the previous attempt.
    pub previous: Option<AttemptResult>,
    /// The conversation to resume.
    #[serde(default)]
    pub resume: Option<Resume>,
    /// The largest amount that may be spent by the limits of attempt, issue and day together, for
    /// agents that enforce a limit themselves.
    #[serde(default)]
    pub budget: Limit,
    /// The intent as resolved at the start.
    #[serde(default)]
    pub intent: Intent,
    /// Whether the prompt fences the text of the issue.
    #[serde(default)]
    pub fenced: bool,
    /// The message for the agent from the person who approved the start.
    #[serde(default)]
    pub message: Option<String>,
    /// The messages of people that no earlier attempt has taken, oldest first. The prompt contains
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// The answers to questions of earlier attempts of the run, oldest first: those that no agent
    /// has read, and in a new conversation all others too. The prompt contains them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<AnsweredQuestion>,
    /// What a person did who had taken the issue over, if no agent has read it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed_back: Option<Box<HandedBack>>,
    /// What is new of the comments and checks of the issue.
    #[serde(default, skip_serializing_if = "NewActivity::is_default")]
    pub activity: NewActivity,
}

/// The comments and checks of an issue that are new to the conversation of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewActivity {
    /// Whether an agent of the stage has read a prompt before, so that this is what has been said
    /// since, and the stage has rounds.
    pub is_follow_up: bool,
    /// The positions of the comments in [`Activity::comments`](crate::issue::Activity::comments) of
    /// the snapshot.
    pub comments: Vec<usize>,
    /// The positions of the checks in [`Activity::checks`](crate::issue::Activity::checks).
    pub checks: Vec<usize>,
    /// Whose comments are trusted; `None` if there are no rules.
    pub trust: Option<TrustPolicy>,
}

impl NewActivity {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Start {
    /// Returns whether a previous turn of the conversation came to its end, so that its prompt asks
    /// the agent to continue.
    pub fn continues_turns(&self) -> bool {
        let previous = self.previous.as_ref();
        self.turn > 1 && self.resume.is_some() && previous.is_some_and(AttemptResult::ended_turn)
    }

    /// Returns whether the attempt resumes the conversation of an earlier run of its stage, so that
    /// its prompt is that of the stage (`resume: issue`).
    pub fn follows_up(&self) -> bool {
        self.resume.is_some() && self.previous.is_none()
    }

    /// Returns the conversation of the attempt, as far as another one can resume it.
    pub fn conversation(&self, report: &AttemptResult) -> Option<Resume> {
        // A conversation that is too long for the model stays so.
        if report.resume_failed || report.failure_class == Some(FailureClass::Context) {
            return None;
        }
        let earlier = self.resume.as_ref();
        let Some(id) = report.provider_session_id.as_ref() else {
            // The attempt ended before it reported an id: the conversation it was to resume is still
            // valid.
            return earlier.cloned();
        };
        let (before, cost_before) = earlier
            .filter(|earlier| earlier.provider_session_id == *id)
            .map(|earlier| (earlier.total, earlier.cost))
            .unwrap_or_default();
        let cost = report
            .spend
            .filter(|_| report.cost_source == CostSource::Reported)
            .map(|spend| spend.usd)
            .unwrap_or_default();
        Some(Resume {
            attempt_id: self.attempt_id,
            provider_session_id: id.clone(),
            total: before.plus(report.usage),
            cost: cost_before.plus(cost),
            worker: self.worker.clone(),
        })
    }
}

/// What a person did who had taken an issue over, for the next attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedBack {
    /// Who handed the issue back.
    pub by: String,
    pub at: Timestamp,
    /// The paths of the files that changed meanwhile, at most [`HandedBack::MAX_FILES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The number of changed files that `files` does not contain.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_files: usize,
    /// The person's message to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl HandedBack {
    /// The maximum number of paths.
    pub const MAX_FILES: usize = 100;
}

fn is_unnumbered(number: &u64) -> bool {
    *number == 0
}

fn is_no_turn(turn: &u32) -> bool {
    *turn == 0
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// How `before_run` failed. The agent was not started, and another attempt may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BeforeRunFailure {
    /// It failed, which uses up an attempt.
    Failed,
    /// It asked to be tried again after this time at the earliest, which uses up no attempt.
    TryLater { wait: Duration },
}

/// Why the work of an attempt was not handed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOverFailure {
    /// The step that failed: `after_run`, or an output such as `outputs.comment`.
    pub step: String,
    /// The reason as a sentence.
    pub reason: String,
    /// The shortest wait for which the command of the step asked.
    #[serde(default)]
    pub wait: Duration,
    /// Whether repeating the step without a person could carry it out twice.
    #[serde(default)]
    pub needs_person: bool,
}

impl fmt::Display for HandOverFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptResult {
    pub outcome: Outcome,
    pub failure_class: Option<FailureClass>,
    /// The reason as a sentence.
    pub reason: Option<String>,
    /// The feedback for the next attempt: the end of the output of `verify`.
    pub feedback: Option<String>,
    /// Whether a commit or file changed; `None` if that is unknown.
    pub changed: Option<bool>,
    /// Whether the agent's program was started.
    #[serde(default)]
    pub ran: bool,
    /// Whether the model answered in this attempt; `None` if that is unknown.
    #[serde(default)]
    pub answered: Option<bool>,
    /// The spending as reported by the agent; `None` if it reported nothing.
    #[serde(default)]
    pub spend: Option<Spend>,
    /// Where the money figure of `spend` comes from.
    #[serde(default)]
    pub cost_source: CostSource,
    /// The tokens by kind, as reported by the agent.
    #[serde(default)]
    pub usage: Usage,
    /// When the provider's quota window resets, where that was reported.
    #[serde(default)]
    pub resets_at: Option<Timestamp>,
    #[serde(default)]
    pub provider_session_id: Option<String>,
    /// Whether resuming the conversation failed, so that the next attempt starts a new one.
    #[serde(default)]
    pub resume_failed: bool,
    /// Whether creating the workspace failed (`after_create`), which is retried in a clean folder.
    #[serde(default)]
    pub preparing: bool,
    /// How `before_run` failed, if that ended the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_run: Option<BeforeRunFailure>,
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// How the end of the process tree was proven (`cgroup`, `subreaper`, `census`, …).
    #[serde(default)]
    pub proof: Option<String>,
    /// Why an output or `after_run` failed, if one did. The outcome does not depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_over_failure: Option<Box<HandOverFailure>>,
    /// The question of an attempt that ended as `asked`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Box<Question>>,
    /// The number of its last turn within the conversation; 0 in a stage without `turns`.
    #[serde(default, skip_serializing_if = "is_no_turn")]
    pub turn: u32,
    /// Why its worker did not finish it, if that is why it was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_loss: Option<WorkerLoss>,
    /// Where its session log is, if a worker carried it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Box<LogReference>>,
}

/// A session log on a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogReference {
    pub worker: WorkerName,
    /// The file, as it was when the attempt ended; `None` if the worker did not report the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<LogFile>,
}

/// The file of a session log on its worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFile {
    pub path: PathBuf,
    /// The size in bytes.
    pub bytes: u64,
    /// The SHA-256 digest of the content, in hexadecimal.
    pub sha256: String,
}

impl AttemptResult {
    /// Returns whether the model answered. If that is unknown, an agent that ran counts as
    /// answered.
    pub fn has_answered(&self) -> bool {
        self.answered.unwrap_or(self.ran)
    }

    /// Returns whether the agent has read its prompt: its model answered, or it came to its end
    /// without a model that Vik knows of.
    pub fn has_read_prompt(&self) -> bool {
        self.ran && (self.has_answered() || self.ended_turn() || self.has_asked())
    }

    /// Returns whether the agent came to the end of its turn: it succeeded, or only `verify`
    /// failed.
    pub fn ended_turn(&self) -> bool {
        self.outcome == Outcome::Succeeded
            || (self.outcome == Outcome::Failed && self.failure_class == Some(FailureClass::Verify))
    }

    /// Returns whether the attempt failed because of Vik itself. Such an attempt uses up no attempt
    /// of its run or its issue.
    pub fn is_internal(&self) -> bool {
        self.failure_class == Some(FailureClass::Internal)
    }

    /// Returns the shortest wait for which `before_run` asked. Such an attempt uses up no attempt of
    /// its run or its issue.
    pub fn requested_wait(&self) -> Option<Duration> {
        match self.before_run? {
            BeforeRunFailure::TryLater { wait } => Some(wait),
            BeforeRunFailure::Failed => None,
        }
    }

    /// Returns whether the attempt was lost because of its worker. Such an attempt uses up no attempt
    /// of its run or its issue.
    pub fn has_lost_worker(&self) -> bool {
        self.outcome == Outcome::Lost && self.worker_loss.is_some()
    }

    /// Returns whether the agent asked a question. Such an attempt uses up no attempt of its run or
    /// its issue.
    pub fn has_asked(&self) -> bool {
        self.outcome == Outcome::Asked
    }

    /// Creates the result of an attempt that its worker did not finish.
    pub fn lost_with(worker: &WorkerName, loss: WorkerLoss) -> Self {
        Self {
            reason: Some(loss.reason(worker)),
            worker_loss: Some(loss),
            ..Self::new(Outcome::Lost)
        }
    }

    /// Creates a result with nothing but an outcome.
    pub fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            failure_class: None,
            reason: None,
            feedback: None,
            changed: None,
            ran: false,
            answered: None,
            spend: None,
            cost_source: CostSource::None,
            usage: Usage::default(),
            resets_at: None,
            provider_session_id: None,
            resume_failed: false,
            preparing: false,
            before_run: None,
            exit_code: None,
            proof: None,
            hand_over_failure: None,
            question: None,
            turn: 0,
            worker_loss: None,
            log: None,
        }
    }

    /// Returns the charge for an ended attempt, and the source of the figure. `reported` is what the
    /// agent reported, at least what it reported while it ran.
    ///
    /// Reported figures count. An attempt that failed or was interrupted after its model had answered,
    /// and that reported no tokens or no cost, is charged the profile's estimate for the missing
    /// figure. Failures of the login, the command line, a hook or the prompt are never estimated.
    pub fn charge(&self, reported: Option<Spend>, estimate: Spend) -> (Spend, CostSource) {
        let reported = reported.unwrap_or_default();
        let source = self.cost_source;
        let is_free = matches!(
            self.failure_class,
            Some(FailureClass::Auth | FailureClass::Usage | FailureClass::Hook)
        );
        let is_complete = matches!(self.outcome, Outcome::Succeeded | Outcome::Asked);
        if is_complete || is_free || !self.has_answered() {
            return (reported, source);
        }
        let mut charged = reported;
        if reported.tokens == 0 {
            charged.tokens = estimate.tokens;
        }
        if source == CostSource::None && reported.usd == MicroUsd::default() {
            charged.usd = estimate.usd;
        }
        let source = if charged == reported {
            source
        } else {
            CostSource::Estimate
        };
        (charged, source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_before_run_is_stored_and_older_results_load() {
        let result = |before_run| AttemptResult {
            before_run,
            ..AttemptResult::new(Outcome::Failed)
        };
        let wait = Duration::from_secs(30);
        for (before_run, stored) in [
            (None, None),
            (Some(BeforeRunFailure::Failed), Some("\"failed\"")),
            (
                Some(BeforeRunFailure::TryLater { wait }),
                Some(r#"{"try_later":{"wait":{"secs":30,"nanos":0}}}"#),
            ),
        ] {
            let text = serde_json::to_string(&result(before_run)).unwrap();
            match stored {
                Some(stored) => assert!(text.contains(&format!("\"before_run\":{stored}")), "{text}"),
                None => assert!(!text.contains("before_run"), "{text}"),
            }
            let loaded: AttemptResult = serde_json::from_str(&text).unwrap();
            assert_eq!(loaded, result(before_run));
        }
    }
}
