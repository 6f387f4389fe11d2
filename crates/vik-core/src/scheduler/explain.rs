//! Why something runs, why it does not, and when next.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::Scheduler;
use super::dispatch::{Slots, due};
use crate::approval::Request;
use crate::ids::{AgentName, AttemptId, IssueId, RunId, StageName};
use crate::intent::Intent;
use crate::limits::{Limit, LimitHit};
use crate::machine::{IssueMachine, LifetimeUsage, ParkReason, Phase, Run, WaitReason};
use crate::outcome::{FailureClass, Outcome};
use crate::time::{Mono, Now};
use crate::trust::Trust;
use crate::workflow::Stage;

/// What holds a stage of an issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Hold {
    /// A person paused the issue, or everything.
    Paused {
        /// Whether everything is.
        all: bool,
    },
    /// Vik is stopping.
    Draining,
    /// As many issues are worked on as may be.
    Slot,
    /// As many attempts of the agent profile run as may be.
    AgentSlot {
        /// The profile.
        agent: AgentName,
    },
    /// As many attempts of the stage run as may be.
    StageSlot,
    /// Other issues come first.
    Blocked {
        /// Those that are open.
        by: Arc<[IssueId]>,
        /// The parked issue that all of this waits for in the end, where there is one.
        #[serde(default)]
        root: Option<RootCause>,
    },
    /// Another issue works on the same paths (`issue.scope_conflicts`).
    ScopeConflict {
        /// That issue.
        with: IssueId,
        /// Whether it waits for them itself, and comes first.
        waits: bool,
    },
    /// What the issue says of its intent cannot be followed.
    BadIntent {
        /// Why not.
        why: Arc<str>,
    },
    /// Nobody who is trusted stands behind it (`trust`).
    Untrusted {
        /// Who wrote it, where that is told.
        author: Option<Arc<str>>,
    },
    /// Issues wait for each other.
    Cycle {
        /// All of them.
        issues: Arc<[IssueId]>,
    },
    /// The day's limit is used up.
    DayLimit {
        /// The limit.
        limit: LimitHit,
        /// When the day turns.
        until: Timestamp,
    },
    /// The machine is too busy.
    Pressure {
        /// In what way.
        why: Arc<str>,
    },
    /// The next attempt waits.
    BackingOff {
        /// Until then.
        until: Timestamp,
        /// How the last one ended, where there was one.
        after: Option<Outcome>,
    },
    /// The provider's quota is used up.
    Quota {
        /// Until then.
        until: Timestamp,
    },
    /// It rests until a person does something.
    Parked {
        /// Why.
        reason: ParkReason,
        /// The same in a person's words.
        detail: String,
        /// Since when.
        since: Timestamp,
        /// What would free it.
        freed_by: String,
    },
    /// A person has to let it start.
    Approval {
        /// What is asked.
        request: Box<Request>,
    },
    /// An attempt ended, and the issue was not seen again yet.
    Settling,
    /// The issue is being looked at once more, right before the start.
    #[serde(rename = "looking")]
    LookupPending,
    /// That look failed; the next pull tries again.
    #[serde(rename = "show_failed")]
    LookupFailed,
    /// Another stage of the issue runs, or something of it may still live.
    OtherStage {
        /// That stage.
        stage: StageName,
    },
    /// `--issue` or `--stage` leaves it out.
    Filtered,
    /// The issue is in the state of no stage.
    NoStage,
    /// The issue is done with.
    Terminal,
    /// No pull has told yet.
    NotPulled,
    /// The last good pull did not bring the issue.
    NotPresent,
    /// A pull still brings the issue, but a look at it showed that the tracker does not have it.
    #[serde(rename = "gone")]
    Missing,
    /// Its workspace is being removed.
    Removing,
}

/// A parked issue that others wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootCause {
    /// The issue.
    pub issue: IssueId,
    /// Its stage that is parked.
    pub stage: StageName,
    /// Why.
    pub reason: ParkReason,
}

/// The root causes of all blocked issues, found when the first is asked for.
type Roots<'s> = LazyCell<HashMap<IssueId, RootCause>, Box<dyn FnOnce() -> HashMap<IssueId, RootCause> + 's>>;

impl Hold {
    fn with_root(self, issue: &IssueId, roots: &Roots<'_>) -> Self {
        match self {
            Self::Blocked { by, .. } => Self::Blocked {
                by,
                root: roots.get(issue).cloned(),
            },
            hold => hold,
        }
    }

    /// The name used in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Paused { .. } => "paused",
            Self::Draining => "draining",
            Self::Slot => "slot",
            Self::AgentSlot { .. } => "agent_slot",
            Self::StageSlot => "stage_slot",
            Self::Blocked { .. } => "blocked",
            Self::Cycle { .. } => "cycle",
            Self::ScopeConflict { .. } => "scope_conflict",
            Self::BadIntent { .. } => "bad_intent",
            Self::Untrusted { .. } => "untrusted",
            Self::DayLimit { .. } => "day_limit",
            Self::Pressure { .. } => "pressure",
            Self::BackingOff { .. } => "backing_off",
            Self::Quota { .. } => "quota",
            Self::Parked { .. } => "parked",
            Self::Approval { .. } => "approval",
            Self::Settling => "settling",
            Self::LookupPending => "looking",
            Self::LookupFailed => "show_failed",
            Self::OtherStage { .. } => "other_stage",
            Self::Filtered => "filtered",
            Self::NoStage => "no_stage",
            Self::Terminal => "terminal",
            Self::NotPulled => "not_pulled",
            Self::NotPresent => "not_present",
            Self::Missing => "gone",
            Self::Removing => "removing",
        }
    }

    /// When it ends by itself, where that is known.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::DayLimit { until, .. } | Self::BackingOff { until, .. } | Self::Quota { until } => {
                Some(*until)
            }
            _ => None,
        }
    }
}

/// Why an issue is worked on, or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The issue.
    pub issue: IssueId,
    /// Its title.
    pub title: Arc<str>,
    /// Its state.
    pub state: Arc<str>,
    /// Where people see it.
    pub url: Option<String>,
    /// Its labels.
    pub labels: Vec<String>,
    /// What its text may do.
    #[serde(default)]
    pub trust: Trust,
    /// Whether the last good pull brought it.
    pub present: bool,
    /// Whether a person paused it.
    pub paused: bool,
    /// What holds it as a whole, where no stage matches or none could start.
    pub hold: Option<Hold>,
    /// Its stages that match or have a run, in file order.
    pub stages: Vec<StageExplanation>,
    /// What it has used in its whole life.
    pub life: LifetimeUsage,
    /// Attempts it may have in its whole life.
    pub allowed_attempts: u32,
    /// What it may spend in its whole life.
    pub limit: Limit,
}

/// Why one stage of an issue runs, or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageExplanation {
    /// The stage.
    pub stage: StageName,
    /// Its run, where it has one.
    pub run: Option<RunId>,
    /// The attempt that is under way.
    #[serde(rename = "session")]
    pub attempt_id: Option<AttemptId>,
    /// Attempts of the run that count.
    pub attempts: u32,
    /// How many there may be.
    pub allowed_attempts: u32,
    /// How the last one ended.
    pub last_outcome: Option<Outcome>,
    /// Why it failed.
    pub last_class: Option<FailureClass>,
    /// What holds it; `None` where it runs or may start now.
    pub hold: Option<Hold>,
    /// When it may start next, where that is known.
    pub next: Option<Timestamp>,
    /// What it is to do, and where; `None` where that cannot be followed.
    #[serde(default)]
    pub intent: Option<Intent>,
}

/// A stage of an issue that will start by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The issue.
    pub issue: IssueId,
    /// The stage.
    pub stage: StageName,
    /// Its run, where it has one.
    pub run: Option<RunId>,
    /// Attempts of the run that count.
    pub attempts: u32,
    /// What holds it.
    pub hold: Hold,
    /// When that ends, where it is known.
    pub until: Option<Timestamp>,
}

impl Scheduler {
    /// Why the issue is worked on, or not, and when next. `None` where nothing is known of it.
    pub fn explain(&self, issue: &IssueId, now: Now) -> Option<Explanation> {
        let machine = self.machines.get(issue)?;
        let policy = &self.workflow.issue;
        let concerns =
            |stage: &&Stage| stage.when_state == *machine.issue().state || machine.run(&stage.name).is_some();
        let slots = self.slots_before(issue, now);
        let roots = self.lazy_root_causes();
        let stages: Vec<_> = policy
            .stages
            .iter()
            .filter(concerns)
            .map(|stage| self.explain_stage(machine, stage, now, &slots, &roots))
            .collect();
        let hold = self.issue_hold(machine).or_else(|| {
            let matches = |stage: &Stage| stage.when_state == *machine.issue().state;
            (!policy.stages.iter().any(matches)).then_some(Hold::NoStage)
        });
        Some(Explanation {
            issue: issue.clone(),
            title: Arc::clone(&machine.issue().title),
            state: Arc::clone(&machine.issue().state),
            url: machine.issue().url(),
            labels: machine.issue().labels(),
            trust: self.trust(machine),
            present: machine.is_present(),
            paused: machine.is_paused(),
            hold,
            stages,
            life: *machine.life(),
            allowed_attempts: machine.life().allowed(policy),
            limit: machine.life().limit(policy),
        })
    }

    fn explain_stage(
        &self,
        machine: &IssueMachine,
        stage: &Stage,
        now: Now,
        slots: &Slots,
        roots: &Roots<'_>,
    ) -> StageExplanation {
        let run = machine.run(&stage.name);
        let last = run.and_then(|run| run.last.as_ref());
        let active = run.and_then(Run::active);
        let hold = match active {
            Some(_) => None,
            None => self.hold(machine, stage, now, slots),
        }
        .map(|hold| hold.with_root(&machine.issue().id, roots));
        let intent = match active {
            Some(start) => Some(start.intent.clone()),
            None => Intent::resolve(stage, machine.issue()).ok(),
        };
        StageExplanation {
            intent,
            stage: stage.name.clone(),
            run: run.map(|run| run.id),
            attempt_id: active.map(|start| start.attempt_id),
            attempts: run.map_or(0, |run| run.attempts),
            allowed_attempts: run.map_or(stage.retry.max_attempts, |run| run.allowed(stage)),
            last_outcome: last.map(|report| report.outcome),
            last_class: last.and_then(|report| report.failure_class),
            next: hold.as_ref().and_then(Hold::until),
            hold,
        }
    }

    fn lazy_root_causes(&self) -> Roots<'_> {
        LazyCell::new(Box::new(|| self.root_causes()))
    }

    /// What holds a stage that does not run: first what lies with the issue, then with the stage, then with all.
    fn hold(&self, machine: &IssueMachine, stage: &Stage, now: Now, slots: &Slots) -> Option<Hold> {
        if let Some(run) = machine.run(&stage.name)
            && let Phase::Parked {
                reason,
                detail,
                since,
                ..
            } = &run.phase
        {
            return Some(Hold::Parked {
                reason: *reason,
                detail: detail.clone(),
                since: *since,
                freed_by: reason.freed_by().to_owned(),
            });
        }
        let held = self.issue_hold(machine);
        if let Some(Hold::NotPulled) = held {
            // What no pull will change tells more.
            return backing_off(machine, stage, now)
                .or_else(|| self.global_hold(now))
                .or(held);
        }
        held.or_else(|| self.stage_hold(machine, stage, now))
            .or_else(|| self.stage_start_hold(machine, stage, slots))
            .or_else(|| self.global_hold(now))
    }

    fn issue_hold(&self, machine: &IssueMachine) -> Option<Hold> {
        let issue = machine.issue();
        if self.workflow.is_terminal(&issue.state) {
            return Some(Hold::Terminal);
        }
        if !self.has_pulled {
            return Some(Hold::NotPulled);
        }
        if self.lookups.is_missing(&issue.id) {
            return Some(Hold::Missing);
        }
        (!machine.is_present()).then_some(Hold::NotPresent)
    }

    fn stage_hold(&self, machine: &IssueMachine, stage: &Stage, now: Now) -> Option<Hold> {
        if stage.when_state != *machine.issue().state {
            return Some(Hold::NoStage);
        }
        if !self.filter.allows(&machine.issue().id, &stage.name) {
            return Some(Hold::Filtered);
        }
        let other = machine
            .runs()
            .iter()
            .find(|run| run.is_unproven())
            .map(|run| &run.stage)
            .or_else(|| machine.conflicting_stage(stage));
        if let Some(other) = other {
            return Some(Hold::OtherStage { stage: other.clone() });
        }
        if machine.runs().iter().any(Run::is_unseen) {
            return Some(Hold::Settling);
        }
        if let Some(Phase::Awaiting { request, .. }) = machine.run(&stage.name).map(|run| &run.phase) {
            return Some(Hold::Approval {
                request: request.clone(),
            });
        }
        backing_off(machine, stage, now).or_else(|| self.earlier_stage_hold(machine, stage, now))
    }

    /// The stage that this one waits for, although nothing else holds it: an earlier one in the file whose turn it is,
    /// or one that may use up what the issue has left.
    fn earlier_stage_hold(&self, machine: &IssueMachine, stage: &Stage, now: Now) -> Option<Hold> {
        let other = match due(&self.workflow, &self.filter, &self.spending, machine, now) {
            Some(first) => Some(&first.name).filter(|first| **first != stage.name),
            None => machine
                .runs()
                .iter()
                .find_map(Run::active)
                .map(|start| &start.stage.name),
        };
        other.map(|stage| Hold::OtherStage { stage: stage.clone() })
    }

    /// The stages that will start by themselves, in the order in which they would; at most so many of them, and how
    /// many there are in all.
    pub fn waiting(&self, now: Now, most: usize) -> (Vec<Waiting>, usize) {
        let mut waiting = Vec::new();
        let mut count = 0;
        let mut slots = self.slots();
        let roots = self.lazy_root_causes();
        let stages = &self.workflow.issue.stages;
        for machine in self.order.iter().filter_map(|id| self.machines.get(id)) {
            let state = &machine.issue().state;
            let next = stages
                .iter()
                .filter(|stage| stage.when_state == **state)
                .find(|stage| {
                    let run = machine.run(&stage.name);
                    run.is_none_or(|run| run.active().is_none() && run.park_reason().is_none())
                        && self.filter.allows(&machine.issue().id, &stage.name)
                });
            let Some(stage) = next else { continue };
            let hold = self.hold(machine, stage, now, &slots).unwrap_or(Hold::Slot);
            self.reserve_scope(machine, stage, &hold, &mut slots);
            // It follows the stage that runs, or waits for a person: that is told elsewhere.
            if matches!(hold, Hold::OtherStage { .. } | Hold::Terminal | Hold::Missing) {
                continue;
            }
            count += 1;
            if waiting.len() < most {
                let run = machine.run(&stage.name);
                let issue = machine.issue().id.clone();
                let hold = hold.with_root(&issue, &roots);
                waiting.push(Waiting {
                    issue,
                    stage: stage.name.clone(),
                    run: run.map(|run| run.id),
                    attempts: run.map_or(0, |run| run.attempts),
                    until: hold.until(),
                    hold,
                });
            }
        }
        (waiting, count)
    }
}

/// What the next attempt of a stage waits for, and until when.
fn backing_off(machine: &IssueMachine, stage: &Stage, now: Now) -> Option<Hold> {
    let run = machine.run(&stage.name)?;
    let Phase::BackingOff { until, why, .. } = run.phase else {
        return None;
    };
    let held = until > now.mono;
    let until = wall(until, now);
    held.then(|| match why {
        WaitReason::Backoff => Hold::BackingOff {
            until,
            after: run.last.as_ref().map(|report| report.outcome),
        },
        WaitReason::Quota => Hold::Quota { until },
    })
}

/// The wall clock at that moment, as far as it runs evenly.
fn wall(then: Mono, now: Now) -> Timestamp {
    let wait = SignedDuration::try_from(now.mono.until(then)).unwrap_or(SignedDuration::MAX);
    now.wall.checked_add(wait).unwrap_or(Timestamp::MAX)
}
