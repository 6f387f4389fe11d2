//! Totals of invoices, in cents.

mod invoice;
mod line;
mod money;

pub use invoice::Invoice;
pub use line::Line;
pub use money::{display, per_mille};
