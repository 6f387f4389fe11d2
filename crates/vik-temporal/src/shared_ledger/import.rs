//! The ledger of a machine that worked alone becomes the start of an empty log.

use std::path::Path;

use vik_core::ids::{AttemptId, IssueId};
use vik_core::machine::IssueMachine;
use vik_store::ledger::{Ledger, LedgerCopy, LogId, Reader};

use super::SharedLedgerError;
use super::entry::Entry;
use crate::log::Log;

/// The ledger of a machine cannot become the start of the log. Nothing was changed in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("the attempt {attempt} of {issue} has not ended: without `engine`, run `vik drain --wait`")]
    Attempt { attempt: AttemptId, issue: IssueId },
    #[error("the result of {0} is not handed over yet: without `engine`, retry or cancel it")]
    HandOver(IssueId),
    #[error("another hub leads")]
    OtherHub,
    #[error("the log has other decisions already: use a new `task_queue`, or move the ledger away")]
    OtherEntries,
}

/// Appends the contents of the ledger in a service folder to the log, in entries with machines of at
/// most `max_part_bytes`, and makes the ledger a copy of the log. Only the hub that leads may do this.
///
/// If it was interrupted, the next call continues it.
///
/// # Errors
///
/// Returns an error if something runs on this machine, if the log has other entries, or if the log or
/// the ledger cannot be used.
pub async fn import(log: &Log, service_dir: &Path, max_part_bytes: usize) -> Result<(), SharedLedgerError> {
    // Checks the ledger, and migrates it to the present schema.
    Ledger::open(service_dir)?.0.close()?;
    let Some(reader) = Reader::open(service_dir)? else {
        return Ok(());
    };
    if let Some(claim) = reader.claims()?.into_iter().next() {
        let (attempt, issue) = (claim.attempt_id, claim.issue);
        return Err(ImportError::Attempt { attempt, issue }.into());
    }
    let series = reader
        .into_snapshot(max_part_bytes)
        .collect::<Result<Vec<_>, _>>()?;
    let mut machines = series.iter().flat_map(|changes| &changes.machines);
    if let Some(machine) = machines.find(|machine| has_hand_over(machine)) {
        return Err(ImportError::HandOver(machine.issue().id.clone()).into());
    }
    let mut follower = log.follow(None).await?;
    let id: LogId = follower.log_id().await?.parse()?;
    let tenure = log.take_term(follower.segment()).await?;
    let appender = log.appender(&tenure);
    let mut number = 0;
    for changes in series {
        number += 1;
        match follower.next_before(&tenure).await? {
            Some(entry) if Entry::read(&entry.text, number - 1)?.changes == changes => {}
            Some(_) => return Err(ImportError::OtherEntries.into()),
            None => {
                let text = Entry::new(number, changes).to_text()?;
                appender.append(text).await?;
            }
        }
    }
    if follower.next_before(&tenure).await?.is_some() {
        return Err(ImportError::OtherEntries.into());
    }
    LedgerCopy::adopt(service_dir, &id, number)?;
    tracing::info!("the decisions of this machine are now the start of the shared log");
    Ok(())
}

fn has_hand_over(machine: &IssueMachine) -> bool {
    machine.runs().iter().any(|run| run.hand_over.is_some())
}
