//! Messages of people for a run, which the model reads between two requests.
//!
//! A message waits here until the run takes it. A run that has done its work closes the inbox, and
//! only ends if nothing waits: so no message is taken and then ignored.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use crate::interrupt::{Interrupt, ListenerGuard};

/// The maximum number of waiting messages. Those beyond it are not read.
const MAX_WAITING: usize = 64;

/// A message of a person.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PersonMessage {
    /// The id that the controlling program gave it.
    pub(crate) id: String,
    pub(crate) text: String,
    /// Whether it stops the current step: the request to the model, or the running tools.
    #[serde(default)]
    pub(crate) interrupt: bool,
}

/// The waiting messages of a run. Clones share them.
#[derive(Clone, Default)]
pub struct Inbox(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    waiting: VecDeque<PersonMessage>,
    is_closed: bool,
    /// The interrupt of the current step.
    step: Option<Interrupt>,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inbox")
    }
}

/// One step of a run; a message may interrupt it, or the whole run is interrupted.
pub(crate) struct InterruptibleStep {
    pub(crate) interrupt: Interrupt,
    _listening: ListenerGuard,
}

impl Inbox {
    /// Adds a message, and stops the current step if it asks for that.
    pub(crate) fn deliver(&self, message: PersonMessage) {
        let mut state = self.state();
        if state.is_closed || state.waiting.len() >= MAX_WAITING {
            return;
        }
        let step = state.step.clone().filter(|_| message.interrupt);
        state.waiting.push_back(message);
        drop(state);
        if let Some(step) = step {
            step.set();
        }
    }

    /// Takes the oldest message.
    pub(crate) fn take(&self) -> Option<PersonMessage> {
        self.state().waiting.pop_front()
    }

    /// Closes the inbox if no message waits. Returns whether it is closed.
    pub(crate) fn close_if_empty(&self) -> bool {
        let mut state = self.state();
        state.is_closed |= state.waiting.is_empty();
        state.is_closed
    }

    /// Starts a step of a run that `run` interrupts as a whole. A waiting message that stops the
    /// current step stops this one.
    pub(crate) fn start_step(&self, run: &Interrupt) -> InterruptibleStep {
        let interrupt = Interrupt::new();
        let mut state = self.state();
        if state.waiting.iter().any(|message| message.interrupt) {
            interrupt.set();
        }
        state.step = Some(interrupt.clone());
        drop(state);
        let step = interrupt.clone();
        let listening = run.listen(move || step.set());
        InterruptibleStep {
            interrupt,
            _listening: listening,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
