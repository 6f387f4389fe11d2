//! How an attempt finishes.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vik_core::attempt::{AttemptResult, HandOverFailure};
use vik_core::ended::Ended;
use vik_core::outcome::CostSource;
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// The result, and the last event of the session log.
    #[serde(with = "WholeEnded")]
    pub ended: Ended,
    /// The path of the session log.
    pub log: PathBuf,
}

/// An [`Ended`] with its whole result. By itself, it is serialised as the last line of a session
/// log, which has a part of it.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Ended")]
struct WholeEnded {
    result: AttemptResult,
    signal: Option<i32>,
    duration_ms: u64,
    cost_usd: Option<f64>,
    cost_source: CostSource,
    last_message: Option<String>,
}
