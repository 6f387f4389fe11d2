//! `vik doctor --repair`: rebuilds a damaged ledger while no daemon runs.

use std::path::Path;

use vik_base::report::{ErrorCode, Exit, Failure, chain, count};
use vik_daemon::Instance;
use vik_store::ledger::{Health, Repaired, check, repair};
use vik_workflow::absolute;

use super::super::{CliResult, history, print_result};

/// Checks the ledger and rebuilds it if it is damaged. The damaged files are kept beside it.
pub fn run(workflow: &Path, json: bool) -> CliResult {
    let root = history::root(workflow)?;
    // The lock prevents a daemon from starting meanwhile; a later one finds the rebuilt ledger.
    let _lock = Instance::of(&absolute(workflow))?.acquire().map_err(|failure| {
        if failure.exit == Exit::AlreadyRunning {
            failure.hint("stop the daemon first with `vik stop`")
        } else {
            failure
        }
    })?;
    let service = root.join("service");
    let damage = match check(&service) {
        Health::Bad(error) if error.is_damage() => chain(&error),
        Health::Bad(error) => return Err(error.into()),
        health => {
            let report = report(None, &Repaired::default());
            let text = || format!("{}; nothing to repair\n", healthy(&health));
            return print_result(json, &report, text);
        }
    };
    let repaired = repair(&service, &root.join("sessions")).map_err(|error| {
        Failure::failed(ErrorCode::Ledger, "cannot repair the ledger", &error).hint(
            error
                .hint()
                .unwrap_or("nothing was changed; check the ledger with `vik doctor`"),
        )
    })?;
    print_result(json, &report(Some(&damage), &repaired), || {
        text(&damage, &repaired)
    })
}

/// Returns a text for a ledger without damage.
pub(super) fn healthy(health: &Health) -> String {
    match health {
        Health::Good { commits, bytes, .. } => {
            format!(
                "the ledger is intact: {commits} commits, {} KiB",
                bytes.div_ceil(1024)
            )
        }
        Health::Missing | Health::Bad(_) => "no ledger exists yet".to_owned(),
    }
}

pub(super) fn text(found: &str, repaired: &Repaired) -> String {
    let mut out = format!("found: {found}\n");
    match &repaired.log {
        Some(log) => out.push_str(&format!(
            "rebuilt: an empty copy of the shared log {log}, which the next hub fills\n"
        )),
        None => out.push_str(&format!(
            "rebuilt: {} and {}\n",
            count(repaired.issues, "issue"),
            count(repaired.attempts, "attempt"),
        )),
    }
    if !repaired.open.is_empty() {
        out.push_str(&format!(
            "{} not ended yet: the next daemon recovers them\n",
            count(repaired.open.len(), "attempt")
        ));
    }
    for path in &repaired.moved {
        out.push_str(&format!("kept the damaged file: {}\n", path.display()));
    }
    if repaired.log.is_none() {
        out.push_str("pauses may be lost; check `vik status` after the next start\n");
    }
    out
}

fn report(found: Option<&str>, repaired: &Repaired) -> serde_json::Value {
    serde_json::json!({
        "schema": vik_api::SCHEMA,
        "repaired": found.is_some(),
        "found": found,
        "issues": repaired.issues,
        "attempts": repaired.attempts,
        "open": repaired.open,
        "moved": repaired.moved,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_copy_names_its_log_instead_of_figures() {
        let repaired = Repaired {
            moved: vec!["vik.db.broken-1".into()],
            log: Some("log-1".parse().unwrap()),
            ..Repaired::default()
        };
        assert_eq!(
            text("damage", &repaired),
            "found: damage
rebuilt: an empty copy of the shared log log-1, which the next hub fills
kept the damaged file: vik.db.broken-1
"
        );
    }
}
