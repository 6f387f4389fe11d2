//! Text of skills in one line, for the catalogue and for terminals.

use std::path::Path;

pub(crate) use vik_yaml::text::one_line;

/// The maximum length of a shown path, in characters.
const MAX_PATH: usize = 400;

/// Returns a path in one line.
pub(crate) fn shown(path: &Path) -> String {
    one_line(&path.to_string_lossy(), MAX_PATH)
}
