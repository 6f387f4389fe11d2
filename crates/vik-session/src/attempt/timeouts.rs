//! The timeouts of an agent: of the stage, of a tool call, of a response, and without activity.

use std::path::PathBuf;
use std::time::Instant;

use vik_agents::UnansweredRequest;
use vik_core::duration::Span;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::workflow::Stage;
use vik_store::AttemptFailure;

use super::follow::OutputReader;
use super::tool_calls::ToolCallApprovals;
use super::turns::Turns;

/// The timeouts of one attempt.
pub(super) struct Timeouts<'a> {
    stage: &'a Stage,
    stderr: PathBuf,
    stderr_size: u64,
    response: ResponseTimeout,
}

/// The timeout of the agent's response to a request of Vik.
#[derive(Debug)]
struct ResponseTimeout {
    limit: Span,
    /// The request without a response, and since when it is known to have none. The clock of an
    /// [`Instant`] does not advance while the machine is suspended.
    pending: Option<(UnansweredRequest, Instant)>,
}

impl ResponseTimeout {
    /// Returns the failure if the agent has not responded in time, which is not due to its work, so
    /// that it uses up no attempt.
    fn expired(&mut self, request: Option<UnansweredRequest>, now: Instant) -> Option<AttemptFailure> {
        let Some(request) = request else {
            self.pending = None;
            return None;
        };
        let same = self.pending.filter(|(pending, _)| *pending == request);
        let (_, since) = *self.pending.insert(same.unwrap_or((request, now)));
        (now.saturating_duration_since(since) >= self.limit.0).then(|| {
            let (limit, method) = (self.limit, request.method);
            let reason = format!("the agent did not respond to `{method}` within {limit} (`read_timeout`)");
            AttemptFailure::failed(FailureClass::Internal, reason)
        })
    }
}

impl<'a> Timeouts<'a> {
    pub(super) fn new(stage: &'a Stage, read_timeout: Span, stderr: PathBuf) -> Self {
        Self {
            stage,
            stderr,
            stderr_size: 0,
            response: ResponseTimeout {
                limit: read_timeout,
                pending: None,
            },
        }
    }

    /// Returns the failure for the first timeout that has expired.
    pub(super) fn expired(
        &mut self,
        reader: &mut OutputReader,
        approvals: Option<&ToolCallApprovals>,
        turns: &Turns<'_>,
    ) -> Option<AttemptFailure> {
        let stage = self.stage;
        if turns.is_waiting() {
            // `verify` has its own timeout, and the scheduler bounds the wait for its decision.
            reader.pause_timers();
            return None;
        }
        let waits_for_person = approvals.is_some_and(|approvals| approvals.pending_request().is_some());
        reader.set_waits_for_person(waits_for_person);
        if waits_for_person {
            // The attempt waits for a person, not for its agent.
            reader.pause_timers();
            return None;
        }
        if turns.elapsed(approvals) >= stage.timeout.0 {
            return Some(AttemptFailure::of(
                Outcome::TimedOut,
                format!("it took longer than {}", stage.timeout),
            ));
        }
        if let Some(failure) = self.response.expired(reader.unanswered_request(), Instant::now()) {
            return Some(failure);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_request_has_its_own_time_and_the_failure_names_it() {
        let mut timeout = ResponseTimeout {
            limit: Span::secs(5),
            pending: None,
        };
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let request = |method, message: Option<u128>| {
            let message = message.map(|id| vik_core::ids::MessageId(uuid::Uuid::from_u128(id)));
            Some(UnansweredRequest { message, method })
        };
        assert_eq!(timeout.expired(request("initialize", None), at(0)), None);
        assert_eq!(timeout.expired(request("initialize", None), at(4)), None);
        assert_eq!(timeout.expired(request("thread/start", None), at(6)), None);
        assert_eq!(timeout.expired(None, at(12)), None);
        assert_eq!(timeout.expired(request("turn/start", Some(1)), at(13)), None);
        assert_eq!(timeout.expired(request("turn/start", Some(2)), at(17)), None);
        assert_eq!(timeout.expired(request("turn/start", Some(2)), at(21)), None);
        let failure = timeout.expired(request("turn/start", Some(2)), at(22)).unwrap();
        assert_eq!(failure.class, Some(FailureClass::Internal));
        assert_eq!(
            failure.reason,
            "the agent did not respond to `turn/start` within 5s (`read_timeout`)"
        );
    }
}
