//! What pulls and lookups mean for the runs of an issue.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    FreedBy, InARow, IssueMachine, LifetimeUsage, Observation, ParkReason, Phase, PullNo, Run, RunEvent,
    follow_up,
};
use crate::ids::StageName;
use crate::issue::{ActivityKey, Issue};
use crate::time::Now;
use crate::workflow::{IssuePolicy, Stage, TrustPolicy, Workflow};

impl IssueMachine {
    /// Applies the snapshot of a pull.
    pub fn observe(&mut self, issue: Issue, pull: PullNo, now: Now, workflow: &Workflow) -> Observation {
        // Of thousands of parked issues most are unchanged, and must cost nothing.
        let is_same = self.issue == issue;
        self.issue = issue;
        self.present = true;
        self.apply_pull(is_same, pull, now, workflow)
    }

    /// Applies a pull that returned the issue. `is_same` is whether the issue is unchanged since
    /// the pull before.
    pub(crate) fn apply_pull(
        &mut self,
        is_same: bool,
        pull: PullNo,
        now: Now,
        workflow: &Workflow,
    ) -> Observation {
        let (runs, mut pass) = self.pass(now, workflow);
        let issue = pass.issue;
        let is_closed = workflow.is_terminal(&issue.state);
        runs.retain_mut(|run| {
            if is_closed && run.is_over_when_closed() {
                pass.events.push(run.closed_event());
                return false;
            }
            let stage = workflow.stage(&run.stage);
            let matching = stage.filter(|stage| issue.is_taken_by(&stage.when));
            // In a state of `follow_up`, work that is done waits for what others say about it.
            let is_done = run.last_succeeded() && run.hand_over.is_none();
            let is_to_wait = |stage: &&Stage| is_done && stage.when.is_follow_up(&issue.state);
            let succeeded = run.last_succeeded();
            match &mut run.phase {
                Phase::Active { .. } | Phase::HandingOver { .. } => true,
                // Somebody else has handed it over, or does not want it any more.
                Phase::Parked {
                    reason: ParkReason::HandOver,
                    ..
                } if matching.is_none() => {
                    pass.events.push(run.ended_event());
                    false
                }
                Phase::Parked {
                    reason,
                    fingerprint,
                    unseen_until,
                    ..
                } => {
                    if let Some(from) = unseen_until {
                        if pull < *from {
                            return true;
                        }
                        *unseen_until = None;
                        pass.changed = true;
                        // Neither the attempt's own changes to the issue nor a return to the state
                        // of the stage is a reason to retry.
                        if let Some(stage) = stage {
                            *fingerprint = issue.fingerprint_in(stage.when.first_state());
                        }
                        if succeeded && matching.is_none() {
                            pass.events.push(run.ended_event());
                            return false;
                        }
                        return true;
                    }
                    // Another state of the same stage is no change.
                    let is_same_in = |state: &str| *fingerprint == issue.fingerprint_in(state);
                    let is_changed = |stage: &Stage| !stage.when.all_states().any(is_same_in);
                    let is_freed =
                        !is_same && reason.is_freed_by_a_change() && matching.is_some_and(is_changed);
                    // Comments that came during the last attempt count, too.
                    let is_answered = reason.is_freed_by_a_comment()
                        && matching.is_some_and(|stage| pass.has_comment(stage));
                    let freed = is_freed || is_answered;
                    if freed {
                        *pass.lost_in_a_row = 0;
                        *pass.workers_lost_in_a_row = 0;
                        pass.events.push(RunEvent::Freed {
                            run: run.id,
                            stage: run.stage.clone(),
                            by: if is_freed {
                                FreedBy::Change
                            } else {
                                FreedBy::Comment
                            },
                        });
                    }
                    !freed
                }
                Phase::Awaiting { text, .. } if matching.is_some() => {
                    if !is_same
                        && *text != issue.text_fingerprint()
                        && let Some(policy) = stage.and_then(|stage| stage.approve.as_ref())
                    {
                        // The text that the person was about to approve has changed.
                        pass.events.push(run.request_approval(issue, policy, now));
                    }
                    true
                }
                Phase::Settling { after, .. } if pull < *after => true,
                Phase::Settling { ended, .. } => {
                    let ended = *ended;
                    pass.settle(run, ended, matching.filter(|stage| !is_to_wait(stage)))
                }
                Phase::BackingOff { .. } | Phase::Asking { .. } if matching.is_some() => true,
                Phase::BackingOff { .. } | Phase::Awaiting { .. } | Phase::Asking { .. } => {
                    pass.events.push(run.ended_event());
                    false
                }
            }
        });
        pass.end()
    }

    /// Applies a pull that did not return the issue. The counters are kept: a tracker may lose
    /// sight of an issue for a while.
    pub fn on_absent(&mut self, pull: PullNo, now: Now, workflow: &Workflow) -> Observation {
        self.present = false;
        let (runs, mut pass) = self.pass(now, workflow);
        runs.retain_mut(|run| match run.phase {
            Phase::Settling { after, ended } if pull >= after => {
                let stage = workflow.stage(&run.stage);
                let is_handed_over = run.last_succeeded() && run.hand_over.is_none();
                let is_there = |stage: &&Stage| pass.issue.is_taken_by(&stage.when) && !is_handed_over;
                pass.settle(run, ended, stage.filter(is_there))
            }
            _ => true,
        });
        pass.end()
    }

    /// Applies the snapshot of a lookup. Only pulls judge ended attempts. The command of the lookup
    /// may print fewer fields: comments and checks that it leaves out are as before.
    pub fn apply_lookup(&mut self, issue: Issue, now: Now, workflow: &Workflow) -> Observation {
        let present = self.present;
        let issue = issue.with_activity_of(&self.issue);
        let observed = self.observe(issue, PullNo::default(), now, workflow);
        self.present = present;
        observed
    }

    /// Handles that the tracker no longer has the issue: its waiting and parked runs end.
    pub fn on_missing(&mut self) -> Observation {
        self.present = false;
        let mut events = Vec::new();
        self.runs.retain(|run| {
            let waits = matches!(
                run.phase,
                Phase::BackingOff { .. } | Phase::Awaiting { .. } | Phase::Asking { .. }
            );
            if waits {
                events.push(run.ended_event());
            } else if run.is_over_when_closed() {
                events.push(run.closed_event());
            }
            !waits && !run.is_over_when_closed()
        });
        Observation::of(events)
    }

    /// Splits the issue into its runs and all that a pull needs beside them.
    fn pass<'a>(&'a mut self, now: Now, workflow: &'a Workflow) -> (&'a mut Vec<Run>, Pass<'a>) {
        let pass = Pass {
            issue: &self.issue,
            life: &self.life,
            seen: &self.seen,
            trust: workflow.trust.as_ref(),
            lost_in_a_row: &mut self.lost_in_a_row,
            workers_lost_in_a_row: &mut self.workers_lost_in_a_row,
            internal_in_a_row: &mut self.internal_in_a_row,
            policy: &workflow.issue,
            now,
            events: Vec::new(),
            changed: false,
        };
        (&mut self.runs, pass)
    }
}

/// One pull, over all runs of an issue.
struct Pass<'a> {
    issue: &'a Issue,
    life: &'a LifetimeUsage,
    seen: &'a BTreeMap<StageName, BTreeSet<ActivityKey>>,
    trust: Option<&'a TrustPolicy>,
    lost_in_a_row: &'a mut u32,
    workers_lost_in_a_row: &'a mut u32,
    internal_in_a_row: &'a mut BTreeMap<StageName, u32>,
    policy: &'a IssuePolicy,
    now: Now,
    events: Vec<RunEvent>,
    changed: bool,
}

impl Pass<'_> {
    /// Returns whether there is a comment by a trusted author that the agents of a stage with rounds do
    /// not know.
    fn has_comment(&self, stage: &Stage) -> bool {
        let seen = self.seen.get(&stage.name).filter(|_| stage.has_rounds());
        let activity = self.issue.activity();
        seen.is_some_and(|seen| {
            follow_up::new_comments(activity, seen, self.trust)
                .next()
                .is_some()
        })
    }

    /// Decides what follows the attempt of a run, if its issue is still in the state of the stage;
    /// otherwise the run ends. Returns whether the run is kept.
    fn settle(&mut self, run: &mut Run, ended: Now, stage: Option<&Stage>) -> bool {
        let Some(stage) = stage else {
            self.events.push(run.ended_event());
            return false;
        };
        let in_a_row = InARow {
            lost: *self.lost_in_a_row,
            workers_lost: *self.workers_lost_in_a_row,
            internal: self.internal_in_a_row.get(&run.stage).copied().unwrap_or(0),
            later: run.later_in_a_row,
            asked: run.asked_in_a_row,
        };
        let event = run.settle(
            ended,
            stage,
            self.issue,
            (self.life, in_a_row),
            self.policy,
            self.now,
        );
        match run.park_reason() {
            Some(ParkReason::Internal) => drop(self.internal_in_a_row.remove(&run.stage)),
            Some(ParkReason::Lost) => *self.workers_lost_in_a_row = 0,
            _ => {}
        }
        self.events.push(event);
        true
    }

    fn end(self) -> Observation {
        Observation {
            changed: self.changed || !self.events.is_empty(),
            events: self.events,
        }
    }
}
