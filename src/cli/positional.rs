//! The workflow file as a positional argument.

use std::path::{Path, PathBuf};

use clap::Args;

/// The workflow file as a positional argument.
#[derive(Debug, Args)]
pub struct Positional {
    /// Path to the workflow file (same as --workflow)
    #[arg(value_name = "WORKFLOW")]
    positional: Option<PathBuf>,
}

impl Positional {
    /// Returns the positional workflow, or else the given one.
    pub fn or<'a>(&'a self, workflow: &'a Path) -> &'a Path {
        self.positional.as_deref().unwrap_or(workflow)
    }
}
