//! How the loop ends: by a signal, a request, a drain, or a commit that failed.

use std::time::Duration;

use vik_base::report::chain;
use vik_core::scheduler::Input;
use vik_session::attempt::StopLevel;

use crate::commit_queue::CommitFailure;
use crate::lifecycle::Broken;
use crate::signals::SignalRequest;
use crate::{Orchestrator, Progress};

/// How long attempts may take to detach or to end after the ledger has failed.
const LAST_GRACE: Duration = Duration::from_secs(60);

impl Orchestrator {
    pub(crate) fn on_signal(&mut self, signal: SignalRequest) {
        match signal {
            SignalRequest::Refresh => {
                tracing::info!("refresh requested: reading the workflow and pulling issues");
                self.refresh();
            }
            SignalRequest::Stop { interrupt } => {
                self.summary.interrupted |= interrupt;
                self.stop();
            }
        }
    }

    /// Stops gracefully. A second call stops immediately. Attempts on workers do not depend on this
    /// process: they continue, and the next hub gets their results.
    pub(crate) fn stop(&mut self) {
        if self.workers.is_some() {
            return self.stop_keeping_sessions();
        }
        self.summary.stopped = true;
        let level = self.lifecycle.stop();
        let running = self.attempts.len();
        tracing::info!(running, ?level, "stopping");
        self.effects.publish(&Progress::Stopping {
            running,
            force: level == StopLevel::Kill,
        });
        self.attempts.stop_all(level);
        if level == StopLevel::Kill {
            self.effects.workspaces().kill_removals();
        }
        self.on_stopping();
    }

    /// Stops, and leaves the agents to their shims, so that the next daemon recovers them.
    pub(crate) fn stop_keeping_sessions(&mut self) {
        if self.lifecycle.stop_keeping_agents() {
            let running = self.attempts.len();
            tracing::info!(running, "stopping; agents keep running");
            self.summary.stopped = true;
            self.attempts.detach_all();
            self.on_stopping();
        }
    }

    fn on_stopping(&mut self) {
        self.effects.cancel_lookups();
        self.handle(Input::Drain);
        self.effects.record_state("stopping", None);
    }

    /// Starts nothing more, and ends the loop when nothing runs.
    pub(crate) fn drain(&mut self) {
        if self.lifecycle.drain() {
            tracing::info!(running = self.attempts.len(), "draining");
            self.summary.drained = true;
            self.effects.cancel_lookups();
            self.effects.record_state("draining", None);
        }
    }

    /// Stops, because decisions are no longer committed. Effects of uncommitted decisions were never
    /// carried out.
    pub(crate) fn on_commit_failure(&mut self, failure: CommitFailure) {
        if self.lifecycle.broken().is_some() {
            return;
        }
        let text = chain(&failure);
        let running = self.attempts.len();
        self.effects.cancel_lookups();
        let now = self.now().mono;
        let (leaves_agents, until) = match &failure {
            CommitFailure::Storage(_) => {
                tracing::error!(
                    error = text,
                    running,
                    "stopping: decisions can no longer be stored in the ledger"
                );
                self.effects.publish(&Progress::LedgerFailed { error: &text });
                self.effects.record_state("failed", Some(&text));
                // The next daemon adopts the agents that survive, and reads from their files how the
                // others ended.
                let has_grace = !self.effects.workspaces().orphan_grace().is_zero();
                (has_grace, now.plus(LAST_GRACE))
            }
            CommitFailure::Superseded | CommitFailure::Log(_) => {
                tracing::warn!(running, "stopping: {text}");
                // To stop the attempts would be a decision, and their updates are for the other hub.
                (true, now)
            }
        };
        self.requests.fail_all(&text);
        match self.lifecycle.fail(Broken { failure, until }, leaves_agents) {
            Some(level) => self.attempts.stop_all(level),
            None => self.attempts.detach_all(),
        }
    }
}
