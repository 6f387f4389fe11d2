//! The stable codes of errors.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $line:literal])+ $name:ident = $text:literal,)+) => {
        /// The reason of an error, as a stable code in snake case.
        ///
        /// # Examples
        ///
        /// ```
        /// use vik_base::report::ErrorCode;
        ///
        /// assert_eq!(ErrorCode::NoDaemon.as_str(), "no_daemon");
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ErrorCode {
            $($(#[doc = $line])+ $name,)+
        }

        impl ErrorCode {
            /// All codes, sorted.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Returns the code as errors contain it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// Returns what happened, for the reference.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($line),+).trim_ascii_start(),)+
                }
            }
        }
    };
}

codes! {
    /// Another daemon runs for this workflow or uses its files.
    AlreadyRunning = "already_running",
    /// The answer to a question is empty, too long, contains control characters, or is none of its
    /// choices.
    AnswerInvalid = "answer_invalid",
    /// The question cannot be answered while a person has taken the issue over.
    AnswerRefused = "answer_refused",
    /// The token of the HTTP API is missing or cannot be used.
    ApiToken = "api_token",
    /// The request to the daemon is not valid.
    BadRequest = "bad_request",
    /// The hook `before_remove` failed, so the workspace was kept.
    BeforeRemove = "before_remove",
    /// An internal error occurred: a bug in Vik.
    Bug = "bug",
    /// The daemon did not answer in time, or too many connections to it are open.
    Busy = "busy",
    /// An issue cannot be moved to the state of a stage: the workflow names no tracker, or the stage
    /// would not take the issue.
    CannotMove = "cannot_move",
    /// The daemon cannot start: it cannot handle signals, watch the workflow or list the
    /// workspaces.
    Daemon = "daemon",
    /// The response of the daemon does not match the request.
    DaemonNonsense = "daemon_nonsense",
    /// A daemon may be using the files that `vik prune` would remove.
    DaemonRunning = "daemon_running",
    /// The daemon is starting or stopping, and does not answer.
    DaemonStarting = "daemon_starting",
    /// The running daemon is of an older version, which lacks the requested function.
    DaemonTooOld = "daemon_too_old",
    /// A daemon is running, but cannot be reached.
    DaemonUnreachable = "daemon_unreachable",
    /// The daemon cannot be started in the background, or exited before it was ready.
    Detach = "detach",
    /// `vik doctor` cannot handle signals.
    Doctor = "doctor",
    /// Attempts were still running when the time for `vik drain --wait` was over.
    DrainTimeout = "drain_timeout",
    /// The Temporal server, the shared log or the table of workers cannot be used.
    Engine = "engine",
    /// A file that `vik init` would write already exists.
    Exists = "exists",
    /// A git command failed or could not be run.
    Git = "git",
    /// The workspace is in use by an attempt, or cannot be locked.
    GitLocked = "git_locked",
    /// No branch was checked out after `after_create`, so the branch to push to is unknown.
    GitNoBranch = "git_no_branch",
    /// The commit is unknown, or the workspace has no commit.
    GitNoCommit = "git_no_commit",
    /// Vik has no usable record of the git repository or a submodule in the workspace.
    GitNoRecord = "git_no_record",
    /// The remote did not exist after `after_create`.
    GitNoRemote = "git_no_remote",
    /// The path neither is nor contains a submodule.
    GitNoSubmodule = "git_no_submodule",
    /// `vik git` has no such command.
    GitNoVerb = "git_no_verb",
    /// A different record for the remote already exists.
    GitRecorded = "git_recorded",
    /// The branch of the remote has commits that are missing in the workspace.
    GitStale = "git_stale",
    /// The repository or its remote is not safe to use, because an agent may control it.
    GitUnsafe = "git_unsafe",
    /// git cannot run safely on this system.
    GitUnusable = "git_unusable",
    /// The workspace of the issue is not ready or cannot be opened.
    GitWorkspace = "git_workspace",
    /// The history of runs and sessions cannot be read.
    History = "history",
    /// The folder of this workflow's files cannot be determined, created, cleaned or locked.
    Home = "home",
    /// The `Host` header of the request is not an address of this machine.
    Host = "host",
    /// The workspace cannot be removed because it is in use.
    InUse = "in_use",
    /// `vik init` cannot write a file.
    InitWrite = "init_write",
    /// The instance folder cannot be used.
    InstanceFolder = "instance_folder",
    /// `vik doctor` was interrupted by a signal.
    Interrupted = "interrupted",
    /// The file of the issue is not a valid issue.
    IssueBroken = "issue_broken",
    /// The id is already in use, or two files have it.
    IssueIdTaken = "issue_id_taken",
    /// `vik issue` cannot read its input or print its result.
    IssueIo = "issue_io",
    /// The issues folder contains no issue with this id.
    IssueNotFound = "issue_not_found",
    /// The id, title, state or comment is not valid.
    IssueUsage = "issue_usage",
    /// The file of the issue cannot be changed.
    IssueWrite = "issue_write",
    /// The issue is not in the expected state.
    IssueWrongState = "issue_wrong_state",
    /// The issues folder cannot be opened or listed.
    IssuesFolder = "issues_folder",
    /// The issues folder is locked, or cannot be locked.
    IssuesLocked = "issues_locked",
    /// The ledger is missing, or cannot be read, written or repaired.
    Ledger = "ledger",
    /// The daemon cannot listen at the address.
    Listen = "listen",
    /// The log of a session cannot be read.
    Logs = "logs",
    /// The manual page cannot be generated.
    Man = "man",
    /// The text of a message is empty, too long, or contains control characters.
    MessageInvalid = "message_invalid",
    /// No such message waits: an agent has taken it, or it was withdrawn.
    MessageNotWaiting = "message_not_waiting",
    /// A message cannot be sent because too many wait or the issue is finished, or cannot be
    /// withdrawn because the agent may have read it.
    MessageRefused = "message_refused",
    /// The path of the request does not support this method.
    Method = "method",
    /// The metrics cannot be encoded.
    Metrics = "metrics",
    /// A question of `vik init` or `vik tracker test` was not answered, or with no.
    NoAnswer = "no_answer",
    /// This build of vik does not include the built-in agent `vex`.
    NoBuiltInAgent = "no_built_in_agent",
    /// No daemon is running for this workflow.
    NoDaemon = "no_daemon",
    /// The daemon does not serve the dashboard.
    NoDashboard = "no_dashboard",
    /// This build of vik does not include the engine of the workflow.
    NoEngine = "no_engine",
    /// No hub leads now, or it does not answer; nothing was carried out.
    NoLeader = "no_leader",
    /// The issue has no open question, or not the one that was named.
    NoQuestion = "no_question",
    /// No session matches.
    NoSession = "no_session",
    /// No sign-in has this id.
    NoSignIn = "no_sign_in",
    /// The state folder of Vik cannot be determined.
    NoStateDir = "no_state_dir",
    /// The path, the file or a recorded change of the issue does not exist.
    NotFound = "not_found",
    /// The issue has no pending request to answer.
    NothingWaits = "nothing_waits",
    /// `vik notify` cannot handle signals or create a temporary folder.
    Notify = "notify",
    /// The request comes from another website.
    Origin = "origin",
    /// A request was passed on to the hub that leads, and it is not known whether it was carried out.
    OutcomeUnknown = "outcome_unknown",
    /// The daemon is stopping, but the command runs in one of its hooks and cannot wait for it.
    OwnDaemon = "own_daemon",
    /// The daemon speaks another version of the control protocol.
    Protocol = "protocol",
    /// The files of an issue cannot be removed.
    Prune = "prune",
    /// The pull of `vik run --dry-run` failed.
    PullFailed = "pull_failed",
    /// The request comes from an agent, or its process cannot be determined.
    Refused = "refused",
    /// The async runtime cannot start.
    Runtime = "runtime",
    /// The sandbox of a stage cannot be set up on this system.
    Sandbox = "sandbox",
    /// The state of the schedule cannot be read.
    Schedule = "schedule",
    /// A secret cannot be read, so raw output cannot be masked.
    SecretUnknown = "secret_unknown",
    /// The secrets for masking raw output cannot be looked up.
    Secrets = "secrets",
    /// The link to sign in was already used or has expired, or a sign-in or its revocation cannot
    /// be saved.
    SignIn = "sign_in",
    /// `ssh` is not installed, or cannot connect, verify the host or log in to it.
    Ssh = "ssh",
    /// Processes of the instance are still alive after all signals.
    StillAlive = "still_alive",
    /// The daemon did not exit in time.
    StopTimeout = "stop_timeout",
    /// The daemon is shutting down.
    Stopping = "stopping",
    /// Another hub leads, and this one decides no more.
    Superseded = "superseded",
    /// The session of `vik takeover` cannot be opened.
    Takeover = "takeover",
    /// A temporary folder cannot be created.
    Temporary = "temporary",
    /// `vik top` needs a terminal that can position text.
    Terminal = "terminal",
    /// The terminal or a request to the daemon failed in `vik top`.
    Top = "top",
    /// The trace or a file in it cannot be read.
    Trace = "trace",
    /// The export of OpenTelemetry traces cannot start.
    Traces = "traces",
    /// A tracker could not be asked, or refused the request.
    TrackerFailed = "tracker_failed",
    /// A tracker is down, or limits requests: try again later.
    TrackerLater = "tracker_later",
    /// The token is missing or not valid.
    Unauthorized = "unauthorized",
    /// The instance folder cannot be removed.
    Uninstall = "uninstall",
    /// The issue is unknown or has no runs.
    UnknownIssue = "unknown_issue",
    /// The workflow has no such notifier.
    UnknownNotifier = "unknown_notifier",
    /// The workflow has no such stage.
    UnknownStage = "unknown_stage",
    /// The command line is not valid.
    Usage = "usage",
    /// The host lacks what a worker needs.
    WorkerHost = "worker_host",
    /// The files of a worker cannot be read or copied, or it cannot be started.
    WorkerInstall = "worker_install",
    /// The installed worker did not report in time that it is connected.
    WorkerNotConnected = "worker_not_connected",
    /// The workflow file has errors.
    WorkflowInvalid = "workflow_invalid",
    /// The workflow file cannot be read.
    WorkflowUnreadable = "workflow_unreadable",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sorted_unique_and_snake_case() {
        let codes: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
        for code in ErrorCode::ALL {
            let text = code.as_str();
            assert!(text.split('_').all(|part| !part.is_empty()), "{text}");
            assert!(text.chars().all(|c| c == '_' || c.is_ascii_lowercase()), "{text}");
            assert!(code.meaning().ends_with('.'), "{text}");
        }
    }
}
