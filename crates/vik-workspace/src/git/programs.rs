//! The settings of git that run programs.

use std::path::Path;

/// The settings whose value is a program or a command line. `*` matches any subsection. A test that
/// reads `git help --config` checks that the list is complete.
pub const PROGRAM_KEYS: [&str; 49] = [
    "alias.*",
    "browser.*.cmd",
    "browser.*.path",
    "core.alternaterefscommand",
    "core.askpass",
    "core.editor",
    "core.fsmonitor",
    "core.gitproxy",
    "core.hookspath",
    "core.pager",
    "core.sshcommand",
    "credential.helper",
    "credential.*.helper",
    "diff.external",
    "diff.*.command",
    "diff.*.textconv",
    "difftool.*.cmd",
    "difftool.*.path",
    "filter.*.clean",
    "filter.*.process",
    "filter.*.smudge",
    "gc.recentobjectshook",
    "gpg.program",
    "gpg.*.defaultkeycommand",
    "gpg.*.program",
    "guitool.*.cmd",
    "imap.tunnel",
    "init.templatedir",
    "instaweb.browser",
    "instaweb.httpd",
    "interactive.difffilter",
    "man.*.cmd",
    "man.*.path",
    "merge.*.driver",
    "mergetool.*.cmd",
    "mergetool.*.path",
    "pager.*",
    "remote.*.receivepack",
    "remote.*.uploadpack",
    "sendemail.cccmd",
    "sendemail.headercmd",
    "sendemail.smtpserver",
    "sendemail.tocmd",
    "sequence.editor",
    "submodule.*.update",
    "tar.*.command",
    "trailer.*.cmd",
    "trailer.*.command",
    "uploadpack.packobjectshook",
];

/// Settings that direct git to a program, a repository or another settings file by its location.
pub const LEADING_KEYS: [&str; 13] = [
    "core.attributesfile",
    "core.excludesfile",
    "core.worktree",
    "include.path",
    "includeif.*.path",
    "protocol.allow",
    "protocol.*.allow",
    "remote.*.pushurl",
    "remote.*.url",
    "remote.*.vcs",
    "submodule.*.url",
    "url.*.insteadof",
    "url.*.pushinsteadof",
];

/// Programs that run the file named by their first argument.
const INTERPRETERS: [&str; 12] = [
    "bash", "bun", "dash", "deno", "env", "node", "perl", "php", "python", "ruby", "sh", "zsh",
];

/// The interpreters whose code on the command line loads no other file by itself.
const SHELLS: [&str; 4] = ["bash", "dash", "sh", "zsh"];

/// Programs that run code which their working directory defines.
const LAUNCHERS: [&str; 11] = [
    "bundle", "bunx", "just", "make", "npm", "npx", "pnpm", "rake", "uv", "uvx", "yarn",
];

/// Returns whether the key of a setting matches a pattern: the same section and name, and any
/// subsection for `*`.
pub fn fits(pattern: &str, key: &str) -> bool {
    match pattern.split_once('*') {
        None => key.eq_ignore_ascii_case(pattern),
        Some((before, after)) => {
            key.len() > before.len() + after.len()
                && key.is_char_boundary(before.len())
                && key.is_char_boundary(key.len() - after.len())
                && key[..before.len()].eq_ignore_ascii_case(before)
                && key[key.len() - after.len()..].eq_ignore_ascii_case(after)
        }
    }
}

/// Returns the first setting that would run a program of the work tree, and that program: one with
/// a relative path, or in the workspace itself.
pub fn in_work_tree<'s>(settings: &'s [(String, String)], workspace: &Path) -> Option<(&'s str, &'s str)> {
    settings
        .iter()
        .filter(|(key, _)| PROGRAM_KEYS.iter().any(|pattern| fits(pattern, key)))
        // Hooks are disabled, and the other two settings are never used.
        .filter(|(key, _)| {
            !["core.hookspath", "init.templatedir", "alias.*"]
                .iter()
                .any(|off| fits(off, key))
        })
        .find_map(|(key, value)| program_of(value, workspace).map(|program| (key.as_str(), program)))
}

fn program_of<'v>(command: &'v str, workspace: &Path) -> Option<&'v str> {
    let is_separator = |letter: char| letter.is_whitespace() || "\"'`;|&()<>=".contains(letter);
    let mut after_interpreter = false;
    let mut is_shell = false;
    for token in command.split(is_separator).filter(|token| !token.is_empty()) {
        let token = token.strip_prefix('!').unwrap_or(token);
        let is_url = token.contains("://") || token.contains("::");
        let path = Path::new(token);
        let is_relative = !path.is_absolute() && !token.starts_with(['~', '$', '%', '-']) && !is_url;
        if path.starts_with(workspace) || (is_relative && (token.contains('/') || after_interpreter)) {
            return Some(token);
        }
        // Code on the command line of Python and similar interpreters loads modules from the
        // folder.
        if after_interpreter && !is_shell && (token.starts_with("-c") || token.starts_with("-e")) {
            return Some(token);
        }
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy())
            .unwrap_or_default();
        let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        if LAUNCHERS.contains(&name) {
            return Some(token);
        }
        let is_interpreter = INTERPRETERS.contains(&name);
        if is_interpreter {
            is_shell = SHELLS.contains(&name);
        }
        after_interpreter = is_interpreter || (after_interpreter && token.starts_with('-'));
        // `sh -c COMMAND`: the tokens of the command are checked as a command.
        after_interpreter &= !token.starts_with("-c");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_program_belongs_to_the_work_tree() {
        let found = |command| program_of(command, Path::new("/w/1"));
        for command in [
            "git-lfs filter-process",
            "git-lfs clean -- %f",
            "/usr/bin/clean %f",
            "~/bin/clean",
            "sh -c 'cat'",
            "store --file ~/.creds",
            "python3 /opt/clean.py",
            "!gh auth git-credential",
            "ssh -i ~/.ssh/key",
            "less -FRX",
        ] {
            assert_eq!(found(command), None, "{command}");
        }
        for (command, program) in [
            ("./clean %f", "./clean"),
            ("tools/clean", "tools/clean"),
            ("sh clean.sh", "clean.sh"),
            ("python3 -u clean.py %f", "clean.py"),
            ("sh -c './x'", "./x"),
            ("/w/1/clean", "/w/1/clean"),
            ("!./helper", "./helper"),
            ("npx prettier --stdin-filepath %f", "npx"),
            ("sh -c 'uv run clean'", "uv"),
            ("python3 -c 'import json'", "-c"),
            ("node -e \"require('x')\"", "-e"),
        ] {
            assert_eq!(found(command), Some(program), "{command}");
        }
    }

    #[test]
    fn pattern_matches_any_subsection() {
        assert!(fits("filter.*.clean", "filter.a.b.clean"));
        assert!(fits("core.sshcommand", "core.sshCommand"));
        assert!(!fits("filter.*.clean", "filter.clean"));
    }
}
