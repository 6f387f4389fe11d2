//! The commands that one attempt receives while it runs.

use tokio::sync::watch;
use vik_core::attempt::StopReason;
use vik_core::limits::LimitHit;
use vik_core::machine::Answered;
use vik_core::outcome::Outcome;
use vik_store::AttemptFailure;

use super::stop::{Stop, StopLevel};

/// All commands so far.
#[derive(Clone, Debug, Default)]
struct CommandState {
    stop: Option<StopReason>,
    detach: bool,
    warnings: Vec<LimitHit>,
    answers: Vec<Answered>,
}

/// Sends commands to one attempt. When it is dropped, the attempt continues under the last
/// commands.
#[derive(Debug)]
pub struct AttemptControl(watch::Sender<CommandState>);

impl AttemptControl {
    /// Stops the attempt. The first reason wins.
    pub fn stop(&self, reason: StopReason) {
        self.0.send_if_modified(|state| {
            let first = state.stop.is_none();
            state.stop.get_or_insert(reason);
            first
        });
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
pub struct AttemptCommands {
    all: Stop,
    own: watch::Receiver<CommandState>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopCause {
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
    /// Creates the two ends for an attempt that stops on its own command or when all attempts stop.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_core::attempt::StopReason;
    /// use vik_session::attempt::{AttemptCommands, Stop, StopCause, StopLevel};
    ///
    /// let (all, stop) = Stop::new();
    /// let (control, commands) = AttemptCommands::new(stop);
    /// assert_eq!(commands.stop_cause(), None);
    /// all.send_replace(StopLevel::Stop);
    /// assert_eq!(commands.stop_cause(), Some(StopCause::All));
    /// // Its own reason wins.
    /// control.stop(StopReason::Cancelled);
    /// assert_eq!(commands.stop_cause(), Some(StopCause::Own(StopReason::Cancelled)));
    /// ```
    pub fn new(all: Stop) -> (AttemptControl, Self) {
        let (sender, own) = watch::channel(CommandState::default());
        (AttemptControl(sender), Self { all, own })
    }

    /// Returns why the attempt must stop now, or `None`.
    pub fn stop_cause(&self) -> Option<StopCause> {
        let own = self.own.borrow().stop.clone();
        own.map(StopCause::Own)
            .or_else(|| self.all.is_set().then_some(StopCause::All))
    }

    /// Waits until the attempt must stop, and returns why.
    pub async fn stopped(&self) -> StopCause {
        tokio::select! {
            why = self.own(|state| state.stop.clone()) => StopCause::Own(why),
            () = self.all.reached(StopLevel::Stop) => self.stop_cause().unwrap_or(StopCause::All),
        }
    }

    /// Returns whether all attempts are to be killed.
    pub fn is_killed(&self) -> bool {
        self.all.level() >= StopLevel::Kill
    }

    /// Waits until all attempts are to be killed.
    pub async fn killed(&self) {
        self.all.reached(StopLevel::Kill).await;
    }

    /// Waits until the attempt is to detach from its agent.
    pub async fn detached(&self) {
        self.own(|state| state.detach.then_some(())).await;
    }

    /// Waits until there are more than `seen` warnings, and returns the new ones.
    pub async fn warned(&self, seen: usize) -> Vec<LimitHit> {
        self.own(|state| {
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
        self.own(|state| {
            let mut answers = state.answers.iter();
            answers.find(|answered| answered.request == request).cloned()
        })
        .await
    }

    async fn own<T>(&self, select: impl Fn(&CommandState) -> Option<T>) -> T {
        let mut receiver = self.own.clone();
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
