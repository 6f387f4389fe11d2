//! `vik git`: runs git in the workspace of an issue without the settings of the workspace.

mod args;
mod durable;
mod push;
mod submodule;
mod target;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use vik_base::report::{ErrorCode, Exit, Failure, one_line};
use vik_workspace::git::{GitError, Tracking, View};

pub use self::args::GitArgs;
use self::args::{GitArguments, GitVerb};
use self::push::{Force, Push};
use self::submodule::SubmoduleVerb;
use self::target::Target;
use super::CliResult;

/// Runs a verb of `vik git`.
pub fn run(workflow: &Path, args: &GitArgs) -> CliResult {
    if let GitVerb::Unknown(command) = &args.verb {
        return Err(unknown(command));
    }
    if let GitVerb::Durable(durable) = &args.verb {
        return durable.run(workflow, args);
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
            let fence = durable::fence(&target, &view, &record, &name)?;
            let push = Push {
                fence,
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
        GitVerb::Record { .. } | GitVerb::Durable(_) | GitVerb::Unknown(_) => Ok(Exit::Done),
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
