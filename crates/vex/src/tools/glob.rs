//! `glob_files`: the files whose paths match a pattern.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::tool::ReadOnly;
use super::walk::{Pattern, Walk};
use super::{Tool, ToolContext, ToolError};

/// The maximum number of paths shown.
const MAX_SHOWN: usize = 200;
/// The maximum number of files counted.
const MAX_COUNTED: usize = 20_000;

#[derive(Debug, Deserialize)]
pub(crate) struct GlobFiles {
    pattern: String,
    path: Option<PathBuf>,
    #[serde(default)]
    all: bool,
}

impl Tool for GlobFiles {
    const NAME: &'static str = "glob_files";
    const ALIASES: &'static [&'static str] = &["glob", "find_files", "find", "file_search"];
    const DESCRIPTION: &'static str = "List files by a glob such as *.rs or src/**/test_*.py; ignored and hidden ones \
                                       only with all.";
    type Kind = ReadOnly;
    const REQUIRED: &'static [&'static str] = &["pattern"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("glob", "pattern"),
        ("query", "pattern"),
        ("dir", "path"),
        ("directory", "path"),
    ];
    const PATHS: &'static [&'static str] = &["path"];

    fn properties() -> Value {
        json!({"pattern": {"type": "string"}, "path": {"type": "string"}, "all": {"type": "boolean"}})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<String, ToolError> {
        let walk = Walk {
            path: self.path.unwrap_or_else(|| PathBuf::from(".")),
            glob: Some(Pattern::new(&self.pattern)?),
            all: self.all,
            only: Vec::new(),
        };
        let mut text = String::new();
        let mut count = 0;
        walk.files(context, |found| {
            count += 1;
            if count <= MAX_SHOWN {
                text.push_str(&found.shown);
                text.push('\n');
            }
            Ok(count < MAX_COUNTED)
        })?;
        if count == 0 {
            text.push_str("[no file fits; ignored and hidden files are only seen with all]\n");
        } else if count > MAX_SHOWN {
            let least = if count == MAX_COUNTED { "at least " } else { "" };
            text.push_str(&format!(
                "[{MAX_SHOWN} of {least}{count} files; narrow the pattern]\n"
            ));
        }
        Ok(text)
    }
}
