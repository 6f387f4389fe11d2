//! `list_dir`: the entries of one directory.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::path_schema;
use crate::tools::tool::ReadOnly;
use crate::tools::{Tool, ToolContext, ToolError};

/// The maximum number of entries shown.
const MAX_ENTRIES: usize = 500;

#[derive(Debug, Deserialize)]
pub(crate) struct ListDir {
    #[serde(default = "here")]
    pub(crate) path: PathBuf,
}

fn here() -> PathBuf {
    PathBuf::from(".")
}

impl Tool for ListDir {
    const NAME: &'static str = "list_dir";
    const ALIASES: &'static [&'static str] = &["ls", "list", "list_directory", "list_files"];
    const DESCRIPTION: &'static str = "List a directory; directories end with a slash.";
    type Kind = ReadOnly;
    const ARGUMENTS: &'static [(&'static str, &'static str)] =
        &[("dir", "path"), ("directory", "path"), ("dir_path", "path")];
    const PATHS: &'static [&'static str] = &["path"];

    fn properties() -> Value {
        json!({"path": path_schema()})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<String, ToolError> {
        let io = |source: std::io::Error| {
            ToolError::Failed(format!("cannot list {}: {source}", self.path.display()))
        };
        let handle = context.root.place_to_show(&self.path)?.directory(&self.path)?;
        let mut entries = Vec::new();
        for entry in nix::dir::Dir::from_fd(handle)
            .map_err(|errno| io(errno.into()))?
            .into_iter()
        {
            let entry = entry.map_err(|errno| io(errno.into()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "." || name == ".." {
                continue;
            }
            let mark = match entry.file_type() {
                Some(nix::dir::Type::Directory) => "/",
                Some(nix::dir::Type::Symlink) => "@",
                Some(nix::dir::Type::Fifo) => "|",
                Some(nix::dir::Type::Socket) => "=",
                _ => "",
            };
            entries.push(format!("{name}{mark}"));
        }
        entries.sort_unstable();
        let total = entries.len();
        if total == 0 {
            entries.push("[empty]".to_owned());
        }
        if total > MAX_ENTRIES {
            entries.truncate(MAX_ENTRIES);
            entries.push(format!(
                "[{MAX_ENTRIES} of {total} entries; glob_files with a pattern finds the others]"
            ));
        }
        Ok(entries.join("\n") + "\n")
    }
}
