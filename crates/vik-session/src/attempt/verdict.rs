//! Which of several failures decides the outcome of an attempt.

use vik_store::AttemptFailure;

/// Whether an attempt has succeeded so far. The first failure wins, as it may be the cause of the
/// later ones.
#[derive(Debug, Default)]
pub(super) struct Verdict(Option<AttemptFailure>);

impl Verdict {
    /// Adds the result of the next step.
    pub(super) fn and(self, step: Result<(), AttemptFailure>) -> Self {
        Self(self.0.or(step.err()))
    }

    pub(super) fn is_success(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn failure(&self) -> Option<&AttemptFailure> {
        self.0.as_ref()
    }

    pub(super) fn into_failure(self) -> Option<AttemptFailure> {
        self.0
    }
}

impl From<AttemptFailure> for Verdict {
    fn from(failure: AttemptFailure) -> Self {
        Self(Some(failure))
    }
}

/// The reasons why the agent's end does not count as its own, from the one that decides first to
/// the one that decides last.
#[derive(Debug, Default)]
pub(super) struct EndCauses {
    /// The end of the process tree is not proven.
    pub(super) unproven: Option<AttemptFailure>,
    /// Vik stopped the agent.
    pub(super) stopped: Option<AttemptFailure>,
    /// The agent exceeded a limit of its sandbox or of the disk.
    pub(super) overrun: Option<AttemptFailure>,
    /// The output could not be read or stored.
    pub(super) output: Option<AttemptFailure>,
    /// The shim ended without an exit record.
    pub(super) lost: Option<AttemptFailure>,
}

impl EndCauses {
    /// Returns the failure that decides, if there is one.
    pub(super) fn decisive(self) -> Option<AttemptFailure> {
        self.unproven
            .or(self.stopped)
            .or(self.overrun)
            .or(self.output)
            .or(self.lost)
    }
}

#[cfg(test)]
mod tests {
    use vik_core::outcome::{FailureClass, Outcome};

    use super::*;

    fn failed(reason: &str) -> AttemptFailure {
        AttemptFailure::failed(FailureClass::Agent, reason)
    }

    #[test]
    fn verdict_keeps_the_first_failure() {
        let verdict = Verdict::default().and(Ok(()));
        assert!(verdict.is_success());
        let verdict = verdict
            .and(Err(failed("first")))
            .and(Ok(()))
            .and(Err(failed("second")));
        assert!(!verdict.is_success());
        assert_eq!(verdict.into_failure(), Some(failed("first")));
    }

    #[test]
    fn unproven_end_decides_before_a_stop_and_a_lost_shim() {
        let lost = Some(AttemptFailure::of(Outcome::Lost, "lost"));
        let causes = EndCauses {
            unproven: Some(failed("unproven")),
            stopped: Some(failed("stopped")),
            lost: lost.clone(),
            ..EndCauses::default()
        };
        assert_eq!(causes.decisive(), Some(failed("unproven")));
        let causes = EndCauses {
            output: Some(failed("output")),
            lost,
            ..EndCauses::default()
        };
        assert_eq!(causes.decisive(), Some(failed("output")));
        assert_eq!(EndCauses::default().decisive(), None);
    }
}
