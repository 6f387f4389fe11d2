//! Looks up the values of secrets.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use vik_base::report;
use vik_base::report::describe_exit;
use vik_core::outcome::FailureClass;
use vik_core::workflow::SecretSource;
use vik_mask::{Label, MIN_BYTES};
use vik_proc::{Limits, Mark, Output, ShimSpec, untrusted};
use vik_workspace::resolve_path;

use crate::host::{ATTEMPT_MARK, Host, os_env};
use crate::secrets::masked::read_tail;

/// The time limit of a command that prints a secret.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a secret, as a variable cannot hold more.
const MAX_BYTES: usize = 32 * 1024;
const TOO_LONG: &str = "is longer than 32 KiB, the limit of an environment variable";

/// The values of secrets by name.
#[derive(Clone, Default)]
pub struct Values(BTreeMap<String, String>);

impl Values {
    /// Returns the secrets in `names`.
    pub fn of<'v>(&'v self, names: &'v [String]) -> impl Iterator<Item = (String, String)> + 'v {
        let pair = |name: &'v String| Some((name.clone(), self.0.get(name)?.clone()));
        names.iter().filter_map(pair)
    }
}

impl std::fmt::Debug for Values {
    /// Prints names only, no values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Why a secret has no value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The workflow no longer defines the secret.
    #[error("the secret {name} is not defined")]
    Undefined { name: String },
    /// Its variable is not set.
    #[error("the secret {name} has no value: the variable {variable} is not set")]
    Unset {
        name: String,
        /// The variable of the daemon.
        variable: String,
    },
    #[error("the secret {name} has no value: cannot read {path}")]
    Read {
        name: String,
        path: PathBuf,
        source: io::Error,
    },
    #[error("the secret {name} has no value: cannot start its command")]
    Start {
        name: String,
        source: Box<vik_proc::ProcError>,
    },
    #[error("the secret {name} has no value: its command {how}{}", output_suffix(output))]
    Failed {
        name: String,
        /// `exited with 1`, …
        how: String,
        /// The end of its output on stderr.
        output: String,
    },
    #[error("the secret {name} is empty")]
    Empty { name: String },
    #[error("the secret {name} {why}")]
    Unfit { name: String, why: &'static str },
    #[error("the command of the secret {name} was stopped")]
    Cancelled { name: String },
}

fn output_suffix(output: &str) -> String {
    if output.is_empty() {
        String::new()
    } else {
        format!("; output: {output}")
    }
}

impl SecretError {
    /// Returns the class of an attempt that fails because of this error: a cause that may be
    /// temporary is retried.
    pub fn class(&self) -> FailureClass {
        match self {
            Self::Read { .. } | Self::Start { .. } | Self::Failed { .. } | Self::Cancelled { .. } => {
                FailureClass::Hook
            }
            Self::Undefined { .. } | Self::Unset { .. } | Self::Empty { .. } | Self::Unfit { .. } => {
                FailureClass::Usage
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Resolver<'a> {
    /// The host on which commands run and files are read.
    pub host: &'a Host,
    /// The secrets that the workflow defines.
    pub secrets: &'a BTreeMap<String, SecretSource>,
    /// The folder for a command's stderr while it runs.
    pub folder: &'a Path,
}

impl Resolver<'_> {
    /// Returns the values of these secrets. From then on they are masked.
    ///
    /// # Errors
    /// When one of them has no value.
    pub async fn values(
        &self,
        names: &[String],
        cancel: impl Future<Output = ()>,
    ) -> Result<Values, SecretError> {
        let mut values = BTreeMap::new();
        let mut cancel = std::pin::pin!(cancel);
        for name in names {
            if !values.contains_key(name) {
                let value = self.value(name, &mut cancel).await?;
                values.insert(name.clone(), value);
            }
        }
        Ok(Values(values))
    }

    /// Returns the value of one secret. From then on it is masked if it is long enough.
    ///
    /// # Errors
    /// When it has no value.
    pub async fn value(&self, name: &str, cancel: impl Future<Output = ()>) -> Result<String, SecretError> {
        let source = self.secrets.get(name).ok_or_else(|| SecretError::Undefined {
            name: name.to_owned(),
        })?;
        let bytes = match source {
            SecretSource::Env(variable) => {
                let value = self.host.environment.get(variable);
                let value = value.ok_or_else(|| SecretError::Unset {
                    name: name.to_owned(),
                    variable: variable.clone(),
                })?;
                value.as_bytes().to_vec()
            }
            SecretSource::File(file) => self.read(name, file).await?,
            SecretSource::Command(command) => without_line_end(self.print(name, command, cancel).await?),
        };
        let unfit = |why| SecretError::Unfit {
            name: name.to_owned(),
            why,
        };
        if bytes.len() > MAX_BYTES {
            return Err(unfit(TOO_LONG));
        }
        let value = String::from_utf8(bytes).map_err(|_| unfit("is not valid UTF-8"))?;
        if value.contains('\0') {
            return Err(unfit(
                "contains a NUL character, which an environment variable cannot contain",
            ));
        }
        if value.trim().is_empty() {
            return Err(SecretError::Empty {
                name: name.to_owned(),
            });
        }
        vik_mask::learn([(Label::Secret(name.to_owned()), value.clone())]);
        if is_short(&value) && self.host.environment.is_first_warning(name) {
            tracing::warn!(
                secret = name,
                "cannot mask a secret of fewer than {MIN_BYTES} bytes"
            );
        }
        Ok(value)
    }

    async fn read(&self, name: &str, file: &str) -> Result<Vec<u8>, SecretError> {
        let path = resolve_path(&self.host.workflow_dir, file);
        let at = path.clone();
        let read = spawn_blocking(move || read_file(&at));
        read.await
            .map_err(io::Error::other)
            .flatten()
            .map_err(|source| match source.kind() {
                io::ErrorKind::FileTooLarge => SecretError::Unfit {
                    name: name.to_owned(),
                    why: TOO_LONG,
                },
                _ => SecretError::Read {
                    name: name.to_owned(),
                    path,
                    source,
                },
            })
    }

    /// Returns the output of the secret's command. The command gets no secret itself.
    async fn print(
        &self,
        name: &str,
        command: &str,
        cancel: impl Future<Output = ()>,
    ) -> Result<Vec<u8>, SecretError> {
        let id = format!("secret-{}", uuid::Uuid::now_v7());
        let stderr = self.folder.join(format!("{id}.stderr"));
        let mut spec = ShimSpec::command("sh", &self.host.workflow_dir);
        spec.args = vec!["-c".into(), command.into()];
        spec.env = os_env(self.host.command_env());
        spec.mark = Some(Mark::new(ATTEMPT_MARK, &id));
        spec.stderr = Output::Append(stderr.clone());
        let limits = Limits {
            timeout: TIMEOUT,
            max_bytes: MAX_BYTES + 3,
        };
        let run = self.host.supervisor.output(&spec, limits, cancel).await;
        let output = report::one_line(&report::tail_lines(&read_tail(&stderr, 4096), 3), 300);
        let _ = std::fs::remove_file(&stderr);
        let name = name.to_owned();
        let run = match run {
            Ok(run) => run,
            Err(source) => {
                return Err(SecretError::Start {
                    name,
                    source: Box::new(source),
                });
            }
        };
        let how = if run.cancelled {
            return Err(SecretError::Cancelled { name });
        } else if run.is_success() {
            return Ok(run.stdout);
        } else if run.timed_out {
            "did not end within 30s".to_owned()
        } else if run.flooded {
            "printed more than 32 KiB".to_owned()
        } else {
            describe_exit(&run.exit)
        };
        Err(SecretError::Failed { name, how, output })
    }
}

/// Returns the content of a file with a secret, without the end of its last line. Blocks.
pub(super) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // Mounted secrets are links.
    let bytes = untrusted::read(&path.canonicalize()?, MAX_BYTES as u64 + 2)?;
    Ok(without_line_end(bytes))
}

/// Returns whether a value is too short to be distinguished from ordinary text.
pub fn is_short(value: &str) -> bool {
    value.trim().len() < MIN_BYTES
}

fn without_line_end(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    bytes
}
