//! `service/state.json`: the pid and the state of the daemon, for people and scripts that look into
//! the home.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_workspace::fs as private;
use vik_workspace::fs::write_json_atomic;

/// The content of `state.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceState {
    /// The version of this record.
    pub schema: u32,
    /// One of `running`, `draining`, `stopping`, `stopped`, `failed`.
    pub state: String,
    pub pid: i32,
    pub started_at: Timestamp,
    /// When the daemon entered this state.
    pub since: Timestamp,
    pub workflow_path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Writes the state atomically.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, state: &ServiceState) -> io::Result<()> {
    write_json_atomic(path, state)
}

/// Records that the daemon entered another state. A failure is kept until the next daemon starts.
///
/// # Errors
/// When the file cannot be read or written.
pub fn enter(path: &Path, state: &str, error: Option<&str>) -> io::Result<()> {
    let mut record: ServiceState = serde_json::from_slice(&private::read(path)?)?;
    if record.state != state && record.error.is_none() {
        record.state = state.to_owned();
        record.error = error.map(str::to_owned);
        record.since = Timestamp::now();
        if write(path, &record).is_err() {
            // A full disk has no room for a new file, but it has for a few bytes in the existing
            // one.
            let mut text = serde_json::to_vec_pretty(&record)?;
            text.push(b'\n');
            #[expect(clippy::disallowed_methods, reason = "Vik's own file")]
            let mut file = OpenOptions::new().write(true).open(path)?;
            file.write_all(&text)?;
            file.set_len(text.len() as u64)?;
        }
    }
    Ok(())
}
