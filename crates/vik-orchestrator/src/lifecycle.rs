//! Whether the loop runs, drains or stops.

use jiff::Timestamp;
use vik_api::DaemonState;
use vik_core::time::Mono;
use vik_session::attempt::StopLevel;

use crate::commit_queue::CommitFailure;

/// The state of the loop. It only moves towards the end.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    pub(crate) started_at: Timestamp,
    state: DaemonState,
    stop: StopLevel,
    /// Whether the agents survive the end of the loop.
    keep_agents: bool,
    broken: Option<Broken>,
}

/// A failure of a commit.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) failure: CommitFailure,
    /// Attempts that still run at this time are abandoned.
    pub(crate) until: Mono,
}

impl Lifecycle {
    pub(crate) fn new(started_at: Timestamp) -> Self {
        Self {
            started_at,
            state: DaemonState::Running,
            stop: StopLevel::Run,
            keep_agents: false,
            broken: None,
        }
    }

    pub(crate) fn state(&self) -> DaemonState {
        self.state
    }

    /// Returns whether pulls and new attempts are allowed.
    pub(crate) fn is_running(&self) -> bool {
        self.state == DaemonState::Running
    }

    /// Returns whether the attempts were asked to stop.
    pub(crate) fn stops_attempts(&self) -> bool {
        self.stop != StopLevel::Run
    }

    pub(crate) fn keeps_agents(&self) -> bool {
        self.keep_agents
    }

    pub(crate) fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    pub(crate) fn take_failure(&mut self) -> Option<CommitFailure> {
        self.broken.take().map(|broken| broken.failure)
    }

    /// Stops, or kills after an earlier call. Returns how urgently the attempts are to stop.
    pub(crate) fn stop(&mut self) -> StopLevel {
        self.state = DaemonState::Stopping;
        self.keep_agents = false;
        self.stop = match self.stop {
            StopLevel::Run => StopLevel::Stop,
            StopLevel::Stop | StopLevel::Kill => StopLevel::Kill,
        };
        self.stop
    }

    /// Stops and keeps the agents. Returns whether that is new.
    pub(crate) fn stop_keeping_agents(&mut self) -> bool {
        if self.state == DaemonState::Stopping {
            return false;
        }
        self.state = DaemonState::Stopping;
        self.keep_agents = true;
        true
    }

    /// Drains. Returns whether that is new.
    pub(crate) fn drain(&mut self) -> bool {
        if !self.is_running() {
            return false;
        }
        self.state = DaemonState::Draining;
        true
    }

    /// Stops because decisions are no longer committed. The agents are left to whoever decides next,
    /// or else the result is how urgently they are to stop.
    pub(crate) fn fail(&mut self, broken: Broken, leaves_agents: bool) -> Option<StopLevel> {
        self.state = DaemonState::Stopping;
        self.broken = Some(broken);
        self.keep_agents = true;
        if leaves_agents {
            return None;
        }
        self.stop = StopLevel::Stop;
        Some(self.stop)
    }
}
