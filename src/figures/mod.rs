//! What was done in a span of time, and what it cost: from the ledger alone, with or without a daemon.

mod since;
mod sum;
mod window;

#[cfg(test)]
mod tests;

use vik_api::ReportView;
use vik_store::ledger::{LedgerError, Reader};

pub use since::{ParseSinceError, Since};
pub use sum::figures;
pub use window::Window;

/// The report on a span of time. A workflow that has no ledger yet has done nothing.
///
/// # Errors
/// When the ledger cannot be read.
pub fn report(ledger: Option<&Reader>, window: Window) -> Result<ReportView, LedgerError> {
    let Some(ledger) = ledger else {
        return Ok(figures(&[], &[], window));
    };
    let attempts = ledger.figures(window.since(), window.until())?;
    // Read after the attempts: a run that ends in between is over, which is true.
    let runs = ledger.runs_of_span(window.since(), window.until())?;
    Ok(figures(&attempts, &runs, window))
}
