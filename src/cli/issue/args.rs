//! The arguments of `vik issue`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use nix::unistd::{User, getuid};

use crate::cli::completion::{states, tracked_issues};

/// Manage issues as Markdown files, one file per issue
#[derive(Debug, Args)]
pub struct IssueArgs {
    /// Folder with the issues [default: `issues` next to the workflow file]
    #[arg(long, global = true, env = "VIK_ISSUES_DIR", value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// The command to run
    #[command(subcommand)]
    pub command: IssueCommand,
}

/// The verbs of `vik issue`.
#[derive(Debug, Subcommand)]
pub enum IssueCommand {
    /// Create an issue and print its id
    New {
        /// Title, on one line
        title: String,
        /// Description; `-` reads it from stdin
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        body: Option<String>,
        /// Initial state
        #[arg(long, default_value = "todo", add = states())]
        state: String,
        /// Label (can be repeated)
        #[arg(long = "label", value_name = "LABEL")]
        labels: Vec<String>,
        /// Priority; lower numbers are scheduled first
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        priority: Option<i64>,
        /// Issue that must be finished first (can be repeated)
        #[arg(long, value_name = "ID", add = tracked_issues())]
        blocked_by: Vec<String>,
        /// Id [default: the next free number]
        #[arg(long)]
        id: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List all issues, including closed ones
    List {
        /// Show only issues in this state (can be repeated)
        #[arg(long = "state", value_name = "STATE", add = states())]
        states: Vec<String>,
        /// Print a JSON array, as a pull command does
        #[arg(long)]
        json: bool,
    },
    /// Show one issue
    Show {
        /// Issue ID
        #[arg(add = tracked_issues())]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Move an issue to a state
    Move {
        /// Issue ID
        #[arg(add = tracked_issues())]
        id: String,
        /// New state
        #[arg(add = states())]
        state: String,
        /// Move only if the issue is in this state; otherwise exit with 1
        #[arg(long, value_name = "STATE", add = states())]
        from: Option<String>,
        #[command(flatten)]
        change: Change,
    },
    /// Append a comment to an issue
    Comment {
        /// Issue ID
        #[arg(add = tracked_issues())]
        id: String,
        /// Text; `-` reads it from stdin
        #[arg(allow_hyphen_values = true)]
        text: String,
        /// Who says it
        #[command(flatten)]
        author: Author,
    },
    /// Move an issue to the state `done`
    Close {
        /// Issue ID
        #[arg(add = tracked_issues())]
        id: String,
        #[command(flatten)]
        change: Change,
    },
}

/// What every change of a state has.
#[derive(Debug, Args)]
pub struct Change {
    /// Reason, which is added as a comment
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub reason: Option<String>,
    #[command(flatten)]
    pub author: Author,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Who writes a comment.
#[derive(Debug, Args)]
pub struct Author {
    /// Author of the comment [default: $USER]
    #[arg(
        long = "author",
        env = "VIK_ISSUE_AUTHOR",
        hide_env = true,
        value_name = "NAME"
    )]
    name: Option<String>,
}

impl Author {
    /// Returns the name, or else that of the user.
    pub fn name(&self) -> String {
        let user = || {
            ["USER", "LOGNAME"]
                .iter()
                .find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()))
        };
        let account = || User::from_uid(getuid()).ok().flatten().map(|user| user.name);
        self.name
            .clone()
            .or_else(user)
            .or_else(account)
            .unwrap_or_else(|| "unknown".to_owned())
    }
}
