//! Steering its own daemon.

use std::process::Command;

use crate::{Plan, report, text};

pub(crate) fn try_out(plan: &Plan) {
    let id = std::env::var("VIK_ISSUE_ID").unwrap_or_default();
    let workflow = std::env::var("VIK_WORKFLOW").unwrap_or_default();
    for verb in ["retry", "cancel", "explain", "approve"] {
        let done = Command::new(&plan.vik)
            .args(["--workflow", &workflow, verb, &id])
            .output();
        let tried = match done {
            Ok(done) if done.status.success() => Ok(()),
            Ok(done) => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
            Err(error) => Err(text(error)),
        };
        report(&format!("vik {verb}"), tried);
    }
}
