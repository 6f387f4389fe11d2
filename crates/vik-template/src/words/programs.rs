//! Programs whose arguments are code.

use super::{PREFIXES, Word};
use crate::error::Place;

/// Options of these commands that take the next word.
const OPTIONS_WITH_WORD: &[(&str, &[&str])] = &[
    ("env", &["-u", "-C", "--unset", "--chdir"]),
    (
        "sudo",
        &["-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U", "-r", "-t"],
    ),
    ("doas", &["-u", "-C", "-a"]),
    ("timeout", &["-s", "-k", "--signal", "--kill-after"]),
    ("gtimeout", &["-s", "-k"]),
    ("nice", &["-n"]),
    ("ionice", &["-c", "-n"]),
    ("stdbuf", &["-i", "-o", "-e"]),
    ("xargs", &["-I", "-n", "-P", "-d", "-E", "-L", "-s", "-a"]),
    ("exec", &["-a"]),
    ("strace", &["-o", "-e", "-p", "-s"]),
];

/// Commands whose arguments are code.
pub(super) const CODE: &[&str] = &[
    "eval", ".", "source", "trap", "alias", "let", "ssh", "rsh", "watch",
];

/// Commands whose arguments are names of variables.
pub(super) const NAMES: &[&str] = &[
    "export", "readonly", "local", "unset", "read", "getopts", "unalias", "declare", "typeset",
];

pub(super) const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish", "csh", "tcsh", "su", "runuser", "script",
    "flock",
];

/// Shells whose first argument is a script.
pub(super) const SCRIPT_SHELLS: &[&str] = &[
    "sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish", "csh", "tcsh",
];

const INTERPRETERS: &[&str] = &[
    "python",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "osascript",
];

/// Commands whose first argument is a program in a language that can run commands.
pub(super) const PROGRAMS: &[&str] = &["sed", "gsed", "awk", "gawk", "mawk", "nawk"];

pub(super) fn is_interpreter(name: &str) -> bool {
    INTERPRETERS.contains(&name.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit()))
}

/// Returns the index of the real command after `env`, `sudo` and so on; `None` if it has not been
/// named yet.
pub(super) fn command_start(words: &[&str]) -> Option<usize> {
    let mut index = 0;
    while index < words.len() {
        if !PREFIXES.contains(&base(words[index])) {
            return Some(index);
        }
        let prefix = base(words[index]);
        index += 1;
        if matches!(prefix, "chroot") {
            index += 1;
        }
        while index < words.len()
            && (words[index].starts_with('-')
                || words[index].contains('=')
                || words[index].starts_with(|c: char| c.is_ascii_digit()))
        {
            let takes_word = OPTIONS_WITH_WORD
                .iter()
                .any(|(command, options)| *command == prefix && options.contains(&words[index]));
            index += if takes_word { 2 } else { 1 };
        }
    }
    None
}

/// Returns whether the last arguments contain a flag that takes code.
pub(super) fn code_comes_next(arguments: &[&str], letters: &[char]) -> bool {
    let flag = |argument: &str| {
        argument.starts_with('-')
            && (matches!(argument, "--command" | "--eval" | "--print")
                || (!argument.starts_with("--") && argument[1..].contains(letters)))
    };
    let options = arguments
        .iter()
        .rev()
        .take_while(|argument| argument.starts_with('-'))
        .count();
    let tail = &arguments[arguments.len() - options..];
    tail.iter().any(|argument| flag(argument))
}

/// Checks an argument of `sed` or `awk`: their program is the first argument, or follows `-e`.
pub(super) fn program(name: &str, arguments: &[&str], word: &Word) -> Option<Place> {
    let code = || Some(Place::Code(name.to_owned()));
    let last = arguments.last().copied().unwrap_or_default();
    let takes_value = ["-v", "-f", "-F", "--assign", "--file", "--field-separator"];
    if name.ends_with("awk") && takes_value.contains(&last) {
        return None;
    }
    if matches!(last, "-e" | "--expression") || (word.text.starts_with('-') && !word.text.starts_with("-v")) {
        return code();
    }
    let explicit = arguments.iter().any(|argument| {
        ["-e", "-f", "--expression", "--file"]
            .iter()
            .any(|flag| argument.starts_with(flag))
    });
    let mut skip = false;
    let given = arguments.iter().any(|argument| {
        if std::mem::take(&mut skip) {
            return false;
        }
        skip = name.ends_with("awk") && takes_value.contains(argument);
        !argument.starts_with('-')
    });
    if explicit || given { None } else { code() }
}

pub(super) fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}
