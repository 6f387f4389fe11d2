//! How an attempt finishes.

use std::path::PathBuf;
use std::sync::Arc;

use vik_core::attempt::HandOverFailure;
use vik_core::ended::Ended;
use vik_store::ledger::LedgerError;

/// How the task of an attempt finished.
#[derive(Clone, Debug)]
pub enum Finish {
    Ended(Box<AttemptEnd>),
    /// The attempt was detached and its agent lives on. The next daemon recovers it.
    Detached,
    /// A repeated hand-over ended.
    HandedOver(Result<(), HandOverFailure>),
    /// The disk accepts no more writes. The attempt stays as it is, and the next daemon recovers
    /// it.
    StorageFailed(Arc<LedgerError>),
}

#[derive(Clone, Debug)]
pub struct AttemptEnd {
    /// The result, and the last event of the session log.
    pub ended: Ended,
    /// The path of the session log.
    pub log: PathBuf,
}
