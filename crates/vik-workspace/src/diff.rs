//! The differences between a workspace and the commit that it started from.

use std::collections::BTreeMap;
use std::path::Path;

use vik_api::{DiffView, FileChange, FileDiff, SCHEMA};
use vik_proc::Supervisor;

use super::inspection::{InspectionError, InspectionView};

/// The most files in a diff.
const MAX_FILES: usize = 500;

/// The size limit of the patch of one file. A longer patch is left out.
const MAX_PATCH_BYTES: usize = 256 * 1024;

/// The size limit of all patches together.
const MAX_TOTAL_BYTES: usize = 4 * 1024 * 1024;

/// Compares a workspace with its base. `scratch` is a folder of Vik's for the view, which is
/// removed afterwards.
///
/// The base is the last commit that is also on a remote branch. If there is no remote branch, it is
/// the last commit of the workspace.
pub async fn diff(supervisor: &Supervisor, workspace: &Path, scratch: &Path) -> DiffView {
    let view = match InspectionView::make(workspace, scratch) {
        Ok(Some(view)) => view,
        Ok(None) => return empty_diff("the workspace is empty"),
        Err(InspectionError::NoRepository) => return empty_diff("the workspace is not a git work tree"),
        Err(InspectionError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return empty_diff("the workspace no longer exists");
        }
        Err(InspectionError::Io(error)) => {
            return empty_diff(&format!("cannot read the workspace: {error}"));
        }
    };
    let found = collect(supervisor, view).await;
    found.unwrap_or_else(|why| empty_diff(&why))
}

fn empty_diff(why: &str) -> DiffView {
    DiffView {
        schema: SCHEMA,
        base: None,
        files: Vec::new(),
        files_left_out: 0,
        note: Some(why.to_owned()),
    }
}

async fn collect(supervisor: &Supervisor, view: InspectionView) -> Result<DiffView, String> {
    let (base, note) = base(supervisor, &view).await?;
    // New files are added to an index of Vik's own, so that they are part of the diff.
    let view = view.with_own_index().map_err(|error| error.to_string())?;
    view.git(
        supervisor,
        &["add", "--intent-to-add", "--ignore-errors", "--", "."],
    )
    .await?;
    let compare = |format: &'static [&'static str]| {
        let mut args = vec![
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--no-renames",
            "--ignore-submodules=all",
        ];
        args.extend(format);
        args
    };
    let mut names = compare(&["--name-status", "-z"]);
    names.extend([base.as_str(), "--"]);
    let names = view.git(supervisor, &names).await?;
    let mut counts = compare(&["--numstat", "-z"]);
    counts.extend([base.as_str(), "--"]);
    let counts = numstat(&view.git(supervisor, &counts).await?);
    let changes = changes(&names);
    let files_left_out = changes.len().saturating_sub(MAX_FILES);
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
    let mut args = compare(&["--patch", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/"]);
    args.extend([base.as_str(), "--"]);
    match view.git(supervisor, &args).await {
        Ok(patch) => add_patches(&mut files, &patch),
        // The list of files is complete without them.
        Err(why) => tracing::debug!(why, "patches are not shown"),
    }
    Ok(DiffView {
        schema: SCHEMA,
        base: Some(base),
        files,
        files_left_out,
        note,
    })
}

/// Returns the commit to compare with, and a note about it.
async fn base(supervisor: &Supervisor, view: &InspectionView) -> Result<(String, Option<String>), String> {
    let first_line = |bytes: Vec<u8>| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.lines()
            .next()
            .map(str::to_owned)
            .filter(|line| !line.is_empty())
    };
    // The parent of the oldest commit that is on no remote branch, or `HEAD` if there is none.
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
        return Err("the repository has no commits".to_owned());
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
        let note = "compared with the last commit: no remote branch shows where the work started".to_owned();
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
