//! The scripts for the remote host.
//!
//! They are functions, of which the last line calls one. So a script that arrives only in part does
//! nothing. All values are quoted.

use std::fmt::Write as _;

use vik_core::workflow::shell_quoted;

use super::files::{Part, RemoteFile};
use super::unit::{Layout, shell_path};
use crate::cli::worker::connection::CONNECTED;

const COMMON: &str = include_str!("common.sh");

/// Returns the script that inspects the host and these files.
pub fn inspect(layout: Layout<'_>, files: &[RemoteFile]) -> String {
    let files = files
        .iter()
        .enumerate()
        .fold(String::new(), |mut text, (index, file)| {
            let _ = writeln!(text, "  inspect_file {index} {}", shell_quoted(&file.path));
            text
        });
    let functions = [include_str!("inspect.sh"), &function("inspect_files", &files)].concat();
    script(layout, &[], &functions)
}

/// Returns the script that puts the files of its archive in their places. `workflow` is the name of
/// the workflow file.
pub fn place(layout: Layout<'_>, workflow: &str, files: &[&RemoteFile]) -> String {
    let (mut verify, mut place) = (String::new(), String::new());
    for (index, file) in files.iter().enumerate() {
        let _ = writeln!(verify, "  verify {index} {}", file.digest);
    }
    let list = layout.workflow_list();
    let find = |holds: &dyn Fn(&RemoteFile) -> bool| files.iter().position(|file| holds(file));
    let program = find(&|file| file.part == Part::Program);
    if let Some(index) = program {
        let _ = writeln!(verify, "  try_program {index}");
    }
    if !files.is_empty() {
        place.push_str("  require_restart\n");
    }
    if let Some(index) = find(&|file| file.path == list) {
        let _ = writeln!(place, "  remove_old {index}");
    }
    if program.is_some() {
        place.push_str("  keep_previous\n");
    }
    for (index, file) in files.iter().enumerate() {
        let path = shell_quoted(&file.path);
        let _ = writeln!(place, "  place {index} {:o} \"$HOME\"/{path}", file.mode);
    }
    let functions = [
        include_str!("place.sh"),
        &function("verify_files", &verify),
        &function("place_files", &place),
    ];
    let workflow = ("workflow", workflow.to_owned());
    script(layout, &[workflow], &functions.concat())
}

/// Returns the script that starts the worker and waits for it, at most for so many seconds.
pub fn start(layout: Layout<'_>, timeout_secs: u64) -> String {
    let values = [
        ("timeout", timeout_secs.to_string()),
        ("connected_prefix", CONNECTED.to_owned()),
    ];
    script(layout, &values, include_str!("start.sh"))
}

fn function(name: &str, lines: &str) -> String {
    format!("{name}() {{\n  :\n{lines}}}\n")
}

fn script(layout: Layout<'_>, values: &[(&str, String)], functions: &str) -> String {
    let own = [("unit", layout.unit.to_string()), ("data", layout.data())];
    let mut text = String::new();
    for (name, value) in own.iter().chain(values) {
        let _ = writeln!(text, "{name}={}", shell_quoted(value));
    }
    let _ = writeln!(text, "unit_path=\"{}\"", shell_path());
    text + COMMON + functions + "main\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::worker::install::destination::UnitName;

    #[test]
    fn paths_are_quoted_in_scripts() {
        let unit: UnitName = "vik-worker".parse().unwrap();
        let layout = Layout { unit: &unit };
        let name = "it's $(touch x)\"`";
        let file = RemoteFile::new(Part::Workflow, layout.workflow_file(name), 0o644, Vec::new());
        let quoted = r#"'.local/share/vik-worker/workflow/it'\''s $(touch x)"`'"#;
        let place = place(layout, name, &[&file]);
        assert!(
            place.contains(&format!("  place 0 644 \"$HOME\"/{quoted}\n")),
            "{place}"
        );
        assert!(place.contains(r#"workflow='it'\''s $(touch x)"`'"#), "{place}");
        let inspect = inspect(layout, &[file]);
        assert!(
            inspect.contains(&format!("  inspect_file 0 {quoted}\n")),
            "{inspect}"
        );
    }

    #[test]
    fn place_changes_nothing_without_files() {
        let unit: UnitName = "vik-worker".parse().unwrap();
        let script = place(Layout { unit: &unit }, "workflow.yml", &[]);
        assert!(script.contains("place_files() {\n  :\n}\n"), "{script}");
        assert!(script.ends_with("\nmain\n"));
    }
}
