//! What a person asks for.

use super::{About, Answer, Ask, By, Effect, Scheduler, StopWhy};
use crate::ids::IssueId;
use crate::machine::{Observed, ParkReason, Phase, Run};
use crate::plural;
use crate::time::Now;

impl Scheduler {
    pub(super) fn asked(&mut self, number: u64, ask: Ask, by: &By, now: Now) {
        let answer = match ask {
            Ask::Pause(issue) => self.pause(issue.as_ref(), true, by, now),
            Ask::Continue(issue) => self.pause(issue.as_ref(), false, by, now),
            Ask::Cancel(issue) => self.cancel(&issue, by, now),
            Ask::Unpark(issue, attempts) => self.unpark(&issue, attempts, by, now),
            Ask::Answer(reply) => self.answer(reply, by, now),
            Ask::Drain => {
                self.draining = true;
                let detail = format!("{by} asked to start nothing more");
                self.decide(now, "drain", About::default(), detail);
                Answer::Done(self.spending.running().count())
            }
        };
        self.effects.push(Effect::Answer(number, answer));
    }

    fn pause(&mut self, issue: Option<&IssueId>, paused: bool, by: &By, now: Now) -> Answer {
        let (kind, detail, same) = if paused {
            ("pause", format!("{by} paused it"), "it is paused already")
        } else {
            ("continue", format!("{by} lets it go on"), "it is not paused")
        };
        let did = match issue {
            None => std::mem::replace(&mut self.paused, paused) != paused,
            Some(id) => match self.machines.get_mut(id) {
                None => return Answer::UnknownIssue,
                Some(machine) => machine.pause(paused),
            },
        };
        if !did {
            return Answer::Nothing(same);
        }
        match issue {
            None => self.changes.paused = Some(paused),
            Some(id) => drop(self.changed.insert(id.clone())),
        }
        let about = About {
            issue,
            ..About::default()
        };
        self.decide(now, kind, about, detail);
        Answer::Done(1)
    }

    /// Stops what runs for an issue, and parks what would start.
    fn cancel(&mut self, issue: &IssueId, by: &By, now: Now) -> Answer {
        if !self.machines.contains_key(issue) {
            return Answer::UnknownIssue;
        }
        self.shows.do_not_start(issue);
        let attempt_ids = self.active_attempts(issue);
        for attempt_id in &attempt_ids {
            self.stop(issue, *attempt_id, StopWhy::Cancelled, now);
        }
        let stages = self.workflow.issue.stages.clone();
        let mut notes = Vec::new();
        if let Some(machine) = self.machines.get_mut(issue) {
            let runs = machine.runs().iter();
            let mut waiting: Vec<_> = runs
                .filter(|run| run.active().is_none() && run.parked_for().is_none())
                .map(|run| run.stage.clone())
                .collect();
            let is_due = machine.is_present() && !self.workflow.is_terminal(&machine.issue().state);
            for stage in stages {
                if is_due && stage.when_state == *machine.issue().state && machine.run(&stage.name).is_none()
                {
                    waiting.push(stage.name);
                }
            }
            for stage in waiting {
                let state = self.workflow.stage(&stage).map(|stage| stage.when_state.clone());
                let state = state.unwrap_or_else(|| machine.issue().state.to_string());
                let run = self.ids.run(now);
                notes.push(machine.park((&stage, &state), run, ParkReason::Cancelled, None, now));
            }
        }
        let count = attempt_ids.len() + notes.len();
        let changed = count > 0;
        if !changed {
            return Answer::Nothing("nothing runs or waits for it");
        }
        let detail = format!("{by} cancelled it");
        self.decide(now, "cancel", About::issue(issue), detail);
        self.record(issue, Observed { notes, changed }, now);
        Answer::Done(count)
    }

    fn unpark(&mut self, issue: &IssueId, attempts: Option<u32>, by: &By, now: Now) -> Answer {
        let Some(machine) = self.machines.get_mut(issue) else {
            return Answer::UnknownIssue;
        };
        let notes = machine.unpark(attempts, &self.workflow, now);
        let count = notes.len();
        if count == 0 {
            let ending = |run: &Run| {
                matches!(
                    run.phase,
                    Phase::Active {
                        stopping: Some(StopWhy::Cancelled),
                        ..
                    }
                )
            };
            return Answer::Nothing(if machine.runs().iter().any(ending) {
                "it is cancelled, and its agent is just being stopped; unpark it when that has ended"
            } else {
                "nothing of it is parked"
            });
        }
        let detail = match attempts {
            Some(attempts) => format!("{by} allowed {} more", plural::count(attempts.into(), "attempt")),
            None => format!("{by} allowed another try"),
        };
        self.decide(now, "unpark", About::issue(issue), detail);
        self.record(issue, Observed { notes, changed: true }, now);
        // The issue may have changed its state meanwhile.
        self.effects.push(Effect::Pull);
        Answer::Done(count)
    }
}
