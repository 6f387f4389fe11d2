//! What one attempt is told while it runs.

use tokio::sync::watch;
use vik_core::limits::LimitHit;
use vik_core::machine::Answered;
use vik_core::outcome::Outcome;
use vik_core::scheduler::StopReason;
use vik_store::AttemptFailure;

use super::stop::{Stop, StopLevel};

/// All that one attempt was told so far.
#[derive(Clone, Debug, Default)]
struct CommandState {
    stop: Option<StopReason>,
    detach: bool,
    warnings: Vec<LimitHit>,
    answers: Vec<Answered>,
}

/// Tells one attempt what to do. When it is dropped, the attempt goes on as it was told last.
#[derive(Debug)]
pub struct AttemptControl(watch::Sender<CommandState>);

impl AttemptControl {
    /// Stop, and why. The first reason stands.
    pub fn stop(&self, why: StopReason) {
        self.0.send_if_modified(|told| {
            let first = told.stop.is_none();
            told.stop.get_or_insert(why);
            first
        });
    }

    /// A limit is near: say so in the log.
    pub fn warn(&self, limit: LimitHit) {
        self.0.send_modify(|told| told.warnings.push(limit));
    }

    /// What a person says to what it waits with.
    pub fn answer(&self, answered: Answered) {
        self.0.send_modify(|told| told.answers.push(answered));
    }

    /// The daemon is about to end and leaves its agents alive: as soon as the agent runs, let go of it and return. What
    /// is being prepared or finished goes on to there, or to its end.
    pub fn detach(&self) {
        self.0.send_modify(|told| told.detach = true);
    }
}

/// Hears what one attempt is told; cheap to clone.
#[derive(Clone, Debug)]
pub struct AttemptCommands {
    all: Stop,
    own: watch::Receiver<CommandState>,
}

/// Why an attempt must stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// Everything stops.
    All,
    /// This attempt.
    Own(StopReason),
}

impl StopCause {
    /// How the attempt will have ended.
    pub fn trouble(&self) -> AttemptFailure {
        let (outcome, reason) = match self {
            Self::All => (Outcome::Cancelled, "Vik was stopped".to_owned()),
            Self::Own(StopReason::StateChanged) => (
                Outcome::Cancelled,
                "the issue left the state of the stage".to_owned(),
            ),
            Self::Own(StopReason::Terminal) => {
                (Outcome::Cancelled, "the issue is in a terminal state".to_owned())
            }
            Self::Own(StopReason::Missing) => (
                Outcome::Cancelled,
                "the tracker does not have the issue any more".to_owned(),
            ),
            Self::Own(StopReason::Cancelled) => (Outcome::Cancelled, "it was cancelled".to_owned()),
            Self::Own(StopReason::OverBudget(hit)) => {
                (Outcome::OverBudget, format!("a limit is reached: {hit}"))
            }
        };
        AttemptFailure::of(outcome, reason)
    }

    /// The limit that was crossed, where it is one.
    pub fn limit(&self) -> Option<LimitHit> {
        match self {
            Self::Own(StopReason::OverBudget(hit)) => Some(*hit),
            _ => None,
        }
    }
}

impl AttemptCommands {
    /// For an attempt that stops when all do, or when it is told.
    pub fn new(all: Stop) -> (AttemptControl, Self) {
        let (tell, own) = watch::channel(CommandState::default());
        (AttemptControl(tell), Self { all, own })
    }

    /// Why it must stop now, if it must.
    pub fn halt(&self) -> Option<StopCause> {
        let own = self.own.borrow().stop.clone();
        own.map(StopCause::Own)
            .or_else(|| self.all.is_set().then_some(StopCause::All))
    }

    /// Waits until it must stop, and says why.
    pub async fn halted(&self) -> StopCause {
        tokio::select! {
            why = self.own(|told| told.stop.clone()) => StopCause::Own(why),
            () = self.all.reached(StopLevel::Stop) => self.halt().unwrap_or(StopCause::All),
        }
    }

    /// Whether everything is to be killed.
    pub fn is_killed(&self) -> bool {
        self.all.level() >= StopLevel::Kill
    }

    /// Waits until everything is to be killed.
    pub async fn killed(&self) {
        self.all.reached(StopLevel::Kill).await;
    }

    /// Waits until it is to let go of its agent.
    pub async fn detached(&self) {
        self.own(|told| told.detach.then_some(())).await;
    }

    /// Waits until there are more warnings than `seen`, and gives those.
    pub async fn warned(&self, seen: usize) -> Vec<LimitHit> {
        self.own(|told| {
            told.warnings
                .get(seen..)
                .filter(|new| !new.is_empty())
                .map(<[_]>::to_vec)
        })
        .await
    }

    /// Waits until the request of this id is answered.
    pub async fn answered(&self, request: &str) -> Answered {
        self.own(|told| {
            let mut answers = told.answers.iter();
            answers.find(|answered| answered.request == request).cloned()
        })
        .await
    }

    async fn own<T>(&self, look: impl Fn(&CommandState) -> Option<T>) -> T {
        let mut own = self.own.clone();
        let found = own
            .wait_for(|told| look(told).is_some())
            .await
            .ok()
            .and_then(|told| look(&told));
        match found {
            Some(found) => found,
            // Nobody can tell it anything any more.
            None => std::future::pending().await,
        }
    }
}
