//! What an agent can have left in a workspace that starts programs of its choice outside of the
//! sandbox: settings of git, of agents and of editors, and hooks.
//!
//! Files that a person runs on purpose, such as a Makefile or a test, are not listed: everything in
//! the workspace can be such a file.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use vik_core::file_change::RelPath;
use vik_core::ids::IssueId;
use vik_core::visible::visible;
use vik_session::provenance::Trace;
use vik_workspace::changes::small_file;
use vik_workspace::fs::list_folder;
use vik_workspace::git::programs::{LEADING_KEYS, PROGRAM_KEYS, fits};
use vik_workspace::{Layout, git};

/// Files and folders that programs read by themselves when they start in the workspace.
const PLACES: [&str; 27] = [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks",
    ".claude/agents",
    ".claude/commands",
    ".claude/skills",
    ".mcp.json",
    ".codex",
    ".cursor",
    ".gemini",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".vex",
    ".cargo",
    ".devcontainer",
    ".dir-locals.el",
    ".envrc",
    ".exrc",
    ".husky",
    ".idea",
    ".mise.toml",
    ".nvim.lua",
    ".vscode/settings.json",
    ".vscode/tasks.json",
    ".zed",
    "mise.toml",
];

/// The files of settings in a repository.
const SETTINGS: [&str; 2] = ["config", "config.worktree"];

/// Settings that only name a remote repository or ignored files.
const HARMLESS_KEYS: [&str; 4] = [
    "core.excludesfile",
    "remote.*.pushurl",
    "remote.*.url",
    "submodule.*.url",
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
    lines.extend(in_repository(layout, &workdir.join(".git")));
    // An agent chooses the names.
    let lines = lines.iter().map(|line| visible(line).into_owned());
    lines.collect()
}

/// Returns a line for each file of the repository that can start programs.
fn in_repository(layout: &Layout, folder: &Path) -> Vec<String> {
    match folder.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Ok(metadata) if metadata.is_dir() => {}
        _ => return vec![".git: not a folder, but a reference to another repository".to_owned()],
    }
    let mut lines = Vec::new();
    for (name, about) in [
        ("commondir", "a reference to another repository"),
        (
            "modules",
            "the repositories of submodules, each with settings and hooks",
        ),
    ] {
        if folder.join(name).symlink_metadata().is_ok() {
            lines.push(format!(".git/{name}: {about}"));
        }
    }
    let hooks = hooks(&folder.join("hooks")).into_iter();
    lines.extend(hooks.map(|hook| format!(".git/hooks/{hook}")));
    for name in SETTINGS {
        let found = settings(layout, &folder.join(name)).unwrap_or_else(|| vec!["cannot be read".to_owned()]);
        lines.extend(found.iter().map(|setting| format!(".git/{name}: {setting}")));
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

/// Returns the names of the settings in a file that can run a program or lead git to one. `None` if
/// the file cannot be read: git parses it as it does for the person.
fn settings(layout: &Layout, file: &Path) -> Option<Vec<String>> {
    let text = match small_file(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(Vec::new()),
        Err(_) => return None,
    };
    let settings = git::local_settings(layout, Some(text)).ok()?;
    let is_one_of = |patterns: &[&str], key: &str| patterns.iter().any(|pattern| fits(pattern, key));
    let mut found: Vec<String> = settings
        .into_iter()
        .map(|(key, _)| key)
        .filter(|key| is_one_of(&PROGRAM_KEYS, key) || is_one_of(&LEADING_KEYS, key))
        .filter(|key| !is_one_of(&HARMLESS_KEYS, key))
        .collect();
    found.dedup();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(files: &[(&str, &str)]) -> Vec<String> {
        let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let layout = Layout::at(Path::new("/w/workflow.yml"), home.path());
        list(&layout, &IssueId::new("7"), folder.path())
    }

    #[test]
    fn settings_and_hooks_that_run_programs_are_listed() {
        let config = "[core]\n\tbare = false\n\tfsmonitor = ./x\n[filter \"lfs\"] clean = y\n[user]\n\tname = n\n\
            [remote \"origin\"]\n\turl = https://example.invalid/x\n\tuploadpack = ./x\n[sequence]\neditor = ./x\n";
        let files = [
            (".git/config", config),
            (".git/hooks/pre-commit", ""),
            (".git/hooks/pre-push.sample", ""),
            (".vscode/tasks.json", "{}"),
        ];
        assert_eq!(
            listed(&files),
            [
                ".vscode/tasks.json",
                ".git/hooks/pre-commit",
                ".git/config: core.fsmonitor",
                ".git/config: filter.lfs.clean",
                ".git/config: remote.origin.uploadpack",
                ".git/config: sequence.editor",
            ]
        );
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let setting = [".git/config: core.fsmonitor"];
        assert_eq!(
            listed(&[(".git/config", "[user] [core] fsmonitor = ./x\n")]),
            setting
        );
        assert_eq!(
            listed(&[(".git/config", "\u{feff}[core]\nfsmonitor = ./x\n")]),
            setting
        );
        let not_read = [".git/config: cannot be read"];
        assert_eq!(listed(&[(".git/config", "[core\n")]), not_read);
        assert_eq!(
            listed(&[(".git/config.worktree", "[core]\nfsmonitor = ./x\n")]),
            [".git/config.worktree: core.fsmonitor"]
        );
    }

    #[test]
    fn other_repositories_are_listed_and_names_are_shown() {
        assert_eq!(
            listed(&[(".git/commondir", "../x\n"), (".git/modules/m/config", "")]),
            [
                ".git/commondir: a reference to another repository",
                ".git/modules: the repositories of submodules, each with settings and hooks",
            ]
        );
        assert_eq!(
            listed(&[(".git", "gitdir: x\n")]),
            [".git: not a folder, but a reference to another repository"]
        );
        assert_eq!(
            listed(&[(".git/hooks/a\u{1b}[2J", "")]),
            [".git/hooks/a⟦U+001B⟧[2J"]
        );
    }
}
