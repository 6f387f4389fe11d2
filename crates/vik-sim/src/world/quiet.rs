//! The quiet end of a seed: without further disturbance, everything that can run must end.

use vik_core::scheduler::{Command, Input, Quiescence};
use vik_core::workflow::RemoveWorkspace;

use super::daemon::Daemon;
use super::outside::hand_back;
use super::{Held, World};
use crate::oracle::{Broken, ensure};
use crate::trace::Event;

/// More rounds than any quiet world needs.
const MOST_ROUNDS: u32 = 3_000;

/// Longer than any wait before a lookup is repeated.
const LATE_MS: u64 = 2 * 3_600_000;

/// More steps than anything under way needs.
const MOST_STEPS: u32 = 20_000;

impl World {
    /// Runs the world until nothing is left to do, and checks its state.
    ///
    /// # Errors
    /// Returns the broken invariant.
    pub fn quiet(&mut self) -> Held {
        self.plan.lies = 0;
        self.plan.pulls_fail = 0;
        self.plan.weights[super::DEATHS] = 0;
        // A world whose issues move in circles becomes quiet only when their lifetime limits are
        // reached.
        self.plan.temper.moves = self.plan.temper.moves.min(30);
        if self.daemon.is_none() {
            self.boot()?;
        }
        self.workers_become_quiet()?;
        self.busy = false;
        self.send(Input::Pressure(None))?;
        if self.rng.percent(70) {
            self.asks(Command::Resume(None), "continue all", 0)?;
            for issue in 0..self.tracker.len() {
                let id = self.tracker.id(issue).clone();
                self.asks(Command::Resume(Some(id)), "continue", issue)?;
            }
        }
        let hands_back = self.rng.percent(70);
        let mut is_late = false;
        for round in 0..MOST_ROUNDS {
            self.settle()?;
            if self.is_drained() {
                self.dies()?;
                self.boot()?;
                continue;
            }
            self.start_pull()?;
            self.pull_ends()?;
            self.settle()?;
            self.tick()?;
            self.settle()?;
            if hands_back && round == 1 {
                // By now the agents have ended that were stopped for a person.
                for issue in 0..self.tracker.len() {
                    let id = self.tracker.id(issue).clone();
                    self.asks(hand_back(id), "hand back", issue)?;
                }
                self.settle()?;
            }
            let now = self.clock.now();
            let Some(scheduler) = self.daemon.as_ref().map(Daemon::scheduler) else {
                continue;
            };
            // The first pull may have started before.
            if round < 2
                || matches!(
                    scheduler.quiescence(now),
                    Quiescence::Running | Quiescence::NeedsPull
                )
            {
                continue;
            }
            let ms = match scheduler.next_wakeup(now) {
                Some(wait) => wait.as_millis() as u64 + 1,
                None if is_late => return self.rests(),
                // Absent issues are looked up again after a while.
                None => LATE_MS,
            };
            is_late |= ms == LATE_MS;
            self.clock.pass(ms);
            self.trace.note(Event::Time { ms });
            self.tick()?;
        }
        Err(Broken::new(
            "a quiet world becomes idle",
            format!("still active after {MOST_ROUNDS} rounds"),
        ))
    }

    /// Performs steps until nothing is pending.
    fn settle(&mut self) -> Held {
        for _ in 0..MOST_STEPS {
            if !self.advance()? {
                return Ok(());
            }
            self.trace.step();
            self.check()?;
        }
        Err(Broken::new(
            "a quiet world becomes idle",
            format!("work is still pending after {MOST_STEPS} steps"),
        ))
    }

    /// Performs one pending step.
    fn advance(&mut self) -> Result<bool, Broken> {
        if self.act()? || self.commit()? {
            return Ok(true);
        }
        let Some(daemon) = &mut self.daemon else {
            return Ok(false);
        };
        if let Some(id) = daemon.lookups.pop() {
            let issue = crate::oracle::number(&id);
            let item = self.tracker.item(issue).cloned();
            return self.finish_lookup(id, issue, Some(item), "truth");
        }
        if self.removal_is_answered()? || self.agent_works()? || self.hand_over_ends()? {
            return Ok(true);
        }
        let tasks: Vec<_> = self
            .daemon
            .iter()
            .flat_map(|daemon| daemon.tasks.keys().copied())
            .collect();
        for attempt_id in tasks {
            if self.attempt_step(attempt_id)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks that everything which waits has a reason, and that nothing is left over.
    fn rests(&mut self) -> Held {
        let Some(daemon) = &self.daemon else {
            return Ok(());
        };
        let left =
            daemon.hand_overs.len() + daemon.tasks.len() + self.host.trees.len() + self.disk.claims.len();
        if left > 0 {
            return Err(Broken::new(
                "a quiet world becomes idle",
                format!(
                    "{} attempts, {} trees, {} claims are left",
                    daemon.tasks.len(),
                    self.host.trees.len(),
                    self.disk.claims.len()
                ),
            ));
        }
        self.oracle.is_settled(&self.disk)?;
        if self.policy.issue.remove_workspace == RemoveWorkspace::Always && self.policy.show.is_some() {
            for issue in &self.host.workspaces {
                let item = self.tracker.item(*issue);
                let is_done = item.is_none_or(|item| self.policy.is_terminal(item.state));
                ensure(
                    !is_done || self.oracle.may_live(*issue) || self.oracle.is_taken_over(*issue),
                    "the workspace of a finished issue is removed",
                    || format!("issue {issue} is finished, but its workspace exists"),
                )?;
            }
        }
        let now = self.clock.now();
        for issue in 0..self.tracker.len() {
            if let Some(item) = self.tracker.item(issue) {
                self.oracle.rests(item, daemon.scheduler(), &self.policy, now)?;
            }
        }
        Ok(())
    }
}
