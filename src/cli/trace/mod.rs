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
use vik_core::ids::IssueId;

use super::{CliResult, history, print, print_json};
use crate::provenance::{Line, Trace, map};
use crate::report::{Exit, Failure};
use crate::secrets;
use crate::workflow_file::absolute;

/// `vik trace`
#[derive(Debug, Args)]
#[command(
    after_help = "The trace tells what each attempt changed in its workspace, by what Vik found there before and after its \
                  agent. It needs no daemon."
)]
pub struct TraceArgs {
    /// What to do
    #[command(subcommand)]
    pub verb: TraceVerb,
}

/// The verbs of `vik trace`.
#[derive(Debug, Subcommand)]
pub enum TraceVerb {
    /// List the attempts that changed something, and what
    Log {
        /// Only this issue
        #[arg(long, value_name = "ID")]
        issue: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Say who wrote each line of a file
    #[command(
        after_help = "With --issue, FILE is a path in that issue's workspace. Without it, FILE is a file here: in an issue's \
                      workspace, or in any checkout, where the records of all issues are asked."
    )]
    Blame {
        /// The file
        file: PathBuf,
        /// In the workspace of this issue
        #[arg(long, value_name = "ID")]
        issue: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Check that no record was changed, removed, added or moved; exit 1 where one was, and say which
    Verify {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the records for other programs, in the schema of Agent Trace
    #[command(
        after_help = "`jsonl` prints them, byte for byte as they are kept, but for secrets. `notes` adds each to the commit that its agent left \
                      checked out, as a git note under refs/notes/agent-trace of the repository that --repo names."
    )]
    Export {
        /// How
        #[arg(long, value_enum, default_value_t = Format::Jsonl)]
        format: Format,
        /// Only this issue
        #[arg(long, value_name = "ID")]
        issue: Option<String>,
        /// The repository that gets the notes; no agent's workspace
        #[arg(long, value_name = "FOLDER", required_if_eq("format", "notes"))]
        repo: Option<PathBuf>,
    },
    /// Show which files became what for which issue: the intent map
    Map {
        /// Only this issue
        #[arg(long, value_name = "ID")]
        issue: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// How records are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One record a line
    Jsonl,
    /// Notes at commits
    Notes,
}

impl TraceArgs {
    /// Returns whether errors must be printed as JSON too.
    pub fn wants_json(&self) -> bool {
        match &self.verb {
            TraceVerb::Log { json, .. }
            | TraceVerb::Blame { json, .. }
            | TraceVerb::Verify { json }
            | TraceVerb::Map { json, .. } => *json,
            TraceVerb::Export { .. } => false,
        }
    }
}

/// Runs a verb of `vik trace`.
pub fn run(workflow: &Path, args: &TraceArgs) -> CliResult {
    let root = history::root(workflow)?;
    // Records of earlier versions hold unmasked paths.
    secrets::learn_stored(&absolute(workflow));
    let trace = Trace::new(&root.join("trace"));
    match &args.verb {
        TraceVerb::Log { issue, json } => log(&read(&trace, issue.as_deref())?, *json),
        TraceVerb::Blame { file, issue, json } => blame::run(&root, &trace, file, issue.as_deref(), *json),
        TraceVerb::Verify { json } => verify(&trace, *json),
        TraceVerb::Export { format, issue, repo } => {
            let lines = read(&trace, issue.as_deref())?;
            match (format, repo) {
                (Format::Notes, Some(repo)) => notes::run(&root, &lines, repo),
                (Format::Notes, None) => {
                    Err(Failure::new(Exit::Usage, "usage", "notes need a repository")
                        .hint("say --repo FOLDER"))
                }
                (Format::Jsonl, _) => {
                    lines
                        .iter()
                        .for_each(|line| print(&format!("{}\n", String::from_utf8_lossy(&line.text))));
                    Ok(Exit::Done)
                }
            }
        }
        TraceVerb::Map { issue, json } => {
            let lines = read(&trace, issue.as_deref())?;
            let intents = view::intents(map::map(lines.iter().map(|line| &line.record)));
            if *json {
                print_json(&intents);
            } else if intents.is_empty() {
                print(EMPTY);
            } else {
                print(&text::map(&intents));
            }
            Ok(Exit::Done)
        }
    }
}

const EMPTY: &str = "no attempt has changed anything yet\n";

fn unreadable(error: &std::io::Error) -> Failure {
    Failure::failed("trace", "cannot read the trace", error)
}

/// Reads the records of an issue, or of all issues. A named issue without records is an error.
fn read(trace: &Trace, issue: Option<&str>) -> Result<Vec<Line>, Failure> {
    let mut lines = trace.read().map_err(|error| unreadable(&error))?;
    let Some(issue) = issue.map(IssueId::from) else {
        return Ok(lines);
    };
    lines.retain(|line| line.record.vik().issue == issue);
    if lines.is_empty() {
        let heading = format!("no attempt has changed anything for issue {issue}");
        return Err(
            Failure::new(Exit::NotFound, "not_found", heading).hint("`vik trace log` lists those that did")
        );
    }
    Ok(lines)
}

fn log(lines: &[Line], json: bool) -> CliResult {
    let entries: Vec<_> = lines.iter().map(|line| view::entry(&line.record)).collect();
    if json {
        print_json(&entries);
    } else if entries.is_empty() {
        print(EMPTY);
    } else {
        print(&text::log(&entries));
    }
    Ok(Exit::Done)
}

fn verify(trace: &Trace, json: bool) -> CliResult {
    let found = trace.verify().map_err(|error| unreadable(&error))?;
    let check = TraceCheck {
        schema: SCHEMA,
        ok: found.broken.is_none(),
        records: found.records,
        head: found.head.map(|hash| hash.to_string()),
        broken: found.broken.map(|broken| BrokenRecord {
            line: broken.line,
            problem: broken.problem.to_owned(),
        }),
        cut_off: found.cut_off,
    };
    if json {
        print_json(&check);
    } else {
        print(&text::check(&check, &trace.file()));
    }
    Ok(if check.ok { Exit::Done } else { Exit::Failed })
}
