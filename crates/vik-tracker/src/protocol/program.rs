//! The client: a tracker that is another program.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::Protocol;
use super::error::{CallError, read_answer};
use super::request::Request;
use crate::run::{Command, find_program, run};

/// The most bytes of an answer, as for a pull.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// A tracker program with the arguments that stand before each verb.
#[derive(Clone, Debug)]
pub struct ProgramTracker {
    program: PathBuf,
    args: Vec<OsString>,
    folder: Option<PathBuf>,
    secrets: Secrets,
    timeout: Duration,
    max_bytes: usize,
}

/// Variables with secret values.
#[derive(Clone, Default)]
struct Secrets(Vec<(String, String)>);

impl fmt::Debug for Secrets {
    /// Prints names only, no values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl ProgramTracker {
    /// Creates a client of this program: a path, or a name that is searched in `PATH`. Each
    /// request may take `timeout`.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn new(program: &OsStr, args: &[OsString], timeout: Duration) -> Result<Self, CallError> {
        let found = find_program(program).ok_or_else(|| {
            CallError::Failed(format!("there is no program `{}`", program.to_string_lossy()))
        })?;
        Ok(Self {
            program: found,
            args: args.to_vec(),
            folder: None,
            secrets: Secrets::default(),
            timeout,
            max_bytes: MAX_ANSWER,
        })
    }

    /// Runs the program in this folder, and with these variables in addition to the environment.
    #[must_use]
    pub fn within(mut self, folder: &Path, secrets: Vec<(String, String)>) -> Self {
        self.folder = Some(folder.to_owned());
        self.secrets = Secrets(secrets);
        self
    }

    /// Limits answers to this many bytes of JSON instead of 64 MB.
    #[must_use]
    pub fn max_answer(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }
}

impl Protocol for ProgramTracker {
    fn call(&self, request: &Request) -> Result<Value, CallError> {
        request.check()?;
        let args = self.args.iter().map(OsString::as_os_str);
        let input = request.input();
        let command = Command {
            program: &self.program,
            args: args.chain(request.args().into_iter().map(OsStr::new)).collect(),
            folder: self.folder.as_deref(),
            with: &self.secrets.0,
            without: &[],
            input: &input,
            timeout: self.timeout,
            max_bytes: self.max_bytes,
        };
        let name = format!("`{}`", request.name());
        let finished = run(&command).map_err(|error| error.of_call(&name))?;
        read_answer(
            request.name(),
            Some(finished.code),
            &finished.stdout,
            &finished.stderr,
        )
    }
}
