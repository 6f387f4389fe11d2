//! Finds the places outside of a folder that work in this folder needs.

use std::path::{Path, PathBuf};

use crate::untrusted;

/// Shared devices that programs write to. Terminals are not included: their folder also contains
/// the user's terminals, and a process that opens one can read what is typed there.
pub const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/shm",
];

/// Returns the folders that git writes to during a commit in this folder, if they are not below it.
/// If a folder above it is the repository, that is its whole `.git` folder; otherwise the result is
/// that of [`repository_in`].
pub fn repository_of(root: &Path) -> Vec<PathBuf> {
    let ceiling = std::env::var_os("GIT_CEILING_DIRECTORIES").unwrap_or_default();
    let ceilings: Vec<PathBuf> = std::env::split_paths(&ceiling).collect();
    let git = root
        .ancestors()
        .take_while(|folder| !ceilings.iter().any(|ceiling| ceiling == folder))
        .map(|folder| folder.join(".git"))
        .find(|git| git.symlink_metadata().is_ok());
    match git {
        Some(git) if git.parent() != Some(root) && kind(&git).is_some_and(|kind| kind.is_dir()) => vec![git],
        Some(git) => linked(&git).unwrap_or_default(),
        None => Vec::new(),
    }
}

/// Returns the folders that git writes to during a commit in this folder, if it is a linked work
/// tree. These are the necessary parts of the main repository, but neither its settings nor its
/// hooks, which run outside of the sandbox. A repository above the folder is not considered.
///
/// A folder's own claim is not trusted: its repository must know the linked work tree.
pub fn repository_in(root: &Path) -> Vec<PathBuf> {
    linked(&root.join(".git")).unwrap_or_default()
}

fn kind(path: &Path) -> Option<std::fs::FileType> {
    path.symlink_metadata().ok().map(|facts| facts.file_type())
}

/// The most bytes that are read of a file that links a work tree with its repository.
const MAX_LINK_BYTES: u64 = 64 * 1024;

/// Returns the folders of the repository that a `.git` file names. An agent may have written the
/// file, so reading it has a time limit.
fn linked(git: &Path) -> Option<Vec<PathBuf>> {
    let git = git.to_owned();
    let found = untrusted::within(untrusted::READ_TIMEOUT, move || Ok(linked_now(&git)));
    found.ok().flatten()
}

fn linked_now(git: &Path) -> Option<Vec<PathBuf>> {
    let read = |path: &Path| String::from_utf8(untrusted::read(path, MAX_LINK_BYTES).ok()?).ok();
    let text = read(git)?;
    let named = Path::new(text.strip_prefix("gitdir:")?.trim());
    let own = git.parent()?.join(named).canonicalize().ok()?;
    let back = read(&own.join("gitdir"))?;
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
    fn linked_work_tree_can_commit_and_forged_one_gets_nothing() {
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
        assert_eq!(repository_in(&dir.join("main/sub")), none);
        let parts = ["objects", "refs", "logs", "worktrees/linked"];
        let parts = parts.map(|part| dir.join("main/.git").join(part));
        assert_eq!(repository_of(&dir.join("linked")), parts);
        assert_eq!(repository_in(&dir.join("linked")), parts);
        assert_eq!(repository_of(&dir.join("forged")), none);
        // A file that names the metadata of another work tree is refused.
        std::fs::write(
            dir.join("forged/.git"),
            format!("gitdir: {}\n", dir.join("main/.git/worktrees/linked").display()),
        )
        .unwrap();
        assert_eq!(repository_of(&dir.join("forged")), none);
    }

    #[test]
    fn repository_search_never_waits_for_a_hostile_link() {
        use std::os::unix::fs::symlink;

        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let none: [PathBuf; 0] = [];
        std::fs::create_dir_all(dir.join("work/trap")).unwrap();
        let (git, back) = (dir.join("work/.git"), dir.join("work/trap/gitdir"));
        let kinds: [fn(&Path); 4] = [
            |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            |path| symlink("/dev/zero", path).unwrap(),
            |path| std::fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
            |path| symlink(path, path).unwrap(),
        ];
        let started = std::time::Instant::now();
        for make in kinds {
            std::fs::write(&git, "gitdir: trap").unwrap();
            make(&back);
            assert_eq!(repository_in(&dir.join("work")), none);
            std::fs::remove_file(&git).unwrap();
            make(&git);
            assert_eq!(repository_in(&dir.join("work")), none);
            assert_eq!(repository_of(&dir.join("work")), none);
            std::fs::remove_file(&git).unwrap();
            std::fs::remove_file(&back).unwrap();
        }
        // No read ran into the time limit.
        assert!(started.elapsed() < untrusted::READ_TIMEOUT);
    }
}
