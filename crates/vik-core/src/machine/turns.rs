//! The turns of a conversation: as attempts, and in the process of an active attempt.

use super::{IssueMachine, LifetimeUsage, Phase, Run, RunEvent};
use crate::attempt::{AttemptResult, Start};
use crate::ids::AttemptId;
use crate::turn::{EndedTurn, GrantedTurn, TurnOfMax};
use crate::workflow::Stage;

impl IssueMachine {
    /// Returns the last turn that was granted to the process of an active attempt; `None` if it is
    /// in its first one.
    pub fn granted_turn(&self, attempt_id: AttemptId) -> Option<GrantedTurn> {
        self.runs.iter().find_map(|run| match &run.phase {
            Phase::Active {
                attempt_id: active,
                granted,
                ..
            } if *active == attempt_id => *granted,
            _ => None,
        })
    }

    /// Returns the number of the turn that an active attempt is in; 0 in a stage without `turns`.
    pub fn turn_number(&self, start: &Start) -> u32 {
        let granted = self.granted_turn(start.attempt_id);
        granted.map_or(start.turn, |granted| granted.turn)
    }

    /// Returns the turn that an active attempt is in; `None` in a stage without `turns`.
    pub fn turn_of_max(&self, start: &Start) -> Option<TurnOfMax> {
        match self.granted_turn(start.attempt_id) {
            Some(granted) => Some(granted.into()),
            None => TurnOfMax::of(start),
        }
    }

    /// Returns whether the settings of a stage let another turn follow this one of an active attempt,
    /// in the state in which the issue is now.
    pub fn may_continue(&self, start: &Start, turn: u32, stage: &Stage) -> bool {
        let is_left = stage.turns.is_some_and(|turns| turn < turns.max);
        turn > 0
            && is_left
            && stage.resume.resumes()
            && stage.agent == start.stage.agent
            && self.present
            && self.issue.is_taken_by(&stage.when)
    }

    /// Returns the usage of the issue's life with the conversation of an active attempt, which counts
    /// with the end of its first turn.
    pub fn life_after_turn(&self, start: &Start) -> LifetimeUsage {
        let is_first = start.turn <= 1 && self.granted_turn(start.attempt_id).is_none();
        LifetimeUsage {
            attempts: self.life.attempts.saturating_add(u32::from(is_first)),
            ..self.life
        }
    }

    /// Grants an active attempt the turn after this one, and counts the one that has ended. `None`
    /// if the attempt is not active, or is not in that turn.
    pub fn grant_turn(
        &mut self,
        attempt_id: AttemptId,
        ended: EndedTurn,
        stage: &Stage,
    ) -> Option<(GrantedTurn, RunEvent)> {
        let start = self.active(attempt_id)?.0.clone();
        if self.turn_number(&start) != ended.turn {
            return None;
        }
        let turns = stage.turns?;
        self.life = self.life_after_turn(&start);
        self.lost_in_a_row = 0;
        self.workers_lost_in_a_row = 0;
        self.internal_in_a_row.remove(&start.stage.name);
        let run = self.runs.iter_mut().find(|run| run.id == start.run)?;
        run.turns = ended.turn;
        run.later_in_a_row = 0;
        run.asked_in_a_row = 0;
        let next = GrantedTurn {
            turn: ended.turn + 1,
            max: turns.max,
            is_verified: ended.is_verified,
        };
        if let Phase::Active { granted, .. } = &mut run.phase {
            *granted = Some(next);
        }
        let event = RunEvent::Continues {
            run: run.id,
            stage: run.stage.clone(),
            turn: next.turn,
            max: next.max,
            is_verified: next.is_verified,
        };
        Some((next, event))
    }
}

impl Run {
    /// Returns whether the conversation of the last attempt continues with another turn as long as
    /// the issue is in the state of the stage.
    pub fn continues(&self, stage: &Stage) -> bool {
        let is_left = stage
            .turns
            .is_some_and(|turns| (1..turns.max).contains(&self.turns));
        let finished = self.finished.as_ref();
        is_left
            && stage.resume.resumes()
            && finished.is_some_and(|(agent, _)| *agent == stage.agent)
            && self.last.as_ref().is_some_and(AttemptResult::ended_turn)
    }

    /// Returns the number of the next attempt's turn. `resumes` is whether it resumes a
    /// conversation.
    pub(super) fn next_turn(&self, stage: &Stage, resumes: bool) -> u32 {
        match stage.turns {
            None => 0,
            // A turn is counted even if the agent cannot resume, so that their number is bounded.
            Some(turns) if resumes || self.continues(stage) => (self.turns + 1).min(turns.max),
            Some(_) => 1,
        }
    }

    /// Returns the number of the turn that its active attempt, started like this, is in.
    pub(super) fn granted_turn(&self, start: &Start) -> u32 {
        match &self.phase {
            Phase::Active {
                granted: Some(granted),
                ..
            } => granted.turn,
            _ => start.turn,
        }
    }
}
