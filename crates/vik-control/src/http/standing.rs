//! Which hub answers requests.

use std::sync::Arc;

use super::leading_hub::LeadingHub;
use super::remote_sessions::RemoteSessions;

/// The part that a process has among the hubs of a workflow. It changes while the API is open.
#[derive(Clone, Debug)]
pub enum Standing {
    /// It does not know the other hubs yet.
    Connecting,
    /// Another hub leads, or is about to.
    Following(Arc<dyn LeadingHub>),
    Leading {
        /// Reads the files of attempts on workers; `None` if attempts run on this machine.
        remote_sessions: Option<Arc<dyn RemoteSessions>>,
    },
}

impl Standing {
    /// Returns the standing of a daemon without other machines.
    pub fn alone() -> Self {
        Self::Leading {
            remote_sessions: None,
        }
    }

    pub(super) fn is_leading(&self) -> bool {
        matches!(self, Self::Leading { .. })
    }
}
