//! Rebuilds a machine from the records of its attempts.

use std::time::Duration;

use jiff::Timestamp;

use super::{IssueMachine, LifetimeUsage, Phase, Run};
use crate::attempt::Start;
use crate::limits::Spend;
use crate::time::{Mono, Now};

impl IssueMachine {
    /// Restores an attempt that was started. Its end follows by
    /// [`on_attempt_ended`](IssueMachine::on_attempt_ended), or from the daemon that recovers it.
    pub fn restore_attempt(&mut self, start: Start, estimate: Spend, since: Timestamp) {
        self.issue = start.issue.clone();
        self.worker.clone_from(&start.worker);
        let at = self.runs.iter().position(|run| run.stage == start.stage.name);
        let existing = at
            .map(|at| self.runs.remove(at))
            .filter(|run| run.id == start.run);
        let start_time = Now {
            wall: since,
            mono: Mono(Duration::ZERO),
        };
        let mut run = existing.unwrap_or_else(|| Run::new(start.run, start.stage.name.clone(), start_time));
        // Earlier attempts may be lost, but their number is known.
        run.attempts = run.attempts.max(start.attempt.saturating_sub(1));
        run.turns = start.turn.saturating_sub(1);
        run.hand_over = None;
        run.restore_answers(&start);
        run.phase = Phase::Active {
            attempt_id: start.attempt_id,
            since,
            start: Box::new(start),
            estimate,
            stopping: None,
            granted: None,
            awaiting: None,
            answered: None,
        };
        self.runs.push(run);
    }

    /// Raises each counter to the larger one, so that usage counted elsewhere is kept.
    pub fn raise_usage(&mut self, life: &LifetimeUsage) {
        self.life = LifetimeUsage {
            attempts: self.life.attempts.max(life.attempts),
            extra_attempts: self.life.extra_attempts.max(life.extra_attempts),
            spend: self.life.spend.max(life.spend),
            forgiven: self.life.forgiven.max(life.forgiven),
            estimated: self.life.estimated.max(life.estimated),
            rounds: self.life.rounds.max(life.rounds),
            extra_rounds: self.life.extra_rounds.max(life.extra_rounds),
        };
    }
}
