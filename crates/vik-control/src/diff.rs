//! What attempts and issues changed, from the records of attempts, the workspace and git.
//!
//! The changes of an attempt are those that Vik found between its snapshots, so they stay the same
//! when the workspace changes, is pushed or is removed. The diff of an issue is that of its branch.

use std::path::Path;

use tokio::task::spawn_blocking;
use vik_api::{DiffView, SCHEMA};
use vik_core::file_change::FileChange;
use vik_core::ids::{AttemptId, IssueId, RunId};
use vik_proc::Supervisor;
use vik_session::provenance::{Record, Trace};
use vik_store::{AttemptFiles, History, PastAttempt};
use vik_workspace::changes::{Base, Bounds, Changes, Store};
use vik_workspace::{Commits, Files, Layout, Repository, fs as private, net_changes};

/// The maximum size of a recorded commit id, in bytes.
const MAX_COMMIT_ID: usize = 64;

/// What diffs are made from. Git runs under a shim of the supervisor, without the settings of the
/// repository.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    pub layout: &'a Layout,
    pub supervisor: &'a Supervisor,
}

impl<'a> Sources<'a> {
    /// Returns what an attempt changed: until now, if it is running.
    pub async fn of_attempt(self, issue: &IssueId, id: AttemptId, files: AttemptFiles) -> DiffView {
        let (layout, issue_id) = (self.layout.clone(), issue.clone());
        let read = spawn_blocking(move || {
            let changes = changes_of(&layout, &issue_id, id, &files)?;
            let net = net_changes(&changes.files, &Store::new(&layout.contents_dir()));
            Some((changes, net))
        });
        let Some((changes, net)) = read.await.ok().flatten() else {
            return empty("no changes were recorded: the agent has not started, or the record is too old");
        };
        let mut view = DiffView {
            schema: SCHEMA,
            base: changes.base_head.clone(),
            ..DiffView::default()
        };
        (view.files, view.files_left_out) = net.files;
        let mut notes = Vec::new();
        if !changes.unseen.is_empty() {
            notes.push("some paths could not be read".to_owned());
        }
        if net.incomplete {
            notes.push("the contents of some files are no longer stored".to_owned());
        }
        if let (Some(base), Some(head)) = (&changes.base_head, &changes.head)
            && let Some(repository) = self.repository_with(issue, head).await
        {
            view.branch = repository.branch;
            if base != head {
                let commits = repository.git.commits(base, head).await;
                (view.commits, view.commits_left_out) = commits.unwrap_or_default();
                if net.incomplete
                    && let Ok(files) = repository.git.files(base, head).await
                {
                    (view.files, view.files_left_out) = files;
                    notes = vec!["only what was committed: other contents are no longer stored".to_owned()];
                }
            }
        }
        view.note = joined(&notes);
        view
    }

    /// Returns the branch of an issue against the commit at which it began, with what is not
    /// committed. Without git, it is what its attempts changed. `None` if there is neither an attempt
    /// nor a workspace.
    pub async fn of_issue(self, issue: &IssueId) -> Option<DiffView> {
        let why = match self.repository(&self.layout.issue_dir(issue)) {
            Ok(git) => match git.commit("HEAD").await {
                Some(head) => {
                    let bases = self.past(issue, PastParts::Bases).await.bases;
                    let branch = git.branch().await;
                    return Some(branch_diff(git, branch, &head, WorkTree::Added, &bases).await);
                }
                None => "the repository has no commits".to_owned(),
            },
            Err(why) => why,
        };
        let past = self.past(issue, PastParts::All).await;
        if !self.layout.issue_dir(issue).exists()
            && let Some(last) = &past.last
            && let Some(found) = self.source_repository_with(issue, last).await
        {
            // A script after the agent may have committed more.
            let branch = found.branch.as_ref();
            let end = match branch {
                Some(branch) => found.git.commit(&format!("refs/heads/{branch}")).await,
                None => None,
            };
            let end = end.unwrap_or_else(|| last.clone());
            let mut view = branch_diff(found.git, found.branch, &end, WorkTree::Ignored, &past.bases).await;
            let mut note =
                "the workspace no longer exists: the commits in the repository of the workflow".to_owned();
            if let Some(other) = view.note {
                note = format!("{note}; {other}");
            }
            view.note = Some(note);
            return Some(view);
        }
        if past.changes.is_empty() && past.is_unknown && !self.layout.issue_dir(issue).exists() {
            return None;
        }
        let store = Store::new(&self.layout.contents_dir());
        let base = past.bases.first().cloned();
        let net = spawn_blocking(move || net_changes(&past.changes, &store))
            .await
            .ok()?;
        let mut view = empty(&format!("{why}: what the attempts changed, from their records"));
        view.base = base;
        (view.files, view.files_left_out) = net.files;
        if net.incomplete {
            view.note = Some(format!(
                "{why}, and the contents of some files are no longer stored"
            ));
        }
        Some(view)
    }

    async fn past(self, issue: &IssueId, parts: PastParts) -> IssuePast {
        let (layout, issue) = (self.layout.clone(), issue.clone());
        let read = spawn_blocking(move || IssuePast::read(&layout, &issue, parts));
        read.await.unwrap_or_default()
    }

    fn repository(self, folder: &Path) -> Result<Repository<'a>, String> {
        Repository::open(self.supervisor, folder, &self.layout.service_dir())
    }

    /// Returns the repository that has a commit of an issue: that of the workspace, or else the one
    /// of the workflow.
    async fn repository_with(self, issue: &IssueId, commit: &str) -> Option<Found<'a>> {
        if let Ok(git) = self.repository(&self.layout.issue_dir(issue))
            && git.commit(commit).await.is_some()
        {
            let branch = git.branch().await;
            return Some(Found { git, branch });
        }
        self.source_repository_with(issue, commit).await
    }

    /// Returns the repository that contains the workflow if it has a commit of an issue. Its branch
    /// is the one that workspaces of `vik init` use, if that contains the commit.
    async fn source_repository_with(self, issue: &IssueId, commit: &str) -> Option<Found<'a>> {
        let is_repository = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
        let folder = self.layout.workflow_dir().ancestors().find(is_repository)?;
        let git = self.repository(folder).ok()?;
        git.commit(commit).await?;
        let branch = format!("vik/{issue}");
        let branch = git.has_branch_with(&branch, commit).await.then_some(branch);
        Some(Found { git, branch })
    }
}

/// A repository with a commit, and the branch of the issue.
struct Found<'a> {
    git: Repository<'a>,
    branch: Option<String>,
}

/// Whether the diff of a branch has what is not committed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WorkTree {
    Added,
    Ignored,
}

async fn branch_diff(
    git: Repository<'_>,
    branch: Option<String>,
    head: &str,
    work_tree: WorkTree,
    bases: &[String],
) -> DiffView {
    let (base, note) = git.base(head, branch.as_deref(), bases).await;
    let mut notes: Vec<String> = note.into_iter().collect();
    let commits: Result<Commits, String> = git.commits(&base, head).await;
    let (commits, commits_left_out) = commits.unwrap_or_default();
    let mut files = match git.files(&base, head).await {
        Ok(files) => files,
        Err(why) => {
            notes.push(format!("the committed files cannot be compared: {why}"));
            Files::default()
        }
    };
    if work_tree == WorkTree::Added {
        notes.extend(git.add_uncommitted(head, &mut files).await);
    }
    let (files, files_left_out) = files;
    DiffView {
        schema: SCHEMA,
        base: Some(base),
        branch,
        commits,
        commits_left_out,
        files,
        files_left_out,
        note: joined(&notes),
    }
}

/// Joins notes; `None` if there is none.
fn joined(notes: &[String]) -> Option<String> {
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Returns a diff of nothing, for this reason.
pub fn empty(why: &str) -> DiffView {
    DiffView {
        schema: SCHEMA,
        note: Some(why.to_owned()),
        ..DiffView::default()
    }
}

/// Returns the recorded changes of an attempt, or those until now if its agent runs.
fn changes_of(layout: &Layout, issue: &IssueId, id: AttemptId, files: &AttemptFiles) -> Option<Changes> {
    found_changes(layout, issue, files).or_else(|| {
        let lines = Trace::new(&layout.trace_dir()).read().ok()?;
        let line = lines.into_iter().find(|line| line.record.id == id)?;
        Some(traced_changes(&line.record))
    })
}

fn found_changes(layout: &Layout, issue: &IssueId, files: &AttemptFiles) -> Option<Changes> {
    if let Ok(text) = private::read(&files.changes()) {
        return serde_json::from_slice(&text).ok();
    }
    let base: Base = serde_json::from_slice(&private::read(&files.base()).ok()?).ok()?;
    let workspace = vik_workspace::open(layout, issue).ok()??;
    let store = Store::new(&layout.contents_dir());
    let changes = base.changes(&store, &workspace, workspace.path(), Bounds::default());
    changes.map(|(changes, _)| changes).ok()
}

fn traced_changes(record: &Record) -> Changes {
    let vik = record.vik();
    Changes {
        files: vik
            .changes
            .iter()
            .map(|mutation| mutation.change.clone())
            .collect(),
        unseen: vik.unseen.iter().cloned().collect(),
        base_head: vik.base_revision.clone(),
        head: vik.revision.clone(),
        base_tree: vik.base_tree,
        tree: vik.tree,
        ..Changes::default()
    }
}

/// The recorded past of an issue.
#[derive(Default)]
struct IssuePast {
    /// Whether no attempt is known.
    is_unknown: bool,
    /// The changes of its attempts, oldest first.
    changes: Vec<FileChange>,
    /// The commits at which its runs began, oldest first.
    bases: Vec<String>,
    /// The commit that was checked out after the last agent.
    last: Option<String>,
}

/// What is needed of the past of an issue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PastParts {
    All,
    /// The bases, without the changes after the first one: those of a running attempt cost a walk
    /// through its workspace.
    Bases,
}

impl IssuePast {
    fn read(layout: &Layout, issue: &IssueId, parts: PastParts) -> Self {
        let history = History::of_issue(&layout.issue_sessions_dir(issue)).unwrap_or_default();
        let mut past = Self {
            is_unknown: history.attempts.is_empty(),
            ..Self::default()
        };
        let mut runs: Vec<RunId> = Vec::new();
        for PastAttempt { record, files, .. } in &history.attempts {
            if !runs.contains(&record.run_id) {
                runs.push(record.run_id);
                past.bases
                    .extend(recorded_commit(&files.base_commit(record.run_id)));
            }
            let is_needed = parts == PastParts::All || past.bases.is_empty();
            if is_needed && let Some(changes) = found_changes(layout, issue, files) {
                past.add(changes);
            }
        }
        if past.is_unknown {
            // The files of sessions may be removed before the trace.
            let lines = Trace::new(&layout.trace_dir()).read().unwrap_or_default();
            for line in lines.iter().filter(|line| line.record.vik().issue == *issue) {
                past.is_unknown = false;
                past.add(traced_changes(&line.record));
            }
        }
        past
    }

    fn add(&mut self, changes: Changes) {
        if self.bases.is_empty() {
            self.bases.extend(changes.base_head);
        }
        self.last = changes.head.or(self.last.take());
        self.changes.extend(changes.files);
    }
}

/// Reads a file with the id of a commit.
fn recorded_commit(file: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    let file = private::open(file).ok()?;
    // An agent without a sandbox can write the file.
    file.take(MAX_COMMIT_ID as u64 + 1)
        .read_to_string(&mut text)
        .ok()?;
    (text.len() <= MAX_COMMIT_ID).then_some(text)
}
