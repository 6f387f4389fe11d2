//! Looks up the values of secrets.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use vik_core::outcome::FailureClass;
use vik_core::workflow::SecretSource;
use vik_mask::{Label, MIN_BYTES};
use vik_proc::{Limits, Mark, Output, ShimSpec, untrusted};

use crate::hooks::{how_ended, read_tail};
use crate::host::{ATTEMPT_MARK, Host, os_env};
use crate::report;
use crate::workspace::resolve_path;

/// How long a command may take to print a secret.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The longest secret: a variable takes no more.
const MOST_BYTES: usize = 32 * 1024;
const TOO_LONG: &str = "is longer than 32 KiB: no variable can hold it";

/// Secrets by name, looked up.
#[derive(Clone, Default)]
pub struct Values(BTreeMap<String, String>);

impl Values {
    /// Those that are listed.
    pub fn of<'v>(&'v self, names: &'v [String]) -> impl Iterator<Item = (String, String)> + 'v {
        let pair = |name: &'v String| Some((name.clone(), self.0.get(name)?.clone()));
        names.iter().filter_map(pair)
    }
}

impl std::fmt::Debug for Values {
    /// Names only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Why a secret has no value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The workflow has no such secret any more.
    #[error("the secret {name} is not defined")]
    Undefined {
        /// The secret.
        name: String,
    },
    /// Its variable is not there.
    #[error("the secret {name} has no value: the variable {variable} is not set")]
    Unset {
        /// The secret.
        name: String,
        /// The variable of the daemon.
        variable: String,
    },
    /// Its file cannot be read.
    #[error("the secret {name} has no value: cannot read {path}")]
    Read {
        /// The secret.
        name: String,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its command cannot be started.
    #[error("the secret {name} has no value: its command could not be started")]
    Start {
        /// The secret.
        name: String,
        /// Why.
        source: Box<vik_proc::ProcError>,
    },
    /// Its command failed.
    #[error("the secret {name} has no value: its command {how}{}", shown(output))]
    Failed {
        /// The secret.
        name: String,
        /// `exited with 1`, …
        how: String,
        /// The last of what it said.
        output: String,
    },
    /// There is nothing in it.
    #[error("the secret {name} is empty")]
    Empty {
        /// The secret.
        name: String,
    },
    /// No variable can hold it.
    #[error("the secret {name} {why}")]
    Unfit {
        /// The secret.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// Vik was asked to stop.
    #[error("the command of the secret {name} was stopped")]
    Cancelled {
        /// The secret.
        name: String,
    },
}

fn shown(said: &str) -> String {
    if said.is_empty() {
        String::new()
    } else {
        format!("; it said: {said}")
    }
}

impl SecretError {
    /// What an attempt that needs the secret fails with: what may be well the next time is tried again.
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

/// Looks up secrets.
#[derive(Clone, Copy, Debug)]
pub struct Resolver<'a> {
    /// Where commands run and files are.
    pub host: &'a Host,
    /// What is defined.
    pub secrets: &'a BTreeMap<String, SecretSource>,
    /// Where what a command says on stderr lies while it runs.
    pub folder: &'a Path,
}

impl Resolver<'_> {
    /// The values of these secrets. From then on they are masked.
    ///
    /// # Errors
    /// When one of them has none.
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

    /// The value of one secret. From then on it is masked, where it is long enough.
    ///
    /// # Errors
    /// When it has none.
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
        if bytes.len() > MOST_BYTES {
            return Err(unfit(TOO_LONG));
        }
        let value = String::from_utf8(bytes).map_err(|_| unfit("is no text in UTF-8"))?;
        if value.contains('\0') {
            return Err(unfit("holds a NUL character: no variable can hold it"));
        }
        if value.trim().is_empty() {
            return Err(SecretError::Empty {
                name: name.to_owned(),
            });
        }
        vik_mask::learn([(Label::Secret(name.to_owned()), value.clone())]);
        if is_short(&value) && self.host.environment.first_time(name) {
            tracing::warn!(
                secret = name,
                "a secret of fewer than {MIN_BYTES} bytes cannot be masked"
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

    /// What its command prints. The command gets no secret itself.
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
            max_bytes: MOST_BYTES + 3,
        };
        let run = self.host.supervisor.output(&spec, limits, cancel).await;
        let said = report::one_line(&report::tail_lines(&read_tail(&stderr, 4096), 3), 300);
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
            how_ended(&run.exit)
        };
        Err(SecretError::Failed {
            name,
            how,
            output: said,
        })
    }
}

/// What a file with a secret holds, without the end of its last line. Blocks.
pub(super) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // Secrets that are mounted are links.
    let bytes = untrusted::read(&path.canonicalize()?, MOST_BYTES as u64 + 2)?;
    Ok(without_line_end(bytes))
}

/// Whether a value is too short to be told from a word.
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
