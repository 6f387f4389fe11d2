//! `apply_patch`: changes of several files at once, all of them or none.

mod apply;
pub mod parse;
mod stage;

use serde::Deserialize;
use serde_json::{Value, json};

use super::files::{brief, count_of_lines};
use super::subject::Subject;
use super::tool::Write as Writes;
use super::{Tool, ToolContext, ToolError, WriteOutcome};
pub use apply::{HunkMismatch, apply};
use parse::Action;
use stage::{Stage, Staged};

/// The maximum number of files whose changes are shown line by line.
const MAX_SHOWN: usize = 5;

#[derive(Debug, Deserialize)]
pub(crate) struct ApplyPatch {
    patch: String,
}

impl Tool for ApplyPatch {
    const NAME: &'static str = "apply_patch";
    const ALIASES: &'static [&'static str] = &["patch", "apply_diff", "apply_patch_to_files"];
    const DESCRIPTION: &'static str = "Change several files at once, all or none: a unified diff, or *** Begin Patch with *** Add File:, *** Update \
         File: (*** Move to:), *** Delete File: and *** End Patch.";
    type Kind = Writes;
    const REQUIRED: &'static [&'static str] = &["patch"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("input", "patch"),
        ("diff", "patch"),
        ("patch_text", "patch"),
        ("content", "patch"),
    ];

    fn properties() -> Value {
        json!({"patch": {"type": "string"}})
    }

    /// Returns all files of the patch: the paths in it count, not an argument.
    fn subject(input: &Value) -> Subject {
        let Some(Ok(changes)) = input["patch"].as_str().map(parse::parse) else {
            return Subject::Unknown;
        };
        let mut paths = Vec::new();
        for change in changes {
            paths.push(change.path);
            if let Action::Update { to: Some(to), .. } = change.action {
                paths.push(to);
            }
        }
        Subject::Paths(paths)
    }

    fn run(self, context: &ToolContext<'_>) -> Result<WriteOutcome, ToolError> {
        let failed = |reason: String| ToolError::Failed(format!("nothing was changed. {reason}"));
        let changes = parse::parse(&self.patch).map_err(|error| failed(error.to_string()))?;
        let mut stage = Stage::new(context);
        for change in &changes {
            stage.add(change)?;
        }
        let staged = stage.finish();
        let mut changes = stage::commit(context, &staged)?.into_iter();
        let Some(first) = changes.next() else {
            return Err(failed(
                "The files have the content already that the patch gives them".to_owned(),
            ));
        };
        Ok(WriteOutcome::one(report(&staged), first).with(changes))
    }
}

fn report(staged: &[Staged]) -> String {
    let mut text = String::new();
    for (index, file) in staged.iter().enumerate() {
        let path = file.path.display();
        match (&file.before, &file.after) {
            (None, Some(after)) => {
                let lines = after.split_inclusive(|byte| *byte == b'\n').count();
                text.push_str(&format!("created {path} ({})\n", count_of_lines(lines)));
            }
            (Some(_), None) => text.push_str(&format!("deleted {path}\n")),
            (Some(before), Some(after)) => {
                text.push_str(&format!("updated {path}\n"));
                if let (true, Ok(before), Ok(after)) = (
                    index < MAX_SHOWN,
                    std::str::from_utf8(&before.bytes),
                    std::str::from_utf8(after),
                ) {
                    text.push_str(&brief(before, after));
                }
            }
            (None, None) => {}
        }
    }
    text
}

#[cfg(test)]
mod tests;
