//! The timeouts of an agent: of the stage, of a tool call, and without activity.

use std::path::PathBuf;
use std::time::Instant;

use vik_core::outcome::Outcome;
use vik_core::workflow::Stage;
use vik_store::AttemptFailure;

use super::follow::OutputReader;
use super::tool_calls::ToolCallApprovals;

/// The timeouts of one attempt.
pub(super) struct Timeouts<'a> {
    stage: &'a Stage,
    started: Instant,
    stderr: PathBuf,
    stderr_size: u64,
}

impl<'a> Timeouts<'a> {
    pub(super) fn new(stage: &'a Stage, started: Instant, stderr: PathBuf) -> Self {
        Self {
            stage,
            started,
            stderr,
            stderr_size: 0,
        }
    }

    /// Returns the failure for the first timeout that has expired.
    pub(super) fn expired(
        &mut self,
        reader: &mut OutputReader,
        approvals: Option<&ToolCallApprovals>,
    ) -> Option<AttemptFailure> {
        let stage = self.stage;
        let waits_for_person = approvals.is_some_and(|approvals| approvals.pending_request().is_some());
        reader.set_waits_for_person(waits_for_person);
        if waits_for_person {
            // The attempt waits for a person, not for its agent.
            reader.pause_timers();
            return None;
        }
        let waited = approvals.map(ToolCallApprovals::time_waited).unwrap_or_default();
        if self.started.elapsed().saturating_sub(waited) >= stage.timeout.0 {
            return Some(AttemptFailure::of(
                Outcome::TimedOut,
                format!("it took longer than {}", stage.timeout),
            ));
        }
        if reader.tool_open() >= stage.tool_timeout.0 {
            let reason = format!("a tool call took longer than {}", stage.tool_timeout);
            return Some(AttemptFailure::of(Outcome::TimedOut, reason));
        }
        if reader.silence() >= stage.stall_timeout.0 {
            // Output on stderr counts as activity too.
            let size = std::fs::metadata(&self.stderr).map_or(0, |meta| meta.len());
            if size != self.stderr_size {
                self.stderr_size = size;
                reader.mark_active();
                return None;
            }
            return Some(AttemptFailure::of(
                Outcome::Stalled,
                format!("no output for {}", stage.stall_timeout),
            ));
        }
        None
    }
}
