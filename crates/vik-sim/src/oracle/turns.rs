//! Checks the turns of conversations: those that are attempts, and those in the process of one.

use vik_core::attempt::{AttemptResult, Start};
use vik_core::changes::Changes;
use vik_core::ids::AttemptId;
use vik_core::time::Now;
use vik_core::turn::GrantedTurn;

use super::{Facts, Held, Oracle, ensure, number};
use crate::disk::Disk;

const COUNTED: &str = "5: the turns of a conversation are counted";
const GRANTED: &str = "5: each turn in a process is granted once, and begins once";

impl Facts {
    /// Returns the number of the last turn that came to its end with this result.
    fn last_turn(&self, report: &AttemptResult) -> u32 {
        if report.turn >= self.start.turn {
            report.turn
        } else {
            self.granted
        }
    }

    /// Returns whether the conversation may continue with another turn after this end, so that it
    /// does not count as an attempt of its run yet.
    pub(super) fn may_continue(&self, report: &AttemptResult) -> bool {
        let stage = &self.start.stage;
        let last = self.last_turn(report);
        let is_left = stage.turns.is_some_and(|turns| last < turns.max);
        let is_known = report.provider_session_id.is_some() || self.start.resume.is_some();
        is_left && stage.resume.resumes() && is_known && report.ended_turn() && !report.resume_failed
    }
}

impl Oracle {
    /// Checks the number of a turn: it follows from the turn before, and is at most `turns.max`.
    pub(super) fn check_turn(&self, start: &Start) -> Held {
        let most = start.stage.turns.map_or(0, |turns| turns.max);
        let last = self.last_facts(start.run);
        let report = last.and_then(|last| last.report.as_ref());
        let is_ended = report.is_some_and(AttemptResult::ended_turn);
        let before = match (last, report) {
            (Some(last), Some(report)) if is_ended => last.last_turn(report),
            _ => last.map_or(0, |last| last.granted),
        };
        let next = (before + u32::from(is_ended)).min(most);
        let is_known = report.is_some_and(|report| {
            let resumed = last.is_some_and(|last| last.start.resume.is_some());
            !report.resume_failed && (report.provider_session_id.is_some() || resumed)
        });
        let has_it = last.is_some_and(|last| {
            last.start.stage.agent == start.stage.agent && last.start.worker == start.worker
        });
        let must_continue =
            is_ended && is_known && has_it && start.stage.resume.resumes() && (1..most).contains(&before);
        ensure(
            start.turn == next || (start.turn == most.min(1) && !must_continue),
            COUNTED,
            || format!("turn {} after turn {before}, at most {most}", start.turn),
        )
    }

    /// Records that a turn has ended, and its agent waits for input.
    pub(crate) fn turn_ends(&mut self, attempt_id: AttemptId, turn: u32) {
        self.turns_ended.insert(attempt_id, (turn, self.seq));
    }

    /// Checks a turn that is granted to the process of an attempt, and counts it.
    pub(super) fn grants(
        &mut self,
        attempt_id: AttemptId,
        granted: GrantedTurn,
        changes: &Changes,
        now: Now,
    ) -> Held {
        let Some(facts) = self.facts.get(&attempt_id) else {
            return ensure(false, GRANTED, || format!("{attempt_id} is unknown"));
        };
        let (start, before) = (facts.start.clone(), facts.granted);
        let issue = number(&start.issue.id);
        let is_decided = changes.machines.iter().any(|machine| {
            machine.issue().id == start.issue.id && machine.granted_turn(attempt_id) == Some(granted)
        });
        if granted.turn == before && !is_decided {
            // The attempt of an earlier daemon did not receive it.
            return Ok(());
        }
        ensure(granted.turn == before + 1, GRANTED, || {
            format!("{attempt_id}: turn {} after turn {before}", granted.turn)
        })?;
        ensure(is_decided, "3: decisions are durable", || {
            format!("no change contains turn {} of {attempt_id}", granted.turn)
        })?;
        self.may_be_granted(issue, &start, attempt_id, granted, now)?;
        let first = start.turn == 1 && before == 1;
        self.books.lives[issue].attempts += u32::from(first);
        self.books.internal.remove(&(issue, start.stage.name));
        self.books.workers_lost.remove(&issue);
        if let Some(facts) = self.facts.get_mut(&attempt_id) {
            facts.granted = granted.turn;
        }
        Ok(())
    }

    /// Checks that nothing speaks against another turn in the process of an attempt.
    fn may_be_granted(
        &self,
        issue: usize,
        start: &Start,
        attempt_id: AttemptId,
        granted: GrantedTurn,
        now: Now,
    ) -> Held {
        self.nothing_holds(issue, start)?;
        self.is_approved(issue, start)?;
        let active = self.books.active.get(&attempt_id);
        ensure(
            active.is_some_and(|active| active.stopped.is_none()),
            "an attempt that is stopped gets no turn",
            || attempt_id.to_string(),
        )?;
        let stage = self.policy.stage(&start.stage.name);
        let most = stage.and_then(|stage| stage.turns).map_or(0, |turns| turns.max);
        ensure(granted.turn <= most && granted.max == most, COUNTED, || {
            format!("{attempt_id}: turn {} of {most}", granted.turn)
        })?;
        let known = &self.known[issue];
        let ended = self.turns_ended.get(&attempt_id);
        ensure(
            ended.is_some_and(|(turn, at)| turn + 1 == granted.turn && known.at > *at),
            "a turn is granted after a pull that began after the end of the one before",
            || format!("{attempt_id}: {ended:?}, last seen at {}", known.at),
        )?;
        let state = known.item.as_ref().map(|item| item.state);
        ensure(
            stage
                .zip(state)
                .is_some_and(|(stage, state)| stage.when.has_state(state) && !self.policy.is_terminal(state)),
            "a turn is granted in the state of its stage",
            || format!("issue {issue} is in state {state:?}"),
        )?;
        if let Some(item) = &self.pulled[issue] {
            self.is_not_blocked(item)?;
        }
        let (policy, life) = (&self.policy.issue, self.books.lives[issue]);
        let allowed = policy.max_attempts.saturating_add(life.extra);
        let counted = life.attempts + u32::from(start.turn == 1 && granted.turn == 2);
        ensure(counted < allowed, "5: attempts in the life of an issue", || {
            format!("issue {issue}: {counted} of {allowed}, and another turn")
        })?;
        self.day_is_left(now)
    }

    /// Checks a turn whose prompt an agent gets: it is granted in the ledger, and has not begun.
    pub(crate) fn turn_starts(&mut self, attempt_id: AttemptId, turn: u32, disk: &Disk) -> Held {
        let issue = self.facts.get(&attempt_id).map(|facts| &facts.start.issue.id);
        let machine = issue.and_then(|issue| disk.machines.get(issue));
        let granted = machine.and_then(|machine| machine.granted_turn(attempt_id));
        ensure(
            granted.is_some_and(|granted| granted.turn == turn),
            GRANTED,
            || format!("turn {turn} of {attempt_id} begins, but the ledger has {granted:?}"),
        )?;
        let ended = self.turns_ended.remove(&attempt_id);
        ensure(
            ended.is_some_and(|(before, _)| before + 1 == turn),
            GRANTED,
            || format!("turn {turn} of {attempt_id} begins after {ended:?}"),
        )
    }

    /// Forgets the turns that were granted and not committed.
    pub(super) fn turns_crashed(&mut self, disk: &Disk) {
        for (attempt_id, facts) in &mut self.facts {
            if !disk.claims.contains_key(attempt_id) {
                continue;
            }
            let machine = disk.machines.get(&facts.start.issue.id);
            let granted = machine.and_then(|machine| machine.granted_turn(*attempt_id));
            facts.granted = granted.map_or(facts.start.turn, |granted| granted.turn);
        }
    }
}
