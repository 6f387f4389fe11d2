//! The ids of shared logs.

use std::fmt;
use std::str::FromStr;

/// The id of a log that several hubs share (`adr/0067-many-machines-on-temporal.md`): a short text
/// that no other log has, such as a UUID.
///
/// # Examples
///
/// ```
/// use vik_store::ledger::LogId;
///
/// let log: LogId = "01993c00-0000-7000-8000-000000000001".parse()?;
/// assert_eq!(log.to_string(), "01993c00-0000-7000-8000-000000000001");
/// assert!("two lines\n".parse::<LogId>().is_err());
/// # Ok::<(), vik_store::ledger::InvalidLogId>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogId(Box<str>);

/// A text that cannot be the id of a log.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} cannot be the id of a log: it must have 1 to 64 letters, digits, `-`, `_` or `.`")]
pub struct InvalidLogId(String);

impl LogId {
    /// The maximum length of an id in bytes.
    pub const MAX_BYTES: usize = 64;

    /// Restores an id that the ledger contains.
    pub(super) fn restored(text: String) -> Self {
        Self(text.into())
    }

    /// Returns the text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LogId {
    type Err = InvalidLogId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if (1..=Self::MAX_BYTES).contains(&text.len()) && text.bytes().all(is_allowed) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidLogId(text.to_owned()))
        }
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
