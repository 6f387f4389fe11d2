//! The files of a package, as a prefix: `bin`, `share`. It fits below /usr and below ~/.local.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Release, Target, copy};
use crate::repo::{self, Context as _, TaskResult};

/// The files of this repository that the offline example needs.
const EXAMPLE: [&str; 2] = ["workflow.example.yml", "examples"];

/// The pages that describe the program for those who have only the package.
const DOCUMENTS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Creates the tree of a target and returns its folder.
pub fn tree(release: &Release, target: Target, program: &Path) -> TaskResult<PathBuf> {
    let tree = release.empty_folder(&format!("{}/tree", target.names().triple))?;
    let installed = tree.join("bin/vik");
    copy(program, &installed)?;
    std::fs::set_permissions(&installed, PermissionsExt::from_mode(0o755))
        .context(format!("cannot set the mode of {}", installed.display()))?;
    for name in DOCUMENTS {
        copy(&repo::root().join(name), &tree.join("share/doc/vik").join(name))?;
    }
    example(&tree.join("share/vik/example"))?;
    generated(&tree)?;
    set_modes(&tree)?;
    Ok(tree)
}

/// Copies the files of the offline example to a folder.
pub fn example(folder: &Path) -> TaskResult {
    for path in repo::files()? {
        if EXAMPLE.iter().any(|name| path.starts_with(name)) {
            copy(&repo::root().join(&path), &folder.join(&path))?;
        }
    }
    Ok(())
}

/// Writes completions and manual pages. A program of this machine prints them, because that of
/// another processor does not run here.
fn generated(tree: &Path) -> TaskResult {
    repo::run(repo::cargo().args(["build", "--quiet", "--package", "vik", "--bin", "vik"]))?;
    let vik = repo::target().join("debug/vik");
    let completions = [
        ("bash", "share/bash-completion/completions/vik"),
        ("zsh", "share/zsh/site-functions/_vik"),
        ("fish", "share/fish/vendor_completions.d/vik.fish"),
    ];
    for (shell, path) in completions {
        let mut print = repo::program(&vik.to_string_lossy());
        repo::write(
            &tree.join(path),
            &repo::output(print.args(["completions", shell]))?,
        )?;
    }
    let pages = tree.join("share/man/man1");
    let folder = |error| format!("cannot create {}: {error}", pages.display());
    std::fs::create_dir_all(&pages).map_err(folder)?;
    let mut print = repo::program(&vik.to_string_lossy());
    repo::output(print.args(["man", "--dir"]).arg(&pages)).map(|_| ())
}

/// Gives all files modes that do not depend on the umask and the clone.
fn set_modes(folder: &Path) -> TaskResult {
    let failed = |error| format!("cannot set modes below {}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let mode = std::fs::metadata(&path).map_err(failed)?.permissions().mode();
        let is_executable = path.is_dir() || mode & 0o111 != 0;
        let mode = if is_executable { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).map_err(failed)?;
        if path.is_dir() {
            set_modes(&path)?;
        }
    }
    Ok(())
}
