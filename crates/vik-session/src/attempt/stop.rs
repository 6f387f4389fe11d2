//! The signal that stops all attempts.

use tokio::sync::watch;

/// How urgently all attempts are to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopLevel {
    #[default]
    Run,
    /// Stop by the stop ladder.
    Stop,
    Kill,
}

/// A receiver of the level; cheap to clone, one per task.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<StopLevel>);

impl Stop {
    pub fn new() -> (watch::Sender<StopLevel>, Self) {
        let (sender, receiver) = watch::channel(StopLevel::Run);
        (sender, Self(receiver))
    }

    /// Returns the current level.
    pub fn level(&self) -> StopLevel {
        *self.0.borrow()
    }

    /// Returns whether the level is above [`StopLevel::Run`].
    pub fn is_set(&self) -> bool {
        self.level() != StopLevel::Run
    }

    /// Waits until the level is at least `level`. Never returns if the sender is dropped first.
    pub async fn reached(&self, level: StopLevel) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|now| *now >= level).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
