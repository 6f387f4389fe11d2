//! `vik trace`

mod blame;
mod notes;
mod text;
mod view;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use vik_api::{BrokenRecord, SCHEMA, TraceCheck};
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::ids::IssueId;
use vik_session::provenance::{Line, Trace, map};
use vik_session::secrets;
use vik_workflow::absolute;

use super::completion::issues;
use super::issue_arg::OptionalIssue;
use super::{CliResult, history, print, print_result};

/// `vik trace`
#[derive(Debug, Args)]
#[command(
    after_help = "The trace records what each attempt changed in its workspace, from comparisons before \
                  and after its agent ran. No daemon is needed."
)]
pub struct TraceArgs {
    /// The command to run
    #[command(subcommand)]
    pub verb: TraceVerb,
}

/// The verbs of `vik trace`.
#[derive(Debug, Subcommand)]
pub enum TraceVerb {
    /// List the attempts that changed files, with their changes
    Log {
        #[command(flatten)]
        issue: OptionalIssue,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the author of each line of a file
    #[command(
        after_help = "With --issue, FILE is a path in the workspace of that issue. Without it, FILE is a \
                      file in the workspace of an issue or in any other checkout; for another checkout, \
                      the records of all issues are searched."
    )]
    Blame {
        /// Path to the file
        file: PathBuf,
        /// Issue whose workspace contains the file
        #[arg(long, value_name = "ID", add = issues())]
        issue: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Verify that no record was changed, removed, added or moved; exit with 1 and name the first one that was
    Verify {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Export the records in the Agent Trace format
    #[command(
        after_help = "`jsonl` prints the stored records byte for byte, with secrets masked. `notes` adds \
                      each record as a git note, under refs/notes/agent-trace of the repository that \
                      --repo names, to the commit that its agent left checked out."
    )]
    Export {
        /// Output format
        #[arg(long, value_enum, default_value_t = Format::Jsonl)]
        format: Format,
        #[command(flatten)]
        issue: OptionalIssue,
        /// Repository for the notes; cannot be a workspace of an issue
        #[arg(long, value_name = "FOLDER", required_if_eq("format", "notes"))]
        repo: Option<PathBuf>,
    },
    /// List the files changed for each issue (the intent map)
    Map {
        #[command(flatten)]
        issue: OptionalIssue,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// How records are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON record per line
    Jsonl,
    /// Git notes on commits
    Notes,
}

/// Runs a verb of `vik trace`.
pub fn run(workflow: &Path, args: &TraceArgs) -> CliResult {
    let root = history::root(workflow)?;
    // Records of earlier versions hold unmasked paths.
    secrets::learn_stored(&absolute(workflow));
    let trace = Trace::new(&root.join("trace"));
    match &args.verb {
        TraceVerb::Log { issue, json } => log(&read(&trace, issue.id())?, *json),
        TraceVerb::Blame { file, issue, json } => blame::run(&root, &trace, file, issue.as_deref(), *json),
        TraceVerb::Verify { json } => verify(&trace, *json),
        TraceVerb::Export { format, issue, repo } => {
            let lines = read(&trace, issue.id())?;
            // Notes require a repository.
            if let (Format::Notes, Some(repo)) = (format, repo) {
                return notes::run(&root, &lines, repo);
            }
            for line in &lines {
                print(&format!("{}\n", String::from_utf8_lossy(&line.text)));
            }
            Ok(Exit::Done)
        }
        TraceVerb::Map { issue, json } => {
            let lines = read(&trace, issue.id())?;
            let intents = view::intents(map::map(lines.iter().map(|line| &line.record)));
            print_result(*json, &intents, || text::map(&intents))
        }
    }
}

fn unreadable(error: &std::io::Error) -> Failure {
    Failure::failed(ErrorCode::Trace, "cannot read the trace", error)
}

/// Reads the records of an issue, or of all issues. A named issue without records is an error.
fn read(trace: &Trace, issue: Option<&str>) -> Result<Vec<Line>, Failure> {
    let mut lines = trace.read().map_err(|error| unreadable(&error))?;
    let Some(issue) = issue.map(IssueId::from) else {
        return Ok(lines);
    };
    lines.retain(|line| line.record.vik().issue == issue);
    if lines.is_empty() {
        let heading = format!("no attempt has changed files for issue {issue}");
        return Err(Failure::new(Exit::NotFound, ErrorCode::NotFound, heading)
            .hint("`vik trace log` lists all attempts that changed files"));
    }
    Ok(lines)
}

fn log(lines: &[Line], json: bool) -> CliResult {
    let entries: Vec<_> = lines.iter().map(|line| view::entry(&line.record)).collect();
    print_result(json, &entries, || text::log(&entries))
}

fn verify(trace: &Trace, json: bool) -> CliResult {
    let found = trace.verify().map_err(|error| unreadable(&error))?;
    let check = TraceCheck {
        schema: SCHEMA,
        ok: found.broken.is_none(),
        records: found.records,
        removed: found.removed,
        head: found.head.map(|hash| hash.to_string()),
        broken: found.broken.map(|broken| BrokenRecord {
            line: broken.line,
            problem: broken.problem.to_owned(),
        }),
        cut_off: found.cut_off,
    };
    print_result(json, &check, || text::check(&check, &trace.file()))?;
    Ok(if check.ok { Exit::Done } else { Exit::Failed })
}
