//! Commands that run other commands.

use super::shell::{Glyph, Word, known};

/// What a command would run.
pub(super) enum Wrapped {
    /// Possibly a command of these words.
    Command(Vec<Word>),
    /// A line for a shell.
    Line(String),
    Unknown,
}

/// They take a line as an argument of `-c`, a file, or their stdin.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash"];
/// Their arguments, except for options, are a command or a line for a shell.
const WRAPPERS: [&str; 32] = [
    "sudo",
    "doas",
    "su",
    "runuser",
    "env",
    "nice",
    "ionice",
    "nohup",
    "timeout",
    "time",
    "stdbuf",
    "setsid",
    "xargs",
    "exec",
    "command",
    "builtin",
    "watch",
    "parallel",
    "strace",
    "ltrace",
    "find",
    "fd",
    "flock",
    "unshare",
    "chroot",
    "busybox",
    "systemd-run",
    "script",
    "ssh",
    "entr",
    "trap",
    "taskset",
];
/// How many words are searched for the command after a wrapper.
const MAX_WRAPPER_ARGS: usize = 64;
/// Verbs of git that run a line.
const GIT_RUNS: [&str; 4] = ["rebase", "bisect", "submodule", "filter-branch"];

/// Returns the last part of the path of a program, if it is known.
pub(super) fn program(word: &[Glyph]) -> Option<String> {
    known(word).map(|path| path.rsplit('/').next().unwrap_or_default().to_owned())
}

/// Returns everything that a command may run, as far as its words show.
pub(super) fn wrapped(words: &[Word]) -> Vec<Wrapped> {
    let Some((first, args)) = words.split_first() else {
        return Vec::new();
    };
    let Some(name) = program(first) else {
        return Vec::new();
    };
    let name = name.as_str();
    if name == "eval" {
        let texts: Option<Vec<String>> = args.iter().map(|word| known(word)).collect();
        return vec![texts.map_or(Wrapped::Unknown, |texts| Wrapped::Line(texts.join(" ")))];
    }
    if SHELLS.contains(&name) {
        return shell(args);
    }
    let verb = args
        .iter()
        .find_map(|word| known(word).filter(|text| GIT_RUNS.contains(&text.as_str())));
    if WRAPPERS.contains(&name) || (name == "git" && verb.is_some()) {
        // They add words of their own.
        let fed = ["xargs", "parallel", "find", "fd"].contains(&name);
        let too_many = (args.len() > MAX_WRAPPER_ARGS).then_some(Wrapped::Unknown);
        return args
            .iter()
            .enumerate()
            .take(MAX_WRAPPER_ARGS)
            .flat_map(|(index, word)| {
                let line = known(word)
                    .filter(|text| text.contains(|c: char| c.is_whitespace() || ";&|".contains(c)));
                // The end of its options is unknown, so the command may start with any word.
                let mut words = args[index..].to_vec();
                words.extend(fed.then(|| vec![Glyph::Any]));
                [Some(Wrapped::Command(words)), line.map(Wrapped::Line)]
            })
            .flatten()
            .chain(too_many)
            .collect();
    }
    Vec::new()
}

/// Returns whether a command is a shell, or like one.
pub(super) fn takes_a_line(words: &[Word]) -> bool {
    words
        .first()
        .and_then(|word| program(word))
        .is_some_and(|name| name == "eval" || SHELLS.contains(&name.as_str()))
}

fn shell(words: &[Word]) -> Vec<Wrapped> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match known(word) {
            Some(option) if option.starts_with("--") => {}
            Some(option) if option.starts_with('-') && option.contains('c') => {
                let line = words.next().and_then(|line| known(line));
                return vec![line.map_or(Wrapped::Unknown, Wrapped::Line)];
            }
            // It reads its commands from stdin.
            Some(option) if option.starts_with('-') && option.contains('s') => return vec![Wrapped::Unknown],
            Some(option) if option.starts_with('-') || option.starts_with('+') => {
                if option.ends_with('o') {
                    words.next();
                }
            }
            // A file: what a program does is not covered by rules.
            Some(_) => return Vec::new(),
            None => return vec![Wrapped::Unknown],
        }
    }
    vec![Wrapped::Unknown]
}
