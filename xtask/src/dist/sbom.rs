//! The list of dependencies of a release, read from the program itself.

use std::path::{Path, PathBuf};

use super::{Release, Target, tarball, tools};
use crate::repo::{self, TaskResult};

pub fn write(release: &Release, target: Target, program: &Path) -> TaskResult<PathBuf> {
    let list = tools::auditable2cdx()?;
    let text = repo::output(repo::program(&list.to_string_lossy()).arg(program)).map_err(|error| {
        format!(
            "{error}\n  hint: {} must be built by `cargo auditable`",
            program.display()
        )
    })?;
    let name = tarball::name(release, target.names().triple);
    let path = release.file(&format!("{name}.cdx.json"));
    repo::write(&path, &text)?;
    Ok(path)
}
