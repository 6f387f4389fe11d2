//! Asks questions at a terminal.

use std::io::{self, BufRead, Write};

use clap::ValueEnum;

use super::files::name;
use super::{AgentKind, InitArgs, TrackerKind};

const TRACKERS: &[(TrackerKind, &str)] = &[
    (TrackerKind::Files, "Markdown files in issues/, kept in git"),
    (TrackerKind::Github, "GitHub issues, with the GitHub CLI (gh)"),
    (TrackerKind::Gitlab, "GitLab issues, with a token"),
    (
        TrackerKind::Gitea,
        "Gitea or Forgejo issues, with a token and Python 3",
    ),
    (TrackerKind::Redmine, "Redmine, with an API key"),
    (TrackerKind::Linear, "Linear, with an API key and Python 3"),
    (TrackerKind::Jira, "Jira Cloud, with an API token and Python 3"),
];

const AGENTS: &[(AgentKind, &str)] = &[
    (AgentKind::Codex, "Codex CLI"),
    (AgentKind::Claude, "Claude Code"),
    (
        AgentKind::Vex,
        "the built-in agent, for a model API or your own server",
    ),
    (
        AgentKind::Command,
        "any other program, through the script agent.sh",
    ),
];

/// Asks for the choices that the flags do not make. `found` is the installed agent.
pub(super) fn ask_tracker_and_agent(
    input: &mut impl BufRead,
    output: &mut impl Write,
    args: &InitArgs,
    found: AgentKind,
) -> io::Result<(TrackerKind, AgentKind)> {
    let tracker = match args.tracker {
        Some(tracker) => tracker,
        None => ask(
            input,
            output,
            "Which tracker contains the issues?",
            TRACKERS,
            TrackerKind::Files,
        )?,
    };
    let agent = match args.agent {
        Some(agent) => agent,
        None => ask(input, output, "Which agent works on the issues?", AGENTS, found)?,
    };
    Ok((tracker, agent))
}

/// Asks a numbered question. An empty answer selects the default.
fn ask<T: ValueEnum + Copy + PartialEq>(
    input: &mut impl BufRead,
    output: &mut impl Write,
    question: &str,
    choices: &[(T, &str)],
    default: T,
) -> io::Result<T> {
    writeln!(output, "{question}")?;
    for (number, (kind, description)) in choices.iter().enumerate() {
        writeln!(output, "  {}) {:<8} {description}", number + 1, name(kind))?;
    }
    let default_index = choices.iter().position(|(kind, _)| *kind == default).unwrap_or(0);
    loop {
        write!(output, "Number or name [{}]: ", default_index + 1)?;
        output.flush()?;
        let mut answer = String::new();
        if input.read_line(&mut answer)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the input ended"));
        }
        let answer = answer.trim().to_lowercase();
        if answer.is_empty() {
            return Ok(default);
        }
        let by_number = answer
            .parse::<usize>()
            .ok()
            .and_then(|number| choices.get(number.checked_sub(1)?));
        let chosen = by_number.or_else(|| choices.iter().find(|(kind, _)| name(kind) == answer));
        match chosen {
            Some((kind, _)) => return Ok(*kind),
            None => writeln!(output, "Invalid choice.")?,
        }
    }
}
