//! The journal of one attempt: each step is noted before it is taken, so that the next daemon knows where to go on.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_core::approval::{Gate, Request};
use vik_core::event::Ended;
use vik_core::machine::{Answered, AttemptResult};
use vik_core::outcome::{FailureClass, Outcome};

use crate::StoreError;
use crate::appended::Appended;

/// Why an attempt did not come to a good end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptFailure {
    /// The outcome it leads to.
    pub outcome: Outcome,
    /// Why, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// In a person's words.
    pub reason: String,
    /// What the next attempt should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

impl AttemptFailure {
    /// A failure of this class.
    pub fn failed(class: FailureClass, reason: impl Into<String>) -> Self {
        Self {
            class: Some(class),
            ..Self::of(Outcome::Failed, reason)
        }
    }

    /// An outcome without a class.
    pub fn of(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            class: None,
            reason: reason.into(),
            feedback: None,
        }
    }
}

/// A process as the journal names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessNote {
    /// Its pid.
    pub pid: i32,
    /// When it was started, as the system counts.
    pub start_time: u64,
}

/// One step of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// It was taken up for the first time.
    Begun {
        /// The boot of the machine.
        boot_id: String,
    },
    /// There is an issue workspace, and it is whole.
    WorkspaceReady,
    /// A command that cannot be taken back is about to run: a hook, `verify`, or the commands of the prompt.
    Started {
        /// Which.
        script: String,
    },
    /// It ended.
    Finished {
        /// Which.
        script: String,
        /// Why it failed, where it did.
        trouble: Option<AttemptFailure>,
    },
    /// The shim lives and is about to be told what to start. From here on the agent may have run.
    Shim {
        /// The shim.
        shim: ProcessNote,
        /// What the workspace looked like before.
        before: Option<u64>,
    },
    /// The agent runs.
    AgentStarted {
        /// The agent.
        agent: ProcessNote,
    },
    /// The agent is about to be stopped, and why.
    Stopping {
        /// How the attempt will have ended.
        trouble: AttemptFailure,
    },
    /// It is about to wait for a person.
    Asked {
        /// What is asked.
        request: Box<Request>,
    },
    /// The person, or the time limit, has answered; noted before anything comes of it.
    Answered {
        /// The answer.
        #[serde(flatten)]
        answered: Answered,
    },
    /// The attempt is over but for `after_run`: this is what its log and the scheduler are told.
    Over {
        /// The last line of its log.
        ended: Box<Ended>,
        /// For the scheduler.
        report: Box<AttemptResult>,
    },
    /// A step that a later version knows.
    #[serde(other)]
    Unknown,
}

/// How far a command has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran<'a> {
    /// It was not begun.
    Not,
    /// It was begun; its end is not known, so it is run again.
    Begun,
    /// It ended: well, or with this trouble.
    Ended(Option<&'a AttemptFailure>),
}

/// Where an attempt goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// With what comes before the agent; commands that ended are not run again.
    Prepare,
    /// Its agent was started: it lives still, or it has ended meanwhile.
    TakeUp {
        /// The boot of the machine in which that was.
        boot_id: String,
        /// The shim.
        shim: ProcessNote,
        /// The agent, where it is known.
        agent: Option<ProcessNote>,
        /// What the workspace looked like before.
        before: Option<u64>,
        /// Why it is being stopped, where it is.
        stopping: Option<AttemptFailure>,
    },
    /// The machine was started anew before there was an agent: nothing of it lives.
    Rebooted,
    /// It is over; what is left is to end its log and to run `after_run`.
    Over {
        /// The last line of its log.
        ended: Box<Ended>,
        /// For the scheduler.
        report: Box<AttemptResult>,
    },
}

#[derive(Serialize, Deserialize)]
struct Line<S> {
    at: Timestamp,
    #[serde(flatten)]
    step: S,
}

/// The steps of an attempt so far. Changes nothing, also where the attempt is under way; no journal has none.
pub fn steps(journal: &Path) -> Vec<Step> {
    let text = std::fs::read(journal).unwrap_or_default();
    let (lines, _) = crate::lines_of(&text);
    lines
        .filter_map(|line| Some(serde_json::from_slice::<Line<Step>>(line).ok()?.step))
        .collect()
}

/// The commands of an attempt that were begun more than once, since a death fell between the start of one and the record
/// of its end. Changes nothing, also where the attempt is under way; no journal has none.
pub fn begun_again(journal: &Path) -> Vec<String> {
    let begun: Vec<String> = steps(journal)
        .into_iter()
        .filter_map(|step| match step {
            Step::Started { script } => Some(script),
            _ => None,
        })
        .collect();
    let mut again: Vec<String> = Vec::new();
    for (at, script) in begun.iter().enumerate() {
        if begun[..at].contains(script) && !again.contains(script) {
            again.push(script.clone());
        }
    }
    again
}

/// Whether the result of an attempt waits for a person, by what was noted: then nothing of it is lost when no daemon runs.
pub fn result_waits(journal: &Path) -> bool {
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
#[derive(Debug)]
pub struct Journal {
    file: Appended,
    steps: Vec<Step>,
    /// When each of them was noted.
    times: Vec<Timestamp>,
}

impl Journal {
    /// Opens the journal, or makes it (0600). A torn last line is cut: what it told of was not begun.
    ///
    /// # Errors
    /// When it cannot be read or written, or a whole line of it is no step.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (file, lines) = Appended::open::<Line<Step>>(path)?;
        Ok(Self {
            file,
            times: lines.iter().map(|line| line.at).collect(),
            steps: lines.into_iter().map(|line| line.step).collect(),
        })
    }

    /// The steps so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The steps so far, each with when it was noted.
    pub fn timed_steps(&self) -> impl Iterator<Item = (Timestamp, &Step)> {
        self.times.iter().copied().zip(&self.steps)
    }

    /// Notes a step; it stays when this process dies.
    ///
    /// # Errors
    /// When it cannot be written: then the step must not be taken.
    pub fn note(&mut self, step: Step) -> Result<(), StoreError> {
        let line = Line {
            at: Timestamp::now(),
            step,
        };
        self.file.append(&line)?;
        self.steps.push(line.step);
        self.times.push(line.at);
        Ok(())
    }

    /// [`note`](Self::note), and waits until it stays when the machine dies.
    ///
    /// # Errors
    /// When it cannot be written: then the step must not be taken.
    pub fn note_for_good(&mut self, step: Step) -> Result<(), StoreError> {
        self.note(step)?;
        self.file.sync()
    }

    /// How far a command has come.
    pub fn ran(&self, script: &str) -> Ran<'_> {
        ran(&self.steps, script)
    }

    /// The request of this id, where it was asked.
    pub fn asked(&self, id: &str) -> Option<&Request> {
        self.steps.iter().find_map(|step| match step {
            Step::Asked { request } if request.id == id => Some(&**request),
            _ => None,
        })
    }

    /// The first answer to the request of this id.
    pub fn answer_to(&self, id: &str) -> Option<&Answered> {
        self.steps.iter().find_map(|step| match step {
            Step::Answered { answered } if answered.request == id => Some(answered),
            _ => None,
        })
    }

    /// Where the attempt goes on, on a machine of this boot.
    pub fn plan(&self, boot_id: &str) -> Plan {
        plan(&self.steps, boot_id)
    }

    /// Whether its issue workspace was there and whole.
    pub fn had_workspace(&self) -> bool {
        self.steps.contains(&Step::WorkspaceReady)
    }
}

fn ran<'a>(steps: &'a [Step], wanted: &str) -> Ran<'a> {
    let last = steps.iter().rev().find_map(|step| match step {
        Step::Started { script } if script == wanted => Some(Ran::Begun),
        Step::Finished { script, trouble } if script == wanted => Some(Ran::Ended(trouble.as_ref())),
        _ => None,
    });
    last.unwrap_or(Ran::Not)
}

fn plan(steps: &[Step], boot: &str) -> Plan {
    let mut begun = boot;
    let mut shim = None;
    let mut agent = None;
    let mut stopping: Option<&AttemptFailure> = None;
    for step in steps {
        match step {
            Step::Begun { boot_id } => begun = boot_id,
            Step::Shim { shim: id, before } => shim = Some((*id, *before)),
            Step::AgentStarted { agent: id } => agent = Some(*id),
            // The first reason stands.
            Step::Stopping { trouble } => stopping = stopping.or(Some(trouble)),
            Step::Over { ended, report } => {
                return Plan::Over {
                    ended: ended.clone(),
                    report: report.clone(),
                };
            }
            Step::WorkspaceReady
            | Step::Started { .. }
            | Step::Finished { .. }
            | Step::Asked { .. }
            | Step::Answered { .. }
            | Step::Unknown => {}
        }
    }
    match shim {
        Some((shim, before)) => Plan::TakeUp {
            boot_id: begun.to_owned(),
            shim,
            agent,
            before,
            stopping: stopping.cloned(),
        },
        None if begun == boot => Plan::Prepare,
        None => Plan::Rebooted,
    }
}

#[cfg(test)]
mod tests;
