//! Statistics of a time span: the work done and its cost, from the ledger alone, with or without a
//! daemon.

mod sum;
mod window;

#[cfg(test)]
mod tests;

use vik_api::ReportView;
use vik_store::ledger::{IssueCounts, LedgerError, Reader};

pub use window::Window;

use sum::Sums;

/// Returns the report on a time span. A workflow without a ledger has done nothing.
///
/// # Errors
/// If the ledger cannot be read.
///
/// # Examples
///
/// ```
/// use jiff::Timestamp;
/// use vik_control::PointInTime;
/// use vik_control::figures::{Window, report};
///
/// let now: Timestamp = "2026-03-08T00:00:00Z".parse()?;
/// let since = "7d".parse::<PointInTime>()?.before(now);
/// assert_eq!(since.to_string(), "2026-03-01T00:00:00Z");
///
/// let window = Window::new(since, now, None);
/// assert_eq!(window.parts().len(), 7);
/// assert_eq!(report(None, window)?.total.attempts, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn report(ledger: Option<&Reader>, window: Window) -> Result<ReportView, LedgerError> {
    let mut sums = Sums::new(window);
    let issues = match ledger {
        Some(ledger) => ledger.visit_figures(window.since(), window.until(), |attempt| sums.add(attempt))?,
        None => IssueCounts::default(),
    };
    Ok(sums.report(issues))
}
