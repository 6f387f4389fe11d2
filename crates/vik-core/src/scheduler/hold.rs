//! The reasons why a stage of an issue does not start.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::approval::Request;
use crate::ids::{AgentName, IssueId, StageName};
use crate::limits::LimitHit;
use crate::machine::{ParkReason, RootCause};
use crate::outcome::Outcome;
use crate::question::PendingQuestion;
use crate::worker::{WorkerLabel, WorkerName};

/// The reason why a stage of an issue does not start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Hold {
    /// A person paused the issue, or everything.
    Paused {
        all: bool,
    },
    /// A person has taken the issue over.
    TakenOver {
        by: String,
        since: Timestamp,
    },
    Draining,
    Slot,
    /// `max_concurrency` of the agent profile is reached.
    AgentSlot {
        agent: AgentName,
    },
    /// `max_concurrency` of the stage is reached.
    StageSlot,
    /// No worker may run the attempt.
    NoWorker {
        reason: NoWorker,
    },
    /// The issue waits for other issues.
    Blocked {
        /// The blockers that are still open.
        by: Arc<[IssueId]>,
        /// The parked issue at the root of the chain, where there is one.
        #[serde(default)]
        root: Option<RootCause>,
    },
    /// Another issue works on overlapping paths (`issue.scope_conflicts`).
    ScopeConflict {
        with: IssueId,
        /// Whether the other issue waits for these paths too, and is ahead in the queue.
        waits: bool,
    },
    /// The intent of the issue is invalid.
    BadIntent {
        why: Arc<str>,
    },
    /// Neither the author nor a label of the issue is trusted (`trust`).
    Untrusted {
        /// The author, where the tracker gives one.
        author: Option<Arc<str>>,
    },
    /// The issue is part of a dependency cycle.
    Cycle {
        issues: Arc<[IssueId]>,
    },
    /// The day's limit is used up.
    DayLimit {
        limit: LimitHit,
        /// When the next day starts.
        until: Timestamp,
    },
    /// As many sessions are alive as the limit on open files allows.
    OpenFiles {
        max_sessions: u32,
    },
    /// The machine is short of memory.
    Pressure {
        why: Arc<str>,
    },
    /// The next attempt waits for its back-off.
    BackingOff {
        until: Timestamp,
        /// The outcome of the last attempt, where there was one.
        after: Option<Outcome>,
        /// Whether `before_run` asked to be tried again later.
        #[serde(default)]
        is_requested: bool,
    },
    /// The work of the last attempt is done, and it is being handed over.
    HandOver {
        /// When the next try begins; `None` if one is running.
        until: Option<Timestamp>,
        /// The tries so far.
        tries: u32,
        /// The number of tries before the stage is parked.
        max_tries: u32,
        /// Why the last try failed.
        failure: String,
    },
    /// The provider's quota is used up.
    Quota {
        until: Timestamp,
    },
    /// The stage does not start again until a person acts.
    Parked {
        reason: ParkReason,
        /// The reason as a sentence.
        detail: String,
        since: Timestamp,
        /// The actions that free the stage.
        freed_by: String,
    },
    /// The start needs the approval of a person.
    Approval {
        request: Box<Request>,
    },
    /// An agent asked a question.
    Question {
        question: Box<PendingQuestion>,
    },
    /// An attempt ended, and no pull has returned the issue since.
    Settling,
    /// The lookup right before the start is running.
    #[serde(rename = "looking")]
    #[strum(serialize = "looking")]
    LookupPending,
    /// The lookup before the start failed; the next pull retries it.
    #[serde(rename = "show_failed")]
    #[strum(serialize = "show_failed")]
    LookupFailed,
    /// Another stage of the issue runs, or an agent of it may still be alive.
    OtherStage {
        stage: StageName,
    },
    /// `--issue` or `--stage` excludes it.
    Filtered,
    /// No stage matches the state of the issue.
    NoStage,
    /// The stage has done its work, and waits for comments and checks (`when.follow_up`).
    NothingNew {
        /// The names of the checks that have no result.
        pending: Vec<String>,
    },
    /// The issue does not have labels that the stage requires.
    MissingLabels {
        labels: Vec<String>,
    },
    /// The issue is in a terminal state.
    Terminal,
    /// No pull has succeeded yet.
    NotPulled,
    /// The last successful pull did not return the issue.
    NotPresent,
    /// A pull still returns the issue, but its lookup showed that the tracker no longer has it.
    #[serde(rename = "gone")]
    #[strum(serialize = "gone")]
    Missing,
    /// Its workspace is being removed.
    Removing,
}

/// Why no worker gets an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoWorker {
    /// No worker is ready.
    NoneReady,
    /// No ready worker has all labels that the stage and its profile demand.
    MissingLabels { labels: BTreeSet<WorkerLabel> },
    /// All workers that fit are full.
    AllFull,
    /// The worker that has the workspace of the issue fits, and is full.
    WorkspaceFull { worker: WorkerName },
}

impl NoWorker {
    /// Returns whether the end of other attempts ends the wait.
    pub(super) fn ends_with_others(&self) -> bool {
        matches!(self, Self::AllFull | Self::WorkspaceFull { .. })
    }
}

impl Hold {
    /// Returns the name used in JSON.
    pub fn as_str(&self) -> &'static str {
        self.into()
    }

    /// Returns when the hold ends without intervention, where that is known.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::DayLimit { until, .. } | Self::BackingOff { until, .. } | Self::Quota { until } => {
                Some(*until)
            }
            Self::HandOver { until, .. } => *until,
            _ => None,
        }
    }

    /// Adds the parked issue at the root of a chain of blockers.
    pub(super) fn with_root(self, root: impl FnOnce() -> Option<RootCause>) -> Self {
        match self {
            Self::Blocked { by, .. } => Self::Blocked { by, root: root() },
            hold => hold,
        }
    }
}
