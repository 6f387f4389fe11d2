//! An entry of the shared log.

use serde::{Deserialize, Serialize};
use vik_core::changes::Changes;
use vik_store::ledger::schema_version;

use super::SharedLedgerError;

/// The changes of decisions that are stored together, or a part of the state that is written again.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The number of the entry in the log, from 1.
    pub number: u64,
    /// The schema of the ledger of the hub that wrote it.
    schema: i64,
    pub changes: Changes,
}

/// What every version can read of an entry.
#[derive(Deserialize)]
struct Head {
    number: u64,
    schema: i64,
}

impl Entry {
    /// Returns an entry of this version.
    pub fn new(number: u64, changes: Changes) -> Self {
        Self {
            number,
            schema: schema_version(),
            changes,
        }
    }

    /// Returns the text that the log has.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be encoded.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Reads the entry after the one with the number `last`, which is 0 if none was read.
    pub fn read(text: &str, last: u64) -> Result<Self, SharedLedgerError> {
        let number = last + 1;
        let damaged = |reason: String| SharedLedgerError::Entry { number, reason };
        // The changes of a later version may not be readable.
        let head: Head = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        if head.schema > schema_version() {
            return Err(SharedLedgerError::Newer { found: head.schema });
        }
        // A log that was compacted starts later.
        if head.number != number && last != 0 {
            return Err(damaged(format!("it has the number {}", head.number)));
        }
        serde_json::from_str(text).map_err(|error| damaged(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64, schema: i64) -> String {
        let changes = Changes {
            paused: Some(true),
            ..Changes::default()
        };
        let entry = Entry {
            schema,
            ..Entry::new(number, changes)
        };
        serde_json::to_string(&entry).unwrap()
    }

    #[test]
    fn entry_follows_the_one_before() {
        let schema = schema_version();
        assert_eq!(Entry::read(&entry(1, schema), 0).unwrap().number, 1);
        assert_eq!(
            Entry::read(&entry(8, schema), 7).unwrap().changes.paused,
            Some(true)
        );
        assert_eq!(
            Entry::read(&entry(5, schema), 0).unwrap().number,
            5,
            "a compacted log"
        );
        let error = Entry::read(&entry(9, schema), 7).unwrap_err();
        assert_eq!(
            error.to_string(),
            "entry 8 of the shared log cannot be read: it has the number 9"
        );
    }

    #[test]
    fn entry_of_a_later_version_is_refused_before_it_is_read() {
        let schema = schema_version() + 1;
        let text = format!(r#"{{"number":1,"schema":{schema},"changes":{{"unknown":[]}}}}"#);
        let error = Entry::read(&text, 0).unwrap_err();
        assert!(
            matches!(error, SharedLedgerError::Newer { found } if found == schema),
            "{error}"
        );
        assert!(matches!(
            Entry::read("{}", 0),
            Err(SharedLedgerError::Entry { number: 1, .. })
        ));
    }
}
