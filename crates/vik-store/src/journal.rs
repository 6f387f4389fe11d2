//! The journal of one attempt: each step is recorded before it is taken, so that the next daemon
//! can resume the attempt.

mod turn;

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_core::approval::{Gate, Request};
use vik_core::attempt::{AttemptResult, BeforeRunFailure};
use vik_core::ended::Ended;
use vik_core::machine::Answered;
use vik_core::message::Message;
use vik_core::outcome::{FailureClass, Outcome};

pub use self::turn::{CheckedTurn, NotedInput, NotedTurn};
use crate::StoreError;
use crate::appended::AppendOnlyFile;

/// The reason why an attempt did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptFailure {
    pub outcome: Outcome,
    /// The failure class, if the attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// The reason as text for people.
    pub reason: String,
    /// Feedback for the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// How `before_run` failed, if that is the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_run: Option<BeforeRunFailure>,
    /// The shortest wait for which the failed script asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_wait: Option<Duration>,
}

/// The end of the reason of a failure of Vik itself.
const BUG_HINT: &str = "; this is a bug in Vik, please report it";

impl AttemptFailure {
    /// Creates a failure of Vik itself, and asks to report it.
    pub fn bug(reason: impl Into<String>) -> Self {
        Self::failed(FailureClass::Internal, reason.into() + BUG_HINT)
    }

    /// Returns the reason without the request to report a bug.
    pub fn plain_reason(&self) -> &str {
        self.reason.strip_suffix(BUG_HINT).unwrap_or(&self.reason)
    }

    /// Creates a failure of the given class.
    pub fn failed(class: FailureClass, reason: impl Into<String>) -> Self {
        Self {
            class: Some(class),
            ..Self::of(Outcome::Failed, reason)
        }
    }

    /// Creates a failure with an outcome and no class.
    pub fn of(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            class: None,
            reason: reason.into(),
            feedback: None,
            before_run: None,
            requested_wait: None,
        }
    }
}

/// A process as the journal records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRecord {
    pub pid: i32,
    /// The start time in the units of the operating system.
    pub start_time: u64,
}

/// One step of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// The attempt was started for the first time.
    #[serde(rename = "begun")]
    AttemptStarted {
        /// The boot id of the machine.
        boot_id: String,
    },
    /// The issue workspace exists and is complete.
    WorkspaceReady,
    /// A command that cannot be undone is about to run: a hook, `verify`, or the commands of the
    /// prompt.
    Started {
        script: String,
    },
    Finished {
        script: String,
        /// The failure, if the command failed.
        trouble: Option<AttemptFailure>,
    },
    /// The shim runs and is about to receive the command to start. From here on the agent may have
    /// run.
    Shim {
        shim: ProcessRecord,
        /// The fingerprint of the workspace before the agent ran.
        before: Option<u64>,
    },
    AgentStarted {
        agent: ProcessRecord,
    },
    /// The agent is about to be stopped.
    Stopping {
        /// The reason for the stop, which determines the outcome of the attempt.
        trouble: AttemptFailure,
    },
    /// The attempt is about to wait for a person.
    Asked {
        request: Box<Request>,
    },
    /// A person, or the time limit, has answered. Recorded before the answer takes effect.
    Answered {
        #[serde(flatten)]
        answered: Answered,
    },
    /// A message of a person is about to be sent to the agent.
    Message {
        message: Box<Message>,
        /// The lines for the input of the agent.
        lines: Vec<String>,
    },
    /// A turn of the agent, which waits for input, has ended, and its result is checked.
    TurnChecked(Box<CheckedTurn>),
    /// The prompt of another turn is about to be sent to the agent.
    Turn(Box<NotedTurn>),
    /// The attempt is over except for `after_run`. See [`Step::over`].
    Over {
        /// The last line of its log.
        ended: Box<Ended>,
        /// The whole result, for the scheduler.
        report: Box<AttemptResult>,
    },
    /// A step of a later version.
    #[serde(other)]
    Unknown,
}

impl Step {
    /// Creates the step that records the end of an attempt.
    pub fn over(ended: &Ended) -> Self {
        Self::Over {
            report: Box::new(ended.result.clone()),
            ended: Box::new(ended.clone()),
        }
    }
}

/// The progress of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptProgress<'a> {
    NotStarted,
    /// The command was started and its end is unknown, so it runs again.
    Started,
    /// The command ended, with this failure if there is one.
    Ended(Option<&'a AttemptFailure>),
}

/// The point at which an attempt resumes.
#[derive(Clone, Debug, PartialEq)]
pub enum ResumePoint {
    /// The steps before the agent; commands that ended do not run again.
    Prepare,
    /// The agent was started: it still runs, or it has ended in the meantime.
    Attach {
        /// The boot id of the machine at the start of the attempt.
        boot_id: String,
        shim: ProcessRecord,
        /// The agent, if it is known.
        agent: Option<ProcessRecord>,
        /// The fingerprint of the workspace before the agent ran.
        before: Option<u64>,
        /// The reason for the stop, if the agent is being stopped.
        stopping: Option<AttemptFailure>,
    },
    /// The machine was rebooted before an agent was started, so no process of the attempt runs.
    Rebooted,
    /// The attempt is over; it remains to end its log and to run `after_run`.
    Over { ended: Box<Ended> },
}

#[derive(Serialize, Deserialize)]
struct Line<S> {
    at: Timestamp,
    #[serde(flatten)]
    step: S,
}

/// Returns the steps of an attempt so far. It changes nothing, so the attempt may be under way. A
/// missing journal has no steps.
pub fn steps(journal: &Path) -> Vec<Step> {
    timed_steps(journal).into_iter().map(|(_, step)| step).collect()
}

/// Returns the [steps] of an attempt with their times.
pub fn timed_steps(journal: &Path) -> Vec<(Timestamp, Step)> {
    let text = std::fs::read(journal).unwrap_or_default();
    let (lines, _) = crate::lines_of(&text);
    lines
        .filter_map(|line| serde_json::from_slice::<Line<Step>>(line).ok())
        .map(|line| (line.at, line.step))
        .collect()
}

/// Returns the commands of an attempt that were started more than once because a daemon died
/// between the start of one and the record of its end. It changes nothing, so the attempt may be
/// under way. A missing journal has no commands.
pub fn commands_run_twice(journal: &Path) -> Vec<String> {
    let mut running: Vec<String> = Vec::new();
    let mut repeated: Vec<String> = Vec::new();
    for step in steps(journal) {
        match step {
            Step::Started { script } if !running.contains(&script) => running.push(script),
            Step::Started { script } if !repeated.contains(&script) => repeated.push(script),
            Step::Finished { script, .. } => running.retain(|other| *other != script),
            _ => {}
        }
    }
    repeated
}

/// Returns why a script of an attempt failed the last time it ran, according to the journal. It
/// changes nothing, so the script may be running.
pub fn script_failure(journal: &Path, script: &str) -> Option<AttemptFailure> {
    match ran(&steps(journal), script) {
        ScriptProgress::Ended(failure) => failure.cloned(),
        ScriptProgress::NotStarted | ScriptProgress::Started => None,
    }
}

/// Returns whether the result of an attempt waits for a person, according to the journal. If it
/// does, nothing of it is lost while no daemon runs.
pub fn is_awaiting_result_approval(journal: &Path) -> bool {
    steps(journal)
        .iter()
        .rev()
        .find_map(|step| match step {
            Step::Asked { request } => Some(request.gate == Gate::After),
            Step::Answered { .. } => Some(false),
            _ => None,
        })
        .unwrap_or(false)
}

/// The journal of one attempt, append-only.
///
/// # Examples
///
/// ```
/// use vik_store::{Journal, ResumePoint, ScriptProgress, Step};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("plan.steps.jsonl");
/// let script = "before_run".to_owned();
/// Journal::open(&path)?.record(Step::Started { script })?;
///
/// // The next daemon finds the step, and not its end.
/// let journal = Journal::open(&path)?;
/// assert_eq!(journal.script_progress("before_run"), ScriptProgress::Started);
/// assert_eq!(journal.plan("the id of this boot"), ResumePoint::Prepare);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Journal {
    file: AppendOnlyFile,
    steps: Vec<Step>,
    /// The time at which each step was recorded.
    times: Vec<Timestamp>,
}

impl Journal {
    /// Opens or creates the journal (0600). A torn last line is cut off: its step was not started.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written, or if a complete line is not a step.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (file, lines) = AppendOnlyFile::open::<Line<Step>>(path)?;
        Ok(Self {
            file,
            times: lines.iter().map(|line| line.at).collect(),
            steps: lines.into_iter().map(|line| line.step).collect(),
        })
    }

    /// Returns the steps so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the steps so far, each with the time at which it was recorded.
    pub fn timed_steps(&self) -> impl Iterator<Item = (Timestamp, &Step)> {
        self.times.iter().copied().zip(&self.steps)
    }

    /// Records a step, which survives the death of this process.
    ///
    /// # Errors
    /// Returns an error if the step cannot be written; then it must not be taken.
    pub fn record(&mut self, step: Step) -> Result<(), StoreError> {
        let line = Line {
            at: Timestamp::now(),
            step,
        };
        self.file.append(&line)?;
        self.steps.push(line.step);
        self.times.push(line.at);
        Ok(())
    }

    /// Records a step like [`record`](Self::record), and waits until it survives the death of the
    /// machine.
    ///
    /// # Errors
    /// Returns an error if the step cannot be written; then it must not be taken.
    pub fn record_durably(&mut self, step: Step) -> Result<(), StoreError> {
        self.record(step)?;
        self.file.sync()
    }

    /// Returns the progress of a command.
    pub fn script_progress(&self, script: &str) -> ScriptProgress<'_> {
        ran(&self.steps, script)
    }

    /// Returns the request with this id, if it was recorded.
    pub fn request(&self, id: &str) -> Option<&Request> {
        self.steps.iter().find_map(|step| match step {
            Step::Asked { request } if request.id == id => Some(&**request),
            _ => None,
        })
    }

    /// Returns the first answer to the request with this id.
    pub fn answer_to(&self, id: &str) -> Option<&Answered> {
        self.steps.iter().find_map(|step| match step {
            Step::Answered { answered } if answered.request == id => Some(answered),
            _ => None,
        })
    }

    /// Returns what was sent to the agent beyond its prompt, or was about to be, in order.
    pub fn inputs(&self) -> impl Iterator<Item = NotedInput<'_>> {
        self.steps.iter().filter_map(|step| match step {
            Step::Message { message, lines } => Some(NotedInput::Message(message, lines)),
            Step::Turn(turn) => Some(NotedInput::Turn(turn)),
            _ => None,
        })
    }

    /// Returns the messages that were sent, or were about to be.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.inputs().filter_map(|input| match input {
            NotedInput::Message(message, _) => Some(message),
            NotedInput::Turn(_) => None,
        })
    }

    /// Returns the last turn whose prompt was sent to the agent, or was about to be, and when.
    pub fn last_turn(&self) -> Option<(Timestamp, &NotedTurn)> {
        let mut latest = self.times.iter().zip(&self.steps).rev();
        latest.find_map(|(at, step)| match step {
            Step::Turn(turn) => Some((*at, &**turn)),
            _ => None,
        })
    }

    /// Returns the check of the turn that has ended; `None` if the agent got input after the last
    /// one.
    pub fn checked_turn(&self) -> Option<&CheckedTurn> {
        let mut latest = self.steps.iter().rev();
        let last =
            latest.find(|step| matches!(step, Step::Message { .. } | Step::Turn(_) | Step::TurnChecked(_)));
        match last? {
            Step::TurnChecked(checked) => Some(checked),
            _ => None,
        }
    }

    /// Returns the point at which the attempt resumes on a machine with this boot id.
    pub fn plan(&self, boot_id: &str) -> ResumePoint {
        plan(&self.steps, boot_id)
    }

    /// Returns whether the issue workspace existed and was complete.
    pub fn had_workspace(&self) -> bool {
        self.steps.contains(&Step::WorkspaceReady)
    }
}

fn ran<'a>(steps: &'a [Step], wanted: &str) -> ScriptProgress<'a> {
    let last = steps.iter().rev().find_map(|step| match step {
        Step::Started { script } if script == wanted => Some(ScriptProgress::Started),
        Step::Finished { script, trouble } if script == wanted => {
            Some(ScriptProgress::Ended(trouble.as_ref()))
        }
        _ => None,
    });
    last.unwrap_or(ScriptProgress::NotStarted)
}

fn plan(steps: &[Step], boot: &str) -> ResumePoint {
    let mut start_boot = boot;
    let mut shim = None;
    let mut agent = None;
    let mut stopping: Option<&AttemptFailure> = None;
    for step in steps {
        match step {
            Step::AttemptStarted { boot_id } => start_boot = boot_id,
            Step::Shim { shim: id, before } => shim = Some((*id, *before)),
            Step::AgentStarted { agent: id } => agent = Some(*id),
            // The first reason applies.
            Step::Stopping { trouble } => stopping = stopping.or(Some(trouble)),
            Step::Over { ended, report } => {
                return ResumePoint::Over {
                    ended: Box::new(Ended {
                        result: (**report).clone(),
                        ..(**ended).clone()
                    }),
                };
            }
            Step::WorkspaceReady
            | Step::Started { .. }
            | Step::Finished { .. }
            | Step::Asked { .. }
            | Step::Answered { .. }
            | Step::Message { .. }
            | Step::TurnChecked(_)
            | Step::Turn(_)
            | Step::Unknown => {}
        }
    }
    match shim {
        Some((shim, before)) => ResumePoint::Attach {
            boot_id: start_boot.to_owned(),
            shim,
            agent,
            before,
            stopping: stopping.cloned(),
        },
        None if start_boot == boot => ResumePoint::Prepare,
        None => ResumePoint::Rebooted,
    }
}

#[cfg(test)]
mod tests;
