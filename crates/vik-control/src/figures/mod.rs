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
///
/// # Examples
///
/// ```
/// use jiff::Timestamp;
/// use vik_control::figures::{Since, Window, report};
///
/// let now: Timestamp = "2026-03-08T00:00:00Z".parse()?;
/// let since = "7d".parse::<Since>()?.before(now);
/// assert_eq!(since.to_string(), "2026-03-01T00:00:00Z");
///
/// let window = Window::new(since, now, None);
/// assert_eq!(window.parts().len(), 7);
/// assert_eq!(report(None, window)?.total.attempts, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
