//! Checks whether an attempt may start.

use vik_core::attempt::Start;
use vik_core::ids::RunId;
use vik_core::limits::LimitScope;
use vik_core::scheduler::Scheduler;
use vik_core::time::Now;
use vik_core::workflow::Stage;

use super::books::{Active, MOST_INTERNAL, day};
use super::{Broken, Facts, Held, NOT_TAKEN_OVER, Oracle, ensure, number};
use crate::tracker::Item;

impl Oracle {
    /// Checks the start of an attempt.
    pub(super) fn starts(&mut self, start: &Start, scheduler: &Scheduler, now: Now) -> Held {
        let issue = number(&start.issue.id);
        self.nothing_holds(issue, start)?;
        self.is_seen(issue, start)?;
        self.is_free(issue, start)?;
        self.is_not_done(start)?;
        self.keeps_its_scope(issue, start)?;
        self.has_attempts_left(issue, start, now)?;
        self.is_approved(issue, start)?;
        self.questions.starts(start)?;
        self.check_resumption(start)?;
        self.is_placed(issue, start)?;
        let profile = self.policy.agents.get(&start.stage.agent);
        self.remember(Facts {
            start: start.clone(),
            estimate: profile.map(|profile| profile.estimate).unwrap_or_default(),
            report: None,
            granted: start.turn,
        });
        self.books.active.insert(
            start.attempt_id,
            Active {
                issue,
                stage: start.stage.name.clone(),
                agent: start.stage.agent.clone(),
                parallel: start.stage.parallel,
                run: start.run,
                scope: start.intent.scope.clone(),
                worker: start.worker.clone(),
                live: Default::default(),
                stopped: None,
            },
        );
        self.last_run
            .insert((issue, start.stage.name.clone()), (start.run, false));
        self.has_slots(issue, start)?;
        let claims = scheduler.machine(&start.issue.id);
        ensure(
            claims.is_some_and(|machine| machine.active(start.attempt_id).is_some()),
            "1: a claim exists while its process tree is running",
            || format!("{} starts without a claim", start.attempt_id),
        )
    }

    pub(super) fn nothing_holds(&self, issue: usize, start: &Start) -> Held {
        ensure(!self.busy, "nothing starts under pressure", || {
            start.attempt_id.to_string()
        })?;
        ensure(
            !self.may_live(issue),
            "1: nothing starts beside an agent whose end is unproven",
            || format!("issue {issue}, stage {} starts", start.stage.name),
        )?;
        self.no_person_holds(issue, start)
    }

    /// Nobody has paused, drained, taken over or parked what starts, be it an agent or a hand-over.
    pub(super) fn no_person_holds(&self, issue: usize, start: &Start) -> Held {
        let about = || format!("issue {issue}, stage {} starts", start.stage.name);
        ensure(!self.draining, "nothing starts while draining", about)?;
        let paused = self.books.paused || self.books.paused_issues.contains(&issue);
        ensure(!paused, "nothing starts while paused", about)?;
        ensure(!self.is_taken_over(issue), NOT_TAKEN_OVER, about)?;
        let key = (issue, start.stage.name.clone());
        ensure(
            !self.books.parked.contains_key(&key),
            "parked stages stay parked",
            about,
        )
    }

    /// The limit of the day is not reached.
    pub(super) fn day_is_left(&self, now: Now) -> Held {
        let today = self.books.on(day(now.wall)).plus(self.books.live(None));
        let hit = self.policy.day_limit.reached(LimitScope::Day, today);
        ensure(
            hit.is_none(),
            "5: nothing starts after the day limit is reached",
            || format!("{hit:?}"),
        )
    }

    /// What is known of the last attempt of a run.
    pub(super) fn last_facts(&self, run: RunId) -> Option<&Facts> {
        self.facts.get(self.last_of_run.get(&run)?)
    }

    /// Checks that a person, or the time limit, approved the present text.
    pub(super) fn is_approved(&self, issue: usize, start: &Start) -> Held {
        let stage = self.policy.stage(&start.stage.name);
        let asks = stage.is_some_and(Stage::asks_before);
        let text = format!("{}.{}", start.run, start.issue.text_fingerprint());
        let approved = self.approved.get(&(issue, start.stage.name.clone()));
        ensure(
            !asks || approved == Some(&text),
            "no attempt starts until a person approves the current text",
            || {
                format!(
                    "issue {issue}, stage {} starts with {text}, but {approved:?} is approved",
                    start.stage.name
                )
            },
        )
    }

    /// Checks that the issue was seen after its last attempt, in the state of the stage and without
    /// open blockers.
    fn is_seen(&self, issue: usize, start: &Start) -> Held {
        let known = &self.known[issue];
        let Some(item) = &known.item else {
            return Err(Broken::new(
                "only issues of the tracker start",
                format!("issue {issue}"),
            ));
        };
        let stage = &start.stage;
        ensure(
            self.policy.stage(&stage.name) == Some(stage),
            "decisions use the current workflow",
            || format!("stage {}", stage.name),
        )?;
        ensure(
            stage.when.has_state(item.state) && *start.issue.state == *item.state,
            "an issue starts in the state of its stage",
            || {
                format!(
                    "issue {issue} is in state {}, but the start has {}",
                    item.state, start.issue.state
                )
            },
        )?;
        ensure(
            !self.policy.is_terminal(item.state),
            "issues in a terminal state do not start",
            || format!("issue {issue} is {}", item.state),
        )?;
        for ((of, ended), (at, _)) in &self.ended {
            let counts = *of == issue && (*ended == stage.name || !stage.parallel);
            ensure(
                !counts || known.at > *at,
                "an issue is pulled again after an attempt before the next one starts",
                || {
                    format!(
                        "issue {issue}: stage {ended} ended at {at}, but the issue was last seen at {}",
                        known.at
                    )
                },
            )?;
        }
        let was_looked_up = known
            .looked_up_at
            .is_some_and(|was_looked_up| was_looked_up >= known.at);
        ensure(
            self.policy.show.is_none() || was_looked_up,
            "with `show`, an issue is looked up right before it starts",
            || format!("issue {issue}"),
        )?;
        // If `show` was removed during a lookup, both the pull and the lookup may be valid.
        let pulled = self.pulled[issue].as_ref().filter(|_| self.policy.show.is_none());
        match pulled.map(|pulled| self.is_not_blocked(pulled)) {
            Some(Ok(())) => Ok(()),
            _ => self.is_not_blocked(item),
        }
    }

    pub(super) fn is_not_blocked(&self, item: &Item) -> Held {
        let open = |blocker: &&usize| {
            let pulled = self.pulled.get(**blocker).and_then(Option::as_ref);
            // A tracker that reports an issue missing and then present is believed after the next
            // pull.
            let known = self.known.get(**blocker).filter(|known| !known.missing);
            let now = known.and_then(|known| known.item.as_ref());
            let is_open = |item: &Item| !self.policy.is_terminal(item.state);
            pulled.is_some_and(|item| is_open(item)) && now.is_some_and(|item| is_open(item))
        };
        let blocker = item.blocked_by.iter().find(open);
        ensure(blocker.is_none(), "blocked issues do not start", || {
            format!("issue {} starts while {blocker:?} is open", item.issue)
        })
    }

    /// Checks that nothing conflicting runs.
    fn is_free(&self, issue: usize, start: &Start) -> Held {
        const ONE: &str =
            "1: at most one running process tree per (issue, stage), and one stage at a time per workspace";
        for (attempt_id, active) in self
            .books
            .active
            .iter()
            .filter(|(_, active)| active.issue == issue)
        {
            let beside = active.stage != start.stage.name && (active.parallel || start.stage.parallel);
            ensure(beside, ONE, || {
                format!("{} starts beside {attempt_id}", start.attempt_id)
            })?;
        }
        let known = self.facts.contains_key(&start.attempt_id);
        ensure(!known, ONE, || format!("{} is started again", start.attempt_id))
    }

    fn has_slots(&self, issue: usize, start: &Start) -> Held {
        let books = &self.books;
        let mut issues: Vec<usize> = books.active.values().map(|active| active.issue).collect();
        let has_slot = issues.iter().filter(|of| **of == issue).count() > 1;
        issues.sort_unstable();
        issues.dedup();
        let most = self.policy.max_issue_concurrency as usize;
        ensure(
            has_slot || issues.len() <= most,
            "slots: `max_issue_concurrency`",
            || format!("issue {issue} starts, and {} issues run", issues.len()),
        )?;
        let sessions = books.active.len();
        ensure(
            self.max_sessions.is_none_or(|most| sessions <= most as usize),
            "slots: the sessions that the limit on open files allows",
            || format!("issue {issue} starts, and {sessions} sessions are alive"),
        )?;
        let stage = &start.stage;
        let count = |of: &dyn Fn(&&Active) -> bool| books.active.values().filter(of).count();
        let profile = self
            .policy
            .agents
            .get(&stage.agent)
            .and_then(|profile| profile.max_concurrency);
        let agents = count(&|active| active.agent == stage.agent);
        ensure(
            profile.is_none_or(|most| agents <= most as usize),
            "slots: `max_concurrency` of the agent",
            || format!("{agents} attempts of {}", stage.agent),
        )?;
        let stages = count(&|active| active.stage == stage.name);
        ensure(
            stage.max_concurrency.is_none_or(|most| stages <= most as usize),
            "slots: `max_concurrency` of the stage",
            || format!("{stages} attempts of {}", stage.name),
        )
    }

    fn has_attempts_left(&self, issue: usize, start: &Start, now: Now) -> Held {
        let books = &self.books;
        let (counted, extra) = books.runs.get(&start.run).copied().unwrap_or_default();
        ensure(start.attempt == counted + 1, "5: attempts are counted", || {
            format!(
                "attempt {} of run {} after {counted} ended attempts",
                start.attempt, start.run
            )
        })?;
        let most = start.stage.retry.max_attempts.saturating_add(extra);
        ensure(start.attempt <= most, "5: `max_attempts` of a run", || {
            format!("attempt {} of {most}", start.attempt)
        })?;
        self.check_turn(start)?;
        let key = (issue, start.stage.name.clone());
        let internal = books.internal.get(&key).copied().unwrap_or(0);
        ensure(
            internal < MOST_INTERNAL,
            "three internal failures in a row park the stage",
            || {
                format!(
                    "issue {issue}, stage {} starts after {internal}",
                    start.stage.name
                )
            },
        )?;
        let same_run = self
            .last_run
            .get(&key)
            .is_none_or(|(run, may_change)| *run == start.run || *may_change);
        ensure(
            same_run,
            "5: a run ends only after its issue left the state or a person acted",
            || {
                format!(
                    "issue {issue}, stage {} starts run {}",
                    start.stage.name, start.run
                )
            },
        )?;
        let due = self.due.get(&start.run);
        ensure(
            due.is_none_or(|due| *due <= now.mono),
            "an attempt starts only after its backoff",
            || format!("issue {issue}, stage {}: due at {due:?}", start.stage.name),
        )?;
        let policy = &self.policy.issue;
        let life = books.lives[issue];
        let under_way = books
            .active
            .values()
            .filter(|active| active.issue == issue)
            .count() as u32;
        let allowed = policy.max_attempts.saturating_add(life.extra);
        ensure(
            life.attempts + under_way < allowed,
            "5: attempts in the life of an issue",
            || {
                format!(
                    "issue {issue}: {} ended and {under_way} running, {allowed} allowed",
                    life.attempts
                )
            },
        )?;
        let limit = policy.limit.above(life.forgiven);
        let spent = life.spend.plus(books.live(Some(issue)));
        let hit = limit.reached(LimitScope::Issue, spent);
        ensure(hit.is_none(), "5: spending in the life of an issue", || {
            format!("issue {issue}: {hit:?}")
        })?;
        let today = books.on(day(now.wall)).plus(books.live(None));
        self.day_is_left(now)?;
        let left = start
            .stage
            .limit
            .and(limit.left(spent))
            .and(self.policy.day_limit.left(today));
        let within = |given: Option<u64>, left: Option<u64>| match (given, left) {
            (Some(given), Some(left)) => given <= left,
            (given, left) => given.is_some() == left.is_some(),
        };
        ensure(
            within(start.budget.tokens, left.tokens)
                && within(start.budget.usd.map(|usd| usd.0), left.usd.map(|usd| usd.0)),
            "5: the budget of an attempt is the remaining amount",
            || format!("budget {:?}, remaining {left:?}", start.budget),
        )
    }
}
