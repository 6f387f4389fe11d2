//! External events: the tracker, people, clocks, load, deaths.

use vik_core::approval;
use vik_core::ids::IssueId;
use vik_core::scheduler::{
    Actor, ApprovalReply, Command, Expired, HandBack, Input, LookupResult, RemovalCause, RetryRequest,
    Scheduler, TakeOver,
};
use vik_core::time::Now;
use vik_core::workflow::RemoveWorkspace;

use super::daemon::{PendingRemoval, Pulling};
use super::{Held, World};
use crate::fault::Fault;
use crate::oracle::{Broken, ensure, number};
use crate::policy;
use crate::trace::Event;
use crate::tracker::{self, Item, Snapshot};

impl World {
    pub(super) fn time_passes(&mut self) -> Result<bool, Broken> {
        let wakeup = self.daemon.as_ref().and_then(|daemon| {
            let wait = daemon.scheduler().next_wakeup(self.clock.now())?;
            Some(wait.as_millis() as u64)
        });
        let ms = match (self.rng.weighted(&[10, 4, 3, 1]), wakeup) {
            (1, Some(wait)) => (wait + self.rng.between(0, 2)).saturating_sub(1),
            (2, _) => self.rng.between(1_000, 300_000),
            (3, _) => self.rng.between(300_000, 43_200_000),
            _ => self.rng.between(0, 2_000),
        };
        self.clock.pass(ms);
        self.trace.note(Event::Time { ms });
        Ok(true)
    }

    pub(super) fn clock_jumps(&mut self) -> Result<bool, Broken> {
        let far = self
            .rng
            .pick(&[1_000, 60_000, 3_600_000, 86_400_000, 500_000_000]);
        let ms = self.rng.between(0, 2 * far) as i64 - far as i64;
        self.clock.jump(ms);
        self.trace.note(Event::Jump { ms });
        Ok(true)
    }

    pub(super) fn tick(&mut self) -> Result<bool, Broken> {
        self.trace.note(Event::Tick {});
        self.send(Input::Tick)?;
        Ok(true)
    }

    pub(super) fn start_pull(&mut self) -> Result<bool, Broken> {
        let Some(daemon) = &mut self.daemon else {
            return Ok(false);
        };
        if daemon.pull.is_some() {
            return Ok(false);
        }
        let at_once = self.rng.percent(50);
        let printed = at_once.then(|| self.tracker.pulled(self.plan.lies, &mut self.rng));
        daemon.pull = Some(Pulling { printed });
        self.trace.note(Event::PullStarts {});
        self.oracle.start_pull();
        self.send(Input::PullStarted)?;
        Ok(true)
    }

    pub(super) fn pull_ends(&mut self) -> Result<bool, Broken> {
        let Some(pulling) = self.daemon.as_mut().and_then(|daemon| daemon.pull.take()) else {
            return Ok(false);
        };
        if self.rng.percent(self.plan.pulls_fail) {
            self.trace.note(Event::PullFails {});
            return Ok(true);
        }
        let (printed, lie) = match pulling.printed {
            Some(printed) => printed,
            None => self.tracker.pulled(self.plan.lies, &mut self.rng),
        };
        self.pull_succeeds(printed, lie)?;
        Ok(true)
    }

    /// Handles the output of a pull, which contains this falsehood.
    pub(super) fn pull_succeeds(&mut self, printed: Snapshot, lie: &'static str) -> Held {
        let distinct = tracker::distinct(&printed);
        self.trace.note(Event::Pulled {
            brought: distinct.len(),
            lie,
        });
        let text = tracker::print(&self.spoilt(printed));
        self.oracle.sees(distinct);
        let input = self.read(text)?;
        self.send(input)
    }

    /// Returns the input for the output of a pull: unchanged, if it equals the last one.
    fn read(&mut self, text: String) -> Result<Input, Broken> {
        let is_taken_for_same = self.has(Fault::ChangesUnread);
        let now = self.clock.now();
        let Some(daemon) = &self.daemon else {
            return Ok(Input::PulledUnchanged);
        };
        let core = daemon.scheduler();
        let issues = tracker::read(&text, &core.wanted());
        let recalled = self.recall(core.unknown(&issues));
        let issues = Input::Pulled { issues, recalled };
        let earlier = daemon.pulled.as_ref();
        let is_same = earlier == Some(&text) && core.can_skip_unchanged_pull();
        if is_same {
            let (read, same) = (
                effects_of(core, issues.clone(), now),
                effects_of(core, Input::PulledUnchanged, now),
            );
            ensure(read == same, "an unchanged pull has the same effects", || {
                format!("effects as a new pull: {read:#?}, effects as an unchanged pull: {same:#?}")
            })?;
        }
        let is_taken_for_same = is_taken_for_same && earlier.is_some();
        if let Some(daemon) = &mut self.daemon {
            daemon.pulled = Some(text);
        }
        Ok(if is_same || is_taken_for_same {
            Input::PulledUnchanged
        } else {
            issues
        })
    }

    /// Returns the snapshot that the core receives, with planted faults.
    fn spoilt(&mut self, printed: Snapshot) -> Snapshot {
        match self.fault {
            Some(Fault::BlockersUnheard) => printed.iter().map(|item| item.without_blockers()).collect(),
            Some(Fault::ScopesUnheard) => printed.iter().map(|item| item.without_scope()).collect(),
            Some(Fault::StrangersHeard) => printed.iter().map(|item| item.with_members()).collect(),
            Some(Fault::TurnMoveUnseen) => {
                let trees = self.host.trees.values();
                let idle: Vec<_> = trees.filter(|tree| tree.is_idle()).collect();
                let seen = |item: &std::sync::Arc<Item>| {
                    let tree = idle.iter().find(|tree| tree.issue == item.issue);
                    let before = tree.and_then(|tree| {
                        let state = &*tree.start.issue.state;
                        policy::STATES.into_iter().find(|known| *known == state)
                    });
                    before.map_or_else(|| std::sync::Arc::clone(item), |state| item.in_state(state))
                };
                printed.iter().map(seen).collect()
            }
            Some(Fault::FlapFrees) => {
                let flaps = |item: &std::sync::Arc<Item>| item.with_mark(self.oracle.flaps(item));
                printed.iter().map(flaps).collect()
            }
            _ => printed,
        }
    }

    pub(super) fn answer_lookup(&mut self) -> Result<bool, Broken> {
        let lookups = self.daemon.as_mut().map(|daemon| &mut daemon.lookups);
        let Some(id) = lookups.and_then(|lookups| self.rng.take(lookups)) else {
            return Ok(false);
        };
        let issue = number(&id);
        let how = self.rng.weighted(&[12, 3, 3, 1]);
        let (item, detail) = match how {
            0 => (self.tracker.item(issue).cloned(), "truth"),
            1 => match self.tracker.old_item(issue, &mut self.rng) {
                Some(old) => (Some(old), "old"),
                None => (self.tracker.item(issue).cloned(), "truth"),
            },
            2 => return self.finish_lookup(id, issue, None, "unknown"),
            _ => (None, "missing"),
        };
        self.finish_lookup(id, issue, Some(item), detail)
    }

    /// Ends a lookup: `None` is unknown, `Some(None)` a missing issue.
    pub(super) fn finish_lookup(
        &mut self,
        id: IssueId,
        issue: usize,
        item: Option<Option<std::sync::Arc<Item>>>,
        detail: &'static str,
    ) -> Result<bool, Broken> {
        self.trace.note(Event::Shown { issue, seen: detail });
        self.oracle.lookup_ended(issue);
        let seen = match item {
            None => LookupResult::Unknown,
            Some(None) => {
                self.oracle.on_lookup(issue, None);
                LookupResult::Missing
            }
            Some(Some(item)) => {
                let shown = self.spoilt(vec![std::sync::Arc::clone(&item)]);
                self.oracle.on_lookup(issue, Some(item));
                match shown[0].parsed() {
                    Some(parsed) => LookupResult::Snapshot(Box::new(parsed)),
                    None => LookupResult::Unknown,
                }
            }
        };
        let daemon = self.daemon.as_ref();
        let unknown = daemon.is_some_and(|daemon| daemon.scheduler().is_unknown(&id));
        let recalled = self.recall(unknown.then(|| id.clone()).into_iter().collect());
        self.send(Input::LookupFinished {
            issue: id,
            result: seen,
            recalled,
        })?;
        Ok(true)
    }

    pub(super) fn removal_is_answered(&mut self) -> Result<bool, Broken> {
        let removals = self.daemon.as_mut().map(|daemon| &mut daemon.removals);
        let Some(removal) = removals.and_then(|removals| self.rng.take(removals)) else {
            return Ok(false);
        };
        let (id, cause) = match removal {
            PendingRemoval::Workspace(id, cause) => (id, cause),
            PendingRemoval::Expired(expired) => {
                if let Some(id) = expired.issue() {
                    self.oracle.removes(number(id), &self.host)?;
                }
                self.send(Input::ExpiredRemoved(expired))?;
                return Ok(true);
            }
        };
        let issue = number(&id);
        self.oracle.removes(issue, &self.host)?;
        let removed = match (self.policy.issue.remove_workspace, cause) {
            (RemoveWorkspace::Never, _) => false,
            (RemoveWorkspace::Always, RemovalCause::Finished) => true,
            _ => self.rng.percent(60),
        };
        if removed && !self.has(Fault::RemovalForgotten) {
            self.host.workspaces.remove(&issue);
        }
        self.trace.note(Event::Removed { issue, removed });
        self.send(Input::WorkspaceRemoved { issue: id, removed })?;
        Ok(true)
    }

    /// A search for old data finds some, whatever happens meanwhile.
    pub(super) fn old_data_is_found(&mut self) -> Result<bool, Broken> {
        if self.daemon.is_none() {
            return Ok(false);
        }
        let issue = self.rng.below(self.tracker.len());
        let id = self.tracker.id(issue).clone();
        let expired = match self.rng.below(5) {
            0 => Expired::Scratch(id),
            1 => Expired::Sessions(id),
            2 => Expired::History,
            3 => Expired::Trace,
            _ => Expired::Workspace(id),
        };
        self.trace.note(Event::Expired { issue });
        let is_listed = self.oracle.is_listed(issue);
        let was_pending = self.unlisted_removals();
        self.send(Input::Expired(expired))?;
        let is_removed = self.unlisted_removals() > was_pending;
        ensure(
            !(is_removed && is_listed),
            "a workspace is removed because of its age only if no pull lists its issue",
            || format!("issue {issue}"),
        )?;
        Ok(true)
    }

    /// Somebody moves an issue to any state.
    pub(super) fn moves(&mut self, issue: usize, detail: &'static str) {
        let state = self.rng.pick(&policy::STATES);
        self.tracker.set_state(issue, state);
        self.trace.note(Event::Edited { issue, detail });
    }

    pub(super) fn issue_changes(&mut self) -> Result<bool, Broken> {
        let issue = self.rng.below(self.tracker.len());
        let detail = self.tracker.edit(issue, &mut self.rng);
        self.trace.note(Event::Edited { issue, detail });
        Ok(true)
    }

    pub(super) fn person_asks(&mut self) -> Result<bool, Broken> {
        let issue = self.rng.below(self.tracker.len());
        let id = self.tracker.id(issue).clone();
        let (ask, detail) = match self.rng.weighted(&[2, 6, 2, 4, 3, 6, 1, 12, 24, 3, 1, 6, 12]) {
            0 => (Command::Pause(None), "pause all"),
            1 => (Command::Resume(None), "resume all"),
            2 => (Command::Pause(Some(id)), "pause"),
            3 => (Command::Resume(Some(id)), "resume"),
            4 => (Command::Cancel(id), "cancel"),
            5 => {
                let more = self.rng.percent(50).then(|| self.rng.between(1, 3) as u32);
                let request = RetryRequest {
                    issue: id,
                    stage: None,
                    attempts: more,
                    agent: self.rng.percent(30),
                };
                (Command::Retry(request), "retry")
            }
            6 => (Command::Drain, "drain"),
            8 => (self.message_to(id), "message"),
            9 => (self.withdrawal_from(id), "withdraw message"),
            10 => {
                let request = TakeOver {
                    issue: id,
                    stage: None,
                    wait: self.rng.percent(30),
                };
                (Command::TakeOver(request), "take over")
            }
            11 => (hand_back(id), "hand back"),
            12 => (self.answer_to(id), "answer a question"),
            _ => {
                let message = || Some("so".to_owned());
                let answer = match self.rng.below(4) {
                    0 | 1 => approval::Answer::Approve { message: None },
                    2 => approval::Answer::Approve { message: message() },
                    _ => approval::Answer::denied(None),
                };
                let reply = ApprovalReply {
                    issue: id,
                    stage: None,
                    request: None,
                    answer,
                };
                (Command::Answer(reply), "answer")
            }
        };
        self.asks(ask, detail, issue)
    }

    pub(super) fn asks(&mut self, ask: Command, detail: &'static str, issue: usize) -> Result<bool, Broken> {
        let Some(daemon) = &mut self.daemon else {
            return Ok(false);
        };
        daemon.asked += 1;
        let number = daemon.asked;
        let named = !matches!(ask, Command::Pause(None) | Command::Resume(None) | Command::Drain);
        let issue = named.then_some(issue);
        self.trace.note(Event::Asks { detail, issue });
        self.send(Input::Command(number, ask, Actor::default()))?;
        Ok(true)
    }

    pub(super) fn workflow_is_edited(&mut self) -> Result<bool, Broken> {
        let (edited, detail) = policy::edited(&self.policy, &mut self.rng);
        self.policy = match &mut self.pool {
            Some(pool) => pool.with_demands(&edited),
            None => edited,
        };
        self.trace.note(Event::Reloads { detail });
        self.oracle.reloads(&self.policy);
        let seen = self.seen_policy();
        self.send(Input::Reloaded(seen))?;
        Ok(true)
    }

    pub(super) fn load_changes(&mut self) -> Result<bool, Broken> {
        // A machine that is always busy would test nothing.
        self.busy = !self.busy && self.rng.percent(40);
        self.trace.note(Event::Load { high: self.busy });
        let why = self.busy.then(|| "low memory".to_owned());
        self.send(Input::Pressure(why))?;
        Ok(true)
    }

    pub(super) fn daemon_dies(&mut self) -> Result<bool, Broken> {
        self.dies()?;
        if self.rng.percent(15) {
            self.trace.note(Event::Reboot {});
            self.host.trees.clear();
        }
        Ok(true)
    }

    /// Returns whether a drain is complete: nothing runs and nothing waits.
    pub(super) fn is_drained(&self) -> bool {
        self.daemon.as_ref().is_some_and(|daemon| {
            daemon.scheduler().is_draining()
                && daemon.is_settled()
                && daemon.tasks.is_empty()
                && daemon.hand_overs.is_empty()
                && daemon.lookups.is_empty()
                && daemon.removals.is_empty()
        })
    }

    pub(super) fn agent_works(&mut self) -> Result<bool, Broken> {
        if self.host.trees.is_empty() {
            return Ok(false);
        }
        let at = self.rng.below(self.host.trees.len());
        let Some((&attempt_id, tree)) = self.host.trees.iter_mut().nth(at) else {
            return Ok(false);
        };
        if tree.waits() {
            return Ok(false);
        }
        let exit = tree.work();
        let (issue, spent, reports_spend) = (tree.issue, tree.spent, tree.reports_spend);
        let given_up = tree.given_up;
        self.trace.note(Event::Works {
            attempt_id,
            tokens: spent.tokens,
            micro_usd: spent.usd.0,
        });
        if let Some(files) = self
            .host
            .files
            .get_mut(&attempt_id)
            .filter(|_| reports_spend && !given_up)
        {
            files.reported = Some(spent);
        }
        let Some(exit) = exit else {
            self.turn_ends(attempt_id);
            return Ok(true);
        };
        if exit.is_unproven() && !given_up {
            // It lives on for a while unobserved.
            if let Some(tree) = self.host.trees.get_mut(&attempt_id) {
                tree.give_up();
            }
        } else {
            self.host.trees.remove(&attempt_id);
        }
        if given_up {
            return Ok(true);
        }
        self.trace.note(Event::Exited {
            attempt_id,
            how: if exit.is_unproven() { "unproven" } else { "exited" },
        });
        if exit.moves() {
            self.moves(issue, "moved by its agent");
        }
        if let Some(files) = self.host.files.get_mut(&attempt_id) {
            files.exit = Some(exit);
        }
        Ok(true)
    }

    /// Kills a shim with its agent, or only the agent.
    pub(super) fn tree_is_killed(&mut self) -> Result<bool, Broken> {
        if self.host.trees.is_empty() {
            return Ok(false);
        }
        let at = self.rng.below(self.host.trees.len());
        let Some((&attempt_id, tree)) = self.host.trees.iter().nth(at) else {
            return Ok(false);
        };
        let alone = self.rng.percent(50);
        let (exit, given_up) = (tree.killed(), tree.given_up);
        self.host.trees.remove(&attempt_id);
        if !given_up
            && alone
            && let Some(files) = self.host.files.get_mut(&attempt_id)
        {
            files.exit = Some(exit);
        }
        self.trace.note(Event::Exited {
            attempt_id,
            how: if alone {
                "agent killed"
            } else {
                "shim and agent killed"
            },
        });
        Ok(true)
    }

    pub(super) fn old_report_comes_again(&mut self) -> Result<bool, Broken> {
        if self.reports.is_empty() || self.daemon.is_none() {
            return Ok(false);
        }
        let at = self.rng.below(self.reports.len());
        let (issue, mut attempt_id, report) = self.reports[at].clone();
        if self.rng.percent(30) {
            self.trace.note(Event::Again {
                attempt_id,
                detail: "spend",
            });
            let spend = report.spend.unwrap_or_default();
            self.send(Input::Spent {
                issue,
                attempt_id,
                spend,
            })?;
            return Ok(true);
        }
        self.trace.note(Event::Again {
            attempt_id,
            detail: "end",
        });
        if self.has(Fault::StaleEndAccepted)
            && let Some(now) = self.oracle.active_attempt(number(&issue))
        {
            attempt_id = now;
        }
        self.send(Input::Ended {
            issue,
            attempt_id,
            report,
        })?;
        Ok(true)
    }
}

/// Returns what the core would do for an input, sorted because the order is not guaranteed.
fn effects_of(core: &Scheduler, input: Input, now: Now) -> Vec<String> {
    let mut core = core.clone();
    let effects = core.handle(now, input);
    let changes = core.take_changes();
    let mut outcome: Vec<String> = effects.iter().map(|effect| format!("{effect:?}")).collect();
    outcome.extend(changes.machines.iter().map(|machine| format!("{machine:?}")));
    outcome.extend(changes.decisions.iter().map(|decision| format!("{decision:?}")));
    outcome.push(format!("{:?}", core.next_wakeup(now)));
    outcome.sort();
    outcome
}

/// Returns the command of a person who changed a file.
pub(super) fn hand_back(issue: IssueId) -> Command {
    Command::HandBack(HandBack {
        issue,
        message: None,
        files: vec!["a.rs".to_owned()],
    })
}
