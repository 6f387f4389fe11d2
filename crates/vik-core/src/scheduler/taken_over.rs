//! Issues that people take over and hand back.

use super::{Actor, CommandResult, Effect, HandBack, Scheduler, TakeOver};
use crate::attempt::{HandedBack, StopReason};
use crate::decision_kind::DecisionKind;
use crate::machine::{IssueMachine, TakenOver};
use crate::plural;
use crate::time::Now;

/// Why a command that lets an issue start has no effect while a person has taken it over.
pub const HELD: &str = "a person has taken the issue over; hand it back first with `vik handback`";

impl Scheduler {
    /// Holds an issue for a person. Repeated for an issue that is held, it only stops the attempts
    /// that the first request let run, and selects the stage whose conversation the person continues.
    pub(super) fn take_over(&mut self, request: TakeOver, by: &Actor, now: Now) -> CommandResult {
        let TakeOver { issue, stage, wait } = request;
        let Some(machine) = self.machines.get(&issue) else {
            return CommandResult::UnknownIssue;
        };
        if let Some(unknown) = self.unknown_stage(machine, stage.as_ref()) {
            return unknown;
        }
        let Some(machine) = self.machines.get_mut(&issue) else {
            return CommandResult::UnknownIssue;
        };
        if self.workspaces.is_removing_of(&issue) {
            return CommandResult::NoEffect("files of the issue are being removed; try again in a moment");
        }
        let is_new = machine.taken_over().is_none();
        let selects = !is_new && machine.select_taken_over(stage.as_ref());
        if selects {
            self.changed.insert(issue.clone());
        }
        if is_new {
            machine.take_over(TakenOver {
                session: self.ids.attempt(now),
                by: by.to_string(),
                since: now.wall,
                stage,
            });
            self.changed.insert(issue.clone());
            self.lookups.cancel_start(&issue);
            // The slot is of no use to the person.
            self.moving_on.remove(&issue);
            let detail = format!("taken over by {by}");
            self.decide(now, DecisionKind::TakeOver, &issue, detail);
        }
        let mut stopped = 0;
        if !wait {
            for attempt_id in self.active_attempts(&issue) {
                stopped += usize::from(self.stop(&issue, attempt_id, StopReason::TakenOver, now));
            }
        }
        match is_new || selects || stopped > 0 {
            true => CommandResult::Done(1),
            false => CommandResult::NoEffect("a person has taken the issue over already"),
        }
    }

    /// Ends the hold of a person on an issue. The next attempt gets to know what the person did.
    pub(super) fn hand_back(&mut self, request: HandBack, by: &Actor, now: Now) -> CommandResult {
        let HandBack {
            issue,
            message,
            mut files,
        } = request;
        let Some(machine) = self.machines.get_mut(&issue) else {
            return CommandResult::UnknownIssue;
        };
        if let Some(why) = not_to_be_handed_back(machine) {
            return CommandResult::NoEffect(why);
        }
        let count = files.len();
        files.truncate(HandedBack::MAX_FILES);
        let note = HandedBack {
            by: by.to_string(),
            at: now.wall,
            more_files: count - files.len(),
            files,
            message,
        };
        machine.hand_back(note, now);
        self.changed.insert(issue.clone());
        let detail = format!(
            "handed back by {by}, with {}",
            plural::count(count, "changed file")
        );
        self.decide(now, DecisionKind::HandBack, &issue, detail);
        // The issue may have been finished meanwhile.
        self.reconcile(&issue, now);
        self.effects.push(Effect::Pull);
        CommandResult::Done(1)
    }
}

/// Returns why a person cannot hand the issue back now.
pub fn not_to_be_handed_back(machine: &IssueMachine) -> Option<&'static str> {
    if machine.taken_over().is_none() {
        return Some("nobody has taken the issue over");
    }
    machine
        .is_busy()
        .then_some("its agent has not ended yet; hand it back afterwards, or cancel it")
}
