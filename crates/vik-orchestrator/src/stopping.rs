//! How the loop ends: by a signal, a request, a drain, or a failure of the ledger.

use std::time::{Duration, Instant};

use vik_api::{DaemonState, ErrorBody};
use vik_base::report::{ErrorCode, chain};
use vik_core::scheduler::Input;
use vik_session::attempt::StopLevel;
use vik_store::ledger::CommitError;

use super::{Orchestrator, Progress};
use crate::service_state;
use crate::signals::SignalRequest;

/// How long attempts may take to detach or to end after the ledger has failed.
const LAST_GRACE: Duration = Duration::from_secs(60);

/// A failure of the ledger.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) error: CommitError,
    /// Attempts that still run at this time are abandoned.
    pub(super) until: Instant,
}

impl Orchestrator {
    pub(super) fn on_signal(&mut self, signal: SignalRequest) {
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

    /// Stops gracefully. A second call stops immediately.
    pub(super) fn stop(&mut self) {
        self.summary.stopped = true;
        self.keep_agents = false;
        let level = match self.stop {
            StopLevel::Run => StopLevel::Stop,
            _ => StopLevel::Kill,
        };
        tracing::info!(running = self.attempts.len(), ?level, "stopping");
        self.observer.on_progress(&Progress::Stopping {
            running: self.attempts.len(),
            force: level == StopLevel::Kill,
        });
        self.stop = level;
        self.attempts.stop_all(level);
        if level == StopLevel::Kill {
            self.kill.cancel();
        }
        self.enter_stopping();
    }

    /// Stops, and leaves the agents to their shims, so that the next daemon recovers them.
    pub(super) fn stop_keeping_sessions(&mut self) {
        if self.state == DaemonState::Stopping {
            return;
        }
        tracing::info!(running = self.attempts.len(), "stopping; agents keep running");
        self.summary.stopped = true;
        self.keep_agents = true;
        self.attempts.detach_all();
        self.enter_stopping();
    }

    fn enter_stopping(&mut self) {
        self.state = DaemonState::Stopping;
        self.cancel_lookups.cancel();
        self.handle(Input::Drain);
        self.note_state("stopping", None);
    }

    /// Starts nothing more, and ends the loop when nothing runs.
    pub(super) fn drain(&mut self) {
        if self.state == DaemonState::Running {
            tracing::info!(running = self.attempts.len(), "draining");
            self.summary.drained = true;
            self.state = DaemonState::Draining;
            self.cancel_lookups.cancel();
            self.note_state("draining", None);
        }
    }

    /// Stops, because nothing can be stored any more. Effects of uncommitted decisions were never
    /// carried out.
    pub(super) fn on_ledger_failure(&mut self, error: CommitError) {
        if self.broken.is_some() {
            return;
        }
        let text = chain(&error);
        tracing::error!(
            error = text,
            running = self.attempts.len(),
            "stopping: decisions can no longer be stored in the ledger"
        );
        self.observer
            .on_progress(&Progress::LedgerFailed { error: &text });
        self.state = DaemonState::Stopping;
        self.cancel_lookups.cancel();
        self.note_state("failed", Some(&text));
        self.broken = Some(Broken {
            error,
            until: Instant::now() + LAST_GRACE,
        });
        for (_, sender) in self.answers.drain() {
            let _ = sender.send(Err(ErrorBody {
                code: ErrorCode::Ledger.to_string(),
                message: format!("the daemon is shutting down: {text}"),
                hint: None,
            }));
        }
        // The next daemon adopts the agents that survive, and reads from their files how the others
        // ended.
        self.keep_agents = true;
        if self.orphan_grace().is_zero() {
            self.stop = StopLevel::Stop;
            self.attempts.stop_all(StopLevel::Stop);
        } else {
            self.attempts.detach_all();
        }
    }

    fn note_state(&self, state: &str, error: Option<&str>) {
        if let Err(error) = service_state::enter(&self.host.layout.state_file(), state, error) {
            tracing::error!(%error, "cannot write state.json");
        }
    }
}
