//! When pulls are due, and how their results are processed.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use vik_api::{DaemonState, LastPull};
use vik_base::report::{self, one_line};
use vik_core::issue::{Misspelled, Pull, Skipped};
use vik_core::scheduler::Input;
use vik_session::host::millis;

use super::{Event, Orchestrator, PULL_GAP, Progress};
use crate::intake::{self, PullError};

/// The maximum number of warnings in a status.
const MAX_WARNINGS: usize = 20;

/// The output of a pull command.
#[derive(Debug)]
pub(super) struct PullOutput {
    started: Instant,
    /// A digest under a key of this process, so that nobody can craft a list with an equal digest.
    digest: u64,
    output: Vec<u8>,
}

/// The last pull that succeeded.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastGoodPull {
    digest: u64,
    issues: usize,
    skipped: usize,
}

impl Orchestrator {
    pub(super) fn may_pull(&self) -> bool {
        let max_pulls = self.options.max_iterations.or(self.workflow.max_iterations);
        self.state == DaemonState::Running && max_pulls.is_none_or(|max_pulls| self.iterations < max_pulls)
    }

    pub(super) fn ask_for_pull(&mut self) {
        let earliest = self
            .pull_started
            .map_or_else(Instant::now, |started| started + PULL_GAP);
        self.pull_due = Some(self.pull_due.map_or(earliest, |due| due.min(earliest)));
    }

    /// Requests a pull as [`ask_for_pull`](Self::ask_for_pull), and a further one if a pull is
    /// running, because that one may have read the tracker before the change.
    pub(super) fn ask_for_fresh_pull(&mut self) {
        self.pull_again |= self.pulling;
        self.ask_for_pull();
    }

    pub(super) fn start_due_pull(&mut self) {
        if self.pulling || !self.may_pull() || self.pull_due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        self.pulling = true;
        self.pull_due = None;
        self.pull_started = Some(Instant::now());
        self.iterations += 1;
        self.handle(Input::PullStarted);
        let (host, workflow, cancel) = (
            Arc::clone(&self.host),
            Arc::clone(&self.workflow),
            self.cancel_lookups.clone(),
        );
        let (events, key) = (self.events.0.clone(), self.digest_key.clone());
        let started = Instant::now();
        tokio::spawn(async move {
            let stderr = host.layout.service_dir().join("pull.stderr.log");
            let event = match intake::run_pull_command(&host, &workflow, &stderr, cancel.cancelled()).await {
                Ok(output) => Event::Printed(PullOutput {
                    started,
                    digest: key.hash_one(&*output),
                    output,
                }),
                Err(error) => Event::PullFailed(started.elapsed(), error),
            };
            let _ = events.send(event);
        });
    }

    /// Processes the output of a pull. Most pulls print the same as the one before, and parsing is
    /// most of the cost, so that equal output is not parsed again.
    pub(super) fn on_printed(&mut self, printed: PullOutput) {
        let PullOutput {
            started,
            digest,
            output,
        } = printed;
        if let Some(last_good) = self.last_good.filter(|last_good| last_good.digest == digest)
            && self.scheduler.can_skip_unchanged_pull()
        {
            self.on_pull_succeeded(last_good, &[], started.elapsed());
            self.handle(Input::PulledUnchanged);
            return;
        }
        let (events, wanted) = (self.events.0.clone(), self.scheduler.wanted());
        tokio::spawn(async move {
            let event = match intake::read(output, Some(wanted)).await {
                Ok(pull) => Event::Pulled(started.elapsed(), digest, pull),
                Err(error) => Event::PullFailed(started.elapsed(), error),
            };
            let _ = events.send(event);
        });
    }

    pub(super) fn on_pulled(&mut self, duration: Duration, digest: u64, pull: Pull) {
        for skipped in &pull.skipped {
            tracing::warn!(
                index = skipped.index,
                id = skipped.id,
                reason = skipped.reason,
                "item skipped"
            );
        }
        // Each warning is logged once while it persists.
        let warnings: BTreeSet<_> = pull.warnings.into_iter().collect();
        for warning in warnings.difference(&self.field_warnings) {
            tracing::warn!(issue = %warning.issue, field = warning.field, "{warning}");
        }
        self.field_warnings = warnings;
        let good = LastGoodPull {
            digest,
            issues: pull.count,
            skipped: pull.skipped.len(),
        };
        self.last_good = Some(good);
        self.mark_named_issues(&pull.issues);
        self.note_misspelled(&pull.misspelled);
        self.on_pull_succeeded(good, &pull.skipped, duration);
        self.handle(Input::Pulled(pull.issues));
    }

    fn on_pull_succeeded(&mut self, pull: LastGoodPull, skipped: &[Skipped], duration: Duration) {
        self.counts.ok += 1;
        self.counts.failed_in_a_row = 0;
        let last = LastPull {
            at: Timestamp::now(),
            ok: true,
            issues: pull.issues,
            skipped: pull.skipped,
            warnings: self.shown_warnings(),
            duration_ms: millis(duration),
            error: None,
        };
        tracing::debug!(
            issues = last.issues,
            skipped = last.skipped,
            took_ms = last.duration_ms,
            "pulled"
        );
        let issues = pull.issues;
        let warnings = &self.field_warnings;
        self.observer.on_progress(&Progress::Pulled {
            issues,
            skipped,
            warnings,
        });
        self.finish_pull(last);
    }

    /// Returns the warnings of the last good pull, up to the limit of a status.
    fn shown_warnings(&self) -> Vec<String> {
        let warnings = self.field_warnings.iter().take(MAX_WARNINGS);
        warnings
            .map(|warning| vik_mask::mask(&one_line(&warning.to_string(), 200)).into_owned())
            .collect()
    }

    pub(super) fn on_pull_failed(&mut self, duration: Duration, error: &PullError) {
        let mut last = LastPull {
            at: Timestamp::now(),
            ok: false,
            issues: 0,
            skipped: 0,
            warnings: Vec::new(),
            duration_ms: millis(duration),
            error: None,
        };
        if matches!(error, PullError::Cancelled) && self.cancel_lookups.is_cancelled() {
            self.pulling = false;
            self.last_pull = Some(last);
            return;
        }
        self.counts.failed += 1;
        self.counts.failed_in_a_row += 1;
        let text = report::chain(error);
        tracing::error!(
            error = text,
            in_a_row = self.counts.failed_in_a_row,
            "pull failed"
        );
        self.observer.on_progress(&Progress::PullFailed { error: &text });
        last.error = Some(text);
        self.finish_pull(last);
    }

    /// Schedules the next pull after the pause, or earlier if the result of this one requested it.
    fn finish_pull(&mut self, last: LastPull) {
        self.pulling = false;
        self.last_pull = Some(last);
        self.pull_due = Some(Instant::now() + self.workflow.pull.idle.0);
        if std::mem::take(&mut self.pull_again) {
            self.ask_for_pull();
        }
    }

    /// Warns once about issues whose state differs from a stage's state only in case, because
    /// nothing will start for them.
    fn note_misspelled(&mut self, found: &[Misspelled]) {
        let policy = &self.workflow.issue;
        let named = &self.options.filter.issues;
        let lines: Vec<_> = found
            .iter()
            .filter(|issue| !self.workflow.is_terminal(&issue.state))
            .filter(|issue| named.is_empty() || named.contains(&issue.id))
            .map(|issue| {
                let stage = policy.stages.iter().find(|stage| stage.when_state == *issue.wanted);
                format!(
                    "issue {} is in the state `{}`, which no stage takes: did you mean `{}` (stage `{}`)? States are compared exactly",
                    one_line(issue.id.as_str(), 60),
                    one_line(&issue.state, 60),
                    issue.wanted,
                    stage.map_or("?", |stage| stage.name.as_str())
                )
            })
            .collect();
        for text in lines.iter().filter(|line| !self.misspelled.contains(line)) {
            tracing::warn!("{text}");
            self.observer.on_progress(&Progress::Warning { text });
        }
        self.misspelled = lines;
    }

    pub(super) fn mark_named_issues(&mut self, issues: &[vik_core::issue::Issue]) {
        for (id, found) in &mut self.found {
            *found |= issues.iter().any(|issue| {
                issue.id == *id
                    && self
                        .workflow
                        .issue
                        .stages
                        .iter()
                        .any(|stage| stage.when_state == *issue.state)
            });
        }
    }
}
