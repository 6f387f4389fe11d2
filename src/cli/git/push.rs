//! `vik git push`

use vik_base::report::{ErrorCode, Exit, Failure};
use vik_workspace::git::durable::PushFence;
use vik_workspace::git::{View, output};

use super::{failure, run_git};

/// When a push may replace a branch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// Only if the pushed commit contains the commit of the branch.
    Never,
    /// Also if Vik has seen the commit of the branch.
    WithLease,
    Always,
}

/// A push of the commit that is checked out.
pub struct Push<'a> {
    pub view: &'a View,
    pub remote: &'a str,
    pub branch: &'a str,
    /// The last commit of this branch that Vik saw.
    pub recorded: Option<&'a String>,
    pub force: Force,
    /// Lets the push succeed only while the attempt holds the issue.
    pub fence: Option<PushFence>,
}

impl Force {
    pub fn of(always: bool, with_lease: bool) -> Self {
        match (always, with_lease) {
            (true, _) => Self::Always,
            (false, true) => Self::WithLease,
            (false, false) => Self::Never,
        }
    }
}

impl Push<'_> {
    /// Pushes, and updates the ref `tracked` in the view to the new commit of the remote.
    pub fn run(&self, tracked: &str, quiet: bool) -> Result<(), Failure> {
        let branch = self.branch;
        let target = format!("refs/heads/{branch}");
        output(&mut self.view.git(["check-ref-format", &target])).map_err(|_| {
            Failure::new(
                Exit::Usage,
                ErrorCode::Usage,
                format!("invalid branch name `{branch}`"),
            )
        })?;
        let commit = self.view.commit("HEAD").map_err(|error| failure(&error))?;
        let commit = commit.ok_or_else(|| {
            Failure::new(
                Exit::Failed,
                ErrorCode::GitNoCommit,
                "the workspace has no commit to push",
            )
        })?;
        let mut args = vec!["push".to_owned()];
        args.extend(quiet.then(|| "--quiet".to_owned()));
        args.extend(match self.force {
            // Not `--force`, which would also apply to the fence.
            Force::Always => None,
            // Git's own fast-forward check trusts the agent's objects. With a lease git does not
            // check, and replaces the branch only if it still holds the examined commit.
            Force::Never | Force::WithLease => {
                let seen = self.remote_commit(&target)?;
                self.check(seen.as_deref(), &commit)?;
                let seen = seen.unwrap_or_default();
                Some(format!("--force-with-lease={target}:{seen}"))
            }
        });
        args.extend(self.fence.iter().flat_map(|fence| fence.options.clone()));
        args.push(self.remote.to_owned());
        let plus = if self.force == Force::Always { "+" } else { "" };
        args.push(format!("{plus}{commit}:{target}"));
        args.extend(self.fence.iter().map(|fence| fence.refspec.clone()));
        run_git(&mut self.view.git(args)).map(drop)?;
        // A clone of a single branch tracks no other branch.
        output(&mut self.view.git(["update-ref", tracked, &commit]))
            .map(drop)
            .map_err(|error| failure(&error))
    }

    /// Refuses a push that would lose commits of the remote.
    fn check(&self, seen: Option<&str>, commit: &str) -> Result<(), Failure> {
        let Some(seen) = seen else { return Ok(()) };
        let is_recorded = self.recorded.is_some_and(|recorded| recorded == seen);
        if self.force == Force::WithLease && is_recorded {
            return Ok(());
        }
        if self.view.is_part(seen, commit).map_err(|error| failure(&error))? {
            return Ok(());
        }
        let heading = format!(
            "the branch `{}` of `{}` has commits that are missing in this workspace",
            self.branch, self.remote
        );
        Err(
            Failure::new(Exit::Failed, ErrorCode::GitStale, heading).hint(if is_recorded {
                "Vik has seen these commits; use --force-with-lease to replace them"
            } else {
                "someone else pushed them; merge them, or replace them with --force"
            }),
        )
    }

    /// Returns the current commit of a branch of the remote.
    fn remote_commit(&self, target: &str) -> Result<Option<String>, Failure> {
        let run = |args: &[&str]| -> Result<String, Failure> {
            let found = output(&mut self.view.git(args)).map_err(|error| failure(&error))?;
            Ok(String::from_utf8_lossy(&found.stdout).into_owned())
        };
        // Settings of the user can give a push another URL than a fetch.
        let url = run(&["remote", "get-url", "--push", self.remote])?;
        let list = run(&["ls-remote", "--quiet", "--", url.trim_end(), target])?;
        let mut lines = list.lines().filter_map(|line| line.split_once('\t'));
        let found = lines.find(|(_, name)| *name == target);
        Ok(found.map(|(id, _)| id.to_owned()))
    }
}
