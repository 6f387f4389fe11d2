//! The pictures of a session that is steered, asks, is taken over and handed back: a real daemon
//! with vex, whose model is scripted.

use vik_testkit::server::{ModelServer, Script};

use super::daemon::{Daemon, Scene};
use crate::repo::{self, Context as _, TaskResult};

/// The answers of the model. `live_shots.mjs` does the person's part.
const MODEL: &str = include_str!("live_model.json");
const WORKFLOW: &str = include_str!("live_workflow.yml");

const ISSUES: &str = r#"[{
  "id": "42", "title": "Export the currency of each order", "state": "todo", "labels": ["export"],
  "description": "`export.py` writes the amount only. Add the currency, so that other teams need not guess."
}]"#;

/// Makes the pictures in `docs/usage/images`.
pub(super) fn shots() -> TaskResult {
    let script = Script::parse(MODEL)?;
    let model = ModelServer::start(script).context("cannot start a model")?;
    let daemon = Daemon::start(&Scene {
        workflow: WORKFLOW.replace("MODEL_URL", &model.v1()),
        issues: ISSUES,
        is_ready: |status| status["sessions"][0]["waits_for"]["kind"] == "tool",
    })?;
    repo::run(
        daemon
            .command("node")
            .arg(repo::root().join("tests/dashboard/live_shots.mjs"))
            .arg(repo::root().join("docs/usage/images"))
            .env("VIK_DASHBOARD_URL", daemon.link()?),
    )?;
    let failures = model.failures();
    if failures.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the model did not get what it expects: {}",
        failures.join("; ")
    ))
}
