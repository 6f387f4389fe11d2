//! Shell completions that know the issues, stages, states and attempts of the workflow.
//!
//! The shell runs `vik` with [`VARIABLE`] for each completion. Everything is read from the ledger
//! and the files of the workflow, without a daemon, and errors are silent: a message would disturb
//! the line that a person is typing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::builder::StyledStr;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use vik_core::visible::characters;
use vik_core::workflow::Workflow;
use vik_store::ledger::{Reader, StoredAttempt};
use vik_tracker::Tracker;
use vik_workflow::WorkflowFile;

use super::history;
use super::schema::whole_command;

/// The environment variable with the shell for which `vik` prints completions, instead of running a
/// command.
const VARIABLE: &str = "VIK_COMPLETE";

/// The maximum number of issues and of attempts that are offered.
const MAX: u32 = 500;

/// The maximum length of a title beside an id, in characters.
const TITLE_LENGTH: usize = 60;

/// Answers a request of a shell, if this process is one.
pub fn answer_shell() -> Option<ExitCode> {
    std::env::var_os(VARIABLE)?;
    let here = std::env::current_dir().ok();
    let answered = CompleteEnv::with_factory(whole_command)
        .var(VARIABLE)
        .try_complete(std::env::args_os(), here.as_deref());
    match answered {
        Ok(true) => Some(ExitCode::SUCCESS),
        // The variable is empty or 0.
        Ok(false) => None,
        Err(error) => {
            // Only the set-up, which has no arguments, reports an error.
            if std::env::args_os().len() == 1 {
                let _ = error.print();
            }
            Some(ExitCode::FAILURE)
        }
    }
}

/// Offers the issues of the ledger, with their titles.
pub fn issues() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let issues = ledger().and_then(|ledger| ledger.titles(MAX).ok());
        let issues = issues.unwrap_or_default();
        candidates(issues.iter().map(|(id, title)| (id.as_str(), title.as_str())))
    })
}

/// Offers the issues of the embedded tracker, with their titles.
pub fn tracked_issues() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let dir = option("--dir", None).or_else(|| std::env::var_os("VIK_ISSUES_DIR"));
        let dir = dir.map_or_else(|| PathBuf::from("issues"), PathBuf::from);
        let issues = Tracker::new(&dir).list().map(|listing| listing.issues);
        let issues = issues.unwrap_or_default();
        candidates(
            issues
                .iter()
                .map(|issue| (issue.id.as_str(), issue.title.as_str())),
        )
    })
}

/// Offers the attempts of the ledger by their session ids, latest first.
pub fn sessions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let attempts = ledger().and_then(|ledger| ledger.attempts(None, MAX).ok());
        let attempts: Vec<_> = attempts.unwrap_or_default().iter().map(described).collect();
        candidates(attempts.iter().map(|(id, text)| (id.as_str(), text.as_str())))
    })
}

fn described(attempt: &StoredAttempt) -> (String, String) {
    let started = &attempt.started;
    let outcome = attempt
        .ended
        .as_ref()
        .map_or("running", |ended| ended.report.outcome.as_str());
    (
        started.attempt_id.to_string(),
        format!("{} {} {outcome}", started.issue, started.stage),
    )
}

/// Offers the stages of the workflow, with their agents.
pub fn stages() -> ArgValueCandidates {
    of_workflow(|workflow| {
        let stages = workflow.issue.stages.iter();
        candidates(stages.map(|stage| (stage.name.as_str(), stage.agent.as_str())))
    })
}

/// Offers the agents of the workflow.
pub fn agents() -> ArgValueCandidates {
    of_workflow(|workflow| candidates(workflow.agents.keys().map(|name| (name.as_str(), ""))))
}

/// Offers the notifiers of the workflow.
pub fn notifiers() -> ArgValueCandidates {
    of_workflow(|workflow| candidates(workflow.notify.keys().map(|name| (name.as_str(), ""))))
}

/// Offers the states that the stages take, and those of finished issues.
pub fn states() -> ArgValueCandidates {
    of_workflow(|workflow| {
        let taken = workflow.issue.stages.iter().flat_map(|stage| {
            let states = stage.when.states.iter();
            states.map(|state| (state.as_str(), stage.name.as_str()))
        });
        let terminal = workflow.issue.terminal_states.iter();
        candidates(taken.chain(terminal.map(|state| (state.as_str(), "finished"))))
    })
}

fn of_workflow(offer: fn(&Workflow) -> Vec<CompletionCandidate>) -> ArgValueCandidates {
    ArgValueCandidates::new(move || workflow().map(|workflow| offer(&workflow)).unwrap_or_default())
}

fn workflow() -> Option<Arc<Workflow>> {
    let loaded = WorkflowFile::valid(&workflow_path(), |_| {}).ok()?;
    Some(loaded.workflow)
}

fn ledger() -> Option<Reader> {
    let root = history::root(&workflow_path()).ok()?;
    Reader::open(&root.join("service")).ok()?
}

/// Returns the workflow that the command line names.
fn workflow_path() -> PathBuf {
    option("--workflow", Some("-w")).map_or_else(|| PathBuf::from("workflow.yml"), PathBuf::from)
}

/// Returns the value of an option of the command line that is completed.
fn option(long: &str, short: Option<&str>) -> Option<OsString> {
    let mut args = std::env::args_os().skip_while(|arg| arg != "--").skip(2);
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy();
        if text == long || short.is_some_and(|short| text == short) {
            return args.next().filter(|value| !value.is_empty());
        }
        if let Some(value) = text.strip_prefix(long).and_then(|tail| tail.strip_prefix('=')) {
            return Some(value.into());
        }
    }
    None
}

/// Returns candidates in the given order, without those that a shell would not insert literally.
fn candidates<'a>(values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<CompletionCandidate> {
    let mut seen = BTreeSet::new();
    let values = values.into_iter();
    let values = values.filter(|(value, _)| is_literal(value) && seen.insert(*value));
    values
        .enumerate()
        .map(|(place, (value, help))| {
            let help = harmless(help);
            let help = (!help.is_empty()).then(|| StyledStr::from(help));
            CompletionCandidate::new(value)
                .help(help)
                .display_order(Some(place))
        })
        .collect()
}

/// Returns whether shells take a text literally. Bash inserts completions without quotes, and
/// expands patterns in them.
fn is_literal(value: &str) -> bool {
    value.len() <= 200
        && value.starts_with(|c: char| c.is_alphanumeric() || c == '_')
        && value
            .chars()
            .all(|c| c.is_alphanumeric() || "-_./@:+#".contains(c))
}

/// Returns a title on one line, without hidden characters, and cut.
fn harmless(title: &str) -> String {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = characters(&title).filter(|(_, is_hidden)| !is_hidden);
    let text: String = shown.map(|(c, _)| c).collect();
    // Half a key is not recognised.
    vik_mask::mask(&text).chars().take(TITLE_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_a_shell_would_interpret_are_not_offered() {
        let hostile = [
            "$(reboot)",
            "a b",
            "*",
            "-x",
            "a;b",
            "`id`",
            "a\u{1b}b",
            "~",
            "#1",
            "a'b",
            "",
            "x\u{202e}y",
        ];
        assert!(candidates(hostile.map(|value| (value, ""))).is_empty());
        let safe = ["7", "GH-12", "group/project#4", "ü", "in_progress", "7"];
        let offered = candidates(safe.map(|value| (value, "a\n\u{1b}[31mb\u{202e}")));
        let values: Vec<_> = offered
            .iter()
            .map(|one| one.get_value().to_str().unwrap())
            .collect();
        assert_eq!(values, safe[..5]);
        assert_eq!(offered[0].get_help().unwrap().to_string(), "a [31mb");
    }
}
