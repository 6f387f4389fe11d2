//! Changed files as people read them: between commits, a commit and a work tree, or stored contents.

mod contents;

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use vik_api::{CommitView, FileChange, FileDiff};
use vik_proc::Supervisor;

pub use self::contents::{Net, net_changes};
use super::git::is_id;
use super::inspection::{InspectionError, InspectionView};

/// The most files in a diff.
const MAX_FILES: usize = 500;

/// The size limit of the patch of one file. A longer patch is left out.
const MAX_PATCH_BYTES: usize = 256 * 1024;

/// The size limit of all patches together.
const MAX_TOTAL_BYTES: usize = 4 * 1024 * 1024;

/// The maximum number of commits in a diff.
const MAX_COMMITS: usize = 100;

/// The branches with which others are merged, in the order of preference.
const DEFAULT_BRANCHES: [&str; 5] = [
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/main",
    "refs/remotes/origin/master",
    "refs/heads/main",
    "refs/heads/master",
];

/// A repository whose commits and files are compared: that of a workspace, or the one from which
/// workspaces are made.
pub struct Repository<'s> {
    supervisor: &'s Supervisor,
    view: InspectionView,
}

/// The state of a repository that is compared with a base.
#[derive(Clone, Copy, Debug)]
pub enum Tip<'a> {
    /// The files of the work tree, with those that are not in git's index.
    WorkTree,
    Commit(&'a str),
}

/// Commits, oldest first, and the number of those that are left out.
pub type Commits = (Vec<CommitView>, usize);

/// Changed files, by path, and the number of those that are left out.
pub type Files = (Vec<FileDiff>, usize);

impl<'s> Repository<'s> {
    /// Opens the repository of a folder. `scratch` is a folder of Vik's for the view, which is
    /// removed with the repository.
    ///
    /// # Errors
    /// Returns the reason, for people, if there is no repository or it cannot be read.
    pub fn open(supervisor: &'s Supervisor, folder: &Path, scratch: &Path) -> Result<Self, String> {
        match InspectionView::make(folder, scratch) {
            Ok(Some(view)) => Ok(Self { supervisor, view }),
            Ok(None) => Err("the workspace is empty".to_owned()),
            Err(InspectionError::NoRepository) => Err("the workspace is not a git work tree".to_owned()),
            Err(InspectionError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                Err("the workspace no longer exists".to_owned())
            }
            Err(InspectionError::Io(error)) => Err(format!("cannot read the workspace: {error}")),
        }
    }

    async fn git(&self, args: &[&str]) -> Result<Vec<u8>, String> {
        self.view.git(self.supervisor, args).await
    }

    /// Returns the first line of git's output; `None` if git fails or prints nothing.
    async fn line(&self, args: &[&str]) -> Option<String> {
        let output = self.git(args).await.ok()?;
        let text = String::from_utf8_lossy(&output);
        let line = text.lines().next().filter(|line| !line.is_empty());
        line.map(str::to_owned)
    }

    /// Returns the object id of a commit: `HEAD`, the full name of a ref, or an id. `None` if the
    /// repository does not have it.
    pub async fn commit(&self, name: &str) -> Option<String> {
        let name = format!("{name}^{{commit}}");
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
        self.line(&args).await.filter(|id| is_id(id))
    }

    /// Returns the branch that is checked out, without `refs/heads/`.
    pub async fn branch(&self) -> Option<String> {
        let name = self.line(&["symbolic-ref", "--quiet", "HEAD"]).await?;
        name.strip_prefix("refs/heads/").map(str::to_owned)
    }

    /// Returns whether the repository has a branch that contains a commit.
    pub async fn has_branch_with(&self, branch: &str, commit: &str) -> bool {
        let contains = format!("--contains={commit}");
        let args = ["for-each-ref", "--format=%(refname)", &contains, "refs/heads"];
        let names = self.git(&args).await.unwrap_or_default();
        let names = String::from_utf8_lossy(&names);
        names
            .lines()
            .any(|name| name.strip_prefix("refs/heads/") == Some(branch))
    }

    async fn is_ancestor(&self, ancestor: &str, of: &str) -> bool {
        let args = ["merge-base", "--is-ancestor", ancestor, of];
        self.git(&args).await.is_ok()
    }

    /// Returns the commit at which a branch began, and a note about it.
    ///
    /// `recorded` are the commits that were checked out when runs of the issue began, oldest first.
    /// The first one that is in the branch counts, even after the branch was pushed or merged. A
    /// later merge base with the default branch counts instead if the branch was rebased or
    /// recreated since then, which the note says: an agent can move the refs of its repository.
    pub async fn base(
        &self,
        tip: &str,
        branch: Option<&str>,
        recorded: &[String],
    ) -> (String, Option<String>) {
        let recorded: Vec<_> = recorded.iter().filter(|commit| is_id(commit)).collect();
        let mut start = None;
        for commit in &recorded {
            if self.is_ancestor(commit, tip).await {
                start = Some(*commit);
                break;
            }
        }
        let merge_base = self.merge_base(tip, branch).await;
        let Some(start) = start else {
            return self.base_without_start(tip, merge_base, &recorded).await;
        };
        if let Some((base, default)) = merge_base
            && base != tip
            && base != *start
            && self.is_ancestor(start, &base).await
        {
            let note = format!(
                "compared with the merge base with `{default}`, which is later than {}, where the first run \
                 started",
                shortened(start)
            );
            return (base, Some(note));
        }
        let note = recorded.first().filter(|first| **first != start).map(|first| {
            format!(
                "the first run started at {}, which is not in the branch: compared with the start of a later run",
                shortened(first)
            )
        });
        (start.clone(), note)
    }

    /// Returns the base of a branch that contains no recorded commit. The merge base alone would hide
    /// all changes if an agent moved the default branch to the tip.
    async fn base_without_start(
        &self,
        tip: &str,
        merge_base: Option<(String, &str)>,
        recorded: &[&String],
    ) -> (String, Option<String>) {
        let Some(first) = recorded.first() else {
            return match merge_base {
                Some((base, _)) => (base, None),
                None => {
                    let note = "compared with the last commit: nothing shows where the work started";
                    (tip.to_owned(), Some(note.to_owned()))
                }
            };
        };
        let reason = format!(
            "the first run started at {}, which is not in the branch",
            shortened(first)
        );
        if let Some((base, default)) = merge_base.filter(|(base, _)| base != tip) {
            let note = format!("{reason}: compared with the merge base with `{default}`");
            return (base, Some(note));
        }
        // A comparison needs no common history.
        for commit in recorded {
            if let Some(commit) = self.commit(commit).await {
                let note = format!("{reason}: compared with {}", shortened(&commit));
                return (commit, Some(note));
            }
        }
        let note = format!("{reason}, and no longer in the repository: compared with the last commit");
        (tip.to_owned(), Some(note))
    }

    /// Returns the merge base of a commit with the default branch, and the name of that branch.
    async fn merge_base(&self, tip: &str, branch: Option<&str>) -> Option<(String, &'static str)> {
        for name in DEFAULT_BRANCHES {
            let short = name.strip_prefix("refs/heads/");
            if short.is_some() && short == branch {
                continue;
            }
            if let Some(default) = self.commit(name).await {
                let base = self.line(&["merge-base", &default, tip]).await?;
                let shown = short.or_else(|| name.strip_prefix("refs/remotes/"));
                return Some((base, shown.unwrap_or(name)));
            }
        }
        None
    }

    /// Returns the commits that are in `tip` but not in `base`. Both are object ids.
    ///
    /// # Errors
    /// Returns the reason if git fails, such as for a missing commit.
    pub async fn commits(&self, base: &str, tip: &str) -> Result<Commits, String> {
        if !is_id(base) || !is_id(tip) {
            return Err("no commit is known".to_owned());
        }
        let range = format!("{base}..{tip}");
        let count = self.git(&["rev-list", "--count", &range, "--"]).await?;
        let count: usize = String::from_utf8_lossy(&count).trim().parse().unwrap_or(0);
        let max = format!("--max-count={MAX_COMMITS}");
        let args = [
            "log",
            "--topo-order",
            "--reverse",
            "--no-color",
            "--no-decorate",
            "--no-mailmap",
            "--no-show-signature",
            "--no-patch",
            &max,
            "--format=%H%x00%at%x00%an%x00%s",
            &range,
            "--",
        ];
        let log = self.git(&args).await?;
        let commits: Vec<_> = String::from_utf8_lossy(&log).lines().filter_map(commit).collect();
        let left_out = count.saturating_sub(commits.len());
        Ok((commits, left_out))
    }

    /// Returns the files that differ between a commit and `tip`.
    ///
    /// # Errors
    /// Returns the reason if git fails, such as for a missing commit.
    pub async fn files(self, base: &str, tip: Tip<'_>) -> Result<Files, String> {
        if !is_id(base) || matches!(tip, Tip::Commit(tip) if !is_id(tip)) {
            return Err("no commit is known".to_owned());
        }
        let Self { supervisor, view } = self;
        let (view, commits) = match tip {
            Tip::Commit(tip) => (view, vec![base, tip]),
            Tip::WorkTree => {
                // New files are added to an index of Vik's own, so that they are part of the diff.
                let view = view.with_own_index().map_err(|error| error.to_string())?;
                let args = ["add", "--intent-to-add", "--ignore-errors", "--", "."];
                view.git(supervisor, &args).await?;
                (view, vec![base])
            }
        };
        let compare = |format: &[&'static str]| {
            let mut args = vec![
                "diff",
                "--no-ext-diff",
                "--no-textconv",
                "--no-color",
                "--no-renames",
                "--ignore-submodules=all",
            ];
            args.extend(format);
            args.extend(&commits);
            args.push("--");
            args
        };
        let names = view.git(supervisor, &compare(&["--name-status", "-z"])).await?;
        let counts = view.git(supervisor, &compare(&["--numstat", "-z"])).await?;
        let counts = numstat(&counts);
        let changes = changes(&names);
        let left_out = changes.len().saturating_sub(MAX_FILES);
        let mut files: Vec<FileDiff> = changes
            .into_iter()
            .take(MAX_FILES)
            .map(|(path, change)| {
                let counted = counts.get(&path).copied().flatten();
                let (added, removed) = counted.unwrap_or((0, 0));
                FileDiff {
                    path,
                    change,
                    added,
                    removed,
                    patch: None,
                }
            })
            .collect();
        let patch = compare(&["--patch", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/"]);
        match view.git(supervisor, &patch).await {
            Ok(patch) => add_patches(&mut files, &patch),
            // The list of files is complete without them.
            Err(why) => tracing::debug!(why, "patches are not shown"),
        }
        Ok((files, left_out))
    }
}

fn shortened(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Parses a line of the log of commits.
fn commit(line: &str) -> Option<CommitView> {
    let mut parts = line.splitn(4, '\0');
    let (id, at, author, subject) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let at = at.parse().ok().and_then(|at| Timestamp::from_second(at).ok());
    Some(CommitView {
        id: id.to_owned(),
        subject: subject.to_owned(),
        author: author.to_owned(),
        at: at.unwrap_or(Timestamp::UNIX_EPOCH),
    })
}

fn changes(listed: &[u8]) -> Vec<(String, FileChange)> {
    let mut parts = listed.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    let mut found = Vec::new();
    while let (Some(status), Some(path)) = (parts.next(), parts.next()) {
        let change = match status.first() {
            Some(b'A') => FileChange::Added,
            Some(b'D') => FileChange::Deleted,
            _ => FileChange::Modified,
        };
        found.push((String::from_utf8_lossy(path).into_owned(), change));
    }
    found
}

fn numstat(listed: &[u8]) -> BTreeMap<String, Option<(u64, u64)>> {
    listed
        .split(|byte| *byte == 0)
        .filter_map(|line| {
            let line = String::from_utf8_lossy(line).into_owned();
            let mut parts = line.splitn(3, '\t');
            let (added, removed, path) = (parts.next()?, parts.next()?, parts.next()?);
            let counts = added.parse().ok().zip(removed.parse().ok());
            Some((path.to_owned(), counts))
        })
        .collect()
}

/// Gives each file its part of a patch. The parts are in the order of the list. A file whose part
/// is not at its position, such as a binary one, gets none.
fn add_patches(files: &mut [FileDiff], patch: &[u8]) {
    let text = String::from_utf8_lossy(patch);
    let mut parts = text.split("\ndiff --git ");
    let mut total_bytes = 0;
    for file in files {
        let Some(part) = parts.next() else { return };
        let Some(at) = part.find("\n@@") else { continue };
        let mut hunks = part[at + 1..].to_owned();
        if !hunks.ends_with('\n') {
            hunks.push('\n');
        }
        if hunks.len() > MAX_PATCH_BYTES || total_bytes + hunks.len() > MAX_TOTAL_BYTES {
            continue;
        }
        total_bytes += hunks.len();
        file.patch = Some(hunks);
    }
}
