//! Opens the reader of an agent's raw output.

use vik_agents::PreviousTotal;
use vik_core::workflow::Runtime;
use vik_session_log::Reopened;
use vik_store::AttemptFailure;

use super::follow::OutputReader;
use super::opened::{AttemptContext, broken};

impl AttemptContext<'_> {
    /// Opens a reader of the raw file at its first byte. Events that the log already contains are
    /// only counted.
    pub(super) fn open_reader(&self, log: Reopened) -> Result<OutputReader, AttemptFailure> {
        let before = self.start().resume.as_ref().map(|resume| PreviousTotal {
            usage: resume.total,
            cost_usd: resume.cost.usd(),
        });
        let adapter = self.adapter(before)?;
        let reader = OutputReader::open(
            &self.files.raw(),
            adapter,
            log.log,
            log.agent_events,
            self.attempt.updates.clone(),
            self.kept_output(),
        )
        .map_err(|error| broken("cannot follow the agent", &error))?
        .with_stall_timeout(self.start().stage.stall_timeout.0);
        Ok(match self.spec.profile.runtime {
            Runtime::Command => reader.without_model(),
            _ => reader,
        })
    }
}
