//! An agent that does exactly what a script says, well or badly, in place of `codex`, `claude` or
//! any command.
//!
//! The script comes from the first of: `VIK_SCRIPT`, the argument after `--script`, the lines
//! `SCRIPT: …` of the prompt (stdin, else an argument). Each is a path or the script itself.
//! Without a script it is a successful session. All other arguments are ignored. The README of this
//! crate describes the language.

mod approval;
mod child;
mod lang;
mod provider;
mod steps;
mod util;
mod wait;

use std::io::Read;
use std::process::ExitCode;

use crate::provider::Provider;

/// Exit codes of the scripted agent itself, apart from those that a script asks for.
pub(crate) mod exit {
    /// The script is invalid.
    pub(crate) const BAD_SCRIPT: i32 = 2;
    /// The prompt does not contain the text of `expect-prompt`.
    pub(crate) const PROMPT: i32 = 96;
    /// A command of `run`, `do` or `commit` failed.
    pub(crate) const COMMAND: i32 = 97;
    /// A step failed (a file that cannot be written, a closed stdout).
    pub(crate) const STEP: i32 = 98;
    pub(crate) const DEADLINE: i32 = 99;
}

fn main() -> ExitCode {
    let argv: Vec<String> = std::env::args_os()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    if argv.get(1).is_some_and(|arg| arg == child::FLAG) {
        return child::main(&argv);
    }
    if let Some(code) = answer_questions(&argv) {
        return code;
    }
    let given = std::env::var("VIK_SCRIPT")
        .ok()
        .or_else(|| value_after(&argv, "--script").map(str::to_owned));
    let given = given.map(|script| load(&script));
    let mut prompt = None;
    if approval::is_wanted(&argv) {
        prompt = approval::prompt();
    } else if given
        .as_ref()
        .is_none_or(|script| !script.contains("never-read-stdin"))
    {
        let mut bytes = Vec::new();
        // An unreadable prompt is an empty prompt.
        let _ = std::io::stdin().read_to_end(&mut bytes);
        prompt = Some(bytes);
    }
    let script = given
        .or_else(|| from_prompt(&String::from_utf8_lossy(prompt.as_deref().unwrap_or_default())))
        .or_else(|| argv.iter().skip(1).find_map(|arg| from_prompt(arg)))
        .unwrap_or_else(|| "ok Done.".to_owned());
    steps::run(&argv, prompt.unwrap_or_default(), &script)
}

/// Answers the questions that a supervisor asks of a CLI before using it.
fn answer_questions(argv: &[String]) -> Option<ExitCode> {
    let text = match argv.get(1)?.as_str() {
        "--version" | "-V" => match provider_of(&argv[0]) {
            Provider::Codex => "codex-cli 0.169.0",
            Provider::Claude => "2.1.330 (Claude Code)",
            Provider::Vex => concat!("vex ", env!("CARGO_PKG_VERSION")),
            Provider::Text => concat!("vik-scripted-agent ", env!("CARGO_PKG_VERSION")),
        },
        "login" | "auth" => "Logged in using an API key",
        _ => return None,
    };
    let mut stdout = std::io::stdout().lock();
    let written = std::io::Write::write_all(&mut stdout, format!("{text}\n").as_bytes());
    Some(if written.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the provider whose lines a program of this name prints.
pub(crate) fn provider_of(program: &str) -> Provider {
    let name = program.rsplit('/').next().unwrap_or(program);
    Provider::parse(name).unwrap_or(Provider::Text)
}

/// Returns the argument after a flag, as `--session-id X` or `--session-id=X`.
pub(crate) fn value_after<'a>(argv: &'a [String], flag: &str) -> Option<&'a str> {
    argv.iter().enumerate().skip(1).find_map(|(at, arg)| {
        if arg == flag {
            return argv.get(at + 1).map(String::as_str);
        }
        arg.strip_prefix(flag)?.strip_prefix('=')
    })
}

/// Returns the text of a script that is given as a path or inline.
fn load(script: &str) -> String {
    let path = script.trim();
    if !path.contains('\n')
        && let Ok(text) = std::fs::read_to_string(path)
    {
        return text;
    }
    script.to_owned()
}

/// Returns the script in the `SCRIPT:` lines of a prompt.
fn from_prompt(prompt: &str) -> Option<String> {
    let lines: Vec<String> = prompt
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("SCRIPT:"))
        .map(load)
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
