//! Putting a machine together again from what its attempts left.

use std::time::Duration;

use jiff::Timestamp;

use super::{IssueMachine, LifetimeUsage, Phase, PullNo, Run};
use crate::limits::Spend;
use crate::scheduler::Start;
use crate::time::{Mono, Now};

impl IssueMachine {
    /// An attempt was started with this. What came of it is told by [`ended`](Machine::ended), or found out by the
    /// daemon that takes it up.
    pub fn restore_attempt(&mut self, start: Start, estimate: Spend, since: Timestamp) {
        self.issue = start.issue.clone();
        let at = self.runs.iter().position(|run| run.stage == start.stage.name);
        let existing = at
            .map(|at| self.runs.remove(at))
            .filter(|run| run.id == start.run);
        let nothing_yet = Phase::Settling {
            after: PullNo::default(),
            ended: Now {
                wall: since,
                mono: Mono(Duration::ZERO),
            },
        };
        let mut run = existing.unwrap_or_else(|| Run::new(start.run, start.stage.name.clone(), nothing_yet));
        // What came before it may be lost; its number is not.
        run.attempts = run.attempts.max(start.attempt.saturating_sub(1));
        run.phase = Phase::Active {
            attempt_id: start.attempt_id,
            since,
            start: Box::new(start),
            estimate,
            stopping: None,
            awaiting: None,
            answered: None,
        };
        self.runs.push(run);
    }

    /// What was counted elsewhere stays counted: each counter becomes the larger one.
    pub fn raise_usage(&mut self, life: &LifetimeUsage) {
        let larger = |a: Spend, b: Spend| Spend {
            tokens: a.tokens.max(b.tokens),
            usd: a.usd.max(b.usd),
        };
        self.life = LifetimeUsage {
            attempts: self.life.attempts.max(life.attempts),
            extra_attempts: self.life.extra_attempts.max(life.extra_attempts),
            spend: larger(self.life.spend, life.spend),
            forgiven: larger(self.life.forgiven, life.forgiven),
        };
    }
}
