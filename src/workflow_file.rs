//! Reading a workflow file from disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vik_core::workflow::{Loaded, Workflow, load, render};

use crate::report::{Exit, Failure};

/// A workflow file that was read; its workflow may be missing where it has errors.
#[derive(Debug)]
pub struct WorkflowFile {
    /// Absolute.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// What came of it.
    pub loaded: Loaded,
}

impl WorkflowFile {
    /// Reads the file and collects all its diagnostics.
    ///
    /// # Errors
    /// When the file cannot be read (exit 3).
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let path = absolute(path);
        let text = std::fs::read(&path).map_err(|error| {
            let failure =
                Failure::new(Exit::Workflow, "workflow_unreadable", format!("cannot read {}", path.display()))
                    .because(&error);
            if error.kind() == std::io::ErrorKind::NotFound {
                failure.hint("make one with `vik init`, or name it with --workflow FILE")
            } else {
                failure
            }
        })?;
        let text = String::from_utf8(text).map_err(|error| {
            Failure::new(Exit::Workflow, "workflow_unreadable", format!("{} is not UTF-8", path.display()))
                .because(&error)
        })?;
        let loaded = load(&text);
        Ok(Self { path, text, loaded })
    }

    /// Reads a workflow to run. Warnings go to the given sink, as text for people.
    ///
    /// # Errors
    /// With all its diagnostics when it is not valid (exit 3).
    pub fn valid(path: &Path, warn: impl FnOnce(&str)) -> Result<(PathBuf, Arc<Workflow>), Failure> {
        let file = Self::read(path)?;
        let text = file.diagnostics(crate::cli::colored(&std::io::stderr()));
        match file.loaded.workflow {
            Some(workflow) => {
                if !text.is_empty() {
                    warn(&text);
                }
                Ok((file.path, Arc::new(workflow)))
            }
            None => {
                let count = file.loaded.diagnostics.len();
                let heading = format!("{} is not valid ({count} findings)", file.path.display());
                Err(Failure::new(Exit::Workflow, "workflow_invalid", heading)
                    .rendered(text)
                    .hint("`vik doctor` checks it without running anything of it with --offline"))
            }
        }
    }

    /// All diagnostics as text for people.
    pub fn diagnostics(&self, color: bool) -> String {
        render(&self.loaded.diagnostics, &self.path.to_string_lossy(), &self.text, color)
    }
}

/// The absolute path of a workflow file that may be missing.
pub fn absolute(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (absolute.parent().map(std::fs::canonicalize), absolute.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => absolute,
    }
}
