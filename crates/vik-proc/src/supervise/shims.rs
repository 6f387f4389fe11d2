//! The shims that this process has started and not reaped yet.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use crate::identity::ProcessId;
use crate::sys::{self, Stat};

static SHIMS: Mutex<Option<HashSet<i32>>> = Mutex::new(None);

/// Held for reading from before a shim is started until it is listed.
static STARTING: RwLock<()> = RwLock::new(());

fn listed() -> MutexGuard<'static, Option<HashSet<i32>>> {
    // A set of numbers is consistent even if a holder panicked.
    SHIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a shim and lists it, so that it is not taken for an orphan in between.
pub(super) fn start<E>(start: impl FnOnce() -> Result<i32, E>) -> Result<i32, E> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let pid = start()?;
    listed().get_or_insert_default().insert(pid);
    Ok(pid)
}

/// Lists a shim that is a child of this process but was not started by it, as after an `exec`.
/// Returns `false` if it is not a child, or is listed already.
pub(super) fn claim(shim: ProcessId) -> bool {
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    let own = sys::stat(shim.pid).is_some_and(|stat| stat.id() == shim && stat.ppid == me);
    own && listed().get_or_insert_default().insert(shim.pid)
}

/// Removes a reaped shim from the list.
pub(super) fn forget(pid: i32) {
    if let Some(shims) = listed().as_mut() {
        shims.remove(&pid);
    }
}

/// Returns the processes that the function finds, without the shims.
pub(crate) fn without_shims(find: impl FnOnce() -> Vec<Stat>) -> Vec<Stat> {
    let _none_starting = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    let mut found = find();
    if let Some(shims) = listed().as_ref() {
        found.retain(|stat| !shims.contains(&stat.pid));
    }
    found
}
