//! `vik git`: runs git in the workspace of an issue without the settings of the workspace.

mod push;
mod submodule;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand};
use vik_base::report::{ErrorCode, Exit, Failure, chain, one_line};
use vik_core::ids::IssueId;
use vik_session::host::ATTEMPT_MARK;
use vik_workspace::git::{GitError, Record, Remote, SavedRecord, Tracking, View, read_record, write_record};
use vik_workspace::{Layout, Workspace};

use self::push::{Force, Push};
use self::submodule::SubmoduleVerb;
use super::{CliResult, history, print, warn};

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
    #[arg(long, value_name = "ID", env = "VIK_ISSUE_ID", hide_env_values = true)]
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
    args: Vec<OsString>,
}

/// A workspace with its record.
struct Target {
    layout: Layout,
    issue: IssueId,
    workspace: Workspace,
}

/// Runs a verb of `vik git`.
pub fn run(workflow: &Path, args: &GitArgs) -> CliResult {
    if let GitVerb::Unknown(command) = &args.verb {
        return Err(unknown(command));
    }
    let target = Target::find(workflow, args)?;
    if let GitVerb::Record {
        url,
        branch,
        remote,
        force,
    } = &args.verb
    {
        return target.record(url, branch.as_deref(), remote, *force);
    }
    let mut record = target.read_record()?;
    let mut view = View::open(&target.layout, &target.workspace, &record, Tracking::OfRecord)
        .map_err(|error| failure(&error))?;
    view.add_settings(&args.settings);
    match &args.verb {
        GitVerb::Push {
            remote,
            branch,
            force_with_lease,
            force,
            quiet,
        } => {
            let force = Force::of(*force, *force_with_lease);
            let (name, settings) = target.remote(&view, &record, remote.as_deref())?;
            let branch = branch.clone().or(record.branch.clone()).ok_or_else(|| {
                Failure::new(
                    Exit::Failed,
                    ErrorCode::GitNoBranch,
                    "no branch was checked out after `after_create`",
                )
                .hint("specify the remote branch with --branch NAME")
            })?;
            let url = settings.push_url.as_ref().unwrap_or(&settings.url);
            target.refuse_inside(url)?;
            let tracked = format!("refs/remotes/{name}/{branch}");
            let push = Push {
                view: &view,
                remote: &name,
                branch: &branch,
                recorded: record.tracking.get(&tracked),
                force,
            };
            push.run(&tracked, *quiet)?;
            target.keep(&view, &mut record, Some(&tracked))
        }
        GitVerb::Fetch { remote, quiet } => {
            let (name, settings) = target.remote(&view, &record, remote.as_deref())?;
            target.refuse_inside(&settings.url)?;
            fetch(&view, &name, None, *quiet)?;
            target.keep(&view, &mut record, None)
        }
        GitVerb::Reset { commit, quiet, .. } => {
            let locks = target.lock_workspace()?;
            let done = reset(&view, commit.as_deref().unwrap_or("HEAD"), *quiet);
            drop(locks);
            done
        }
        GitVerb::Clean {
            force,
            folders,
            ignored,
            quiet,
        } => {
            let _locks = target.lock_workspace()?;
            prepare_files(&view)?;
            let mut clean = vec!["clean", if *force { "--force" } else { "--dry-run" }];
            clean.extend(folders.then_some("-d"));
            clean.extend(ignored.then_some("-x"));
            clean.extend(quiet.then_some("--quiet"));
            run_git(&mut view.git_in_work_tree(clean))
        }
        GitVerb::Submodule(SubmoduleVerb::Update(update)) => {
            let _locks = target.lock_workspace()?;
            update.run(&target, &view, &args.settings, &mut record)
        }
        GitVerb::Status(passed) => passed.run(&view, &["status", "--ignore-submodules=dirty"]),
        GitVerb::Log(passed) => passed.run(&view, &["log"]),
        GitVerb::Diff(passed) => {
            passed.run(&view, &["diff", "--ignore-submodules=dirty", "--submodule=short"])
        }
        GitVerb::Show(passed) => passed.run(&view, &["show"]),
        GitVerb::RevParse(passed) => passed.run(&view, &["rev-parse"]),
        GitVerb::Record { .. } | GitVerb::Unknown(_) => Ok(Exit::Done),
    }
}

/// Returns the error for an unsupported verb.
fn unknown(command: &[OsString]) -> Failure {
    let verb = command
        .first()
        .map(|arg| arg.to_string_lossy().into_owned())
        .unwrap_or_default();
    let heading = format!("unknown command `{}` of `vik git`", one_line(&verb, 40));
    Failure::new(Exit::Usage, ErrorCode::GitNoVerb, heading).hint("use plain git in `after_create` or in a hook with `sandbox: true`; `vik git --help` lists the commands")
}

impl GitArguments {
    fn run(&self, view: &View, verb: &[&str]) -> CliResult {
        if matches!(verb, ["status" | "diff", ..]) {
            prepare_files(view)?;
        } else {
            view.check_programs().map_err(|error| failure(&error))?;
        }
        let args = verb.iter().map(OsString::from).chain(self.args.iter().cloned());
        run_git(&mut view.git_in_work_tree(args))
    }
}

impl Target {
    fn find(workflow: &Path, args: &GitArgs) -> Result<Self, Failure> {
        let id = args.issue.as_deref().filter(|id| !id.is_empty()).ok_or_else(|| {
            Failure::new(Exit::Usage, ErrorCode::Usage, "no issue given")
                .hint("specify it with `vik git --issue ID …`")
        })?;
        let issue = IssueId::new(id);
        // A hook runs in the workspace, where the agent controls `./workflow.yml`.
        let workflow = match std::env::var_os("VIK_WORKFLOW").filter(|path| !path.is_empty()) {
            Some(path) if workflow == Path::new("./workflow.yml") => PathBuf::from(path),
            _ => workflow.to_owned(),
        };
        let layout = Layout::at(&vik_workflow::absolute(&workflow), &history::root(&workflow)?);
        let workspace = vik_workspace::open(&layout, &issue)
            .map_err(|error| Failure::failed(ErrorCode::GitWorkspace, "cannot open the workspace", &error))?
            .ok_or_else(|| {
                let heading = format!("the workspace of issue {issue} is not ready");
                Failure::new(Exit::Failed, ErrorCode::GitWorkspace, heading)
                    .hint("in `after_create`, use plain git: no agent has worked in the workspace yet")
            })?;
        Ok(Self {
            layout,
            issue,
            workspace,
        })
    }

    fn read_record(&self) -> Result<Record, Failure> {
        let saved = read_record(&self.layout, &self.issue).map_err(|error| failure(&error))?;
        let hint = format!(
            "record it with `vik git --issue {} record --url URL --branch NAME`, or remove the workspace: \
             the next attempt creates it again",
            self.issue
        );
        match saved {
            Some(SavedRecord::Repository(record)) => Ok(*record),
            Some(SavedRecord::Unusable(why)) => {
                let heading = "Vik has no record of the git repository in this workspace";
                Err(Failure::new(Exit::Failed, ErrorCode::GitNoRecord, heading)
                    .cause(why)
                    .hint(hint))
            }
            None => {
                let heading = "Vik has no record of the git repository in this workspace";
                let why = "the workspace was created by an older version of Vik or not by `after_create`, and the agent may have changed its settings";
                Err(Failure::new(Exit::Failed, ErrorCode::GitNoRecord, heading)
                    .cause(why)
                    .hint(hint))
            }
        }
    }

    fn record(&self, url: &str, branch: Option<&str>, remote: &str, force: bool) -> CliResult {
        let saved = read_record(&self.layout, &self.issue).map_err(|error| failure(&error))?;
        if let Some(SavedRecord::Repository(record)) = &saved
            && !force
        {
            let known = record.remotes.get(remote).is_some_and(|known| known.url == url);
            if known {
                return Ok(Exit::Done);
            }
            let heading = format!("a record without this URL for the remote `{remote}` exists");
            return Err(
                Failure::new(Exit::Failed, ErrorCode::GitRecorded, heading).hint("use --force to replace it")
            );
        }
        let mut record = Record::from_remote(&self.layout, &self.workspace, remote, url, branch)
            .map_err(|error| failure(&error))?;
        if let Some(SavedRecord::Repository(before)) = saved {
            // The submodules were recorded before an agent could change them.
            record.submodules = before.submodules;
        }
        self.write_record(&record)?;
        print(&format!(
            "recorded the remote {remote} of issue {}: {url}\n",
            self.issue
        ));
        Ok(Exit::Done)
    }

    fn write_record(&self, record: &Record) -> Result<(), Failure> {
        let saved = SavedRecord::Repository(Box::new(record.clone()));
        write_record(&self.layout, &self.issue, &saved).map_err(|error| failure(&error))
    }

    /// Returns a remote of the record. The workspace must not name another URL for it.
    fn remote(&self, view: &View, record: &Record, name: Option<&str>) -> Result<(String, Remote), Failure> {
        let name = name.or(record.default_remote()).unwrap_or("origin");
        let known: Vec<&str> = record.remotes.keys().map(String::as_str).collect();
        let remote = record.remotes.get(name).ok_or_else(|| {
            let heading = format!("no remote `{name}` existed after `after_create`");
            let failure = Failure::new(Exit::Failed, ErrorCode::GitNoRemote, heading);
            match known.as_slice() {
                [] => failure.hint("record one with `vik git record --force --url URL`"),
                known => failure.hint(format!("known remotes: {}", known.join(", "))),
            }
        })?;
        view.check_url(&self.layout, name, remote).map_err(|error| {
            failure(&error).hint("nothing was sent; remove the workspace, or restore the URL")
        })?;
        Ok((name.to_owned(), remote.clone()))
    }

    /// Refuses a remote inside the workspaces: git would use the settings there, which an agent
    /// controls.
    fn refuse_inside(&self, url: &str) -> Result<(), Failure> {
        let Some(path) = vik_workspace::git::local_path(url) else {
            return Ok(());
        };
        let root = self.layout.root();
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let inside = path.canonicalize().unwrap_or(path).starts_with(root);
        if inside {
            let heading =
                "the remote is a repository inside the workspaces, where agents control hooks and settings";
            return Err(Failure::new(Exit::Failed, ErrorCode::GitUnsafe, heading));
        }
        Ok(())
    }

    /// Locks the workspace: while these locks are held, nothing else works in it.
    fn lock_workspace(&self) -> Result<Vec<vik_proc::FileLock>, Failure> {
        let in_hook = std::env::var_os(ATTEMPT_MARK).is_some_and(|id| !id.is_empty());
        let of_stage = std::env::var_os("VIK_STAGE").is_some();
        let held = match (in_hook, of_stage) {
            (false, _) => 0,
            (true, true) => 1,
            // `before_remove` runs while Vik holds all locks.
            (true, false) => usize::MAX,
        };
        let locks = vik_workspace::lock_free_stages(&self.layout, &self.issue, held)
            .map_err(|error| Failure::failed(ErrorCode::GitLocked, "cannot lock the workspace", &error))?;
        locks.ok_or_else(|| {
            let heading = "another attempt is using this workspace, so its files cannot be changed";
            Failure::new(Exit::Failed, ErrorCode::GitLocked, heading).hint("wait until the attempt has ended")
        })
    }

    /// Passes fetched or pushed refs to the workspace and writes the record.
    fn keep(&self, view: &View, record: &mut Record, pushed: Option<&str>) -> CliResult {
        update_workspace_refs(view, record, pushed)?;
        self.write_record(record)?;
        Ok(Exit::Done)
    }
}

/// Passes fetched or pushed refs to the workspace and updates the record. The exchange with the
/// remote is already complete, so a failed write to the workspace is only a warning.
fn update_workspace_refs(view: &View, record: &mut Record, pushed: Option<&str>) -> Result<(), Failure> {
    let before = std::mem::take(&mut record.tracking);
    record.tracking = view.tracking().map_err(|error| failure(&error))?;
    let tags = view.refs("refs/tags/").map_err(|error| failure(&error))?;
    let changed = record
        .tracking
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(value) || pushed == Some(name.as_str()));
    let fetched_tags = tags.iter().filter(|_| pushed.is_none());
    let given = view
        .copy_objects_to_workspace()
        .and_then(|()| view.write_refs_to_workspace(changed.chain(fetched_tags)));
    if let Err(error) = given {
        warn(&format!(
            "warning: cannot update the refs of the workspace: {}\n",
            chain(&error)
        ));
    }
    Ok(())
}

/// Fetches the branches of a remote, or one commit.
fn fetch(view: &View, remote: &str, commit: Option<&str>, quiet: bool) -> Result<(), Failure> {
    let mut args = vec!["fetch", "--no-write-fetch-head"];
    args.extend(quiet.then_some("--quiet"));
    args.push(remote);
    args.extend(commit);
    run_git(&mut view.git(args)).map(drop)
}

fn reset(view: &View, name: &str, quiet: bool) -> CliResult {
    let missing = || {
        Failure::new(
            Exit::Failed,
            ErrorCode::GitNoCommit,
            format!("unknown commit `{name}`"),
        )
        .hint("fetch the branches of the remote with `vik git fetch`")
    };
    let commit = view
        .checked_commit(name)
        .map_err(|error| failure(&error))?
        .ok_or_else(missing)?;
    let before = view.commit("HEAD").map_err(|error| failure(&error))?;
    view.check_programs()
        .and_then(|()| view.prepare_reset(&commit))
        .map_err(|error| failure(&error))?;
    let mut args = vec!["reset", "--hard"];
    args.extend(quiet.then_some("--quiet"));
    args.push(&commit);
    run_git(view.git_in_work_tree(args).env("GIT_ATTR_SOURCE", &commit))?;
    let given = view
        .copy_objects_to_workspace()
        .and_then(|()| view.apply_reset_to_workspace(&commit, before.as_deref()));
    given.map_err(|error| failure(&error))?;
    Ok(Exit::Done)
}

/// Prepares the index that git needs before it reads files.
fn prepare_files(view: &View) -> Result<(), Failure> {
    view.check_programs()
        .and_then(|()| view.make_index())
        .map_err(|error| failure(&error))
}

/// Runs git with the standard streams of this process.
fn run_git(command: &mut Command) -> CliResult {
    let _ = std::io::stdout().flush();
    let status = command
        .status()
        .map_err(|error| Failure::failed(ErrorCode::Git, "cannot run git", &error))?;
    if status.success() {
        return Ok(Exit::Done);
    }
    Err(Failure::new(
        Exit::Failed,
        ErrorCode::Git,
        format!("git failed with {status}"),
    ))
}

fn failure(error: &GitError) -> Failure {
    let (code, heading) = match error {
        GitError::Object { .. } => {
            let heading = "the repository of this workspace is not safe to use";
            return Failure::failed(ErrorCode::GitUnsafe, heading, error)
                .hint("remove the workspace; the next attempt creates it again");
        }
        GitError::Unsafe { .. } => (
            ErrorCode::GitUnsafe,
            "the repository of this workspace is not safe to use",
        ),
        GitError::NotUsable(_) => (ErrorCode::GitUnusable, "git cannot run safely on this system"),
        GitError::Io { .. } | GitError::Git { .. } => (ErrorCode::Git, "the git command failed"),
    };
    Failure::failed(code, heading, error)
}
