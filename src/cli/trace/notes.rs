//! `vik trace export --format notes`: adds records as git notes to a repository that the user
//! names.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use vik_base::report::{ErrorCode, Exit, Failure, count};
use vik_session::provenance::Line;

use crate::cli::{CliResult, print};

/// The ref of the notes, under `refs/notes/`.
const REF: &str = "agent-trace";

/// Adds the records to the commits that their agents left checked out.
pub fn run(root: &Path, lines: &[Line], repo: &Path) -> CliResult {
    let repo = repo.canonicalize().map_err(|error| {
        Failure::failed(
            ErrorCode::Usage,
            format!("cannot find the repository {}", repo.display()),
            &error,
        )
    })?;
    let issues = root.join("issues");
    if repo.starts_with(issues.canonicalize().unwrap_or(issues)) {
        let heading = "cannot write notes to the workspace of an issue: git could run code of an agent there";
        return Err(Failure::new(Exit::Usage, ErrorCode::Usage, heading).hint("specify another repository"));
    }
    let mut by_commit: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    let mut without = 0;
    for line in lines {
        match &line.record.vcs {
            Some(vcs) => by_commit.entry(&vcs.revision).or_default().push(line),
            None => without += 1,
        }
    }
    let (mut written, mut missing) = (0, 0);
    for (commit, lines) in by_commit {
        if git(&repo, &["cat-file", "-e", &format!("{commit}^{{commit}}")], None).is_err() {
            missing += lines.len() as u64;
            continue;
        }
        // A commit without a note gets a new one.
        let mut note = git(&repo, &["notes", "--ref", REF, "show", commit], None).unwrap_or_default();
        let before = note.len();
        for line in &lines {
            let text = String::from_utf8_lossy(&line.text);
            let text = vik_mask::mask_json(&text);
            let is_present = note
                .split(|byte| *byte == b'\n')
                .any(|known| known == text.as_bytes());
            if !is_present {
                note.extend_from_slice(text.as_bytes());
                note.push(b'\n');
            }
        }
        written += lines.len() as u64;
        if note.len() > before {
            git(
                &repo,
                &["notes", "--ref", REF, "add", "--force", "--file=-", commit],
                Some(&note),
            )
            .map_err(|message| {
                Failure::new(Exit::Failed, ErrorCode::Git, "cannot write a note").cause(message)
            })?;
        }
    }
    print(&format!(
        "{} written to refs/notes/{REF}\n",
        count(written, "record")
    ));
    if missing > 0 {
        print(&format!(
            "{} skipped: commit not found in the repository\n",
            count(missing, "record")
        ));
    }
    if without > 0 {
        print(&format!(
            "{} skipped: the agent made no commit\n",
            count(without, "record")
        ));
    }
    Ok(Exit::Done)
}

/// Runs git in the user's own repository. Returns its stderr output as the error.
fn git(repo: &Path, args: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, String> {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(repo)
        .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"])
        .args(args)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .env("GIT_NO_LAZY_FETCH", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot run git: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If git does not read its input, its exit status gives the reason.
        let _ = stdin.write_all(input.unwrap_or_default());
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
