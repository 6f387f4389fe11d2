//! Named points in an attempt's life at which a test can stop the daemon and kill processes.
//!
//! Only debug builds have them, and only if `VIK_CRASH_DIR` is set: a file `NAME.armed` in that
//! folder becomes `NAME.hit`, and the whole process stops itself (SIGSTOP). The test removes
//! `NAME.hit` before it continues the process (SIGCONT).

/// The points, in the order of an attempt's life.
pub const POINTS: &[&str] = &[
    "decided",
    "committed",
    "begun",
    "locked",
    "workspace_ready",
    "before_run_started",
    "before_run_ended",
    "prompt_ready",
    "base_taken",
    "shim_started",
    "agent_started",
    "agent_ended",
    "changes_found",
    "trace_appended",
    "changes_traced",
    "questions_read",
    "verify_ended",
    "asked",
    "answered",
    "log_ended",
    "after_run_started",
    "after_run_ended",
    "reported",
    "end_committed",
];

/// The points of an attempt whose running agent gets a message, in their order.
pub const MESSAGE_POINTS: &[&str] = &["message_noted", "message_sent", "message_taken"];

/// The points of an attempt whose agent gets another turn in its process, in their order.
pub const TURN_POINTS: &[&str] = &["turn_granted", "turn_noted", "turn_sent"];

/// The points of a person's message, in their order.
pub const SEND_POINTS: &[&str] = &["message_decided", "message_committed"];

/// The points of an attempt that has outputs, in their order.
pub const OUTPUT_POINTS: &[&str] = &["outputs_taken", "output_applying", "output_ran", "output_applied"];

/// The points of an attempt whose agent printed parts of answers.
pub const STREAM_POINTS: &[&str] = &["partial_lines_removed"];

/// The points of an attempt whose workspace is a linked work tree, in their order.
pub const WORK_TREE_POINTS: &[&str] = &[
    "repository_begun",
    "repository_separated",
    "work_tree_led_back",
    "objects_taken_over",
    "branch_moved",
    "commits_taken_over",
];

/// The points of an attempt in a durable workspace, in their order.
pub const DURABLE_POINTS: &[&str] = &[
    "work_claimed",
    "work_files_restored",
    "work_restored",
    "work_noted",
    "work_pushed",
];

/// The points of an issue that a person takes over and hands back, in their order.
pub const TAKE_OVER_POINTS: &[&str] = &["taken_over", "session_started", "person_traced"];

/// The points of a compaction of the log that hubs share, in their order.
pub const COMPACTION_POINTS: &[&str] = &[
    "log_sealed",
    "snapshot_started",
    "snapshot_part_written",
    "snapshot_written",
    "log_compacted",
];

/// The points of an attempt on a worker, in their order.
pub const WORKER_POINTS: &[&str] = &["attempt_taken", "attempt_ended"];

/// The points of a hub that starts to lead, in their order.
pub const LEAD_POINTS: &[&str] = &["lead_given", "lead_taken"];

/// Returns the folder in which tests arm fail points.
#[cfg(debug_assertions)]
pub(crate) fn folder() -> Option<&'static std::path::Path> {
    use std::path::PathBuf;
    use std::sync::OnceLock;

    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER
        .get_or_init(|| std::env::var_os("VIK_CRASH_DIR").map(PathBuf::from))
        .as_deref()
}

/// Stops the process if a test has armed this point.
#[cfg(debug_assertions)]
pub fn reach(name: &str) {
    use nix::sys::signal::{Signal, kill};

    debug_assert!(
        [
            POINTS,
            MESSAGE_POINTS,
            TURN_POINTS,
            SEND_POINTS,
            OUTPUT_POINTS,
            STREAM_POINTS,
            WORK_TREE_POINTS,
            DURABLE_POINTS,
            TAKE_OVER_POINTS,
            COMPACTION_POINTS,
            WORKER_POINTS,
            LEAD_POINTS,
        ]
        .iter()
        .any(|points| points.contains(&name)),
        "`{name}` is not listed"
    );
    let Some(folder) = folder() else { return };
    let hit = folder.join(format!("{name}.hit"));
    if std::fs::rename(folder.join(format!("{name}.armed")), &hit).is_err() {
        return;
    }
    let _ = kill(nix::unistd::getpid(), Signal::SIGSTOP);
    // This thread can run for an instant before the stop takes effect.
    while hit.exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn reach(_: &str) {}
