//! The attempts that a worker runs, and what reaches them.

use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use vik_proc::BootTime;

use crate::request::{ReceivedRequest, Responder};

/// What an attempt on a worker has of its hub.
#[derive(Debug)]
pub struct AttemptContext {
    /// The id of its workflow.
    pub id: String,
    pub input: String,
    /// Commands in order. If the hub has not received an answer, it repeats the last one.
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

/// The attempts of a worker, by the id of their workflow.
#[derive(Clone, Debug, Default)]
pub(super) struct Registry {
    attempts: Arc<Mutex<HashMap<String, mpsc::UnboundedSender<String>>>>,
}

/// A command for an attempt: the body of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Command {
    /// The id of the workflow of the attempt.
    pub attempt: String,
    pub text: String,
}

/// A registered attempt: until it is dropped.
#[derive(Debug)]
pub(super) struct Registered {
    registry: Registry,
    id: String,
}

impl Registry {
    /// Adds an attempt, and returns where its commands arrive.
    pub fn register(&self, id: String) -> (Registered, mpsc::UnboundedReceiver<String>) {
        let (commands, receiver) = mpsc::unbounded_channel();
        self.lock().insert(id.clone(), commands);
        let registered = Registered {
            registry: self.clone(),
            id,
        };
        (registered, receiver)
    }

    /// Delivers a command. Returns whether the attempt is here.
    fn deliver(&self, Command { attempt, text }: Command) -> bool {
        let attempts = self.lock();
        let Some(commands) = attempts.get(&attempt) else {
            return false;
        };
        // An attempt that takes no more commands is about to end.
        let _ = commands.send(text);
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, mpsc::UnboundedSender<String>>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Responder for Registry {
    fn respond(&self, request: ReceivedRequest) -> BoxFuture<'static, Result<String, String>> {
        let delivered = match serde_json::from_str(&request.body) {
            Ok(command) => self.deliver(command).then(String::new),
            Err(error) => return Box::pin(ready(Err(format!("the command cannot be read: {error}")))),
        };
        // It is repeated: the attempt may be about to start.
        Box::pin(ready(
            delivered.ok_or_else(|| "this worker does not run the attempt".to_owned()),
        ))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_delivers_commands_while_the_attempt_is_here() {
        let registry = Registry::default();
        let deliver = |attempt: &str, text: &str| {
            registry.deliver(Command {
                attempt: attempt.to_owned(),
                text: text.to_owned(),
            })
        };
        assert!(!deliver("a", "early"));
        let (registered, mut commands) = registry.register("a".to_owned());
        assert!(deliver("a", "1") && deliver("a", "2"));
        assert!(!deliver("b", "3"));
        let received: Vec<_> = std::iter::from_fn(|| commands.try_recv().ok()).collect();
        assert_eq!(received, ["1", "2"]);
        drop(registered);
        assert!(!deliver("a", "late"));
    }
}
