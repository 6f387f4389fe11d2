//! Looks up one issue: runs the show command and parses its output.

use std::io;

use serde_json::json;
use vik_base::report;
use vik_base::report::describe_exit;
use vik_core::duration::Span;
use vik_core::ids::IssueId;
use vik_core::issue::Pull;
use vik_core::scheduler::LookupResult;
use vik_core::workflow::{Show, Workflow};
use vik_proc::{Limits, Output};
use vik_session::host::{Host, env_value};
use vik_session::secrets::masked::read_tail;
use vik_session::secrets::{Resolver, SecretError};
use vik_template::TemplateError;
use vik_workspace::fs::{create_private_dir_all, write_private};

/// The maximum output for one issue, in bytes.
const MAX_SHOW_BYTES: usize = 8 * 1024 * 1024;

/// Why a lookup had no result.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    #[error("cannot render the show command")]
    Template(#[source] Box<TemplateError>),
    #[error("cannot prepare the show command")]
    Prepare(#[source] io::Error),
    #[error("the show command was not run")]
    Secret(#[source] SecretError),
    #[error("cannot start the show command")]
    Start(#[source] vik_proc::ProcError),
    /// The command failed: the tracker may be down.
    #[error("the show command {how}{}", super::on_stderr(stderr))]
    Failed {
        /// Such as `exited with 1`.
        how: String,
        /// The end of its stderr.
        stderr: String,
    },
    #[error("the show command did not end within {0}")]
    TimedOut(Span),
    #[error("the show command printed more than {} MB", MAX_SHOW_BYTES / 1024 / 1024)]
    Flooded,
    #[error("the show command did not print JSON")]
    Garbage(#[source] serde_json::Error),
    #[error("the output of the show command is not an issue: {0}")]
    NoIssue(String),
    #[error("the show command printed a different issue")]
    Another,
    #[error("the show command was stopped")]
    Cancelled,
}

/// Looks up one issue, in the workflow file's folder with the daemon's environment.
///
/// # Errors
/// When the lookup has no result.
pub async fn show(
    host: &Host,
    workflow: &Workflow,
    show: &Show,
    issue: &IssueId,
    cancel: impl Future<Output = ()>,
) -> Result<LookupResult, ShowError> {
    let context = json!({"issue": {"id": issue.as_str()}});
    let script = vik_template::script(&show.command, &context)
        .map_err(|error| ShowError::Template(Box::new(error)))?;
    let name = format!("show-{}", uuid::Uuid::now_v7());
    let folder = host.layout.service_dir().join("show");
    let (file, stderr) = (folder.join(&name), folder.join(name.clone() + ".stderr"));
    create_private_dir_all(&folder)
        .and_then(|()| write_private(&file, script.as_bytes()))
        .map_err(ShowError::Prepare)?;
    let mut cancel = std::pin::pin!(cancel);
    let resolver = Resolver {
        host,
        secrets: &workflow.secrets,
        folder: &folder,
    };
    let values = resolver.values(&show.secrets, &mut cancel).await;
    let values = values.map_err(|error| {
        let _ = std::fs::remove_file(&file);
        match error {
            SecretError::Cancelled { .. } => ShowError::Cancelled,
            error => ShowError::Secret(error),
        }
    })?;
    let mut env = host.command_env();
    env.extend(values.of(&show.secrets));
    env.insert("VIK_ISSUE_ID".to_owned(), env_value(issue.as_str()));
    let mut spec = host.script(&file, &host.workflow_dir, env, &name);
    spec.stderr = Output::Append(stderr.clone());
    let limits = Limits {
        timeout: show.timeout.0,
        max_bytes: MAX_SHOW_BYTES,
    };
    let run = host.supervisor.output(&spec, limits, cancel).await;
    let stderr_tail = report::tail_lines(&read_tail(&stderr, 4096), 5);
    let _ = (std::fs::remove_file(&file), std::fs::remove_file(&stderr));
    let run = run.map_err(ShowError::Start)?;
    if run.flooded {
        return Err(ShowError::Flooded);
    }
    if run.timed_out {
        return Err(ShowError::TimedOut(show.timeout));
    }
    if run.cancelled {
        return Err(ShowError::Cancelled);
    }
    if run.exit.code != Some(0) {
        return Err(ShowError::Failed {
            how: describe_exit(&run.exit),
            stderr: stderr_tail,
        });
    }
    read(&run.stdout, issue)
}

/// Parses a snapshot, or `null`.
fn read(output: &[u8], expected: &IssueId) -> Result<LookupResult, ShowError> {
    let output = output
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(output)
        .trim_ascii();
    if output == b"null" {
        return Ok(LookupResult::Missing);
    }
    // The issue is parsed as in a pull.
    let list = [b"[", output, b"]"].concat();
    let pull = Pull::parse(&list).map_err(|error| ShowError::Garbage(error.into_json()))?;
    let mut issues = pull.issues;
    match (issues.pop(), issues.is_empty(), pull.skipped.first()) {
        (Some(issue), true, None) if issue.id == *expected => Ok(LookupResult::Snapshot(Box::new(issue))),
        (Some(_), true, None) => Err(ShowError::Another),
        (None, _, Some(skipped)) => Err(ShowError::NoIssue(skipped.reason.clone())),
        _ => Err(ShowError::NoIssue("expected one issue".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(output: &str) -> Result<LookupResult, ShowError> {
        read(output.as_bytes(), &IssueId::new("7"))
    }

    #[test]
    fn snapshot_is_parsed_as_in_a_pull() {
        let Ok(LookupResult::Snapshot(issue)) =
            parse("\u{feff} {\"id\": 7, \"title\": \"t\", \"state\": \"todo\"}\n")
        else {
            panic!("no snapshot")
        };
        assert_eq!((issue.id.as_str(), &*issue.state), ("7", "todo"));
    }

    #[test]
    fn null_means_the_issue_is_missing() {
        assert!(matches!(parse(" null\n"), Ok(LookupResult::Missing)));
    }

    #[test]
    fn other_output_is_an_error() {
        for (output, error) in [
            ("", "expected one issue"),
            ("{\"id\": 7", "did not print JSON"),
            ("{\"id\": 8, \"state\": \"todo\"}", "a different issue"),
            ("[{\"id\": 7, \"state\": \"todo\"}]", "is not an issue"),
            (
                "{\"id\": 7, \"state\": \"a\"}, {\"id\": 7, \"state\": \"b\"}",
                "is not an issue",
            ),
            (
                "{\"id\": 7, \"state\": \"a\"}, {\"id\": 8, \"state\": \"b\"}",
                "is not an issue",
            ),
            ("], [", "did not print JSON"),
            ("\"gone\"", "is not an issue"),
        ] {
            let found = parse(output).map_err(|error| error.to_string());
            assert!(
                found.as_ref().is_err_and(|text| text.contains(error)),
                "{output}: {found:?}"
            );
        }
    }
}
