//! Statistics of a time span: the work done and its cost, from the ledger alone, with or without a
//! daemon.

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

/// Returns the report on a time span. A workflow without a ledger has done nothing.
///
/// # Errors
/// If the ledger cannot be read.
pub fn report(ledger: Option<&Reader>, window: Window) -> Result<ReportView, LedgerError> {
    let Some(ledger) = ledger else {
        return Ok(figures(&[], &[], window));
    };
    let attempts = ledger.figures(window.since(), window.until())?;
    // Runs are read after the attempts: a run that ends in between counts as ended, which is
    // correct.
    let runs = ledger.runs_of_span(window.since(), window.until())?;
    Ok(figures(&attempts, &runs, window))
}
