//! The commands that one attempt receives while it runs.

use tokio::sync::watch;
use vik_core::attempt::StopReason;
use vik_core::limits::LimitHit;
use vik_core::machine::Answered;
use vik_core::outcome::Outcome;
use vik_store::AttemptFailure;

/// How urgently an attempt is to stop because its daemon stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopLevel {
    #[default]
    Run,
    /// Stop by the stop ladder.
    Stop,
    Kill,
}

/// All commands so far.
#[derive(Clone, Debug, Default)]
struct CommandState {
    own_stop: Option<StopReason>,
    /// The level of the daemon.
    level: StopLevel,
    detach: bool,
    warnings: Vec<LimitHit>,
    answers: Vec<Answered>,
}

/// Sends commands to one attempt. When it is dropped, the attempt continues under the last
/// commands.
#[derive(Debug)]
pub struct CommandSender(watch::Sender<CommandState>);

impl CommandSender {
    /// Stops the attempt. The first reason wins.
    pub fn stop(&self, reason: StopReason) {
        self.0.send_if_modified(|state| {
            let first = state.own_stop.is_none();
            state.own_stop.get_or_insert(reason);
            first
        });
    }

    /// Stops the attempt because the daemon stops. The level only rises.
    pub fn stop_with_daemon(&self, level: StopLevel) {
        self.0.send_modify(|state| state.level = state.level.max(level));
    }

    /// Reports that a limit is near, for the session log.
    pub fn warn(&self, limit: LimitHit) {
        self.0.send_modify(|state| state.warnings.push(limit));
    }

    /// Delivers a person's answer to a request of the attempt.
    pub fn answer(&self, answered: Answered) {
        self.0.send_modify(|state| state.answers.push(answered));
    }

    /// Detaches the attempt because the daemon exits and leaves its agents alive: as soon as the
    /// agent runs, the attempt releases it and returns. Preparation continues up to that point, and
    /// finishing continues to its end.
    pub fn detach(&self) {
        self.0.send_modify(|state| state.detach = true);
    }
}

/// Receives the commands of one attempt; cheap to clone.
#[derive(Clone, Debug)]
pub struct AttemptCommands(watch::Receiver<CommandState>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// The daemon stops, and all its attempts with it.
    All,
    /// Only this attempt stops.
    Own(StopReason),
}

impl StopCause {
    /// Returns the failure with which the attempt ends.
    pub fn failure(&self) -> AttemptFailure {
        let (outcome, reason) = match self {
            Self::All => (Outcome::Cancelled, "Vik was stopped".to_owned()),
            Self::Own(reason @ StopReason::OverBudget(_)) => (Outcome::OverBudget, reason.to_string()),
            Self::Own(reason) => (Outcome::Cancelled, reason.to_string()),
        };
        AttemptFailure::of(outcome, reason)
    }

    /// Returns the limit that was reached, if that is the reason.
    pub fn limit(&self) -> Option<LimitHit> {
        match self {
            Self::Own(StopReason::OverBudget(hit)) => Some(*hit),
            _ => None,
        }
    }
}

impl AttemptCommands {
    /// Creates the two ends of the commands.
    pub(super) fn channel() -> (CommandSender, Self) {
        let (sender, receiver) = watch::channel(CommandState::default());
        (CommandSender(sender), Self(receiver))
    }

    /// Returns why the attempt must stop now, or `None`. Its own reason wins.
    pub fn stop_cause(&self) -> Option<StopCause> {
        self.0.borrow().stop_cause()
    }

    /// Waits until the attempt must stop, and returns why.
    pub async fn stopped(&self) -> StopCause {
        self.find(CommandState::stop_cause).await
    }

    /// Returns whether all attempts are to be killed.
    pub fn is_killed(&self) -> bool {
        self.0.borrow().level >= StopLevel::Kill
    }

    /// Waits until all attempts are to be killed.
    pub async fn killed(&self) {
        self.find(|state| (state.level >= StopLevel::Kill).then_some(()))
            .await;
    }

    /// Waits until the attempt is to detach from its agent.
    pub async fn detached(&self) {
        self.find(|state| state.detach.then_some(())).await;
    }

    /// Waits until there are more than `seen` warnings, and returns the new ones.
    pub async fn warned(&self, seen: usize) -> Vec<LimitHit> {
        self.find(|state| {
            state
                .warnings
                .get(seen..)
                .filter(|new| !new.is_empty())
                .map(<[_]>::to_vec)
        })
        .await
    }

    /// Waits for the answer to the request with this id.
    pub async fn answered(&self, request: &str) -> Answered {
        self.find(|state| {
            let mut answers = state.answers.iter();
            answers.find(|answered| answered.request == request).cloned()
        })
        .await
    }

    /// Waits until `select` finds something.
    async fn find<T>(&self, select: impl Fn(&CommandState) -> Option<T>) -> T {
        let mut receiver = self.0.clone();
        let found = receiver
            .wait_for(|state| select(state).is_some())
            .await
            .ok()
            .and_then(|state| select(&state));
        match found {
            Some(found) => found,
            // The sender was dropped: no command follows.
            None => std::future::pending().await,
        }
    }
}

impl CommandState {
    fn stop_cause(&self) -> Option<StopCause> {
        let own = self.own_stop.clone().map(StopCause::Own);
        own.or_else(|| (self.level >= StopLevel::Stop).then_some(StopCause::All))
    }
}
