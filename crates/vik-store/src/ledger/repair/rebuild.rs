//! Rebuilds the contents of a ledger from salvaged data and from the files of the attempts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use vik_core::attempt::{AttemptResult, Start};
use vik_core::changes::{Changes, Decision, EndedAttempt, StartedAttempt};
use vik_core::decision_kind::DecisionKind;
use vik_core::ids::{AttemptId, IssueId};
use vik_core::limits::{Charges, Spend, estimated};
use vik_core::machine::{IssueMachine, LifetimeUsage, PullNo};
use vik_core::outcome::{CostSource, Outcome};
use vik_core::time::{Mono, Now};

use super::logs::Found;
use super::salvage::{self, Salvaged, raise_day};

/// The data on one attempt.
struct Known {
    started: StartedAttempt,
    start: Option<(Start, Spend)>,
    ended: Option<EndedAttempt>,
    /// Whether the damaged ledger contained the attempt; then its machine contains it too.
    was_stored: bool,
}

/// Merges both sources. Each counter becomes the larger one of the two values.
pub(super) fn rebuild(salvaged: Salvaged, found: Vec<Found>, now: Timestamp) -> Changes {
    let mut changes = Changes {
        runs_over: salvaged.runs_over,
        paused: Some(salvaged.paused),
        decisions: salvaged.decisions,
        ..Changes::default()
    };
    let mut issues: BTreeMap<IssueId, BTreeMap<AttemptId, Known>> = BTreeMap::new();
    for (attempt_id, stored) in salvaged.attempts {
        let known = Known {
            started: stored.started,
            start: None,
            ended: stored.ended,
            was_stored: true,
        };
        let issue = known.started.issue.clone();
        issues.entry(issue).or_default().insert(attempt_id, known);
    }
    for found in found {
        let attempts = issues.entry(found.started.issue.clone()).or_default();
        let known = attempts.entry(found.started.attempt_id).or_insert_with(|| Known {
            started: found.started,
            start: None,
            ended: None,
            was_stored: false,
        });
        known.start = found.start;
        known.ended = known.ended.take().or(found.ended);
    }
    let mut machines = salvaged.machines;
    for issue in machines.keys() {
        issues.entry(issue.clone()).or_default();
    }
    for (issue, attempts) in issues {
        let mut attempts: Vec<_> = attempts.into_values().collect();
        attempts.sort_by_key(|known| (known.started.at, known.started.attempt_id));
        let machine = machines.remove(&issue);
        if let Some(machine) = rebuild_machine(&issue, machine, &mut attempts, salvaged.history_before, now) {
            changes.machines.push(machine);
            for known in attempts {
                changes.ended.extend(known.ended);
                changes.started.push(known.started);
            }
        }
    }
    changes.days = days(salvaged.days, &changes.ended);
    changes.decisions.push(Decision {
        at: now,
        issue: None,
        stage: None,
        run: None,
        attempt_id: None,
        kind: DecisionKind::Repaired,
        detail:
            "the ledger was damaged or missing; it was rebuilt from its readable parts and from the session logs"
                .to_owned(),
    });
    changes
}

/// Rebuilds the machine of one issue. Attempts that are active in the machine have no end
/// afterwards, and all others have one.
fn rebuild_machine(
    issue: &IssueId,
    stored: Option<IssueMachine>,
    attempts: &mut Vec<Known>,
    history_before: Option<Timestamp>,
    now: Timestamp,
) -> Option<IssueMachine> {
    let is_new = stored.is_none();
    let mut machine = match stored {
        Some(machine) => machine,
        None => {
            let snapshot = attempts.iter().rev().find_map(|known| known.start.as_ref());
            let snapshot = snapshot.map(|(start, _)| start.issue.clone());
            IssueMachine::new(
                snapshot.or_else(|| salvage::issue(issue, "", ""))?,
                LifetimeUsage::default(),
            )
        }
    };
    let active_ids = active(&machine);
    let last_stored = newest_known(&machine, attempts);
    for known in attempts.iter() {
        let key = (known.started.at, known.started.attempt_id);
        let is_later = is_new || (!known.was_stored && last_stored.is_none_or(|last| key > last));
        let is_open = known.ended.is_none() && !active_ids.contains(&known.started.attempt_id);
        // The ledger no longer contained it because of its age, and its machine counts it.
        let is_counted =
            !is_new && !known.was_stored && history_before.is_some_and(|before| known.started.at < before);
        let is_wanted = (is_later || is_open) && !is_counted;
        if let Some((start, estimate)) = known.start.as_ref().filter(|_| is_wanted) {
            machine.restore_attempt(start.clone(), *estimate, known.started.at);
            if let Some(ended) = &known.ended {
                end_attempt(&mut machine, ended);
            }
        }
    }
    let active_ids = active(&machine);
    let mut life = LifetimeUsage::default();
    for known in attempts.iter_mut() {
        if active_ids.contains(&known.started.attempt_id) {
            // The daemon that resumes the attempt reports its end and charges it.
            known.ended = None;
            continue;
        }
        let ended = known
            .ended
            .get_or_insert_with(|| lost_attempt(known.started.attempt_id, now));
        let report = &ended.report;
        let is_uncounted = matches!(report.outcome, Outcome::Lost | Outcome::Cancelled)
            || report.is_internal()
            || report.requested_wait().is_some();
        life.attempts += u32::from(!is_uncounted);
        let charged = charges(ended);
        life.spend = life.spend.plus(charged.total);
        life.estimated = life.estimated.plus(charged.estimated);
    }
    machine.raise_usage(&life);
    for start in machine.runs().iter().filter_map(|run| run.active()) {
        if attempts
            .iter()
            .all(|known| known.started.attempt_id != start.attempt_id)
        {
            attempts.push(Known {
                started: claim(start, now),
                start: None,
                ended: None,
                was_stored: true,
            });
        }
    }
    Some(machine)
}

fn active(machine: &IssueMachine) -> BTreeSet<AttemptId> {
    let starts = machine.runs().iter().filter_map(|run| run.active());
    starts.map(|start| start.attempt_id).collect()
}

/// Returns the latest attempt that the stored machine contains; later ones are not in its counters.
fn newest_known(machine: &IssueMachine, attempts: &[Known]) -> Option<(Timestamp, AttemptId)> {
    let mut named = active(machine);
    named.extend(machine.runs().iter().filter_map(|run| run.last_attempt));
    attempts
        .iter()
        .filter(|known| known.was_stored || named.contains(&known.started.attempt_id))
        .map(|known| (known.started.at, known.started.attempt_id))
        .max()
}

fn end_attempt(machine: &mut IssueMachine, ended: &EndedAttempt) {
    let then = Now {
        wall: ended.at,
        mono: Mono(Duration::ZERO),
    };
    // The first pull of the next daemon shows the changes of the attempt.
    let report = ended.report.clone();
    machine.on_attempt_ended(ended.attempt_id, report, None, charges(ended), PullNo(1), then);
}

fn charges(ended: &EndedAttempt) -> Charges {
    Charges {
        total: ended.charged,
        estimated: estimated(ended.report.spend, ended.charged, ended.source),
    }
}

fn lost_attempt(attempt_id: AttemptId, at: Timestamp) -> EndedAttempt {
    EndedAttempt {
        attempt_id,
        at,
        report: AttemptResult {
            reason: Some("the ledger was damaged and has no record of the end of the attempt".to_owned()),
            ..AttemptResult::new(Outcome::Lost)
        },
        charged: Spend::default(),
        source: CostSource::None,
    }
}

fn claim(start: &Start, at: Timestamp) -> StartedAttempt {
    StartedAttempt {
        attempt_id: start.attempt_id,
        run: start.run,
        issue: start.issue.id.clone(),
        stage: start.stage.name.clone(),
        agent: start.stage.agent.clone(),
        attempt: start.attempt,
        resumed_from: start.resume.as_ref().map(|resume| resume.attempt_id),
        at,
    }
}

/// Returns the sums of each day: at least those of the charges of its attempts.
fn days(mut days: BTreeMap<Date, Charges>, ended: &[EndedAttempt]) -> Vec<(Date, Charges)> {
    let mut sums = BTreeMap::<_, Charges>::new();
    for ended in ended.iter().filter(|ended| ended.charged != Spend::default()) {
        let sum = sums.entry(ended.at.to_zoned(TimeZone::UTC).date()).or_default();
        *sum = sum.plus(charges(ended));
    }
    for (day, sum) in sums {
        raise_day(&mut days, day, sum);
    }
    days.into_iter().collect()
}
