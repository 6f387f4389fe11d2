//! What a run did to the repository, as reported by git.
//!
//! The workspace is untrusted: git runs without hooks, fsmonitor, external diffs and text
//! conversion, and only commits are compared, since reading the work tree would run filters.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::events::{Commit, Evidence};

/// The maximum number of listed commits.
const MAX_COMMITS: usize = 100;

/// The state of the repository at the start of the run.
#[derive(Debug)]
pub struct RepositoryBaseline {
    root: PathBuf,
    head: Option<String>,
}

impl RepositoryBaseline {
    /// Records the state of the repository that contains `root`, if there is one.
    pub fn capture(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            head: head(root),
        }
    }

    /// Adds the commits made since, and their files.
    pub fn add_to(&self, evidence: &mut Evidence) {
        let Some(now) = head(&self.root) else { return };
        if self.head.as_ref() == Some(&now) {
            return;
        }
        let range = match &self.head {
            Some(before) => format!("{before}..{now}"),
            None => now,
        };
        let max = format!("--max-count={MAX_COMMITS}");
        let format = "--format=%x01%H%x00%s%x00";
        let args = [
            "log",
            "--reverse",
            &max,
            "--name-only",
            "--relative",
            "--no-ext-diff",
            "--no-textconv",
            "-z",
        ];
        let mut args: Vec<&str> = args.to_vec();
        args.extend([format, "--end-of-options", &range]);
        let log = git(&self.root, &args).unwrap_or_default();
        for entry in log.split('\x01').skip(1) {
            let mut parts = entry.split('\0');
            let (Some(id), Some(subject)) = (parts.next(), parts.next()) else {
                continue;
            };
            evidence.commits.push(Commit {
                id: id.to_owned(),
                subject: subject.to_owned(),
            });
            for path in parts
                .map(|part| part.trim_start_matches('\n'))
                .filter(|part| !part.is_empty())
            {
                if !evidence.files_changed.iter().any(|known| known == path) {
                    evidence.files_changed.push(path.to_owned());
                }
            }
        }
        evidence.files_changed.sort_unstable();
    }
}

fn head(root: &Path) -> Option<String> {
    let head = git(root, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?;
    Some(head.trim().to_owned()).filter(|id| !id.is_empty())
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = crate::git::command(root)
        .args(args)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn sh(dir: &Path, script: &str) {
        let done = Command::new("sh")
            .arg("-ec")
            .arg(script)
            .current_dir(dir)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    #[test]
    fn evidence_lists_commits_and_their_files() {
        let dir = tempfile::tempdir().unwrap();
        sh(
            dir.path(),
            "git init -q; git config user.name n; git config user.email e@e",
        );
        let empty = RepositoryBaseline::capture(dir.path());
        sh(
            dir.path(),
            "echo a >a; mkdir d; echo b >'d/b c'; git add .; git commit -qm first",
        );
        let first = RepositoryBaseline::capture(dir.path());
        sh(
            dir.path(),
            "echo x >a; git commit -qam 'second one'; git commit -q --allow-empty -m third; echo u >u",
        );
        let shown = |before: &RepositoryBaseline| {
            let mut evidence = Evidence::default();
            before.add_to(&mut evidence);
            let subjects: Vec<_> = evidence.commits.iter().map(|c| c.subject.clone()).collect();
            assert!(evidence.commits.iter().all(|c| c.id.len() >= 40));
            format!("{subjects:?} {:?}", evidence.files_changed)
        };
        assert_eq!(
            shown(&empty),
            r#"["first", "second one", "third"] ["a", "d/b c"]"#
        );
        assert_eq!(shown(&first), r#"["second one", "third"] ["a"]"#);
        assert_eq!(shown(&RepositoryBaseline::capture(dir.path())), "[] []");
        let none = tempfile::tempdir().unwrap();
        assert_eq!(shown(&RepositoryBaseline::capture(none.path())), "[] []");
    }
}
