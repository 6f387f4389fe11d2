//! The attempts that a worker runs, and what reaches them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};

use vik_proc::BootTime;

/// What an attempt on a worker has of its hub.
#[derive(Debug)]
pub struct AttemptContext {
    /// The id of its workflow.
    pub id: String,
    pub input: String,
    /// Commands in order, each once.
    pub commands: mpsc::UnboundedReceiver<String>,
    /// How long it may run. See [`LeaseState`].
    pub lease: watch::Receiver<LeaseState>,
    /// The latest updates go to the hub with the next heartbeat.
    pub updates: watch::Sender<String>,
}

/// How long an attempt may run. Each confirmed heartbeat changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseState {
    /// The attempt and its processes must have ended by then.
    pub until: BootTime,
    /// The hub wants the attempt to end, with a result.
    pub cancel_requested: bool,
    /// The lease has passed, or the attempt has ended for the server. It must end at once.
    pub is_lost: bool,
}

/// The attempts of a worker, by the run id of their workflow.
#[derive(Clone, Debug, Default)]
pub(super) struct Registry {
    attempts: Arc<Mutex<HashMap<String, Inbox>>>,
}

#[derive(Debug)]
struct Inbox {
    /// The number of the last command that was delivered.
    delivered: u64,
    commands: mpsc::UnboundedSender<String>,
}

/// A registered attempt: until it is dropped.
#[derive(Debug)]
pub(super) struct Registered {
    registry: Registry,
    run_id: String,
}

impl Registry {
    /// Adds an attempt, and returns where its commands arrive.
    pub fn register(&self, run_id: String) -> (Registered, mpsc::UnboundedReceiver<String>) {
        let (commands, receiver) = mpsc::unbounded_channel();
        let inbox = Inbox {
            delivered: 0,
            commands,
        };
        self.lock().insert(run_id.clone(), inbox);
        let registered = Registered {
            registry: self.clone(),
            run_id,
        };
        (registered, receiver)
    }

    /// Delivers a command, unless it was delivered before. Returns whether the attempt is here.
    pub fn deliver(&self, run_id: &str, number: u64, text: String) -> bool {
        let mut attempts = self.lock();
        let Some(inbox) = attempts.get_mut(run_id) else {
            return false;
        };
        if number > inbox.delivered {
            inbox.delivered = number;
            // An attempt that takes no more commands is about to end.
            let _ = inbox.commands.send(text);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Inbox>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.run_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_delivers_each_command_once_while_the_attempt_is_here() {
        let registry = Registry::default();
        assert!(!registry.deliver("run", 1, "early".to_owned()));
        let (registered, mut commands) = registry.register("run".to_owned());
        assert!(registry.deliver("run", 1, "a".to_owned()));
        assert!(registry.deliver("run", 1, "a".to_owned()));
        assert!(registry.deliver("run", 2, "b".to_owned()));
        assert!(!registry.deliver("other", 3, "c".to_owned()));
        let received: Vec<_> = std::iter::from_fn(|| commands.try_recv().ok()).collect();
        assert_eq!(received, ["a", "b"]);
        drop(registered);
        assert!(!registry.deliver("run", 3, "late".to_owned()));
    }
}
