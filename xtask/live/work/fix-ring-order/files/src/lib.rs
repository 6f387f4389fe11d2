//! The last entries of a log, in memory.

mod entry;
mod ring;
mod status;

pub use entry::{Entry, Level};
pub use ring::Ring;
pub use status::status_page;
