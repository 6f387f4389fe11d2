//! Changed files as people read them: between commits, a commit and a work tree, or stored contents.

mod contents;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::Timestamp;
use vik_api::{CommitView, FileChange, FileDiff};
use vik_base::report::count;
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

    /// Returns the files that differ between two commits.
    ///
    /// # Errors
    /// Returns the reason if git fails, such as for a missing commit.
    pub async fn files(&self, base: &str, tip: &str) -> Result<Files, String> {
        if !is_id(base) || !is_id(tip) {
            return Err("no commit is known".to_owned());
        }
        let args = ["--ignore-submodules=none", "--submodule=short", base, tip];
        compare(self.supervisor, &self.view, &args, 0).await
    }

    /// Adds the changes of the work tree since a commit to the files that are committed, and returns
    /// notes about them. A file with committed changes stays as it is: the work tree is not what is
    /// pushed, so it must not hide them.
    pub async fn add_uncommitted(self, head: &str, files: &mut Files) -> Vec<String> {
        let (committed, left_out) = files;
        let mut notes = Vec::new();
        let shown_bytes = committed
            .iter()
            .filter_map(|file| file.patch.as_ref())
            .map(String::len);
        match self.uncommitted(head, shown_bytes.sum(), &mut notes).await {
            Ok((changed, more)) => {
                let changes = changed.len() + more;
                let paths: BTreeSet<_> = committed.iter().map(|file| file.path.clone()).collect();
                let mut new = changed;
                new.retain(|file| !paths.contains(&file.path));
                let hidden = changes - more - new.len();
                *left_out += more + new.len();
                new.truncate(MAX_FILES.saturating_sub(committed.len()));
                *left_out -= new.len();
                committed.append(&mut new);
                committed.sort_by(|a, b| a.path.cmp(&b.path));
                notes.extend(uncommitted_note(changes, hidden));
            }
            Err(why) => notes.push(format!("only what is committed: {why}")),
        }
        notes
    }

    async fn uncommitted(
        self,
        head: &str,
        shown_bytes: usize,
        notes: &mut Vec<String>,
    ) -> Result<Files, String> {
        let Self { supervisor, view } = self;
        // New files are added to an index of Vik's own, so that they are part of the diff.
        let mut view = view.with_own_index().map_err(|error| error.to_string())?;
        if let Err(why) = view.add_new_files(supervisor).await {
            tracing::debug!(why, "new files are not shown");
            notes.push("some new files could not be read".to_owned());
        }
        compare(supervisor, &view, &["--ignore-submodules=all", head], shown_bytes).await
    }
}

/// Returns the files that git finds to differ. `shown_bytes` is the size of the patches that are
/// already shown.
async fn compare(
    supervisor: &Supervisor,
    view: &InspectionView,
    compared: &[&str],
    shown_bytes: usize,
) -> Result<Files, String> {
    let diff = async |format: &[&str]| {
        let mut args = vec![
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--no-renames",
        ];
        args.extend(format);
        args.extend(compared);
        args.push("--");
        view.git(supervisor, &args).await
    };
    let names = diff(&["--name-status", "-z"]).await?;
    let counts = numstat(&diff(&["--numstat", "-z"]).await?);
    let changes = changes(&names);
    let left_out = changes.len().saturating_sub(MAX_FILES);
    let shown = &changes[..changes.len() - left_out];
    let mut files: Vec<FileDiff> = shown
        .iter()
        .map(|(path, change)| {
            let path = String::from_utf8_lossy(path).into_owned();
            let (added, removed) = counts.get(&path).copied().flatten().unwrap_or((0, 0));
            FileDiff {
                path,
                change: *change,
                added,
                removed,
                patch: None,
            }
        })
        .collect();
    match diff(&["--patch", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/"]).await {
        Ok(patch) => {
            let paths = shown.iter().map(|(path, _)| *path);
            add_patches(paths.zip(&mut files), &patch, shown_bytes);
        }
        // The list of files is complete without them.
        Err(why) => tracing::debug!(why, "patches are not shown"),
    }
    Ok((files, left_out))
}

/// Describes the files with changes that are not committed. Those of `hidden` are not shown.
fn uncommitted_note(changed: usize, hidden: usize) -> Option<String> {
    let changed = u64::try_from(changed).unwrap_or(u64::MAX);
    let have = if changed == 1 { "has" } else { "have" };
    let mut note = format!("{} {have} changes that are not committed", count(changed, "file"));
    if hidden > 0 {
        note.push_str(&format!(
            ", of which {hidden} also changed in commits: only those changes are shown"
        ));
    }
    (changed > 0).then_some(note)
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

fn changes(listed: &[u8]) -> Vec<(&[u8], FileChange)> {
    let mut parts = listed.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    let mut found = Vec::new();
    while let (Some(status), Some(path)) = (parts.next(), parts.next()) {
        let change = match status.first() {
            Some(b'A') => FileChange::Added,
            Some(b'D') => FileChange::Deleted,
            _ => FileChange::Modified,
        };
        found.push((path, change));
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

/// Gives each file its part of a patch, by the header. A file whose type changed has two parts: git
/// removes the one and adds the other.
fn add_patches<'f>(
    files: impl Iterator<Item = (&'f [u8], &'f mut FileDiff)>,
    patch: &[u8],
    shown_bytes: usize,
) {
    let text = String::from_utf8_lossy(patch);
    let text = text.strip_prefix("diff --git ").unwrap_or_default();
    let mut parts = text.split("\ndiff --git ").peekable();
    let mut total_bytes = shown_bytes;
    for (path, file) in files {
        let header = header(path);
        let is_of_file = |part: &&str| part.lines().next() == Some(&header);
        let mut hunks = String::new();
        while let Some(part) = parts.next_if(is_of_file) {
            if let Some(at) = part.find("\n@@") {
                hunks.push_str(&part[at + 1..]);
                if !hunks.ends_with('\n') {
                    hunks.push('\n');
                }
            }
        }
        if hunks.is_empty() || hunks.len() > MAX_PATCH_BYTES || total_bytes + hunks.len() > MAX_TOTAL_BYTES {
            continue;
        }
        total_bytes += hunks.len();
        file.patch = Some(hunks);
    }
}

/// Returns the names in the header of a patch, quoted as git quotes them.
fn header(path: &[u8]) -> String {
    let is_plain = |byte: &u8| (b' '..0x7f).contains(byte) && !matches!(byte, b'"' | b'\\');
    let quote = if path.iter().all(is_plain) { "" } else { "\"" };
    let mut name = String::new();
    for byte in path {
        match byte {
            7..=13 => name.extend(['\\', char::from(b"abtnvfr"[usize::from(byte - 7)])]),
            b'"' | b'\\' => name.extend(['\\', char::from(*byte)]),
            byte if is_plain(byte) => name.push(char::from(*byte)),
            byte => name.push_str(&format!("\\{byte:03o}")),
        }
    }
    format!("{quote}a/{name}{quote} {quote}b/{name}{quote}")
}
