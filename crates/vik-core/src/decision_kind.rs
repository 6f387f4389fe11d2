//! The kinds of decisions.

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($($(#[doc = $line:literal])+ $name:ident = $text:literal,)+) => {
        /// The kind of a decision, by a stable name in snake case.
        ///
        /// # Examples
        ///
        /// ```
        /// use vik_core::decision_kind::DecisionKind;
        ///
        /// let kind = DecisionKind::from("started".to_owned());
        /// assert_eq!(kind, DecisionKind::Started);
        /// // A kind that another version of Vik has written keeps its name.
        /// assert_eq!(DecisionKind::from("postponed".to_owned()).as_str(), "postponed");
        /// ```
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum DecisionKind {
            $($(#[doc = $line])+ $name,)+
            /// A kind that only another version of Vik decides.
            Other(String),
        }

        impl DecisionKind {
            /// All kinds that this version decides.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Returns the stable name.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)+
                    Self::Other(text) => text,
                }
            }

            /// Returns when it is decided, for the reference.
            pub fn meaning(&self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($line),+).trim_ascii_start(),)+
                    Self::Other(_) => "",
                }
            }
        }

        impl From<String> for DecisionKind {
            fn from(text: String) -> Self {
                match text.as_str() {
                    $($text => Self::$name,)+
                    _ => Self::Other(text),
                }
            }
        }
    };
}

kinds! {
    /// `after_run` failed after an attempt that had not succeeded.
    AfterRunFailed = "after_run_failed",
    /// An approval request was answered, by a person or by its time limit.
    Answered = "answered",
    /// An agent asked a question, and its stage waits for the answer.
    Asked = "asked",
    /// A run waits for an approval.
    AwaitingApproval = "awaiting_approval",
    /// An attempt ended, and the next one of its run starts after a back-off.
    BackingOff = "backing_off",
    /// Another issue is blocked by this one, but no pull returns it and it cannot be looked up.
    BlockerAbsent = "blocker_absent",
    /// The issue waits for other issues, or the list of them changed.
    Blocked = "blocked",
    /// A person cancelled the running and waiting stages of the issue.
    Cancel = "cancel",
    /// The issue was closed, which ended its parked run.
    Closed = "closed",
    /// A person resumed the issue or all issues after a pause.
    Resume = "continue",
    /// The issue is part of a cycle of issues that wait for each other.
    Cycle = "cycle",
    /// A person drained the daemon: nothing more starts.
    Drain = "drain",
    /// An attempt ended.
    Ended = "ended",
    /// The issue changed, so a parked stage may run again.
    Freed = "freed",
    /// A person handed an issue back that they had taken over.
    HandBack = "hand_back",
    /// A try that followed a failed one has handed the work of an attempt over.
    HandedOver = "handed_over",
    /// The work of an attempt is done, and its hand-over will be tried again.
    HandOverFailed = "hand_over_failed",
    /// A try to hand over the work of an attempt begins.
    HandingOver = "handing_over",
    /// The tracker no longer has the issue.
    Missing = "gone",
    /// The cost or the tokens of an attempt, an issue or the day came close to their limit.
    LimitNear = "limit_near",
    /// A person sent a message to the agent of the issue.
    Message = "message",
    /// An agent has taken messages of people.
    MessagesTaken = "messages_taken",
    /// Memory and disk space are available again.
    NoPressure = "no_pressure",
    /// The workspace of a finished or unlisted issue is kept, for the given reason.
    NotRemovingWorkspace = "not_removing_workspace",
    /// A stage was parked.
    Parked = "parked",
    /// A person paused the issue or all issues.
    Pause = "pause",
    /// Nothing starts because memory is short or a disk is full.
    Pressure = "pressure",
    /// The question of an agent was answered, by a person or by its time limit.
    QuestionAnswered = "question_answered",
    /// An attempt ended, and the next one of its run waits for the provider's quota.
    Quota = "quota",
    /// An edit of the workflow was applied.
    Reloaded = "reloaded",
    /// The removal of data that is older than `retention` keeps it started.
    RemovingExpired = "removing_expired",
    /// The removal of the workspace of a finished or unlisted issue started.
    RemovingWorkspace = "removing_workspace",
    /// A damaged or missing ledger was rebuilt.
    Repaired = "repaired",
    /// The previous conversation could not be resumed, so the attempt started a new one.
    ResumeFailed = "resume_failed",
    /// A run ended because the issue left the state of its stage.
    RunEnded = "run_ended",
    /// The lookup of the issue before a start failed.
    LookupFailed = "show_failed",
    /// A person had the issue moved back to the state of a stage, which then runs again.
    RunAgain = "run_again",
    /// An attempt was started.
    Started = "started",
    /// A running attempt is being stopped.
    Stopped = "stopped",
    /// A person took the issue over: nothing of it starts until they hand it back.
    TakeOver = "take_over",
    /// A turn of an agent ended, and its conversation continues with another one.
    Turn = "turn",
    /// The blockers of the issue are closed.
    Unblocked = "unblocked",
    /// A person allowed more attempts with `vik retry`.
    Retry = "unpark",
    /// A parked stage continues because more attempts are allowed.
    Unparked = "unparked",
    /// A person withdrew a message before an agent had taken it.
    WithdrawMessage = "withdraw_message",
    /// Workers are draining: they get nothing new.
    WorkerDraining = "worker_draining",
    /// Workers do not respond any more, or are no longer announced.
    WorkerLost = "worker_lost",
    /// Workers get nothing because their version or workflow file is not that of the hub.
    WorkerMismatched = "worker_mismatched",
    /// Workers are ready for attempts.
    WorkerReady = "worker_ready",
    /// The workspace of a finished or unlisted issue could not be removed, or contains unsaved work.
    WorkspaceKept = "workspace_kept",
    /// The workspace of a finished or unlisted issue was removed.
    WorkspaceRemoved = "workspace_removed",
}

impl From<DecisionKind> for String {
    fn from(kind: DecisionKind) -> Self {
        match kind {
            DecisionKind::Other(text) => text,
            known => known.as_str().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn kinds_are_unique_and_snake_case() {
        let names: BTreeSet<_> = DecisionKind::ALL.iter().map(DecisionKind::as_str).collect();
        assert_eq!(names.len(), DecisionKind::ALL.len());
        for kind in DecisionKind::ALL {
            let name = kind.as_str();
            assert!(name.split('_').all(|part| !part.is_empty()), "{name}");
            assert!(name.chars().all(|c| c == '_' || c.is_ascii_lowercase()), "{name}");
            assert!(kind.meaning().ends_with('.'), "{name}");
            assert_eq!(DecisionKind::from(name.to_owned()), *kind);
        }
    }

    #[test]
    fn kind_is_its_name_in_json_even_if_unknown() {
        for name in ["gone", "continue", "unpark", "a kind of 2030"] {
            let kind: DecisionKind = serde_json::from_value(name.into()).unwrap();
            assert_eq!(kind == DecisionKind::Other(name.to_owned()), name.contains(' '));
            assert_eq!(serde_json::to_value(&kind).unwrap(), name);
        }
    }
}
