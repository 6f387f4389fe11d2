//! The schema version of a file, and its migration to the latest one.

use std::path::Path;

use rusqlite::Connection;

use super::LedgerError;

/// The numbered migrations: the first one turns an empty database into a ledger, the `n`-th one
/// migrates schema `n - 1` to `n`.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001-ledger.sql"),
    include_str!("migrations/0002-internal.sql"),
    include_str!("migrations/0003-retention.sql"),
    include_str!("migrations/0004-in-use.sql"),
    include_str!("migrations/0005-hand-over.sql"),
    include_str!("migrations/0006-live-sessions.sql"),
    include_str!("migrations/0007-shared-log.sql"),
    include_str!("migrations/0008-outputs.sql"),
    include_str!("migrations/0009-conversations.sql"),
    include_str!("migrations/0010-rounds.sql"),
];

/// The first version with the table `outputs`.
pub(super) const WITH_OUTPUTS: i64 = 8;

/// The application id that marks the file as a ledger of Vik: "VikL".
pub(super) const APPLICATION_ID: i64 = 0x5669_6b4c;

/// Returns the schema version of the ledgers that this version of Vik writes.
pub fn latest() -> i64 {
    number(MIGRATIONS)
}

fn number(migrations: &[&str]) -> i64 {
    i64::try_from(migrations.len()).unwrap_or(i64::MAX)
}

/// Returns the schema version of a ledger.
///
/// # Errors
/// Returns an error if the file is not a ledger, or is of a later version. Nothing is written.
pub(super) fn version(db: &Connection, path: &Path) -> Result<i64, LedgerError> {
    let pragma = |name: &str| -> Result<i64, LedgerError> {
        db.pragma_query_value(None, name, |row| row.get(0))
            .map_err(|error| LedgerError::of(path, error))
    };
    if pragma("application_id")? != APPLICATION_ID {
        return Err(LedgerError::Foreign {
            path: path.to_owned(),
        });
    }
    let found = pragma("user_version")?;
    if found > latest() {
        return Err(LedgerError::Newer {
            path: path.to_owned(),
            found,
            known: latest(),
        });
    }
    Ok(found)
}

/// Migrates the schema from `from` to the latest version: one transaction for each step, so that a
/// step is complete or not done.
pub(super) fn migrate(db: &mut Connection, from: i64, migrations: &[&str]) -> rusqlite::Result<()> {
    for (version, migration) in (1..).zip(migrations) {
        if version <= from {
            continue;
        }
        let step = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        step.execute_batch(migration)?;
        step.pragma_update(None, "application_id", APPLICATION_ID)?;
        step.pragma_update(None, "user_version", version)?;
        step.commit()?;
    }
    Ok(())
}
