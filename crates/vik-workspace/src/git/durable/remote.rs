//! The ref of an issue at the remote: read, and replaced if it is unchanged.

use std::process::Command;

use super::state::State;
use super::{Durable, GitError, SavedWork};
use crate::git::{View, output};

/// The ref in the view that gets the commit of the remote.
const FETCHED: &str = "refs/vik/state";

/// The author of Vik's commits. With the same time, the same work has the same commits everywhere.
const IDENTITY: [(&str, &str); 6] = [
    ("GIT_AUTHOR_NAME", "Vik"),
    ("GIT_AUTHOR_EMAIL", "vik@localhost"),
    ("GIT_AUTHOR_DATE", "@1000000000 +0000"),
    ("GIT_COMMITTER_NAME", "Vik"),
    ("GIT_COMMITTER_EMAIL", "vik@localhost"),
    ("GIT_COMMITTER_DATE", "@1000000000 +0000"),
];

/// The commit that the ref of an issue names.
pub(super) struct RemoteState {
    pub(super) id: String,
    pub(super) state: State,
}

impl Durable<'_> {
    /// Fetches the commit that the ref names; `None` if there is no such ref.
    pub(super) fn read_remote(&self, view: &View) -> Result<Option<RemoteState>, GitError> {
        let url = self.url(view)?;
        if self.remote_id(view, &url)?.is_none() {
            return Ok(None);
        }
        let refspec = format!("+{}:{FETCHED}", self.work_ref);
        let fetch = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--",
            &url,
            &refspec,
        ];
        output(&mut view.git(fetch))?;
        let id = text(&mut view.git(["rev-parse", "--verify", FETCHED]))?;
        let commit = output(&mut view.git(["cat-file", "commit", &id]))?;
        let commit = String::from_utf8_lossy(&commit.stdout).into_owned();
        let message = commit.split_once("\n\n").map_or("", |(_, message)| message);
        let state: State = serde_json::from_str(message).map_err(|_| {
            let reason = format!("{} of the remote was not written by Vik", self.work_ref);
            GitError::NotUsable(reason)
        })?;
        if !state.saved.as_ref().is_none_or(SavedWork::names_commits) {
            let reason = format!("{} of the remote does not name commits", self.work_ref);
            return Err(GitError::NotUsable(reason));
        }
        Ok(Some(RemoteState { id, state }))
    }

    /// Writes the commit of a state to the view, and returns its id.
    pub(super) fn write_state(&self, view: &View, state: &State) -> Result<String, GitError> {
        let message = serde_json::to_string(state).map_err(|error| GitError::NotUsable(error.to_string()))?;
        let tree = text(&mut view.git(["mktree"]))?;
        let parents: Vec<&str> = state.saved.iter().map(|work| work.files.as_str()).collect();
        commit(view, &tree, &parents, &message)
    }

    /// Replaces the ref `from` one commit `to` another one; `None` is no ref. Returns `false` if the
    /// ref no longer has the commit `from`.
    pub(super) fn push(&self, view: &View, from: Option<&str>, to: Option<&str>) -> Result<bool, GitError> {
        let name = &self.work_ref;
        let lease = format!("--force-with-lease={name}:{}", from.unwrap_or_default());
        let refspec = format!("{}:{name}", to.unwrap_or_default());
        let push = ["push", "--quiet", &lease, "--", self.remote, &refspec];
        let pushed = output(&mut view.git(push));
        let Err(error) = pushed else { return Ok(true) };
        // The connection may have ended after the ref was replaced.
        let now = self.remote_id(view, &self.url(view)?)?;
        match now.as_deref() {
            now if now == to => Ok(true),
            now if now == from => Err(error),
            _ => Ok(false),
        }
    }

    fn remote_id(&self, view: &View, url: &str) -> Result<Option<String>, GitError> {
        let name = self.work_ref.as_str();
        let list = text(&mut view.git(["ls-remote", "--quiet", "--", url, name]))?;
        let mut lines = list.lines().filter_map(|line| line.split_once('\t'));
        let found = lines.find(|(_, found)| *found == name);
        Ok(found.map(|(id, _)| id.to_owned()))
    }

    /// Returns the URL for pushes: settings of the user can give it another URL than a fetch.
    fn url(&self, view: &View) -> Result<String, GitError> {
        text(&mut view.git(["remote", "get-url", "--push", self.remote]))
    }
}

/// Writes a commit of Vik to the view.
pub(super) fn commit(view: &View, tree: &str, parents: &[&str], message: &str) -> Result<String, GitError> {
    let mut args = vec!["commit-tree", tree, "-m", message];
    for parent in parents {
        args.extend(["-p", *parent]);
    }
    text(view.git(args).envs(IDENTITY))
}

/// Returns the trimmed output of git.
pub(super) fn text(command: &mut Command) -> Result<String, GitError> {
    let output = output(command)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
