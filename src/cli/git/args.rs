//! The arguments of `vik git`.

use std::ffi::OsString;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::completion::issues;

use super::submodule::SubmoduleVerb;

/// `vik git`
#[derive(Debug, Args)]
#[command(
    after_help = "For hooks that run outside of the sandbox. An agent controls its workspace, so plain git \
                  there would run what the agent configured in `.git/config` or `.git/hooks`. These \
                  commands use the objects and refs of the workspace, the settings of your ~/.gitconfig, \
                  and the remotes that Vik recorded after `after_create`. They run no git hooks except \
                  that of Git LFS. In a hook, the issue is set automatically; otherwise use --issue."
)]
pub struct GitArgs {
    /// Issue ID [default: the issue of the hook]
    #[arg(long, value_name = "ID", env = "VIK_ISSUE_ID", hide_env_values = true, add = issues())]
    pub issue: Option<String>,
    /// Git setting, as for `git -c` (can be repeated)
    #[arg(short = 'c', value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// The command to run
    #[command(subcommand)]
    pub verb: GitVerb,
}

/// The verbs of `vik git`.
#[derive(Debug, Subcommand)]
pub enum GitVerb {
    /// Push the checked-out commit to a branch of the remote
    #[command(
        after_help = "Pushes to the URL that was recorded after `after_create`, and fails if the workspace \
                      now has another URL. The default branch is the one that was checked out at that \
                      time."
    )]
    Push {
        /// Remote [default: origin]
        remote: Option<String>,
        /// Branch of the remote [default: the branch checked out after `after_create`]
        #[arg(long, value_name = "NAME")]
        branch: Option<String>,
        /// Replace the remote branch only if Vik or the workspace has seen all of its commits
        #[arg(long, conflicts_with = "force")]
        force_with_lease: bool,
        /// Replace the remote branch unconditionally
        #[arg(long, short)]
        force: bool,
        /// Print errors only
        #[arg(long, short)]
        quiet: bool,
    },
    /// Fetch the branches of the remote into the workspace
    Fetch {
        /// Remote [default: origin]
        remote: Option<String>,
        /// Print errors only
        #[arg(long, short)]
        quiet: bool,
    },
    /// Reset the files, index and branch of the workspace to a commit
    #[command(
        after_help = "A name such as `origin/main` is resolved to the commit that Vik saw last, after \
                      `after_create` or `vik git fetch`; the agent cannot change it. Submodules are not \
                      changed: see `vik git submodule update`."
    )]
    Reset {
        /// Commit [default: HEAD]
        commit: Option<String>,
        /// Discard uncommitted changes; required, because no other mode is supported
        #[arg(long, required = true)]
        hard: bool,
        /// Print errors only
        #[arg(long, short)]
        quiet: bool,
    },
    /// Remove untracked files
    #[command(
        after_help = "Patterns that the agent added to `.git/info/exclude` have no effect; those from `after_create` do."
    )]
    Clean {
        /// Remove instead of only listing
        #[arg(long, short)]
        force: bool,
        /// Remove untracked folders too
        #[arg(short = 'd')]
        folders: bool,
        /// Remove ignored files too
        #[arg(short = 'x')]
        ignored: bool,
        /// Print errors only
        #[arg(long, short)]
        quiet: bool,
    },
    /// Update submodules to the commits that the repository records
    #[command(subcommand)]
    Submodule(SubmoduleVerb),
    /// Run `git status`
    Status(GitArguments),
    /// Run `git log`
    Log(GitArguments),
    /// Run `git diff`
    Diff(GitArguments),
    /// Run `git show`
    Show(GitArguments),
    /// Run `git rev-parse`
    RevParse(GitArguments),
    /// A step of an attempt in a durable workspace
    #[command(hide = true)]
    Durable(DurableArgs),
    /// An unknown command
    #[command(external_subcommand)]
    Unknown(Vec<OsString>),
    /// Record the remote of a workspace without a record
    #[command(
        after_help = "A workspace that an older version of Vik created, or that `after_create` did not \
                      create, has no record of its remote, and the agent may have changed its settings. \
                      Use --force to replace an existing record."
    )]
    Record {
        /// URL for fetch and push
        #[arg(long)]
        url: String,
        /// Default branch of `push`
        #[arg(long, value_name = "NAME")]
        branch: Option<String>,
        /// Name of the remote
        #[arg(long, value_name = "NAME", default_value = "origin")]
        remote: String,
        /// Replace an existing record
        #[arg(long)]
        force: bool,
    },
}

/// Arguments that go to git as they are.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct GitArguments {
    /// Arguments of git
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub args: Vec<OsString>,
}

/// `vik git durable`
#[derive(Debug, Args)]
pub struct DurableArgs {
    /// What to do
    pub step: DurableStep,
    /// The fencing number of the attempt
    #[arg(long)]
    pub number: u64,
    /// The queue of the workflow
    #[arg(long)]
    pub queue: String,
    /// Remote [default: origin]
    #[arg(long)]
    pub remote: Option<String>,
}

/// A step of `vik git durable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DurableStep {
    /// Take the issue over, and restore its work
    Claim,
    /// Save the work
    Save,
    /// Remove the saved work
    Remove,
}
