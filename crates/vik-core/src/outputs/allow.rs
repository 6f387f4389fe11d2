//! What may be chosen: globs in order.

use globset::{Glob, GlobBuilder};
use serde::{Deserialize, Serialize};

/// The most globs of one list.
pub const MAX_ALLOW: usize = 64;

/// The longest glob, in bytes.
const MAX_GLOB_BYTES: usize = 1024;

/// Globs in order, of which the last one that takes a value decides; `!` in front of one leaves out. `*` stops at `/`. A list
/// that only leaves out begins with everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AllowList(Vec<String>);

/// Why a text is no glob of a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAllow {
    /// There is none at all.
    #[error("there is no glob")]
    Empty,
    /// There are more than are taken.
    #[error("there are more than {MAX_ALLOW} globs")]
    TooMany,
    /// This one cannot be one.
    #[error("it is no glob: {0}")]
    Glob(String),
}

impl AllowList {
    /// A list of these globs.
    ///
    /// # Errors
    /// Where one of them is none, or there is none, or too many.
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

    /// Its globs, as they were written.
    pub fn globs(&self) -> &[String] {
        &self.0
    }

    /// Whether a value may be chosen.
    pub fn allows(&self, value: &str) -> bool {
        let mut taken = self.0.iter().all(|glob| split(glob).1);
        for glob in &self.0 {
            let (pattern, leaves_out) = split(glob);
            // One that is none may have been meant to leave this out.
            let Ok(glob) = compile(pattern) else { return false };
            if glob.compile_matcher().is_match(value) {
                taken = !leaves_out;
            }
        }
        taken
    }
}

/// The pattern, and whether it leaves out.
fn split(glob: &str) -> (&str, bool) {
    match glob.strip_prefix('!') {
        Some(pattern) => (pattern, true),
        None => (glob, false),
    }
}

fn compile(pattern: &str) -> Result<Glob, BadAllow> {
    if pattern.is_empty() {
        return Err(BadAllow::Glob("it is empty".to_owned()));
    }
    if pattern.len() > MAX_GLOB_BYTES {
        return Err(BadAllow::Glob("it is too long".to_owned()));
    }
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|error| BadAllow::Glob(error.kind().to_string()))
}
