//! What a workspace has that the commit it began with does not.

use std::collections::BTreeMap;
use std::path::Path;

use vik_api::{DiffView, FileChange, FileDiff, SCHEMA};
use vik_proc::Supervisor;

use super::clean::{Blind, View};

/// So many files are shown.
const MOST_FILES: usize = 500;

/// A longer patch of a file is not shown.
const MOST_PATCH: usize = 256 * 1024;

/// So much of all patches is shown.
const MOST_ALL: usize = 4 * 1024 * 1024;

/// Looks at a workspace. `scratch` is a folder of Vik's for the time of the look.
///
/// It is compared with the last commit that a remote branch has too; where no remote is known, with its own last commit.
pub async fn diff(supervisor: &Supervisor, workspace: &Path, scratch: &Path) -> DiffView {
    let view = match View::make(workspace, scratch) {
        Ok(Some(view)) => view,
        Ok(None) => return none("the workspace is empty"),
        Err(Blind::NoRepository) => return none("the workspace is no git work tree"),
        Err(Blind::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return none("there is no workspace any more");
        }
        Err(Blind::Io(error)) => return none(&format!("the workspace cannot be looked at: {error}")),
    };
    let found = collect(supervisor, &view).await;
    view.remove();
    found.unwrap_or_else(|why| none(&why))
}

fn none(why: &str) -> DiffView {
    DiffView {
        schema: SCHEMA,
        base: None,
        files: Vec::new(),
        files_left_out: 0,
        note: Some(why.to_owned()),
    }
}

async fn collect(supervisor: &Supervisor, view: &View) -> Result<DiffView, String> {
    let (base, note) = base(supervisor, view).await?;
    // New files are told to an index of our own, so that they are part of the diff.
    let view = view.with_own_index().map_err(|error| error.to_string())?;
    view.git(
        supervisor,
        &["add", "--intent-to-add", "--ignore-errors", "--", "."],
    )
    .await?;
    let compare = |format: &'static [&'static str]| {
        let mut words = vec![
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--no-renames",
            "--ignore-submodules=all",
        ];
        words.extend(format);
        words
    };
    let mut names = compare(&["--name-status", "-z"]);
    names.extend([base.as_str(), "--"]);
    let names = view.git(supervisor, &names).await?;
    let mut counts = compare(&["--numstat", "-z"]);
    counts.extend([base.as_str(), "--"]);
    let counts = numstat(&view.git(supervisor, &counts).await?);
    let changes = changes(&names);
    let files_left_out = changes.len().saturating_sub(MOST_FILES);
    let mut files: Vec<FileDiff> = changes
        .into_iter()
        .take(MOST_FILES)
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
    let mut words = compare(&["--patch", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/"]);
    words.extend([base.as_str(), "--"]);
    match view.git(supervisor, &words).await {
        Ok(patch) => add_patches(&mut files, &patch),
        // The list of files stands all the same.
        Err(why) => tracing::debug!(why, "no patches are shown"),
    }
    Ok(DiffView {
        schema: SCHEMA,
        base: Some(base),
        files,
        files_left_out,
        note,
    })
}

/// The commit to compare with, and what is to be said about it.
async fn base(supervisor: &Supervisor, view: &View) -> Result<(String, Option<String>), String> {
    let first_line = |bytes: Vec<u8>| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.lines()
            .next()
            .map(str::to_owned)
            .filter(|line| !line.is_empty())
    };
    // The oldest own commit's parent, or HEAD itself where there is no own commit.
    let own = [
        "rev-list",
        "--topo-order",
        "--reverse",
        "HEAD",
        "--not",
        "--remotes",
    ];
    let head = view.git(supervisor, &["rev-parse", "--verify", "HEAD"]).await;
    let Some(head) = head.ok().and_then(first_line) else {
        return Err("the repository has no commit yet".to_owned());
    };
    let remotes = view
        .git(
            supervisor,
            &[
                "for-each-ref",
                "--count=1",
                "--format=%(objectname)",
                "refs/remotes",
            ],
        )
        .await?;
    if remotes.is_empty() {
        let note = "compared with the last commit: no remote branch tells where it began".to_owned();
        return Ok((head, Some(note)));
    }
    let Some(oldest) = first_line(view.git(supervisor, &own).await?) else {
        return Ok((head, None));
    };
    let parent = format!("{oldest}^");
    match view
        .git(supervisor, &["rev-parse", "--verify", "--quiet", &parent])
        .await
        .ok()
        .and_then(first_line)
    {
        Some(parent) => Ok((parent, None)),
        None => Ok((head, Some("compared with the last commit".to_owned()))),
    }
}

/// `M\0path\0A\0path\0…`
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

/// `3\t1\tpath\0-\t-\tbinary\0…`
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

/// Gives each file its part of a patch. The parts come in the order of the list; a file whose part is not found where it
/// is due, such as a binary one, gets none.
fn add_patches(files: &mut [FileDiff], patch: &[u8]) {
    let text = String::from_utf8_lossy(patch);
    let mut parts = text.split("\ndiff --git ");
    let mut all = 0;
    for file in files {
        let Some(part) = parts.next() else { return };
        let Some(at) = part.find("\n@@") else { continue };
        let mut hunks = part[at + 1..].to_owned();
        if !hunks.ends_with('\n') {
            hunks.push('\n');
        }
        if hunks.len() > MOST_PATCH || all + hunks.len() > MOST_ALL {
            continue;
        }
        all += hunks.len();
        file.patch = Some(hunks);
    }
}
