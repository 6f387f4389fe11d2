//! An issue that a person has taken over, and what the next attempt gets to know of it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::IssueMachine;
use crate::attempt::{HandedBack, Start};
use crate::ids::{AttemptId, StageName};
use crate::time::Now;

/// The hold of a person on an issue: nothing of it starts, and its workspace stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenOver {
    /// The id of the person's session, under which the trace has its changes.
    pub session: AttemptId,
    /// Who took the issue over.
    pub by: String,
    pub since: Timestamp,
    /// The stage that was running, or that the person named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageName>,
}

impl IssueMachine {
    /// Returns the hold of the person who has taken the issue over.
    pub fn taken_over(&self) -> Option<&TakenOver> {
        self.taken_over.as_ref()
    }

    /// Holds the issue for a person. `hold.stage` is kept, or becomes the stage that runs.
    pub fn take_over(&mut self, mut hold: TakenOver) {
        let mut running = self.runs.iter().filter(|run| run.is_busy());
        let stage = hold
            .stage
            .take()
            .or_else(|| running.next().map(|run| run.stage.clone()));
        let latest = || {
            let ended = self.runs.iter().filter(|run| run.last_attempt.is_some());
            let latest = ended.max_by_key(|run| run.last_attempt)?;
            Some(latest.stage.clone())
        };
        hold.stage = stage.or_else(latest);
        self.taken_over = Some(hold);
    }

    /// Selects the stage whose conversation the person continues. Returns whether it was another one.
    pub fn select_taken_over(&mut self, stage: Option<&StageName>) -> bool {
        match (&mut self.taken_over, stage) {
            (Some(hold), Some(stage)) if hold.stage.as_ref() != Some(stage) => {
                hold.stage = Some(stage.clone());
                true
            }
            _ => false,
        }
    }

    /// Ends the hold of a person. The next attempt gets `note`. Returns false if there is no hold.
    pub fn hand_back(&mut self, note: HandedBack, now: Now) -> bool {
        let Some(hold) = self.taken_over.take() else {
            return false;
        };
        self.delay_default_answers(hold.since, now);
        self.handed_back = Some(Box::new(note));
        true
    }

    /// Returns whether an agent of the issue works, or its work is being handed over: processes of
    /// Vik use the workspace.
    pub fn is_busy(&self) -> bool {
        self.is_active() || self.has_hand_over_running()
    }

    /// Drops the note of the person for an attempt whose agent has read it.
    pub(super) fn on_note_read(&mut self, start: &Start) {
        if start.handed_back.is_some() {
            self.handed_back = None;
        }
    }
}
