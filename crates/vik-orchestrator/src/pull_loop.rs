//! When pulls are due, and what their results mean.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use vik_api::{PullCounts, PullView};
use vik_base::report::{self, one_line};
use vik_core::backoff;
use vik_core::ids::IssueId;
use vik_core::issue::{FieldWarning, Issue, Misspelled, Pull, Skipped};
use vik_core::scheduler::{Input, Recalled, Scheduler};
use vik_core::time::Mono;
use vik_core::workflow::Workflow;
use vik_session::host::millis;

use crate::Progress;
use crate::commit_queue::{CommitFailure, CommitQueue};
use crate::effects::{Effects, PullDigest, PullOutput, Task};
use crate::intake::PullError;

/// The minimum time between the starts of two pulls, however many requests there are for one.
const PULL_GAP: Duration = Duration::from_millis(200);

/// The longest wait between failed pulls, unless the usual one is longer.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5 * 60);

/// The maximum number of warnings in a status.
const MAX_WARNINGS: usize = 20;

/// The number of pulls that are remembered.
const MAX_RECENT: usize = 200;

/// The pulls: at most one runs at a time.
pub(crate) struct PullLoop {
    running: Option<Task<PullStep>>,
    /// Whether another pull was requested while one ran.
    again: bool,
    /// When the next pull is due.
    due: Option<Mono>,
    /// When the last pull started.
    started: Option<Mono>,
    /// The number of pulls that were started.
    count: u64,
    counts: PullCounts,
    /// The latest pulls, latest first.
    recent: VecDeque<PullView>,
    last_good: Option<LastGoodPull>,
    /// The fields of the last good pull that have the wrong type.
    field_warnings: BTreeSet<FieldWarning>,
    /// The issues named by `--issue`.
    named: Vec<NamedIssue>,
    /// The issues of the last good pull whose state differs from a stage's state only in case: one
    /// line each.
    misspelled: Vec<String>,
}

/// The last pull that succeeded.
#[derive(Clone, Copy, Debug)]
struct LastGoodPull {
    digest: PullDigest,
    issues: usize,
    skipped: usize,
}

/// An issue named by `--issue`.
struct NamedIssue {
    id: IssueId,
    /// Whether a pull returned it in the state of a stage.
    is_found: bool,
}

/// A step that a pull has taken.
pub(crate) enum PullStep {
    /// The tracker has answered, or could not.
    Answered(Result<PullOutput, PullError>),
    /// The answer was read.
    Read(Result<Pull, PullError>, PullDigest),
    /// The ledger has answered what it has of the issues that are new to memory.
    Recalled(Pull, PullDigest, Result<Recalled, CommitFailure>),
}

/// What the end of a pull depends on.
pub(crate) struct PullContext<'a> {
    pub(crate) workflow: &'a Workflow,
    pub(crate) effects: &'a mut dyn Effects,
    pub(crate) scheduler: &'a Scheduler,
    pub(crate) commits: &'a CommitQueue,
    /// Whether pulls were cancelled.
    pub(crate) is_cancelled: bool,
}

impl PullLoop {
    /// Creates a loop whose first pull is due now.
    pub(crate) fn new(now: Mono, named: &[IssueId]) -> Self {
        let named = named.iter().map(|id| NamedIssue {
            id: id.clone(),
            is_found: false,
        });
        Self {
            running: None,
            again: false,
            due: Some(now),
            started: None,
            count: 0,
            counts: PullCounts::default(),
            recent: VecDeque::new(),
            last_good: None,
            field_warnings: BTreeSet::new(),
            named: named.collect(),
            misspelled: Vec::new(),
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns whether fewer than `max` pulls were started.
    pub(crate) fn has_pulls_left(&self, max: Option<u64>) -> bool {
        max.is_none_or(|max| self.count < max)
    }

    /// Returns when the next pull is due; `None` while one runs.
    pub(crate) fn due(&self) -> Option<Mono> {
        self.due.filter(|_| self.running.is_none())
    }

    pub(crate) fn counts(&self) -> PullCounts {
        self.counts
    }

    pub(crate) fn last(&self) -> Option<&PullView> {
        self.recent.front()
    }

    /// Returns the latest pulls, latest first.
    pub(crate) fn recent(&self) -> impl Iterator<Item = &PullView> {
        self.recent.iter()
    }

    pub(crate) fn misspelled(&self) -> &[String] {
        &self.misspelled
    }

    /// Returns the issues named by `--issue` that no pull returned in the state of a stage.
    pub(crate) fn not_found(&self) -> impl Iterator<Item = &IssueId> {
        let missing = self.named.iter().filter(|issue| !issue.is_found);
        missing.map(|issue| &issue.id)
    }

    /// Returns when the next pull is due, if the last one failed.
    pub(crate) fn next_after_failure(&self) -> Option<Mono> {
        self.due().filter(|_| self.counts.failed_in_a_row > 0)
    }

    /// Requests a pull soon, because of a decision. While pulls fail, it follows the back-off.
    pub(crate) fn request(&mut self, now: Mono) {
        if self.counts.failed_in_a_row == 0 {
            self.hasten(now);
        }
    }

    fn hasten(&mut self, now: Mono) {
        let earliest = self.started.map_or(now, |started| started.plus(PULL_GAP));
        self.due = Some(self.due.map_or(earliest, |due| due.min(earliest)));
    }

    /// Requests a pull soon, because somebody asks for it, also while pulls fail; and a further one
    /// if a pull is running, because that one may have read the tracker before the change.
    pub(crate) fn request_fresh(&mut self, now: Mono) {
        self.again |= self.is_running();
        self.hasten(now);
    }

    pub(crate) fn start(&mut self, now: Mono, effects: &mut dyn Effects) {
        self.due = None;
        self.started = Some(now);
        self.count += 1;
        let pull = effects.pull();
        self.running = Some(Box::pin(async { PullStep::Answered(pull.await) }));
    }

    /// Waits for the next step of the running pull; never returns if none runs. Cancelling the call
    /// loses nothing.
    pub(crate) async fn next(&mut self) -> PullStep {
        let Some(task) = &mut self.running else {
            return std::future::pending().await;
        };
        let end = task.as_mut().await;
        self.running = None;
        end
    }

    /// Processes a step of a pull, and returns the input for the scheduler that follows from it.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub(crate) fn on_step(
        &mut self,
        step: PullStep,
        context: &mut PullContext<'_>,
    ) -> Result<Option<Input>, CommitFailure> {
        let result = match step {
            PullStep::Recalled(pull, digest, recalled) => {
                return Ok(self.on_read(pull, digest, recalled?, context));
            }
            PullStep::Read(Ok(pull), digest) => {
                return Ok(self.on_read(pull, digest, Recalled::default(), context));
            }
            PullStep::Read(Err(error), _) => Err(error),
            PullStep::Answered(result) => result,
        };
        Ok(match result {
            Ok(output) => self.on_output(output, context),
            Err(error) => {
                self.on_failure(&error, context);
                None
            }
        })
    }

    /// Processes the output of a pull. Most pulls print the same as the one before, and reading is
    /// most of the cost.
    fn on_output(&mut self, output: PullOutput, context: &mut PullContext<'_>) -> Option<Input> {
        let digest = output.digest;
        let can_skip = context.scheduler.can_skip_unchanged_pull();
        if let Some(good) = self.last_good.filter(|good| can_skip && good.digest == digest) {
            self.on_success(good, &[], context);
            return Some(Input::PulledUnchanged);
        }
        let read = context.effects.read_pull(output, context.scheduler.wanted());
        self.running = Some(Box::pin(async move { PullStep::Read(read.await, digest) }));
        None
    }

    /// Processes the issues of a pull. The pull goes on until the ledger was asked for each of them
    /// that the scheduler would add: a reload can add some in the meantime.
    fn on_read(
        &mut self,
        pull: Pull,
        digest: PullDigest,
        recalled: Recalled,
        context: &mut PullContext<'_>,
    ) -> Option<Input> {
        let unknown = context.scheduler.unknown(&pull.issues);
        if unknown.iter().any(|issue| !recalled.contains(issue)) {
            let recall = context.commits.recall(unknown.clone());
            self.running = Some(Box::pin(async move {
                let recalled = recall.await.map(|machines| Recalled::new(unknown, machines));
                PullStep::Recalled(pull, digest, recalled)
            }));
            return None;
        }
        let issues = self.on_changed(pull, digest, context);
        Some(Input::Pulled { issues, recalled })
    }

    fn on_changed(&mut self, pull: Pull, digest: PullDigest, context: &mut PullContext<'_>) -> Vec<Issue> {
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
        self.mark_named_issues(&pull.issues, context.workflow);
        self.note_misspelled(&pull.misspelled, context.workflow, context.effects);
        self.on_success(good, &pull.skipped, context);
        pull.issues
    }

    fn on_success(&mut self, pull: LastGoodPull, skipped: &[Skipped], context: &mut PullContext<'_>) {
        self.counts.ok += 1;
        self.counts.failed_in_a_row = 0;
        let last = PullView {
            at: context.effects.now().wall,
            ok: true,
            issues: pull.issues,
            skipped: pull.skipped,
            warnings: self.shown_warnings(),
            duration_ms: millis(self.duration(context)),
            error: None,
            next_at: None,
        };
        tracing::debug!(
            issues = last.issues,
            skipped = last.skipped,
            took_ms = last.duration_ms,
            "pulled"
        );
        context.effects.publish(&Progress::Pulled {
            issues: pull.issues,
            skipped,
            warnings: &self.field_warnings,
        });
        self.finish(last, context.workflow.pull.idle.0, context);
    }

    /// Returns how long the current pull has taken.
    fn duration(&self, context: &PullContext<'_>) -> Duration {
        let started = self.started.unwrap_or_default();
        started.until(context.effects.now().mono)
    }

    /// Returns the warnings of the last good pull, up to the limit of a status.
    fn shown_warnings(&self) -> Vec<String> {
        let warnings = self.field_warnings.iter().take(MAX_WARNINGS);
        warnings
            .map(|warning| vik_mask::mask(&one_line(&warning.to_string(), 200)).into_owned())
            .collect()
    }

    fn on_failure(&mut self, error: &PullError, context: &mut PullContext<'_>) {
        let mut last = PullView {
            at: context.effects.now().wall,
            ok: false,
            issues: 0,
            skipped: 0,
            warnings: Vec::new(),
            duration_ms: millis(self.duration(context)),
            error: None,
            next_at: None,
        };
        if matches!(error, PullError::Cancelled) && context.is_cancelled {
            self.push(last);
            return;
        }
        self.counts.failed += 1;
        self.counts.failed_in_a_row += 1;
        let wait = self.backoff(context.workflow.pull.idle.0, error.requested_wait());
        let text = report::chain(error);
        tracing::error!(
            error = text,
            in_a_row = self.counts.failed_in_a_row,
            wait_ms = millis(wait),
            "pull failed"
        );
        context
            .effects
            .publish(&Progress::PullFailed { error: &text, wait });
        last.error = Some(text);
        self.finish(last, wait, context);
    }

    /// Returns the wait after a failed pull: the usual one, doubled with each further failure, and
    /// at least the one that the command asked for.
    fn backoff(&self, idle: Duration, requested: Duration) -> Duration {
        let failed = u32::try_from(self.counts.failed_in_a_row).unwrap_or(u32::MAX);
        backoff::doubled(idle, failed, LONGEST_BACKOFF.max(idle)).max(requested)
    }

    fn push(&mut self, pull: PullView) {
        self.recent.truncate(MAX_RECENT - 1);
        self.recent.push_front(pull);
    }

    /// Schedules the next pull after the wait, or earlier if it was requested in the meantime.
    fn finish(&mut self, last: PullView, wait: Duration, context: &mut PullContext<'_>) {
        let now = context.effects.now().mono;
        // A decision may have requested a pull that begins after it, and this one began before.
        let requested = self.due.take().filter(|_| last.ok);
        self.push(last);
        let usual = now.plus(wait);
        self.due = Some(requested.map_or(usual, |requested| requested.min(usual)));
        if std::mem::take(&mut self.again) {
            self.hasten(now);
        }
    }

    /// Warns once about issues whose state differs from a stage's state only in case, because
    /// nothing will start for them.
    fn note_misspelled(&mut self, found: &[Misspelled], workflow: &Workflow, effects: &mut dyn Effects) {
        let is_named = |id: &IssueId| self.named.is_empty() || self.named.iter().any(|issue| issue.id == *id);
        let lines: Vec<_> = found
            .iter()
            .filter(|issue| !workflow.is_terminal(&issue.state))
            .filter(|issue| is_named(&issue.id))
            .map(|issue| {
                let mut stages = workflow.issue.stages.iter();
                let stage = stages.find(|stage| stage.when.has_state(&issue.wanted));
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
            effects.publish(&Progress::Warning { text });
        }
        self.misspelled = lines;
    }

    fn mark_named_issues(&mut self, issues: &[Issue], workflow: &Workflow) {
        let stages = &workflow.issue.stages;
        for named in &mut self.named {
            named.is_found |= issues.iter().any(|issue| {
                issue.id == named.id && stages.iter().any(|stage| issue.is_taken_by(&stage.when))
            });
        }
    }
}
