//! `vik init`: writes a working workflow, then runs `doctor` on it.

mod ask;
mod files;
mod origin;

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use vik_base::report::{ErrorCode, Exit, Failure, clean, colored};
use vik_core::workflow::shell_quoted;
use vik_session::host::own_environment;
use vik_tracker::{NewIssue, Tracker};
use vik_workflow::absolute;

use super::{CliResult, doctor, print, with_workflow};

use files::{Choice, NewFile, Repository};
use origin::pull_requests;

/// `vik init`
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Tracker that contains the issues; prompts if omitted
    #[arg(long, value_enum)]
    pub tracker: Option<TrackerKind>,
    /// Agent that works on the issues; prompts if omitted
    #[arg(long, value_enum)]
    pub agent: Option<AgentKind>,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
    /// Do not run `doctor` afterwards
    #[arg(long)]
    pub no_doctor: bool,
}

/// Trackers that `init` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TrackerKind {
    /// Markdown files in `issues/`
    Files,
    /// GitHub issues, with `gh`
    Github,
    /// GitLab issues, with a token
    Gitlab,
    /// Gitea or Forgejo issues, with a token and Python 3
    Gitea,
    /// Redmine, with an API key
    Redmine,
    /// Linear, with an API key and Python 3
    Linear,
    /// Jira Cloud, with an API token and Python 3
    Jira,
}

/// Agents that `init` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum AgentKind {
    /// Codex CLI
    Codex,
    /// Claude Code
    Claude,
    /// The built-in agent
    Vex,
    /// Any other program, with a script that runs it
    Command,
}

/// Writes a workflow, its prompts and the files of its tracker.
pub fn run(workflow: &Path, args: &InitArgs) -> CliResult {
    let path = absolute(workflow);
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    let (tracker, agent) = choose(args)?;
    let choice = Choice {
        tracker,
        agent,
        repository: repository(&folder, tracker),
    };
    let written = write(&path, &folder, &choice, args.force)?;
    print(&written.report);
    if !args.no_doctor {
        print("\n");
        let mut examination = doctor::examine(&path, doctor::Extent::TRY)?;
        let options = doctor::TextOptions {
            color: colored(&io::stdout()),
            ..doctor::TextOptions::default()
        };
        print(&doctor::text(&examination, options));
        doctor::offer_states(&mut examination)?;
    }
    let has_key = own_environment().contains_key(files::VEX_KEY);
    print(&next_steps(&choice, workflow, &written.files, has_key));
    // Findings of `doctor` are the next steps; `init` itself has succeeded.
    Ok(Exit::Done)
}

/// Returns tracker and agent: from flags, or else from answers, or else defaults from the installed
/// programs.
fn choose(args: &InitArgs) -> Result<(TrackerKind, AgentKind), Failure> {
    let path = own_environment().remove("PATH").unwrap_or_default();
    let found = installed(&path);
    if let (Some(tracker), Some(agent)) = (args.tracker, args.agent) {
        return Ok((tracker, agent));
    }
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        let (mut input, mut output) = (io::stdin().lock(), io::stderr().lock());
        return ask::ask_tracker_and_agent(&mut input, &mut output, args, found).map_err(|error| {
            Failure::new(Exit::Usage, ErrorCode::NoAnswer, "a question was not answered")
                .with_source(&error)
                .hint("specify --tracker and --agent")
        });
    }
    let (tracker, agent) = (
        args.tracker.unwrap_or(TrackerKind::Files),
        args.agent.unwrap_or(found),
    );
    // There is no terminal for a question.
    let text = format!(
        "using --tracker {} --agent {}; use these flags to choose others\n",
        files::name(&tracker),
        files::name(&agent)
    );
    let _ = io::stderr().lock().write_all(text.as_bytes());
    Ok((tracker, agent))
}

/// Returns the first installed agent, or vex.
fn installed(path: &str) -> AgentKind {
    [("codex", AgentKind::Codex), ("claude", AgentKind::Claude)]
        .into_iter()
        .find(|(program, _)| doctor::find_program(program, path).is_some())
        .map_or(AgentKind::Vex, |(_, agent)| agent)
}

fn has_gh() -> bool {
    let path = own_environment().remove("PATH").unwrap_or_default();
    doctor::find_program("gh", &path).is_some()
}

/// Returns which kind of git repository contains a folder.
fn repository(folder: &Path, tracker: TrackerKind) -> Repository {
    // The folder may not exist yet: the nearest existing parent decides.
    let Some(folder) = folder.ancestors().find(|folder| folder.is_dir()) else {
        return Repository::None;
    };
    let git = |args: &[&str]| {
        Command::new("git")
            .args(["-c", "core.fsmonitor=false", "-C"])
            .arg(folder)
            .args(args)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if git(&["rev-parse", "--show-toplevel"]).is_none() {
        return Repository::None;
    }
    match git(&["remote", "get-url", "origin"]) {
        Some(url) => {
            let variable = |name: &str| std::env::var(name).ok();
            Repository::Remote(pull_requests(tracker, url.trim(), has_gh(), variable))
        }
        None => Repository::Local,
    }
}

/// The files that were written.
struct Written {
    /// Their paths, relative to the workflow's folder.
    files: Vec<PathBuf>,
    /// The report for people.
    report: String,
}

/// Writes the files, or none if one exists already and `force` is not set.
fn write(path: &Path, folder: &Path, choice: &Choice, force: bool) -> Result<Written, Failure> {
    let files = files::plan(path, choice);
    let existing: Vec<String> = files
        .iter()
        .map(|file| folder.join(&file.path))
        .filter(|file| file.symlink_metadata().is_ok())
        .map(|file| file.display().to_string())
        .collect();
    if !existing.is_empty() && !force {
        return Err(Failure::new(
            Exit::Failed,
            ErrorCode::Exists,
            format!("already exists: {}", existing.join(", ")),
        )
        .hint("overwrite with --force, or write to another folder with --workflow FILE"));
    }
    let mut written = Written {
        files: Vec::new(),
        report: String::new(),
    };
    for file in files {
        let target = folder.join(&file.path);
        write_file(&target, &file, force).map_err(|error| {
            Failure::failed(
                ErrorCode::InitWrite,
                format!("cannot write {}", target.display()),
                &error,
            )
        })?;
        let _ = writeln!(written.report, "wrote {}", clean(&file.path.to_string_lossy()));
        written.files.push(file.path);
    }
    if choice.tracker == TrackerKind::Files {
        sample_issue(&mut written, folder)?;
    }
    Ok(written)
}

fn write_file(target: &Path, file: &NewFile, force: bool) -> io::Result<()> {
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options
        .write(true)
        .mode(if file.is_script { 0o755 } else { 0o644 });
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    #[expect(clippy::disallowed_methods, reason = "writes what a person asked for")]
    let mut opened = options.open(target)?;
    opened.write_all(file.text.as_bytes())
}

/// Creates a first issue if there is none. Existing issues are never overwritten: they are people's
/// work.
fn sample_issue(written: &mut Written, folder: &Path) -> Result<(), Failure> {
    let dir = own_environment()
        .remove("VIK_ISSUES_DIR")
        .map_or_else(|| folder.join("issues"), |dir| folder.join(dir));
    let tracker = Tracker::new(&dir);
    if tracker
        .list()
        .is_ok_and(|listing| !listing.issues.is_empty() || !listing.broken.is_empty())
    {
        let _ = writeln!(
            written.report,
            "kept the existing issues in {}",
            clean(&dir.display().to_string())
        );
        return Ok(());
    }
    let issue = NewIssue {
        title: files::SAMPLE_TITLE.to_owned(),
        state: "todo".to_owned(),
        body: files::SAMPLE_BODY.to_owned(),
        ..NewIssue::default()
    };
    let id = tracker
        .create(&issue, jiff::Timestamp::now())
        .map_err(|error| Failure::failed(ErrorCode::InitWrite, "cannot write a sample issue", &error))?;
    let shown = clean(&dir.display().to_string()).into_owned();
    let _ = writeln!(written.report, "wrote issue {id} in {shown}");
    written
        .files
        .extend(dir.strip_prefix(folder).ok().map(Path::to_owned));
    Ok(())
}

/// Returns the text with the next steps. `has_key` is whether the key of the built-in agent's
/// provider is set.
fn next_steps(choice: &Choice, workflow: &Path, written: &[PathBuf], has_key: bool) -> String {
    let mut lines: Vec<(String, &str)> = Vec::new();
    if choice.agent == AgentKind::Vex && !has_key {
        lines.push((
            format!("export {}=…", files::VEX_KEY),
            "the key of the provider in `agents`",
        ));
    }
    if choice.agent == AgentKind::Command {
        let script = workflow.with_file_name("agent.sh");
        let edit = format!("edit {}", clean(&script.display().to_string()));
        lines.push((edit, "put the command of your agent into its last lines"));
    }
    if choice.repository != Repository::None {
        lines.push((commit(workflow, written), "agents work on what is committed"));
    }
    let first_steps = files::first_steps(choice.tracker).iter();
    let run = |verb: &str| with_workflow(verb, workflow);
    lines.extend(
        first_steps.map(|(command, description)| match command.starts_with("vik ") {
            true => (run(command), *description),
            false => ((*command).to_owned(), *description),
        }),
    );
    lines.push((run("vik run --dry-run"), "show what would start"));
    lines.push((run("vik run --once"), "run until no work is left"));
    let mut out = "\nNext:\n".to_owned();
    for (command, description) in lines {
        let _ = writeln!(out, "  {command}\n      {description}");
    }
    out
}

/// Returns the command that commits the written files.
fn commit(workflow: &Path, written: &[PathBuf]) -> String {
    let folder = workflow.parent().filter(|folder| {
        // The path may be relative.
        !folder.as_os_str().is_empty() && *folder != Path::new(".")
    });
    let git = match folder {
        Some(folder) => format!("git -C {}", shell_quoted(&clean(&folder.display().to_string()))),
        None => "git".to_owned(),
    };
    let shown = |path: &PathBuf| shell_quoted(&clean(&path.display().to_string()));
    let paths: Vec<String> = written.iter().map(shown).collect();
    format!(
        "{git} add {} && {git} commit --message \"Add Vik\"",
        paths.join(" ")
    )
}
