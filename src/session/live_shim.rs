//! The daemon's list of live shims.

use std::sync::{Arc, OnceLock, PoisonError};

use vik_proc::ProcessId;

use crate::daemon::Shims;

/// Keeps the shim of an attempt in the list of live shims until it is dropped.
pub(super) struct LiveShimGuard {
    shims: Shims,
    own: Arc<OnceLock<ProcessId>>,
}

impl LiveShimGuard {
    pub(super) fn new(shims: &Shims) -> Self {
        Self {
            shims: Arc::clone(shims),
            own: Arc::default(),
        }
    }

    /// Returns what adds the shim to the list once its process is known.
    pub(super) fn note(&self) -> impl FnOnce(ProcessId) + Send + 'static {
        let (shims, own) = (Arc::clone(&self.shims), Arc::clone(&self.own));
        move |shim| {
            let _ = own.set(shim);
            shims.lock().unwrap_or_else(PoisonError::into_inner).push(shim);
        }
    }
}

impl Drop for LiveShimGuard {
    fn drop(&mut self) {
        let own = self.own.get();
        self.shims
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|shim| Some(shim) != own);
    }
}
