//! What an agent can have left in a workspace that starts programs of its choice outside of the
//! sandbox: settings of git, of agents and of editors, and hooks.
//!
//! Files that a person runs on purpose, such as a Makefile or a test, are not listed: everything in
//! the workspace can be such a file.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use vik_core::file_change::RelPath;
use vik_core::ids::IssueId;
use vik_session::provenance::Trace;
use vik_workspace::Layout;
use vik_workspace::changes::small_file;
use vik_workspace::fs::list_folder;

/// Files and folders that programs read by themselves when they start in the workspace.
const PLACES: [&str; 16] = [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks",
    ".claude/agents",
    ".claude/commands",
    ".mcp.json",
    ".codex",
    ".gemini",
    ".opencode",
    "opencode.json",
    ".vex",
    ".envrc",
    ".husky",
    ".vscode/tasks.json",
    ".vscode/settings.json",
    ".idea",
];

/// The sections of `.git/config` whose settings can run a program or redirect git.
const GIT_SECTIONS: [&str; 12] = [
    "alias",
    "credential",
    "diff",
    "filter",
    "gpg",
    "include",
    "includeif",
    "merge",
    "mergetool",
    "difftool",
    "pager",
    "url",
];

/// The settings of `core` that can run a program.
const CORE_KEYS: [&str; 7] = [
    "askpass",
    "editor",
    "fsmonitor",
    "gitproxy",
    "hookspath",
    "pager",
    "sshcommand",
];

/// Returns a line for each such file. Those that an attempt of the issue changed say so.
pub fn list(layout: &Layout, issue: &IssueId, workdir: &Path) -> Vec<String> {
    let changed = changed_paths(layout, issue);
    let mut lines = Vec::new();
    for place in PLACES {
        if workdir.join(place).symlink_metadata().is_err() {
            continue;
        }
        let folder = format!("{place}/");
        let is_changed = changed
            .iter()
            .any(|path| path == place || path.starts_with(&folder));
        let suffix = if is_changed { ", changed by an agent" } else { "" };
        lines.push(format!("{place}{suffix}"));
    }
    for hook in hooks(&workdir.join(".git/hooks")) {
        lines.push(format!(".git/hooks/{hook}"));
    }
    for setting in settings(&workdir.join(".git/config")) {
        lines.push(format!(".git/config: {setting}"));
    }
    lines
}

fn changed_paths(layout: &Layout, issue: &IssueId) -> BTreeSet<String> {
    let lines = Trace::new(&layout.trace_dir()).read().unwrap_or_default();
    let records = lines.iter().map(|line| line.record.vik());
    let own = records.filter(|record| record.issue == *issue && record.by.is_none());
    own.flat_map(|record| &record.changes)
        .map(|mutation| mutation.change.path.text().into_owned())
        .collect()
}

/// Returns the names of the hooks that are in force.
fn hooks(folder: &Path) -> Vec<String> {
    let Ok(entries) = list_folder(folder) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> = names
        .map(|name| RelPath::new(name.as_bytes()).text().into_owned())
        .filter(|name| !name.ends_with(".sample"))
        .collect();
    names.sort();
    names
}

/// Returns the names of the settings that can run a program.
fn settings(config: &Path) -> Vec<String> {
    let text = match small_file(config) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(_) => return vec!["cannot be read".to_owned()],
    };
    let (mut section, mut found) = (String::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        let line = match line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            Some((heading, after)) => {
                let name = heading.split([' ', '\t', '.', '"']).next().unwrap_or_default();
                section = name.to_lowercase();
                after.trim()
            }
            None => line,
        };
        let key = line
            .split(['=', ' ', '\t'])
            .next()
            .unwrap_or_default()
            .to_lowercase();
        if key.is_empty() || key.starts_with(['#', ';']) {
            continue;
        }
        if GIT_SECTIONS.contains(&&*section) || (section == "core" && CORE_KEYS.contains(&&*key)) {
            found.push(format!("{section}.{key}"));
        }
    }
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_hooks_that_run_programs_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            ".git/config",
            "[core]\n\tbare = false\n\tfsmonitor = ./x\n[filter \"lfs\"] clean = y\n[user]\n\tname = n\n",
        );
        write(".git/hooks/pre-commit", "");
        write(".git/hooks/pre-push.sample", "");
        write(".vscode/tasks.json", "{}");
        let layout = Layout::at(Path::new("/w/workflow.yml"), folder.path());
        assert_eq!(
            list(&layout, &IssueId::new("7"), folder.path()),
            [
                ".vscode/tasks.json",
                ".git/hooks/pre-commit",
                ".git/config: core.fsmonitor",
                ".git/config: filter.clean",
            ]
        );
    }
}
