//! `git_commit`: commits the named paths, all changes, or the staged ones.
//!
//! Nothing that the repository configures is run: no hooks, no filters, no signing. To use them,
//! `git commit` can be run with run_command, inside the sandbox of commands. A file that requires a
//! filter is refused, since without the filter the wrong content would be committed.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::run::Git;
use super::{NAMES, paths_schema, pathspecs, strings};
use crate::tools::output::RunOutcome;
use crate::tools::tool::Execute;
use crate::tools::{Tool, ToolContext, ToolError};

/// The maximum length of the message, in bytes.
const MAX_MESSAGE_BYTES: usize = 32 * 1024;
/// The maximum size of a file that is searched for conflict markers, in bytes.
const MAX_CONFLICT_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Debug, Deserialize)]
pub(crate) struct GitCommit {
    message: String,
    #[serde(default)]
    paths: Vec<PathBuf>,
    #[serde(default)]
    all: bool,
}

impl Tool for GitCommit {
    const NAME: &'static str = "git_commit";
    const DESCRIPTION: &'static str =
        "Commit paths, or all changes, or else what is staged. Hooks do not run.";
    type Kind = Execute;
    const REQUIRED: &'static [&'static str] = &["message"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = NAMES;
    const PATHS: &'static [&'static str] = &["paths"];

    fn properties() -> Value {
        json!({"message": {"type": "string"}, "paths": paths_schema(), "all": {"type": "boolean"}})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<RunOutcome, ToolError> {
        let message = self.message.trim();
        if message.is_empty() || message.contains('\0') || message.len() > MAX_MESSAGE_BYTES {
            return Err(ToolError::Failed(
                "nothing was committed: a message is needed, of at most 32 KiB".to_owned(),
            ));
        }
        let git = Git::new(context)?;
        let pathspecs = pathspecs(context, &self.paths)?;
        identity(&git)?;
        unfiltered(&git, &pathspecs)?;
        let merging = git.run(&["rev-parse", "--quiet", "--verify", "MERGE_HEAD"])?.ok;
        no_markers(&git, context)?;
        if self.all || !pathspecs.is_empty() {
            let mut add = strings(&["add", "--all"]);
            add.extend(pathspecs.iter().cloned());
            git.run(&add)?.text()?;
        }
        if !merging && git.run(&["diff", "--cached", "--quiet", "--no-ext-diff"])?.ok {
            return Err(ToolError::Failed(match self.all || !pathspecs.is_empty() {
                true => "nothing was committed: nothing changed there".to_owned(),
                false => "nothing was committed: nothing is staged; give paths, or set all".to_owned(),
            }));
        }
        let mut commit = strings(&[
            "commit",
            "--quiet",
            "--no-verify",
            "--no-gpg-sign",
            "--cleanup=whitespace",
            "--file=-",
        ]);
        // git commits a merge only as a whole.
        if !merging {
            commit.extend(pathspecs);
        }
        git.run_with(&commit, format!("{message}\n").into_bytes())?
            .text()?;
        let text = git
            .run(&[
                "show",
                "--no-ext-diff",
                "--no-textconv",
                "--stat",
                "--format=committed %h on %D%n%s%n",
                "HEAD",
                "--",
            ])?
            .text()?;
        Ok(RunOutcome {
            text,
            command: format!("git commit -m {:?}", message.lines().next().unwrap_or_default()),
            exit_code: Some(0),
            is_error: false,
        })
    }
}

/// Otherwise git would derive an author from the name of the machine.
fn identity(git: &Git<'_>) -> Result<(), ToolError> {
    for name in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
        if !git.run(&["-c", "user.useConfigOnly=true", "var", name])?.ok {
            return Err(ToolError::Failed(
                "nothing was committed: git knows no author; `git config user.name NAME` and `git config user.email \
                 MAIL` tell it, if the task says who it is"
                    .to_owned(),
            ));
        }
    }
    Ok(())
}

/// Refuses files that require a filter, such as large files that are stored elsewhere.
fn unfiltered(git: &Git<'_>, pathspecs: &[String]) -> Result<(), ToolError> {
    if git.filters().is_empty() {
        return Ok(());
    }
    let mut list = strings(&["ls-files", "-z", "--modified", "--others", "--exclude-standard"]);
    list.extend(pathspecs.iter().cloned());
    let files = git.run(&list)?.text()?;
    if files.is_empty() {
        return Ok(());
    }
    let shown = git
        .run_with(&["check-attr", "-z", "--stdin", "filter"], files.into_bytes())?
        .text()?;
    let mut fields = shown.split('\0');
    while let (Some(path), Some(_), Some(filter)) = (fields.next(), fields.next(), fields.next()) {
        if git.filters().iter().any(|known| known == filter) {
            return Err(ToolError::Failed(format!(
                "nothing was committed: {path} passes through the filter {filter:?}, which is not run here; commit \
                 with run_command"
            )));
        }
    }
    Ok(())
}

/// Refuses a merge with conflict markers in its files.
fn no_markers(git: &Git<'_>, context: &ToolContext<'_>) -> Result<(), ToolError> {
    let unmerged = git
        .run(&[
            "diff",
            "--name-only",
            "--relative",
            "--diff-filter=U",
            "-z",
            "--no-ext-diff",
        ])?
        .text()?;
    let marked: Vec<&str> = unmerged
        .split('\0')
        .filter(|path| !path.is_empty() && marked(context, path.as_ref()))
        .collect();
    if marked.is_empty() {
        return Ok(());
    }
    Err(ToolError::Failed(format!(
        "nothing was committed: conflict markers still stand in {}",
        marked.join(", ")
    )))
}

fn marked(context: &ToolContext<'_>, path: &std::path::Path) -> bool {
    use std::io::Read;
    let Ok(file) = context
        .root
        .place_to_read(path)
        .and_then(|place| place.read(path))
    else {
        return false;
    };
    let mut bytes = Vec::new();
    let _ = file.take(MAX_CONFLICT_BYTES).read_to_end(&mut bytes);
    let mut lines = bytes.split(|byte| *byte == b'\n');
    lines.any(|line| line.starts_with(b"<<<<<<< ") || line.starts_with(b">>>>>>> "))
}
