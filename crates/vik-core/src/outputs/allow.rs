//! Allow-lists of globs.

use globset::{Glob, GlobBuilder};
use serde::{Deserialize, Serialize};

/// The maximum number of globs in a list.
pub const MAX_ALLOW: usize = 64;

/// The maximum length of a glob, in bytes.
const MAX_GLOB_BYTES: usize = 1024;

/// Ordered globs, of which the last match decides; a leading `!` excludes. `*` does not match `/`.
/// A list that only excludes starts with everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AllowList(Vec<String>);

/// Why a list of globs is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAllow {
    /// The list is empty.
    #[error("the list of globs is empty")]
    Empty,
    /// The list is too long.
    #[error("the list has more than {MAX_ALLOW} globs")]
    TooMany,
    /// A glob is invalid.
    #[error("not a valid glob: {0}")]
    Glob(String),
}

impl AllowList {
    /// Creates a list from globs.
    ///
    /// # Errors
    /// Returns an error if a glob is invalid, or if there are none or too many.
    pub fn new(globs: Vec<String>) -> Result<Self, BadAllow> {
        match globs.len() {
            0 => return Err(BadAllow::Empty),
            1..=MAX_ALLOW => {}
            _ => return Err(BadAllow::TooMany),
        }
        for glob in &globs {
            compile(split(glob).0)?;
        }
        Ok(Self(globs))
    }

    /// Returns the globs as written.
    pub fn globs(&self) -> &[String] {
        &self.0
    }

    /// Returns whether the list allows a value.
    pub fn allows(&self, value: &str) -> bool {
        let mut taken = self.0.iter().all(|glob| split(glob).1);
        for glob in &self.0 {
            let (pattern, leaves_out) = split(glob);
            // An invalid glob may have been meant to exclude the value.
            let Ok(glob) = compile(pattern) else { return false };
            if glob.compile_matcher().is_match(value) {
                taken = !leaves_out;
            }
        }
        taken
    }
}

/// Returns the pattern, and whether it excludes.
fn split(glob: &str) -> (&str, bool) {
    match glob.strip_prefix('!') {
        Some(pattern) => (pattern, true),
        None => (glob, false),
    }
}

fn compile(pattern: &str) -> Result<Glob, BadAllow> {
    if pattern.is_empty() {
        return Err(BadAllow::Glob("the glob is empty".to_owned()));
    }
    if pattern.len() > MAX_GLOB_BYTES {
        return Err(BadAllow::Glob("the glob is too long".to_owned()));
    }
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|error| BadAllow::Glob(error.kind().to_string()))
}
