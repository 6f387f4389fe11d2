//! Durations as people write them: `90m`, `1h30m`, `2d`.

mod format;
mod parse;
mod unit;

pub use format::format;
pub use parse::{parse, ParseError};
pub use unit::Unit;
