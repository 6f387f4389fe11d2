//! `git_status`, `git_diff`, `git_log`, `git_show`: read-only views of the repository.
//!
//! An argument of the model is a revision or a path and never an option: revisions follow
//! `--end-of-options`, paths follow `--`, and both are validated first.

mod commit;
mod run;

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) use commit::GitCommit;
use run::Git;

use super::tool::ReadOnly;
use super::{Tool, ToolContext, ToolError};

/// How much of a patch is shown, in bytes; a longer one is preceded by a summary.
const MAX_PATCH_BYTES: usize = 20 * 1024;
/// The default number of listed commits.
const LOG_LENGTH: usize = 20;
/// The maximum number of listed commits.
const MAX_LOG_LENGTH: usize = 200;
/// The maximum number of status entries shown.
const MAX_STATUS: usize = 200;
/// Options that keep a diff from running programs of the repository.
const PLAIN: [&str; 5] = [
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--ignore-submodules=dirty",
    "--submodule=short",
];
/// Other names of these arguments that models use.
const NAMES: &[(&str, &str)] = &[
    ("path", "paths"),
    ("file", "paths"),
    ("file_path", "paths"),
    ("files", "paths"),
    ("revision", "ref"),
    ("rev", "ref"),
    ("commit", "ref"),
    ("range", "ref"),
    ("branch", "ref"),
    ("cached", "staged"),
    ("max_count", "limit"),
    ("count", "limit"),
];

fn paths_schema() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

/// Validates a revision or a range of revisions.
fn revision(text: &str) -> Result<&str, ToolError> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('-') || text.contains(|c: char| c.is_control()) {
        return Err(ToolError::Failed(format!("{text:?} is no revision")));
    }
    Ok(text)
}

/// Returns the pathspecs after `--`, each of them inside the workspace.
fn pathspecs(context: &ToolContext<'_>, paths: &[PathBuf]) -> Result<Vec<String>, ToolError> {
    let mut args = Vec::new();
    if !paths.is_empty() {
        args.push("--".to_owned());
    }
    for path in paths {
        context.root.resolve(path)?;
        args.push(context.root.path().join(path).display().to_string());
    }
    Ok(args)
}

/// Returns a patch, preceded by a summary if it is long.
fn patch(git: &Git<'_>, args: &[String]) -> Result<String, ToolError> {
    let text = git.run(args)?.text()?;
    if text.len() <= MAX_PATCH_BYTES {
        return Ok(text);
    }
    let mut summary = args.to_vec();
    summary.insert(1, "--stat".to_owned());
    let cut = text.floor_char_boundary(MAX_PATCH_BYTES / 2);
    let cut = text[..cut].rfind('\n').map_or(cut, |at| at + 1);
    Ok(format!(
        "{}\n{}[… {} bytes more; give paths to see less at once]\n",
        git.run(&summary)?.text()?,
        &text[..cut],
        text.len() - cut
    ))
}

fn strings(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

#[derive(Debug, Deserialize)]
pub(crate) struct GitStatus {}

impl Tool for GitStatus {
    const NAME: &'static str = "git_status";
    const DESCRIPTION: &'static str = "Branch, changed, staged, untracked and conflicting files.";
    type Kind = ReadOnly;

    fn properties() -> Value {
        json!({})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<String, ToolError> {
        let git = Git::new(context)?;
        let text = git
            .run(&[
                "status",
                "--porcelain=v1",
                "--branch",
                "-z",
                "--untracked-files=normal",
                "--ignore-submodules=dirty",
            ])?
            .text()?;
        Ok(status(&text))
    }
}

/// Formats the entries of `status -z`, one per line, and describes the conflicts.
fn status(text: &str) -> String {
    let mut out = String::new();
    let mut conflicts = Vec::new();
    let mut count = 0;
    let mut entries = text.split('\0').filter(|entry| !entry.is_empty());
    while let Some(entry) = entries.next() {
        if let Some(branch) = entry.strip_prefix("## ") {
            out.push_str(&format!("on {branch}\n"));
            continue;
        }
        let (Some(code), Some(path)) = (entry.get(..2), entry.get(3..)) else {
            continue;
        };
        let from = if code.contains(['R', 'C']) {
            entries.next()
        } else {
            None
        };
        count += 1;
        if code.contains('U') || matches!(code, "AA" | "DD") {
            conflicts.push(path);
        }
        if count > MAX_STATUS {
            continue;
        }
        match from {
            Some(from) => out.push_str(&format!("{code} {from} -> {path}\n")),
            None => out.push_str(&format!("{code} {path}\n")),
        }
    }
    match count {
        0 => out.push_str("[nothing changed]\n"),
        1..=MAX_STATUS => {}
        _ => out.push_str(&format!("[{MAX_STATUS} of {count} entries]\n")),
    }
    if !conflicts.is_empty() {
        out.push_str(&format!(
            "[conflicts in {}: take out the markers, then git_commit]\n",
            conflicts.join(", ")
        ));
    }
    out
}

#[derive(Debug, Deserialize)]
pub(crate) struct GitDiff {
    #[serde(default, rename = "ref")]
    revision: Option<String>,
    #[serde(default)]
    staged: bool,
    #[serde(default)]
    paths: Vec<PathBuf>,
}

impl Tool for GitDiff {
    const NAME: &'static str = "git_diff";
    const DESCRIPTION: &'static str =
        "Changes of tracked files: unstaged, staged, or against a ref or range (a..b).";
    type Kind = ReadOnly;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = NAMES;
    const PATHS: &'static [&'static str] = &["paths"];

    fn properties() -> Value {
        json!({"ref": {"type": "string"}, "staged": {"type": "boolean"}, "paths": paths_schema()})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<String, ToolError> {
        let git = Git::new(context)?;
        // Outside of a repository `git diff` would compare any two files.
        git.run(&["rev-parse", "--is-inside-work-tree"])?.text()?;
        let mut args = strings(&["diff"]);
        args.extend(strings(&PLAIN));
        if self.staged {
            args.push("--cached".to_owned());
        }
        args.push("--end-of-options".to_owned());
        if let Some(given) = &self.revision {
            args.push(revision(given)?.to_owned());
        }
        let pathspecs = pathspecs(context, &self.paths)?;
        if pathspecs.is_empty() {
            args.push("--".to_owned());
        }
        args.extend(pathspecs);
        let text = patch(&git, &args)?;
        Ok(if text.is_empty() {
            "[no difference; new files that were never added are only in git_status]\n".to_owned()
        } else {
            text
        })
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct GitLog {
    #[serde(default, rename = "ref")]
    revision: Option<String>,
    #[serde(default)]
    paths: Vec<PathBuf>,
    limit: Option<usize>,
}

impl Tool for GitLog {
    const NAME: &'static str = "git_log";
    const DESCRIPTION: &'static str = "Commits, newest first, one in a line.";
    type Kind = ReadOnly;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = NAMES;
    const PATHS: &'static [&'static str] = &["paths"];

    fn properties() -> Value {
        json!({"ref": {"type": "string"}, "paths": paths_schema(),
               "limit": {"type": "integer", "minimum": 1}})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<String, ToolError> {
        let git = Git::new(context)?;
        let limit = self.limit.unwrap_or(LOG_LENGTH).clamp(1, MAX_LOG_LENGTH);
        let mut args = strings(&[
            "log",
            "--no-color",
            "--format=%h %ad %an: %s",
            "--date=short",
            &format!("--max-count={limit}"),
            "--end-of-options",
            revision(self.revision.as_deref().unwrap_or("HEAD"))?,
        ]);
        args.extend(pathspecs(context, &self.paths)?);
        let text = git.run(&args)?.text()?;
        let count = text.lines().count();
        Ok(match count {
            0 => "[no commits]\n".to_owned(),
            _ if count == limit => format!("{text}[the last {limit}; there may be more]\n"),
            _ => text,
        })
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct GitShow {
    #[serde(default, rename = "ref")]
    revision: Option<String>,
    #[serde(default)]
    paths: Vec<PathBuf>,
}

impl Tool for GitShow {
    const NAME: &'static str = "git_show";
    const DESCRIPTION: &'static str = "A commit with its patch, or a file as it was (ref HEAD~1:src/a.rs).";
    type Kind = ReadOnly;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = NAMES;
    const PATHS: &'static [&'static str] = &["paths"];

    fn properties() -> Value {
        json!({"ref": {"type": "string"}, "paths": paths_schema()})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<String, ToolError> {
        let git = Git::new(context)?;
        let given = revision(self.revision.as_deref().unwrap_or("HEAD"))?;
        let mut args = strings(&["show"]);
        args.extend(strings(&PLAIN));
        args.extend(strings(&[
            "--format=commit %H%nauthor %an <%ae>%ndate %aI%n%n%B",
            "--end-of-options",
            given,
        ]));
        args.extend(pathspecs(context, &self.paths)?);
        patch(&git, &args)
    }
}

#[cfg(test)]
mod tests;
