//! Further turns in the process of an agent whose input stays open.

use vik_core::ids::AttemptId;
use vik_core::scheduler::Input;
use vik_core::turn::{EndedTurn, GrantedTurn};

use super::World;
use super::attempt::Task;
use crate::fault::Fault;
use crate::oracle::Broken;

/// What follows a turn that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TurnDecision {
    Granted(GrantedTurn),
    Refused { turn: u32 },
}

impl World {
    /// Performs the next step of an attempt whose agent has ended a turn, if there is one.
    pub(super) fn turn_step(&mut self, task: &mut Task) -> Result<Option<&'static str>, Broken> {
        let (attempt_id, issue) = (task.start().attempt_id, task.issue().clone());
        let early = self.fault == Some(Fault::TurnEndedEarly) && task.start().turn > 0;
        let is_idle = self
            .host
            .trees
            .get(&attempt_id)
            .is_some_and(|tree| tree.is_idle() || early);
        if !is_idle || task.stop.is_some() {
            return Ok(None);
        }
        let noted = self.host.files.get(&attempt_id).map_or(0, |files| files.turn);
        let turn = noted.max(task.start().turn);
        match task.decision.take() {
            Some(TurnDecision::Granted(granted)) if granted.turn == turn + 1 => {
                task.has_reported_turn = false;
                self.start_turn(attempt_id, granted.turn)?;
                Ok(Some("turn starts"))
            }
            Some(TurnDecision::Refused { turn: of }) if of == turn => {
                if self.fault == Some(Fault::RefusalIgnored) {
                    self.start_turn(attempt_id, turn + 1)?;
                } else if let Some(tree) = self.host.trees.get_mut(&attempt_id) {
                    tree.end_input();
                }
                Ok(Some("input ends"))
            }
            _ if task.has_reported_turn => Ok(None),
            _ => {
                task.has_reported_turn = true;
                let is_verified = self.rng.percent(60);
                self.send(Input::TurnEnded {
                    issue,
                    attempt_id,
                    ended: EndedTurn { turn, is_verified },
                })?;
                Ok(Some("turn ends"))
            }
        }
    }

    /// Handles an agent that has worked: if that ended its turn, the issue may be moved.
    pub(super) fn turn_ends(&mut self, attempt_id: AttemptId) {
        let Some(tree) = self.host.trees.get(&attempt_id).filter(|tree| tree.is_idle()) else {
            return;
        };
        let (issue, moves) = (tree.issue, tree.turn_moves());
        let noted = self.host.files.get(&attempt_id).map_or(0, |files| files.turn);
        self.oracle.turn_ends(attempt_id, noted.max(tree.start.turn));
        if moves {
            self.moves(issue, "moved by a turn of its agent");
        }
    }

    /// Gives an agent the prompt of a turn, once it is in the journal.
    fn start_turn(&mut self, attempt_id: AttemptId, turn: u32) -> Result<(), Broken> {
        self.oracle.turn_starts(attempt_id, turn, &self.disk)?;
        if let Some(files) = self.host.files.get_mut(&attempt_id) {
            files.turn = turn;
        }
        if let Some(tree) = self.host.trees.get_mut(&attempt_id) {
            tree.start_turn(&self.plan.temper, &mut self.rng);
        }
        Ok(())
    }
}
