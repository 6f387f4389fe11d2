//! Runs the command of an entry like the pull command.

use std::future::Future;

use jiff::Timestamp;
use vik_api::ScheduleResult;
use vik_base::report;
use vik_base::report::describe_exit;
use vik_core::workflow::Job;
use vik_proc::{Limits, Mark, Output, ShimSpec};
use vik_session::host::{ATTEMPT_MARK, Host, os_env};
use vik_session::secrets::masked::read_tail;

/// The maximum size of a command's standard output.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// How many lines of the end of its output are reported.
const REPORTED_LINES: usize = 10;

/// The result of a command.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) result: ScheduleResult,
    /// Why it failed, with the last lines of its output.
    pub(super) detail: Option<String>,
}

/// Runs the command of an entry in the workflow file's folder with the daemon's environment.
pub(super) async fn run(
    host: &Host,
    name: &str,
    job: &Job,
    due: Timestamp,
    cancel: impl Future<Output = ()>,
) -> Ended {
    let failed = |detail: String| Ended {
        result: ScheduleResult::Failed,
        detail: Some(detail),
    };
    let stderr = host
        .layout
        .service_dir()
        .join(format!("schedule-{name}.stderr.log"));
    match std::fs::remove_file(&stderr) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return failed(format!("cannot replace {}: {error}", stderr.display()));
        }
        _ => {}
    }
    let mut env = host.command_env();
    env.insert("VIK_SCHEDULE_ENTRY".to_owned(), name.to_owned());
    env.insert("VIK_SCHEDULE_DUE".to_owned(), due.to_string());
    let mut spec = ShimSpec::command("sh", &host.workflow_dir);
    spec.args = vec!["-c".into(), job.command.clone().into()];
    spec.env = os_env(env);
    spec.mark = Some(Mark::new(
        ATTEMPT_MARK,
        format!("schedule-{}", uuid::Uuid::now_v7()),
    ));
    spec.stderr = Output::Append(stderr.clone());
    let limits = Limits {
        timeout: job.timeout.0,
        max_bytes: MAX_OUTPUT_BYTES,
    };
    let run = match host.supervisor.output(&spec, limits, cancel).await {
        Ok(run) => run,
        Err(error) => return failed(report::chain(&error)),
    };
    if run.is_success() {
        return Ended {
            result: ScheduleResult::Ok,
            detail: None,
        };
    }
    let (result, how) = if run.cancelled {
        (ScheduleResult::Stopped, "stopped with the daemon".to_owned())
    } else if run.timed_out {
        let how = format!("did not end within {}", job.timeout);
        (ScheduleResult::TimedOut, how)
    } else if run.flooded {
        (ScheduleResult::Failed, "printed too much output".to_owned())
    } else {
        (ScheduleResult::Failed, describe_exit(&run.exit))
    };
    let output = match read_tail(&stderr, 4096) {
        output if output.trim().is_empty() => {
            let text = String::from_utf8_lossy(&run.stdout);
            let text = vik_mask::mask(&text);
            text[text.floor_char_boundary(text.len().saturating_sub(4096))..].to_owned()
        }
        output => output,
    };
    let output = report::one_line(&report::tail_lines(&output, REPORTED_LINES), 1000);
    Ended {
        result,
        detail: Some(if output.is_empty() {
            how
        } else {
            format!("{how}: {output}")
        }),
    }
}
