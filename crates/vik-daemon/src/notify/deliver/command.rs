//! Delivers by a shell command.

use std::future::Future;

use vik_base::report;
use vik_base::report::describe_exit;
use vik_proc::{Limits, Mark, Output, ShimSpec, Stdin};
use vik_session::host::{ATTEMPT_MARK, env_value, os_env};
use vik_session::secrets::masked::read_tail;
use vik_workspace::fs::{create_private_dir_all, write_private};

use super::{DeliverError, Delivery};

/// The maximum output of the command. It is discarded.
const MAX_BYTES: usize = 1024 * 1024;

/// Runs the command like a pull: in the folder of the workflow file, with the daemon's environment.
/// The notification is passed on standard input and in variables, and is never part of the command.
pub(super) async fn run(
    delivery: &Delivery,
    script: &str,
    body: &[u8],
    cancel: impl Future<Output = ()>,
) -> Result<(), DeliverError> {
    let notification = &delivery.notification;
    let name = format!("notify-{}", notification.delivery_id);
    let (input, stderr) = (
        delivery.folder.join(format!("{name}.json")),
        delivery.folder.join(format!("{name}.stderr")),
    );
    create_private_dir_all(&delivery.folder)
        .and_then(|()| write_private(&input, body))
        .map_err(DeliverError::Prepare)?;
    let mut env = delivery.host.command_env();
    let item = notification.items.first();
    let issue = item.and_then(|item| item.issue_id.as_ref());
    let stage = item.and_then(|item| item.stage.as_ref());
    for (variable, value) in [
        ("VIK_EVENT", notification.event.as_str()),
        ("VIK_NOTIFIER", &notification.notifier),
        ("VIK_DELIVERY_ID", &notification.delivery_id),
        ("VIK_TITLE", &notification.title),
        ("VIK_TEXT", &notification.text),
        // Of several items, the variables describe the first one.
        ("VIK_ISSUE_ID", issue.map_or("", |issue| issue.as_str())),
        ("VIK_ISSUE_TITLE", item.map_or("", |item| &item.issue_title)),
        ("VIK_STAGE", stage.map_or("", |stage| stage.as_str())),
        ("VIK_REASON", item.map_or("", |item| &item.reason)),
    ] {
        env.insert(variable.to_owned(), env_value(&vik_mask::mask(value)));
    }
    let mut spec = ShimSpec::command("sh", &delivery.host.workflow_dir);
    spec.args = vec!["-c".into(), script.into()];
    spec.env = os_env(env);
    spec.mark = Some(Mark::new(ATTEMPT_MARK, &name));
    spec.stdin = Stdin::File(input.clone());
    spec.stderr = Output::Append(stderr.clone());
    let timeout = delivery.notifier.timeout;
    let limits = Limits {
        timeout: timeout.0,
        max_bytes: MAX_BYTES,
    };
    let run = delivery.host.supervisor.output(&spec, limits, cancel).await;
    let stderr_tail = report::tail_lines(&read_tail(&stderr, 4096), 5);
    let _ = (std::fs::remove_file(&input), std::fs::remove_file(&stderr));
    let run = run.map_err(DeliverError::Start)?;
    if run.cancelled {
        return Err(DeliverError::Stopped);
    }
    if run.timed_out {
        return Err(DeliverError::TimedOut(timeout));
    }
    if run.flooded || run.exit.code != Some(0) {
        let how = if run.flooded {
            "printed too much output".to_owned()
        } else {
            describe_exit(&run.exit)
        };
        return Err(DeliverError::Command {
            how,
            stderr: stderr_tail,
        });
    }
    Ok(())
}
