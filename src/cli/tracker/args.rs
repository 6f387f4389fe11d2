//! The arguments of `vik tracker`.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use vik_tracker::Access;
use vik_tracker::gitlab::GitlabTracker;
use vik_tracker::protocol::{CallError, MessageBody, PullRequestDraft, Request};

use crate::cli::issue::Author;

/// The longest standard input of a verb, in bytes.
const MAX_INPUT: u64 = 1024 * 1024;

/// Use a built-in tracker through the tracker protocol, or test a tracker
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes of trackers: 0 done, 1 failed, 2 usage error, 66 no such issue, 75 try again later."
)]
pub struct TrackerArgs {
    /// The tracker
    #[command(subcommand)]
    pub command: TrackerCommand,
}

/// The built-in trackers.
#[derive(Debug, Subcommand)]
pub enum TrackerCommand {
    /// Use issues in Markdown files
    Files(FilesArgs),
    /// Use GitHub issues, through `gh` and its login
    Github(GithubArgs),
    /// Use the tracker of the workflow: `issues.tracker`
    Workflow(WorkflowTrackerArgs),
    /// Use GitLab issues, with the token in GITLAB_TOKEN
    Gitlab(GitlabArgs),
    /// Use Redmine issues, with the API key in REDMINE_API_KEY
    Redmine(RedmineArgs),
    /// Test whether a program follows the tracker protocol
    Test(TestArgs),
    /// Carry out the output on standard input, as the commands of `issues.tracker` do
    #[command(hide = true)]
    Output(OutputArgs),
}

/// `vik tracker workflow`
#[derive(Debug, Args)]
#[command(
    after_help = "In a hook, the issue of the hook is used if no ID is given, and its workflow, whatever the \
                        current folder is: `vik tracker workflow move --from todo --to review`."
)]
pub struct WorkflowTrackerArgs {
    /// The request
    #[command(subcommand)]
    pub verb: ProtocolVerb,
}

/// `vik tracker output`
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Issue of the output
    #[arg(long, env = "VIK_ISSUE_ID", value_name = "ID")]
    pub issue: String,
    /// Key of the output
    #[arg(long, env = "VIK_OUTPUT_KEY")]
    pub key: Option<String>,
    /// State of the stage, from which an issue can be moved (can be repeated)
    #[arg(long, value_name = "STATE", required = true)]
    pub from: Vec<String>,
    /// Program that speaks the protocol, and its arguments before the verb
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub program: Vec<OsString>,
}

impl OutputArgs {
    /// Returns the key by which the tracker recognizes what it has done.
    pub fn key(&self) -> Result<String, CallError> {
        self.key
            .clone()
            .ok_or_else(|| CallError::Usage("no key given: set VIK_OUTPUT_KEY".to_owned()))
    }
}

/// `vik tracker test`
#[derive(Debug, Args)]
#[command(
    after_help = "The issue is moved to another state and back, gets a label, which is removed again, \
                        and one comment. Exit codes: 0 all checks passed, 1 a check failed."
)]
pub struct TestArgs {
    /// Existing issue to change
    #[arg(
        long,
        value_name = "ID",
        conflicts_with = "create",
        required_unless_present = "create"
    )]
    pub issue: Option<String>,
    /// Create an issue, and change that one
    #[arg(long)]
    pub create: bool,
    /// State to move the issue to and back [default: `vik-test`, or one that the tracker lists]
    #[arg(long)]
    pub state: Option<String>,
    /// Number of issues that `list --all` must print
    #[arg(long, value_name = "N")]
    pub count: Option<usize>,
    /// Change the issue without asking
    #[arg(long)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Program that speaks the protocol, and its arguments before the verb
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub program: Vec<OsString>,
}

/// `vik tracker files`
#[derive(Debug, Args)]
pub struct FilesArgs {
    /// Folder with the issues
    #[arg(long, env = "VIK_ISSUES_DIR", default_value = "issues", value_name = "DIR")]
    pub dir: PathBuf,
    /// Who writes comments
    #[command(flatten)]
    pub author: Author,
    /// The request
    #[command(subcommand)]
    pub verb: ProtocolVerb,
}

/// `vik tracker github`
#[derive(Debug, Args)]
#[command(
    after_help = "States are labels: `vik:todo` is the state `todo`. Other states are `closed`, and `none` \
                        for an open issue without such a label."
)]
pub struct GithubArgs {
    /// Repository [default: the one that `gh` chooses: GH_REPO, or that of the current folder]
    #[arg(long, value_name = "OWNER/NAME")]
    pub repo: Option<String>,
    /// The request
    #[command(subcommand)]
    pub verb: ProtocolVerb,
}

/// `vik tracker gitlab`
#[derive(Debug, Args)]
#[command(
    after_help = "States are labels: `vik:todo` is the state `todo`. Other states are `closed`, and `none` for \
                        an open issue without such a label. GITLAB_TOKEN holds a token with the scope `api`."
)]
pub struct GitlabArgs {
    /// Address of GitLab [default: CI_SERVER_URL, or https://gitlab.com]
    #[arg(long, env = "GITLAB_URL")]
    pub url: Option<String>,
    /// Path of the project, or its number [default: CI_PROJECT_PATH]
    #[arg(long, env = "GITLAB_PROJECT", value_name = "GROUP/NAME")]
    pub project: Option<String>,
    /// Whether the token may be sent in clear
    #[command(flatten)]
    pub insecure: InsecureHttp,
    /// The request
    #[command(subcommand)]
    pub verb: ProtocolVerb,
}

impl GitlabArgs {
    /// Returns the tracker. A job of GitLab has its server and its project in variables.
    pub fn tracker(&self) -> Result<GitlabTracker, CallError> {
        let given = |argument: &Option<String>, variable: &str| {
            let values = [argument.clone(), std::env::var(variable).ok()];
            values.into_iter().flatten().find(|value| !value.is_empty())
        };
        let url = given(&self.url, "CI_SERVER_URL").unwrap_or_else(|| "https://gitlab.com".to_owned());
        let project = given(&self.project, "CI_PROJECT_PATH").ok_or_else(|| {
            CallError::Usage("no project: set GITLAB_PROJECT, or `--project GROUP/NAME`".to_owned())
        })?;
        GitlabTracker::new(&self.insecure.access(&url, "GITLAB_TOKEN"), &project)
    }
}

/// `vik tracker redmine`
#[derive(Debug, Args)]
#[command(
    after_help = "States are the issue statuses of Redmine, by their names. REDMINE_API_KEY holds the API key of \
                        the account."
)]
pub struct RedmineArgs {
    /// Address of Redmine
    #[arg(long, env = "REDMINE_URL")]
    pub url: String,
    /// Identifier of the project
    #[arg(long, env = "REDMINE_PROJECT", value_name = "IDENTIFIER")]
    pub project: String,
    /// Whether the API key may be sent in clear
    #[command(flatten)]
    pub insecure: InsecureHttp,
    /// The request
    #[command(subcommand)]
    pub verb: ProtocolVerb,
}

/// The permission to send a token without encryption.
#[derive(Debug, Args)]
pub struct InsecureHttp {
    /// Permit http:// to another machine: others on the network can read the token
    #[arg(long)]
    pub insecure_http: bool,
}

impl InsecureHttp {
    /// Returns the access to a server, with the token in this variable.
    pub fn access(&self, url: &str, variable: &str) -> Access {
        Access {
            url: url.to_owned(),
            token: std::env::var(variable).unwrap_or_default(),
            insecure_http: self.insecure_http,
        }
    }
}

/// The verbs of the tracker protocol.
#[derive(Clone, Debug, Subcommand)]
pub enum ProtocolVerb {
    /// Print the version of the protocol and the supported verbs
    Capabilities,
    /// Print the states that people can give to issues
    States {
        /// State to create, unless it exists (can be repeated)
        #[arg(long, value_name = "STATE")]
        create: Vec<String>,
    },
    /// Print open and lately closed issues as a JSON array
    List {
        /// Print all issues, also those that were closed long ago
        #[arg(long)]
        all: bool,
    },
    /// Print one issue
    Show {
        /// Issue ID
        #[arg(env = "VIK_ISSUE_ID")]
        id: String,
    },
    /// Move an issue to another state, unless it has left the first one
    Move {
        /// Issue ID
        #[arg(env = "VIK_ISSUE_ID")]
        id: String,
        /// State that the issue must be in
        #[arg(long, value_name = "STATE")]
        from: String,
        /// New state
        #[arg(long, value_name = "STATE")]
        to: String,
    },
    /// Add a comment, unless there is one with the same key; stdin: {"body"}
    Comment {
        /// Issue ID
        #[arg(env = "VIK_ISSUE_ID")]
        id: String,
        /// Key of the comment
        #[arg(long)]
        key: String,
        /// Text, in place of standard input
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        body: Option<String>,
    },
    /// Print the comments of an issue
    Comments {
        /// Issue ID
        #[arg(env = "VIK_ISSUE_ID")]
        id: String,
    },
    /// Add and remove labels
    Label {
        /// Issue ID
        #[arg(env = "VIK_ISSUE_ID")]
        id: String,
        /// Label to add (can be repeated)
        #[arg(long, value_name = "LABEL")]
        add: Vec<String>,
        /// Label to remove (can be repeated)
        #[arg(long, value_name = "LABEL")]
        remove: Vec<String>,
    },
    /// Create an issue, unless there is one with the same key; stdin: {"title", "body", "state", "labels"}
    Create {
        /// Key of the issue
        #[arg(long)]
        key: String,
    },
    /// Open a pull request, and read its state
    #[command(name = "pull_request", subcommand)]
    PullRequest(PullRequestVerb),
}

/// The actions of `pull_request`.
#[derive(Clone, Debug, Subcommand)]
pub enum PullRequestVerb {
    /// Open a pull request, unless one of the branch is open; stdin: {"title", "body", "base"}
    Open {
        /// Branch with the changes
        head: String,
        /// Title, in place of standard input
        #[arg(long, allow_hyphen_values = true)]
        title: Option<String>,
        /// Description
        #[arg(long, value_name = "TEXT", requires = "title", allow_hyphen_values = true)]
        body: Option<String>,
        /// Branch to merge into [default: the one of the repository]
        #[arg(long, value_name = "BRANCH", requires = "title")]
        base: Option<String>,
    },
    /// Print the state of the newest pull request of a branch
    Status {
        /// Branch with the changes
        head: String,
    },
    /// Print the comments on the newest pull request of a branch
    Comments {
        /// Branch with the changes
        head: String,
    },
}

impl ProtocolVerb {
    /// Returns the request; reads standard input if the verb has any.
    pub fn request(&self, stdin: &mut dyn Read) -> Result<Request, CallError> {
        Ok(match self.clone() {
            Self::Capabilities => Request::Capabilities,
            Self::States { create } => Request::States { create },
            Self::List { all } => Request::List { all },
            Self::Show { id } => Request::Show { id },
            Self::Move { id, from, to } => Request::Move { id, from, to },
            Self::Comment { id, key, body } => {
                let input = body.map_or_else(|| read(stdin), |body| Ok(MessageBody { body }))?;
                Request::Comment { id, key, input }
            }
            Self::Comments { id } => Request::Comments { id },
            Self::Label { id, add, remove } => Request::Label { id, add, remove },
            Self::Create { key } => {
                let input = read(stdin)?;
                Request::Create { key, input }
            }
            Self::PullRequest(PullRequestVerb::Open {
                head,
                title,
                body,
                base,
            }) => {
                let input = match title {
                    Some(title) => PullRequestDraft {
                        title,
                        body: body.unwrap_or_default(),
                        base,
                    },
                    None => read(stdin)?,
                };
                Request::OpenPullRequest { head, input }
            }
            Self::PullRequest(PullRequestVerb::Status { head }) => Request::PullRequestStatus { head },
            Self::PullRequest(PullRequestVerb::Comments { head }) => Request::PullRequestComments { head },
        })
    }
}

/// Reads one JSON object.
pub fn read<T: DeserializeOwned>(stdin: &mut dyn Read) -> Result<T, CallError> {
    let mut text = String::new();
    let read = stdin.take(MAX_INPUT + 1).read_to_string(&mut text);
    read.map_err(|error| CallError::Usage(format!("cannot read standard input: {error}")))?;
    if text.len() as u64 > MAX_INPUT {
        return Err(CallError::Usage("standard input is longer than 1 MiB".to_owned()));
    }
    serde_json::from_str(&text)
        .map_err(|error| CallError::Usage(format!("standard input is not the expected JSON: {error}")))
}
