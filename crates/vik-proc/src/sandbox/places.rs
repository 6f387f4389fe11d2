//! Places that a sandbox around work in a folder needs beside it.

use std::path::{Path, PathBuf};

/// What programs write to that keeps nothing.
pub const DEVICES: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
];

/// Where git keeps what a commit in this folder writes, where that is not below it. Of the folder of a repository above it
/// all; of the main repository of a linked work tree what a commit needs, but neither its settings nor its hooks, which
/// run elsewhere.
///
/// What a folder says of itself is not believed: a linked work tree must be known to its repository.
pub fn repository_of(root: &Path) -> Vec<PathBuf> {
    let ceiling = std::env::var_os("GIT_CEILING_DIRECTORIES").unwrap_or_default();
    let ceilings: Vec<PathBuf> = std::env::split_paths(&ceiling).collect();
    let git = root
        .ancestors()
        .take_while(|folder| !ceilings.iter().any(|ceiling| ceiling == folder))
        .map(|folder| folder.join(".git"))
        .find(|git| git.symlink_metadata().is_ok());
    let Some(git) = git else { return Vec::new() };
    let kind = git.symlink_metadata().map(|facts| facts.file_type());
    if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) {
        return if git.parent() == Some(root) {
            Vec::new()
        } else {
            vec![git]
        };
    }
    if !kind.is_ok_and(|kind| kind.is_file()) {
        return Vec::new();
    }
    linked(&git).unwrap_or_default()
}

fn linked(git: &Path) -> Option<Vec<PathBuf>> {
    let text = std::fs::read_to_string(git).ok()?;
    let named = Path::new(text.strip_prefix("gitdir:")?.trim());
    let own = git.parent()?.join(named).canonicalize().ok()?;
    let back = std::fs::read_to_string(own.join("gitdir")).ok()?;
    if own.join(back.trim()).canonicalize().ok()? != git.canonicalize().ok()? {
        return None;
    }
    let worktrees = own.parent().filter(|folder| folder.ends_with("worktrees"))?;
    let common = worktrees.parent()?;
    if !common.join("HEAD").is_file() || !common.join("objects").is_dir() {
        return None;
    }
    let mut parts: Vec<PathBuf> = ["objects", "refs", "logs"]
        .iter()
        .map(|part| common.join(part))
        .filter(|part| part.symlink_metadata().is_ok_and(|facts| facts.is_dir()))
        .collect();
    parts.push(own);
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(dir: &Path, line: &str) {
        let done = std::process::Command::new("sh")
            .args(["-ec", line])
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    #[test]
    fn a_linked_work_tree_has_what_a_commit_needs_and_a_forged_one_has_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        git(
            &dir,
            "git init -q main; cd main; git -c user.name=n -c user.email=e commit -q --allow-empty -m x; \
             git worktree add -q ../linked; mkdir sub; mkdir ../victim ../forged ../forged/own; \
             echo \"gitdir: $PWD/../victim\" > ../forged/.git",
        );
        let none: [PathBuf; 0] = [];
        assert_eq!(repository_of(&dir.join("main")), none);
        assert_eq!(repository_of(&dir.join("main/sub")), [dir.join("main/.git")]);
        let parts = ["objects", "refs", "logs", "worktrees/linked"];
        assert_eq!(
            repository_of(&dir.join("linked")),
            parts.map(|part| dir.join("main/.git").join(part))
        );
        assert_eq!(repository_of(&dir.join("forged")), none);
        // Another work tree's name does not help.
        std::fs::write(
            dir.join("forged/.git"),
            format!("gitdir: {}\n", dir.join("main/.git/worktrees/linked").display()),
        )
        .unwrap();
        assert_eq!(repository_of(&dir.join("forged")), none);
    }
}
