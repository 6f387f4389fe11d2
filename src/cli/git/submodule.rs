//! `vik git submodule update`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use vik_base::report::{ErrorCode, Exit, Failure, one_line};
use vik_workspace::git::submodules::{Submodule, submodules_of_commit};
use vik_workspace::git::{GitError, Record, SavedRecord, Tracking, View, WorkTree};
use vik_workspace::normalize;

use super::target::{Target, update_workspace_refs};
use super::{failure, fetch, reset};
use crate::cli::{CliResult, print, warn};

/// What `vik git submodule` does.
#[derive(Debug, Subcommand)]
pub enum SubmoduleVerb {
    /// Update the files of each submodule to the commit that `HEAD` records for it
    #[command(
        after_help = "Each submodule has its own record, written after `after_create`. Missing commits are \
                      fetched from the recorded URL. Uncommitted changes in the submodule are lost, its \
                      `HEAD` is detached, and its branches are kept. Submodules that did not exist after \
                      `after_create` are not changed."
    )]
    Update(Update),
}

/// `vik git submodule update`
#[derive(Debug, Args)]
pub struct Update {
    /// Accepted for compatibility with git, without effect: the record lists the submodules
    #[arg(long)]
    init: bool,
    /// Update nested submodules too
    #[arg(long)]
    recursive: bool,
    /// Print errors only
    #[arg(long, short)]
    quiet: bool,
    /// Submodules, or folders with submodules, as paths in the workspace [default: all]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// One execution of the command.
struct Run<'a> {
    update: &'a Update,
    target: &'a Target,
    settings: &'a [String],
    /// The requested paths, absolute.
    paths: Vec<PathBuf>,
    /// The submodules without a record, each with the reason if it is known.
    left: Vec<String>,
}

impl Update {
    /// Updates the submodules of a workspace. The locks of [`Target::lock_workspace`] must be held.
    pub(super) fn run(
        &self,
        target: &Target,
        view: &View,
        settings: &[String],
        record: &mut Record,
    ) -> CliResult {
        let before = record.clone();
        let tree = WorkTree::from(&target.workspace);
        let mut run = Run {
            update: self,
            target,
            settings,
            paths: self
                .paths
                .iter()
                .map(|path| normalize(&tree.path.join(path)))
                .collect(),
            left: Vec::new(),
        };
        let updated = run.update_level(tree, view, "HEAD", record);
        // Objects that were fetched before a failure count as seen.
        if *record != before {
            target.write_record(record)?;
        }
        updated?;
        run.finish()
    }
}

impl Run<'_> {
    /// Updates the submodules that a commit of one repository names.
    fn update_level(
        &mut self,
        parent: WorkTree<'_>,
        view: &View,
        commit: &str,
        record: &mut Record,
    ) -> Result<(), Failure> {
        let named = submodules_of_commit(view, commit).map_err(|error| failure(&error))?;
        let is_top = parent.path == parent.workspace;
        let unknown = self.paths.iter().find(|wanted| {
            let is_below = |path: &String| parent.path.join(path).starts_with(wanted);
            is_top && !named.keys().any(is_below)
        });
        if let Some(path) = unknown {
            let heading = format!("`{}` neither is nor contains a submodule", shown(parent, path));
            return Err(Failure::new(Exit::Failed, ErrorCode::GitNoSubmodule, heading));
        }
        for (path, commit) in &named {
            let full = parent.path.join(path);
            if !self.paths.is_empty() && !self.paths.iter().any(|wanted| full.starts_with(wanted)) {
                continue;
            }
            let name = shown(parent, &full);
            match record.submodules.get_mut(path) {
                Some(SavedRecord::Repository(record)) => self
                    .update_one(parent, (path, commit), record)
                    .map_err(|failure| failure.cause(format!("cannot update the submodule `{name}`")))?,
                Some(SavedRecord::Unusable(why)) => self.left.push(format!("{name} ({why})")),
                None => self.left.push(name),
            }
        }
        Ok(())
    }

    fn update_one(
        &mut self,
        parent: WorkTree<'_>,
        (path, id): (&str, &str),
        record: &mut Record,
    ) -> Result<(), Failure> {
        let unusable = |error: GitError| {
            failure(&error)
                .hint("remove the workspace; the next attempt creates it again, with this submodule")
        };
        let submodule = Submodule::open(parent, path, &record.place).map_err(unusable)?;
        let tree = submodule.tree();
        let opened = View::open(&self.target.layout, tree, record, Tracking::OfRecord);
        let mut view = opened.map_err(unusable)?;
        view.add_settings(self.settings);
        if view.commit(id).map_err(unusable)?.is_none() {
            self.fetch(&view, id, record)?;
        }
        let before = view.commit("HEAD").map_err(unusable)?;
        view.detach(before.as_deref().unwrap_or(id)).map_err(unusable)?;
        reset(&view, id, true)?;
        if !self.update.quiet {
            let name = shown(tree, tree.path);
            print(&format!("Submodule path '{name}': checked out '{id}'\n"));
        }
        if self.update.recursive {
            self.update_level(tree, &view, id, record)?;
        }
        Ok(())
    }

    /// Fetches the branches of the recorded remote, or the commit itself if no branch contains it.
    fn fetch(&self, view: &View, id: &str, record: &mut Record) -> Result<(), Failure> {
        let (name, remote) = self.target.remote(view, record, None)?;
        self.target.refuse_inside(&remote.url)?;
        fetch(view, &name, None, self.update.quiet)?;
        if view.commit(id).map_err(|error| failure(&error))?.is_none() {
            fetch(view, &name, Some(id), self.update.quiet)
                .map_err(|failure| failure.hint(format!("push {id} to the remote of the submodule")))?;
        }
        update_workspace_refs(view, record, None)
    }

    /// Lists the submodules that were not updated. They are an error if paths were requested.
    fn finish(self) -> CliResult {
        if self.left.is_empty() {
            return Ok(Exit::Done);
        }
        let heading = format!(
            "submodules not updated, because they did not exist after `after_create`: {}",
            self.left.join(", ")
        );
        let hint = "remove the workspace, so that the next attempt creates it again; or run \
                    `git submodule update --init` in the agent or in a hook with `sandbox: true`";
        let failure = Failure::new(Exit::Failed, ErrorCode::GitNoRecord, heading).hint(hint);
        if self.paths.is_empty() {
            warn(&failure.text(false).replacen("error:", "note:", 1));
            return Ok(Exit::Done);
        }
        Err(failure)
    }
}

/// Returns a path relative to the workspace, for people.
fn shown(tree: WorkTree<'_>, path: &Path) -> String {
    let path = path.strip_prefix(tree.workspace).unwrap_or(path);
    one_line(&path.to_string_lossy(), 200)
}
