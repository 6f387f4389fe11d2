//! The times that an agent must keep: of its stage, of its calls, of its silence.

use std::path::PathBuf;
use std::time::Instant;

use vik_core::outcome::Outcome;
use vik_core::workflow::Stage;
use vik_store::AttemptFailure;

use super::follow::OutputReader;
use super::tool_calls::ToolCallApprovals;

/// The times an attempt must keep.
pub(super) struct Timeouts<'a> {
    stage: &'a Stage,
    began: Instant,
    stderr: PathBuf,
    stderr_size: u64,
}

impl<'a> Timeouts<'a> {
    pub(super) fn new(stage: &'a Stage, began: Instant, stderr: PathBuf) -> Self {
        Self {
            stage,
            began,
            stderr,
            stderr_size: 0,
        }
    }

    /// Which of them has run out.
    pub(super) fn expired(
        &mut self,
        follower: &mut OutputReader,
        gate: Option<&ToolCallApprovals>,
    ) -> Option<AttemptFailure> {
        let stage = self.stage;
        if gate.is_some_and(|gate| gate.awaits().is_some()) {
            // It is a person who takes long.
            follower.pause_timers();
            return None;
        }
        let waited = gate.map(ToolCallApprovals::waited).unwrap_or_default();
        if self.began.elapsed().saturating_sub(waited) >= stage.timeout.0 {
            return Some(AttemptFailure::of(
                Outcome::TimedOut,
                format!("it took longer than {}", stage.timeout),
            ));
        }
        if follower.tool_open() >= stage.tool_timeout.0 {
            let reason = format!("a tool call took longer than {}", stage.tool_timeout);
            return Some(AttemptFailure::of(Outcome::TimedOut, reason));
        }
        if follower.silence() >= stage.stall_timeout.0 {
            // What it writes to stderr is a sign of life too.
            let size = std::fs::metadata(&self.stderr).map_or(0, |meta| meta.len());
            if size != self.stderr_size {
                self.stderr_size = size;
                follower.mark_active();
                return None;
            }
            return Some(AttemptFailure::of(
                Outcome::Stalled,
                format!("nothing was heard for {}", stage.stall_timeout),
            ));
        }
        None
    }
}
