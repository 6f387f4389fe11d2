//! The pulls: when they are due, and what they bring.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use vik_api::{DaemonState, LastPull};
use vik_core::scheduler::Input;

use super::{Event, Orchestrator, PULL_GAP, Progress};
use crate::host::millis;
use crate::intake::{self, PullResult};

impl Orchestrator {
    pub(super) fn may_pull(&self) -> bool {
        let most = self.options.max_iterations.or(self.workflow.max_iterations);
        self.state == DaemonState::Running && most.is_none_or(|most| self.iterations < most)
    }

    pub(super) fn ask_for_pull(&mut self) {
        let soonest = self
            .pull_started
            .map_or_else(Instant::now, |started| started + PULL_GAP);
        self.pull_due = Some(self.pull_due.map_or(soonest, |due| due.min(soonest)));
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
        let (host, intake, cancel) = (
            Arc::clone(&self.host),
            self.workflow.pull.clone(),
            self.no_more_looks.clone(),
        );
        let (events, wanted) = (self.events.0.clone(), self.scheduler.wanted());
        tokio::spawn(async move {
            let stderr = host.layout.service_dir().join("pull.stderr.log");
            let pull = intake::pull(&host, &intake, &stderr, Some(wanted), cancel.cancelled()).await;
            let _ = events.send(Event::Pulled(pull));
        });
    }

    pub(super) fn on_pulled(&mut self, pull: PullResult) {
        self.pulling = false;
        let mut last = LastPull {
            at: Timestamp::now(),
            ok: pull.result.is_ok(),
            issues: 0,
            skipped: 0,
            duration_ms: millis(pull.took),
            error: None,
        };
        match pull.result {
            Ok(pull) => {
                self.counts.ok += 1;
                self.counts.failed_in_a_row = 0;
                (last.issues, last.skipped) = (pull.count, pull.skipped.len());
                for skipped in &pull.skipped {
                    tracing::warn!(
                        index = skipped.index,
                        id = skipped.id,
                        reason = skipped.reason,
                        "item skipped"
                    );
                }
                tracing::debug!(
                    issues = last.issues,
                    skipped = last.skipped,
                    took_ms = last.duration_ms,
                    "pulled"
                );
                self.observer.on(&Progress::Pulled {
                    issues: last.issues,
                    skipped: &pull.skipped,
                });
                self.look_for_named(&pull.issues);
                // Set first: an effect may ask for an earlier one.
                self.pull_due = Some(Instant::now() + self.workflow.pull.idle.0);
                self.handle(Input::Pulled(pull.issues));
            }
            Err(intake::PullError::Cancelled) if self.no_more_looks.is_cancelled() => {}
            Err(error) => {
                self.counts.failed += 1;
                self.counts.failed_in_a_row += 1;
                let text = crate::report::chain(&error);
                tracing::error!(
                    error = text,
                    in_a_row = self.counts.failed_in_a_row,
                    "pull failed"
                );
                self.observer.on(&Progress::PullFailed { error: &text });
                last.error = Some(text);
                self.pull_due = Some(Instant::now() + self.workflow.pull.idle.0);
            }
        }
        self.last_pull = Some(last);
    }

    pub(super) fn look_for_named(&mut self, issues: &[vik_core::issue::Issue]) {
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
