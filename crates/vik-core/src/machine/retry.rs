//! Decides what follows an attempt whose issue kept its state: another attempt and when, or none.

use std::time::Duration;

use jiff::SignedDuration;

use super::ParkReason;
use super::uncounted::{
    InARow, MOST_ASKED_IN_A_ROW, MOST_INTERNAL_IN_A_ROW, MOST_LOST_IN_A_ROW, MOST_WORKERS_LOST_IN_A_ROW,
    is_uncounted_stop,
};
use crate::attempt::{AttemptResult, StopReason};
use crate::backoff;
use crate::duration::Span;
use crate::ids::AttemptId;
use crate::limits::LimitScope;
use crate::outcome::{FailureClass, Outcome};
use crate::time::Now;
use crate::workflow::Retry;

/// A reset time later than this is ignored: no quota window is longer than a week.
const LONGEST_QUOTA_WAIT: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// Attempts that wait for a quota window all wait for the same instant, so they are spread over
/// this span.
const QUOTA_SPREAD: Duration = Duration::from_secs(30);

/// The shortest wait before another attempt if their number is not limited. A workflow may have
/// back-offs of zero.
const SHORTEST_UNLIMITED_WAIT: Span = Span::secs(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct RetryInput<'a> {
    /// The result of the last attempt.
    pub report: &'a AttemptResult,
    pub attempt_id: AttemptId,
    /// Why Vik stopped it.
    pub stopped: Option<&'a StopReason>,
    /// Attempts of the run that count.
    pub attempts: u32,
    /// The number of attempts allowed.
    pub allowed: u32,
    /// The consecutive attempts that did not count.
    pub in_a_row: InARow,
    /// Whether a limit of the issue's whole life is reached.
    pub life_used_up: bool,
    pub retry: &'a Retry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// No further attempt until a person acts.
    Park(ParkReason),
    /// No further attempt until the question of the last one is answered.
    Ask,
    /// Another attempt, this long after the end of the last one.
    After(Duration),
    /// Another attempt, this long from now: when the provider's quota window resets.
    Quota(Duration),
}

/// Returns the reason to park at once, whether or not attempts are left: another attempt would end
/// the same way, or run beside a process that is still alive.
pub(super) fn immediate_park_reason(
    report: &AttemptResult,
    stopped: Option<&StopReason>,
) -> Option<ParkReason> {
    if report.failure_class == Some(FailureClass::UnprovenEnd) {
        return Some(ParkReason::UnprovenEnd);
    }
    if stopped == Some(&StopReason::Cancelled) {
        return Some(ParkReason::Cancelled);
    }
    if report.outcome != Outcome::Failed {
        return None;
    }
    match report.failure_class? {
        FailureClass::Auth => Some(ParkReason::Auth),
        FailureClass::Denied => Some(ParkReason::Denied),
        FailureClass::Usage | FailureClass::Model => Some(ParkReason::Config),
        // A workspace that could not be created is created again, in a clean folder.
        // `before_run` may pass the next time.
        FailureClass::Hook if !report.preparing && report.before_run.is_none() => Some(ParkReason::Hook),
        _ => None,
    }
}

/// Returns the reason to park when no attempts are left after this one.
pub(super) fn exhausted_reason(last: &AttemptResult) -> ParkReason {
    match last.outcome {
        Outcome::Succeeded => ParkReason::NoProgress,
        _ if last.before_run.is_some() => ParkReason::Hook,
        _ => ParkReason::AttemptsUsedUp,
    }
}

impl RetryInput<'_> {
    pub(super) fn next(&self, now: Now) -> RetryDecision {
        let report = self.report;
        let backoff = |nth: u32| {
            RetryDecision::After(backoff::jittered(
                backoff::wait_after(nth, self.retry),
                self.attempt_id,
            ))
        };
        if report.has_lost_worker() {
            return match self.in_a_row.workers_lost {
                MOST_WORKERS_LOST_IN_A_ROW.. => RetryDecision::Park(ParkReason::Lost),
                0..=1 => RetryDecision::After(Duration::ZERO),
                nth => backoff(nth),
            };
        }
        if report.outcome == Outcome::Lost {
            return match self.in_a_row.lost {
                MOST_LOST_IN_A_ROW.. => RetryDecision::Park(ParkReason::Lost),
                // An interrupted attempt is retried at once; later ones, and attempts whose agent
                // never ran, wait.
                0..=1 if report.ran => RetryDecision::After(Duration::ZERO),
                nth => backoff(nth),
            };
        }
        if report.is_internal() {
            return match self.in_a_row.internal {
                MOST_INTERNAL_IN_A_ROW.. => RetryDecision::Park(ParkReason::Internal),
                nth => backoff(self.attempts.saturating_add(nth)),
            };
        }
        if let Some(wait) = report.requested_wait() {
            let waits = Retry {
                initial_backoff: self.retry.initial_backoff.max(SHORTEST_UNLIMITED_WAIT),
                max_backoff: self.retry.max_backoff.max(SHORTEST_UNLIMITED_WAIT),
                ..*self.retry
            };
            let backoff = backoff::wait_after(self.in_a_row.later, &waits);
            return RetryDecision::After(backoff::jittered(backoff, self.attempt_id).max(wait));
        }
        let scope = match self.stopped {
            Some(StopReason::OverBudget(hit)) => Some(hit.scope),
            _ => None,
        };
        match scope {
            Some(LimitScope::Attempt) => return RetryDecision::Park(ParkReason::OverBudget),
            Some(LimitScope::Issue) => return RetryDecision::Park(ParkReason::IssueLimit),
            Some(LimitScope::Day) | None => {}
        }
        if report.has_asked() {
            return match self.in_a_row.asked {
                MOST_ASKED_IN_A_ROW.. => RetryDecision::Park(ParkReason::Questions),
                _ => RetryDecision::Ask,
            };
        }
        if self.attempts >= self.allowed {
            return RetryDecision::Park(exhausted_reason(report));
        }
        if self.life_used_up {
            return RetryDecision::Park(ParkReason::IssueLimit);
        }
        // Neither a drain nor a person who takes over is a reason to wait.
        if is_uncounted_stop(report, self.stopped) {
            return RetryDecision::After(Duration::ZERO);
        }
        match self.quota_wait(now) {
            Some(wait) => RetryDecision::Quota(wait),
            None => backoff(self.attempts),
        }
    }

    fn quota_wait(&self, now: Now) -> Option<Duration> {
        let is_quota = self.report.failure_class == Some(FailureClass::RateLimit);
        let opens = self.report.resets_at.filter(|_| is_quota)?;
        let wait = Duration::try_from(SignedDuration::try_from(opens - now.wall).ok()?).ok()?;
        let spread = QUOTA_SPREAD.mul_f64(backoff::fraction(self.attempt_id));
        (!wait.is_zero()).then(|| wait.min(LONGEST_QUOTA_WAIT) + spread)
    }
}

/// Returns whether the conversation of the attempt is worth resuming: it was interrupted, not
/// finished, or the agent did not get to it.
pub(super) fn is_resumable(report: &AttemptResult) -> bool {
    match report.outcome {
        Outcome::TimedOut
        | Outcome::Stalled
        | Outcome::Lost
        | Outcome::Cancelled
        | Outcome::OverBudget
        | Outcome::Asked => true,
        Outcome::Failed => {
            report.failure_class == Some(FailureClass::RateLimit) || report.before_run.is_some()
        }
        Outcome::Succeeded => false,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use strum::VariantArray as _;
    use uuid::Uuid;

    use super::*;
    use crate::attempt::BeforeRunFailure;
    use crate::limits::{LimitHit, LimitUnit};
    use crate::time::Mono;
    use crate::worker::WorkerLoss;

    const RETRY: Retry = Retry {
        max_attempts: 3,
        initial_backoff: Span::secs(100),
        max_backoff: Span::secs(400),
    };

    fn now() -> Now {
        Now {
            wall: Timestamp::UNIX_EPOCH,
            mono: Mono::default(),
        }
    }

    fn failed(class: FailureClass) -> AttemptResult {
        AttemptResult {
            failure_class: Some(class),
            ran: true,
            ..AttemptResult::new(Outcome::Failed)
        }
    }

    fn case(report: &AttemptResult) -> RetryInput<'_> {
        RetryInput {
            report,
            attempt_id: AttemptId(Uuid::nil()),
            stopped: None,
            attempts: 1,
            allowed: 3,
            in_a_row: InARow::default(),
            life_used_up: false,
            retry: &RETRY,
        }
    }

    fn waits(next: RetryDecision, seconds: u64) {
        let RetryDecision::After(wait) = next else {
            panic!("{next:?}")
        };
        let longest = Duration::from_secs(seconds);
        assert!(wait <= longest && wait >= longest * 3 / 4, "{wait:?}");
    }

    #[test]
    fn hopeless_failure_is_parked_at_once() {
        use FailureClass as Class;
        for &class in Class::VARIANTS {
            let parked = match class {
                Class::Auth => Some(ParkReason::Auth),
                Class::Denied => Some(ParkReason::Denied),
                Class::Model | Class::Usage => Some(ParkReason::Config),
                Class::Hook => Some(ParkReason::Hook),
                Class::UnprovenEnd => Some(ParkReason::UnprovenEnd),
                _ => None,
            };
            assert_eq!(immediate_park_reason(&failed(class), None), parked, "{class}");
            if parked.is_none() {
                waits(case(&failed(class)).next(now()), 100);
            }
        }
        let making = AttemptResult {
            preparing: true,
            ..failed(Class::Hook)
        };
        assert_eq!(immediate_park_reason(&making, None), None);
        assert_eq!(
            immediate_park_reason(
                &AttemptResult::new(Outcome::Succeeded),
                Some(&StopReason::Cancelled)
            ),
            Some(ParkReason::Cancelled)
        );
    }

    #[test]
    fn quota_wait_ends_with_the_window_and_is_bounded() {
        let at = |seconds: i64| AttemptResult {
            resets_at: Some(Timestamp::from_second(seconds).unwrap()),
            ..failed(FailureClass::RateLimit)
        };
        let quota = |seconds: i64| match case(&at(seconds)).next(now()) {
            RetryDecision::Quota(wait) => wait.as_secs(),
            next => panic!("{next:?}"),
        };
        assert!((3600..=3630).contains(&quota(3600)));
        let longest = LONGEST_QUOTA_WAIT.as_secs();
        assert!((longest..=longest + 30).contains(&quota(200_000_000_000)));
        waits(case(&at(-5)).next(now()), 100);
        let report = at(3600);
        let used_up = RetryInput {
            attempts: 3,
            ..case(&report)
        };
        assert_eq!(
            used_up.next(now()),
            RetryDecision::Park(ParkReason::AttemptsUsedUp)
        );
    }

    #[test]
    fn attempts_and_lifetime_limit_park() {
        let (done, fail) = (
            AttemptResult::new(Outcome::Succeeded),
            failed(FailureClass::Agent),
        );
        let with = |report, attempts, life_used_up| {
            RetryInput {
                attempts,
                life_used_up,
                ..case(report)
            }
            .next(now())
        };
        assert_eq!(with(&done, 3, false), RetryDecision::Park(ParkReason::NoProgress));
        assert_eq!(
            with(&fail, 3, true),
            RetryDecision::Park(ParkReason::AttemptsUsedUp)
        );
        assert_eq!(with(&fail, 1, true), RetryDecision::Park(ParkReason::IssueLimit));
        waits(with(&done, 1, false), 100);
        waits(with(&fail, 2, false), 200);
    }

    #[test]
    fn lost_attempt_is_retried_at_once_and_not_for_ever() {
        let lost = |ran, lost| {
            let report = AttemptResult {
                ran,
                ..AttemptResult::new(Outcome::Lost)
            };
            RetryInput {
                in_a_row: InARow {
                    lost,
                    ..InARow::default()
                },
                attempts: 3,
                ..case(&report)
            }
            .next(now())
        };
        assert_eq!(lost(true, 1), RetryDecision::After(Duration::ZERO));
        waits(lost(false, 1), 100);
        waits(lost(true, 2), 200);
        assert_eq!(lost(true, 5), RetryDecision::Park(ParkReason::Lost));
    }

    #[test]
    fn attempt_without_its_worker_is_retried_at_once_and_parks_after_ten() {
        let worker = "a".parse().unwrap();
        let next = |lost, workers_lost| {
            // Whether the agent had started is usually unknown.
            let report = AttemptResult::lost_with(&worker, WorkerLoss::Drained);
            let in_a_row = InARow {
                lost,
                workers_lost,
                ..InARow::default()
            };
            RetryInput {
                in_a_row,
                attempts: 3,
                life_used_up: true,
                ..case(&report)
            }
            .next(now())
        };
        assert_eq!(next(4, 1), RetryDecision::After(Duration::ZERO));
        waits(next(0, 2), 200);
        waits(next(9, 9), 400);
        assert_eq!(next(0, 10), RetryDecision::Park(ParkReason::Lost));
    }

    #[test]
    fn internal_failure_uses_the_usual_backoff_and_parks_after_three() {
        let report = failed(FailureClass::Internal);
        let next = |attempts, internal| {
            RetryInput {
                in_a_row: InARow {
                    lost: 4,
                    internal,
                    ..InARow::default()
                },
                attempts,
                ..case(&report)
            }
            .next(now())
        };
        waits(next(0, 1), 100);
        waits(next(0, 2), 200);
        waits(next(1, 2), 400);
        // The failed attempt used up none, so the number of attempts decides nothing.
        waits(next(3, 1), 400);
        assert_eq!(next(0, 3), RetryDecision::Park(ParkReason::Internal));
    }

    fn not_ready(how: BeforeRunFailure) -> AttemptResult {
        AttemptResult {
            ran: false,
            before_run: Some(how),
            ..failed(FailureClass::Hook)
        }
    }

    #[test]
    fn failed_before_run_backs_off_and_parks_after_the_attempts() {
        let report = not_ready(BeforeRunFailure::Failed);
        assert_eq!(immediate_park_reason(&report, None), None);
        let next = |attempts| {
            RetryInput {
                attempts,
                ..case(&report)
            }
            .next(now())
        };
        waits(next(1), 100);
        waits(next(2), 200);
        assert_eq!(next(3), RetryDecision::Park(ParkReason::Hook));
    }

    #[test]
    fn before_run_that_asks_for_a_wait_is_tried_without_limit() {
        let next_with = |retry: &Retry, later, wait| {
            let report = not_ready(BeforeRunFailure::TryLater {
                wait: Duration::from_secs(wait),
            });
            assert_eq!(immediate_park_reason(&report, None), None);
            let in_a_row = InARow {
                lost: 4,
                workers_lost: 9,
                internal: 2,
                later,
                asked: 9,
            };
            RetryInput {
                attempts: 3,
                in_a_row,
                life_used_up: true,
                retry,
                ..case(&report)
            }
            .next(now())
        };
        let next = |later, wait| next_with(&RETRY, later, wait);
        waits(next(1, 0), 100);
        waits(next(2, 30), 200);
        waits(next(1000, 300), 400);
        assert_eq!(next(1, 3600), RetryDecision::After(Duration::from_secs(3600)));
        let at_once = Retry {
            initial_backoff: Span::secs(0),
            ..RETRY
        };
        waits(next_with(&at_once, 1, 0), 1);
        waits(next_with(&at_once, 4, 0), 8);
        waits(next_with(&at_once, 99, 0), 400);
    }

    #[test]
    fn question_waits_whatever_the_attempts_and_parks_after_ten_in_a_row() {
        let report = AttemptResult::new(Outcome::Asked);
        let next = |asked| {
            let in_a_row = InARow {
                asked,
                ..InARow::default()
            };
            RetryInput {
                attempts: 3,
                life_used_up: true,
                in_a_row,
                ..case(&report)
            }
            .next(now())
        };
        assert_eq!(next(1), RetryDecision::Ask);
        assert_eq!(next(9), RetryDecision::Ask);
        assert_eq!(next(10), RetryDecision::Park(ParkReason::Questions));
    }

    #[test]
    fn limit_parks_by_its_scope() {
        let report = AttemptResult::new(Outcome::OverBudget);
        let crossed = |scope| {
            let stopped = StopReason::OverBudget(LimitHit {
                scope,
                unit: LimitUnit::Tokens,
                spent: 2,
                limit: 1,
            });
            RetryInput {
                stopped: Some(&stopped),
                attempts: 0,
                ..case(&report)
            }
            .next(now())
        };
        assert_eq!(
            crossed(LimitScope::Attempt),
            RetryDecision::Park(ParkReason::OverBudget)
        );
        assert_eq!(
            crossed(LimitScope::Issue),
            RetryDecision::Park(ParkReason::IssueLimit)
        );
        waits(crossed(LimitScope::Day), 100);
    }

    #[test]
    fn drained_attempt_is_retried_at_once() {
        let report = AttemptResult::new(Outcome::Cancelled);
        assert_eq!(case(&report).next(now()), RetryDecision::After(Duration::ZERO));
        let moved = RetryInput {
            stopped: Some(&StopReason::StateChanged),
            ..case(&report)
        };
        waits(moved.next(now()), 100);
    }
}
