//! Checks durability: effects follow their commits, and committed state is never lost.

use vik_core::attempt::Start;
use vik_core::ids::AttemptId;
use vik_core::scheduler::{Command, CommandResult, Effect, Scheduler};

use super::books::Books;
use super::{Broken, Held, Oracle, ensure, number};
use crate::disk::Disk;
use crate::host::Host;

impl Oracle {
    /// Checks an effect that is carried out.
    pub(crate) fn acts(&mut self, effect: &Effect, disk: &Disk) -> Held {
        const DURABLE: &str = "3: effects are carried out only after their changes are durable";
        match effect {
            Effect::Start(start) => {
                let claimed = disk.claims.contains_key(&start.attempt_id);
                let machine = disk.machines.get(&start.issue.id);
                let has = machine.is_some_and(|machine| machine.active(start.attempt_id).is_some());
                ensure(claimed && has, DURABLE, || {
                    format!("the start of {}", start.attempt_id)
                })
            }
            Effect::HandOver(start) => {
                let machine = disk.machines.get(&start.issue.id);
                let run = machine.and_then(|machine| machine.run(&start.stage.name));
                let has = run.is_some_and(|run| run.has_hand_over_running());
                ensure(has, DURABLE, || format!("the hand-over of {}", start.attempt_id))?;
                self.starts_try(start)
            }
            Effect::Stop { attempt_id, .. } => {
                let facts = self.facts.get(attempt_id);
                if facts.is_some_and(|facts| facts.report.is_none()) {
                    self.stopped_in_time.insert(*attempt_id);
                }
                Ok(())
            }
            Effect::CommandResult(number, answer) => {
                let Some(ask) = self.asks.remove(number) else {
                    return Err(Broken::new(
                        "each command is answered once",
                        format!("answer {number}"),
                    ));
                };
                self.message_answered(&ask, answer);
                if *number != self.last_pause_ask || matches!(answer, CommandResult::UnknownIssue) {
                    return Ok(());
                }
                let paused = |issue| {
                    let machine = disk.machines.get(issue);
                    machine.is_some_and(vik_core::machine::IssueMachine::is_paused)
                };
                let durable = match &ask {
                    Command::Pause(None) => disk.paused,
                    Command::Resume(None) => !disk.paused,
                    Command::Pause(Some(issue)) => paused(issue),
                    Command::Resume(Some(issue)) => !paused(issue),
                    _ => true,
                };
                ensure(durable, DURABLE, || format!("the answer to {ask:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that every decision is on disk, and every command answered, once all is committed and
    /// carried out.
    pub(crate) fn is_settled(&self, disk: &Disk) -> Held {
        ensure(self.asks.is_empty(), "each command is answered once", || {
            format!("{:?}", self.asks)
        })?;
        self.books.same_as(&Books::read(disk, &self.policy, &self.books)?)
    }

    /// Handles the death of the daemon: uncommitted knowledge is lost.
    pub(crate) fn crashed(&mut self, disk: &Disk) -> Held {
        self.books = Books::read(disk, &self.policy, &self.books)?;
        self.messages.crashed(disk);
        self.questions.crashed(disk);
        for known in &mut self.known {
            known.item = None;
            known.looked_up_at = None;
            known.missing = false;
            known.absent = false;
        }
        self.parked_runs = self.books.parked.values().map(|parked| parked.run).collect();
        self.pulled.fill(None);
        // An answer that was not committed was not given.
        let runs = disk.machines.iter().flat_map(|(issue, machine)| {
            let of = number(issue);
            machine.runs().iter().map(move |run| (of, run))
        });
        let approved = runs.filter_map(|(issue, run)| {
            let text = run.approved.as_ref()?.text;
            Some(((issue, run.stage.clone()), format!("{}.{text}", run.id)))
        });
        self.approved = approved.collect();
        self.ended.clear();
        self.due.clear();
        self.stopped.clear();
        self.stopped_in_time.clear();
        self.lookups.clear();
        self.asks.clear();
        self.busy = false;
        self.max_sessions = None;
        self.workers = None;
        self.draining = false;
        // A run whose start was never committed does not exist.
        let runs = &self.books.runs;
        for (run, may_change) in self.last_run.values_mut() {
            *may_change |= !runs.contains_key(run);
        }
        let over = &self.books.over;
        self.last_of_run.retain(|_, attempt_id| over.contains(attempt_id));
        let durable =
            |attempt_id: &AttemptId| over.contains(attempt_id) || disk.claims.contains_key(attempt_id);
        self.facts.retain(|attempt_id, _| durable(attempt_id));
        self.turns_crashed(disk);
        Ok(())
    }

    /// Checks that a new daemon repeats the stops that an earlier one decided.
    pub(crate) fn repeats_stops(&self) -> Held {
        let mut stopping = self.books.active.iter();
        let forgotten = stopping
            .find(|(attempt_id, active)| active.stopped.is_some() && !self.stopped.contains(attempt_id));
        ensure(
            forgotten.is_none(),
            "4: a restart repeats the stops of before",
            || format!("{forgotten:?}"),
        )
    }

    /// Checks that a new daemon recovers exactly these attempts.
    pub(crate) fn booted(
        &mut self,
        disk: &Disk,
        host: &Host,
        starts: &[Start],
        scheduler: &Scheduler,
    ) -> Held {
        const KNOWN: &str = "4: after a restart each running agent is known exactly once";
        for (attempt_id, tree) in host.trees.iter().filter(|(_, tree)| !tree.given_up) {
            let known = starts
                .iter()
                .filter(|start| start.attempt_id == *attempt_id)
                .count();
            ensure(known == 1, KNOWN, || {
                format!("{attempt_id} of issue {} is recovered {known} times", tree.issue)
            })?;
        }
        ensure(starts.len() == disk.claims.len(), KNOWN, || {
            format!(
                "{} claims, {} recovered attempts",
                disk.claims.len(),
                starts.len()
            )
        })?;
        for start in starts {
            let attempt_id = start.attempt_id;
            ensure(disk.claims.contains_key(&attempt_id), KNOWN, || {
                format!("{attempt_id} has no claim")
            })?;
            let same = self
                .facts
                .get(&attempt_id)
                .is_some_and(|facts| facts.start == *start);
            ensure(same, "4: an attempt is recovered as it was started", || {
                format!("{start:?}")
            })?;
            let machine = scheduler.machine(&start.issue.id);
            ensure(
                machine.is_some_and(|machine| machine.active(attempt_id).is_some()),
                "1: a claim exists while its process tree is running",
                || format!("{attempt_id} is recovered without a claim"),
            )?;
        }
        Ok(())
    }
}
