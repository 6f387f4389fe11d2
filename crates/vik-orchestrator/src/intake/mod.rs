//! Takes snapshots of issues: runs the pull command and parses its output.

mod move_issue;
mod show;

use std::future::Future;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::task::JoinError;
use vik_base::report;
use vik_base::report::describe_exit;
use vik_core::duration::Span;
use vik_core::issue::{ParsePullError, Pull, Wanted};
use vik_core::retry_later::requested_wait;
use vik_core::workflow::Workflow;
use vik_proc::{Limits, Mark, Output, ShimSpec};
use vik_session::host::{ATTEMPT_MARK, Host, os_env};
use vik_session::secrets::masked::read_tail;
use vik_session::secrets::{Resolver, SecretError};
use vik_workspace::fs::create_private_dir_all;

pub use move_issue::move_issue;
pub use show::{ShowError, show};

/// The maximum output of a pull, in bytes.
pub const MAX_PULL_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub struct PullResult {
    pub duration: Duration,
    pub result: Result<Pull, PullError>,
}

/// Why a pull returned no list. It changes nothing, and intake continues.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error("cannot prepare the pull")]
    Prepare(#[source] io::Error),
    #[error("the pull command was not run")]
    Secret(#[source] SecretError),
    #[error("cannot start the pull command")]
    Start(#[source] vik_proc::ProcError),
    #[error("the pull command {how}{}", on_stderr(stderr))]
    Failed {
        /// Such as `exited with 1`.
        how: String,
        /// The end of its stderr.
        stderr: String,
        /// How long it asked to wait before the next pull, if it did.
        requested_wait: Option<Duration>,
    },
    #[error("the pull command did not end within {0}")]
    TimedOut(Span),
    #[error("the pull command printed more than {} MB", MAX_PULL_BYTES / 1024 / 1024)]
    Flooded,
    /// The output is no list of issues.
    #[error("the output of the pull command is not a list of issues: it starts with `{start}`")]
    Garbage { source: ParsePullError, start: String },
    #[error("the pull was stopped")]
    Cancelled,
    #[error("bug in Vik: {0}")]
    Bug(String),
}

impl PullError {
    pub(crate) fn bug(bug: &JoinError) -> Self {
        Self::Bug(bug.to_string())
    }

    /// Returns how long the command asked to wait before the next pull; zero if it did not.
    pub(crate) fn requested_wait(&self) -> Duration {
        match self {
            Self::Failed {
                requested_wait: Some(wait),
                ..
            } => *wait,
            _ => Duration::ZERO,
        }
    }
}

pub(super) fn on_stderr(stderr: &str) -> String {
    if stderr.is_empty() {
        String::new()
    } else {
        format!("; stderr: {}", report::one_line(stderr, 500))
    }
}

/// Runs the pull command once and parses its output; see [`run_pull_command`].
pub async fn pull(
    host: &Host,
    workflow: &Workflow,
    stderr: &Path,
    cancel: impl Future<Output = ()>,
) -> PullResult {
    let start = Instant::now();
    let result = match run_pull_command(host, workflow, stderr, cancel).await {
        Ok(output) => read(output, None).await,
        Err(error) => Err(error),
    };
    PullResult {
        duration: start.elapsed(),
        result,
    }
}

/// Runs the pull command once, in the workflow file's folder with the daemon's environment, and
/// returns its output. Its stderr goes to a file, which keeps only that of the last pull.
///
/// # Errors
/// When the command fails or exceeds its limits.
pub async fn run_pull_command(
    host: &Host,
    workflow: &Workflow,
    stderr: &Path,
    cancel: impl Future<Output = ()>,
) -> Result<Vec<u8>, PullError> {
    let intake = &workflow.pull;
    let folder = stderr.parent().unwrap_or(Path::new("/"));
    create_private_dir_all(folder).map_err(PullError::Prepare)?;
    let mut cancel = std::pin::pin!(cancel);
    let resolver = Resolver {
        host,
        secrets: &workflow.secrets,
        folder,
    };
    let values = resolver.values(&intake.secrets, &mut cancel).await;
    let values = values.map_err(|error| match error {
        SecretError::Cancelled { .. } => PullError::Cancelled,
        error => PullError::Secret(error),
    })?;
    match std::fs::remove_file(stderr) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(PullError::Prepare(error)),
        _ => {}
    }
    let mut spec = ShimSpec::command("sh", &host.workflow_dir);
    spec.args = vec!["-c".into(), intake.command.clone().into()];
    let mut env = host.command_env();
    env.extend(values.of(&intake.secrets));
    spec.env = os_env(env);
    spec.mark = Some(Mark::new(ATTEMPT_MARK, format!("pull-{}", uuid::Uuid::now_v7())));
    spec.stderr = Output::Append(stderr.to_owned());
    let limits = Limits {
        timeout: intake.timeout.0,
        max_bytes: MAX_PULL_BYTES,
    };
    let run = host
        .supervisor
        .output(&spec, limits, cancel)
        .await
        .map_err(PullError::Start)?;
    if run.flooded {
        return Err(PullError::Flooded);
    }
    if run.timed_out {
        return Err(PullError::TimedOut(intake.timeout));
    }
    if run.cancelled {
        return Err(PullError::Cancelled);
    }
    if run.exit.code != Some(0) {
        let stderr = read_tail(stderr, 4096);
        let stdout = String::from_utf8_lossy(&run.stdout[run.stdout.len().saturating_sub(4096)..]);
        return Err(PullError::Failed {
            how: describe_exit(&run.exit),
            requested_wait: requested_wait(run.exit.code, &format!("{stdout}\n{stderr}")),
            stderr: report::tail_lines(&stderr, 5),
        });
    }
    for line in read_tail(stderr, 4096)
        .lines()
        .filter(|line| line.starts_with("warning: "))
    {
        tracing::warn!("pull: {}", report::one_line(line, 500));
    }
    Ok(run.stdout)
}

/// Parses the output of a pull. With `wanted`, only wanted issues are kept.
///
/// # Errors
/// When it is no list of issues.
pub async fn read(output: Vec<u8>, wanted: Option<Wanted>) -> Result<Pull, PullError> {
    let parse = move || {
        let pull = match &wanted {
            Some(wanted) => Pull::parse_wanted(&output, wanted),
            None => Pull::parse(&output),
        };
        pull.map_err(|source| {
            // Masks before shortening: a secret that is cut in two would not be recognized.
            let start = String::from_utf8_lossy(&output[..output.len().min(64 * 1024)]);
            PullError::Garbage {
                source,
                start: report::one_line(&vik_mask::mask(&start), 80),
            }
        })
    };
    // Fifty megabytes take a while to parse, and the loop must not wait for that.
    tokio::task::spawn_blocking(parse)
        .await
        .unwrap_or_else(|bug| Err(PullError::bug(&bug)))
}
