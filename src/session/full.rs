//! Attempts that take too much of the disk, or that find it full.

use vik_core::outcome::FailureClass;
use vik_proc::Overrun;
use vik_store::Trouble;

use super::attempt::Work;
use super::follow::KeptOutput;
use crate::hooks::used_too_much;

/// How the reason of an attempt begins whose disk was full.
pub(super) const FULL: &str = "the disk is full: ";

/// The failure of an agent that was killed for what it has used.
pub(super) fn took_too_much(overrun: &Overrun) -> Trouble {
    let reason = format!("the agent {}", used_too_much(overrun));
    Trouble::failed(FailureClass::Agent, reason)
}

impl Work<'_> {
    /// What is kept of the agent, and how much of the disk that may take.
    pub(super) fn kept_output(&self) -> KeptOutput {
        let files = self.files;
        KeptOutput {
            files: vec![files.raw(), files.stderr(), files.log(), files.refusals()],
            limit: self.sandbox_policy().and_then(|policy| policy.disk),
        }
    }

    /// The failure of an attempt whose disk was full. What failed for that is no fault of a hook's, which would not be run
    /// again.
    pub(super) fn failed_by_full_disk(&self, trouble: Trouble) -> Trouble {
        let by_itself = self.exit.as_ref().is_some_and(|record| record.overrun.is_some());
        let class = match trouble.class {
            Some(FailureClass::Hook | FailureClass::Agent) => Some(FailureClass::Agent),
            Some(FailureClass::Verify) => trouble.class,
            _ => return trouble,
        };
        let reason = match trouble.reason {
            reason if by_itself => reason,
            reason => format!("{FULL}{reason}"),
        };
        Trouble {
            class,
            reason,
            ..trouble
        }
    }
}
