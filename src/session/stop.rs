//! How attempts are told to stop.

use tokio::sync::watch;

/// How urgently everything is to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopLevel {
    /// Not at all.
    #[default]
    Run,
    /// By the stop ladder.
    Stop,
    /// At once.
    Kill,
}

/// A receiver of the level; cheap to clone, one per task.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<StopLevel>);

impl Stop {
    /// A sender and its receiver.
    pub fn new() -> (watch::Sender<StopLevel>, Self) {
        let (sender, receiver) = watch::channel(StopLevel::Run);
        (sender, Self(receiver))
    }

    /// The level now.
    pub fn level(&self) -> StopLevel {
        *self.0.borrow()
    }

    /// Whether anything is to stop.
    pub fn is_set(&self) -> bool {
        self.level() != StopLevel::Run
    }

    /// Waits until the level is at least this one. Never ends if the sender goes away first.
    pub async fn reached(&self, level: StopLevel) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|now| *now >= level).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
