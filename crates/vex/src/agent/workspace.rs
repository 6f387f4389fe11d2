//! What the first message says about the workspace: its environment, and for a model that writes
//! changes in fences, the files that belong to the task and how the check fails.

use std::fmt::Write as _;

use super::prompt::surroundings;
use super::verify::Verify;
use crate::conversation::ToolResult;
use crate::events::Journal;
use crate::fences::fenced;
use crate::interrupt::Interrupt;
use crate::tools::{Attachments, Toolbox};

/// The maximum size of all files that are shown, in bytes: about 4,000 tokens.
const MAX_FILES: usize = 12 * 1024;
/// The maximum size of the list of files that are not shown, in bytes.
const MAX_OTHERS: usize = 1000;

/// Describes the workspace with its files, as far as they fit into `room` bytes if the context of the
/// model is known, and how the check failed, and returns the files.
pub(crate) fn described(
    tools: &Toolbox,
    task: &str,
    check: Option<(&Verify, &ToolResult)>,
    room: Option<usize>,
    journal: &Journal,
    interrupt: &Interrupt,
) -> (String, Attachments) {
    let mut text = surroundings(tools.root().path(), tools.permission());
    let output = check.map_or("", |(_, result)| result.output.as_str());
    let max = room.map_or(MAX_FILES, |room| room.min(MAX_FILES));
    let files = tools.attachments(task, output, max, journal, interrupt);
    let Attachments { shown, others } = &files;
    if !shown.is_empty() {
        text.push_str("\nThe files, whole:\n");
    }
    for file in shown {
        let _ = writeln!(text, "\n{}\n{}", file.path, fenced("", &file.content));
    }
    if !others.is_empty() {
        let mut list = others.join(" ");
        if list.len() > MAX_OTHERS {
            list.truncate(list.floor_char_boundary(MAX_OTHERS));
            list.push('…');
        }
        let _ = writeln!(text, "\nOther files: {list}");
    }
    if let Some((verify, result)) = check.filter(|(_, result)| result.exit_code != Some(0)) {
        let output = fenced("", Verify::tail(result));
        let _ = writeln!(
            text,
            "\nThe check `{}` fails now ({}). Its output ends with:\n{output}",
            verify.command,
            Verify::ended(result)
        );
    }
    (text, files)
}
