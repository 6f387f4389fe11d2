//! The workspace that `vik git` works in, and what Vik recorded about its repository.

use std::path::Path;

use vik_base::report::{ErrorCode, Exit, Failure, chain};
use vik_core::ids::IssueId;
use vik_session::host::ATTEMPT_MARK;
use vik_workspace::git::{Record, Remote, SavedRecord, View, read_record, write_record};
use vik_workspace::{Layout, Workspace};

use super::args::GitArgs;
use super::failure;
use crate::cli::{CliResult, history, print, warn, workflow_of_hook};

/// A workspace with its record.
pub struct Target {
    pub layout: Layout,
    pub issue: IssueId,
    pub workspace: Workspace,
}

impl Target {
    pub fn find(workflow: &Path, args: &GitArgs) -> Result<Self, Failure> {
        let id = args.issue.as_deref().filter(|id| !id.is_empty()).ok_or_else(|| {
            Failure::new(Exit::Usage, ErrorCode::Usage, "no issue given")
                .hint("specify it with `vik git --issue ID …`")
        })?;
        let issue = IssueId::new(id);
        let layout = history::layout(&workflow_of_hook(workflow))?;
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

    pub fn read_record(&self) -> Result<Record, Failure> {
        let saved = read_record(&self.layout, &self.issue).map_err(|error| failure(&error))?;
        let hint = format!(
            "record it with `vik git --issue {} record --url URL --branch NAME`, or remove the workspace: \
             the next attempt creates it again",
            self.issue
        );
        let why = match saved {
            Some(SavedRecord::Repository(record)) => return Ok(*record),
            Some(SavedRecord::Unusable(why)) => why,
            None => "the workspace was created by an older version of Vik or not by `after_create`, and the agent may have changed its settings".into(),
        };
        let heading = "Vik has no record of the git repository in this workspace";
        Err(Failure::new(Exit::Failed, ErrorCode::GitNoRecord, heading)
            .cause(why)
            .hint(hint))
    }

    pub fn record(&self, url: &str, branch: Option<&str>, remote: &str, force: bool) -> CliResult {
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

    pub fn write_record(&self, record: &Record) -> Result<(), Failure> {
        let saved = SavedRecord::Repository(Box::new(record.clone()));
        write_record(&self.layout, &self.issue, &saved).map_err(|error| failure(&error))
    }

    /// Returns a remote of the record. The workspace must not name another URL for it.
    pub fn remote(
        &self,
        view: &View,
        record: &Record,
        name: Option<&str>,
    ) -> Result<(String, Remote), Failure> {
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
    pub fn refuse_inside(&self, url: &str) -> Result<(), Failure> {
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
    pub fn lock_workspace(&self) -> Result<Vec<vik_proc::FileLock>, Failure> {
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
    pub fn keep(&self, view: &View, record: &mut Record, pushed: Option<&str>) -> CliResult {
        update_workspace_refs(view, record, pushed)?;
        self.write_record(record)?;
        Ok(Exit::Done)
    }
}

/// Passes fetched or pushed refs to the workspace and updates the record. The exchange with the
/// remote is already complete, so a failed write to the workspace is only a warning.
pub fn update_workspace_refs(view: &View, record: &mut Record, pushed: Option<&str>) -> Result<(), Failure> {
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
