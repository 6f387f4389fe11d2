//! The command line, with one file per verb.

mod answer;
mod answer_question;
mod approve;
mod args;
mod built_in_agent;
mod cancel;
mod client;
mod completion;
mod deny;
mod diff;
pub mod doctor;
mod drain;
mod dry_run;
mod engine;
mod explain;
mod explained;
mod git;
mod handback;
mod help;
mod history;
mod init;
mod issue;
mod issue_arg;
mod logs;
mod message;
mod notify;
mod pause;
mod positional;
mod progress;
mod prune;
mod refresh;
mod report;
mod restart;
mod resume;
mod retry;
mod run;
mod runs;
mod schedule;
mod schema;
mod show;
mod sign_ins;
mod status;
mod stop;
mod takeover;
mod text_input;
mod top;
mod trace;
mod tracker;
mod uninstall;
mod unknown;
mod usage;
#[cfg(feature = "temporal")]
mod worker;

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub use args::{Cli, Verb};
use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use jiff::tz::TimeZone;
use vik_base::report::{ErrorCode, Exit, Failure, clean, set_time_zone};
use vik_core::workflow::shell_quoted;
use vik_session::secrets;
use vik_tracker::TrackerError;
use vik_workflow::absolute;

/// The result of a verb.
pub type CliResult = Result<Exit, Failure>;

pub fn main() -> ExitCode {
    if let Some(code) = completion::answer_shell() {
        return code;
    }
    let (cli, json) = match parse() {
        Ok(parsed) => parsed,
        Err(error) if is_help(&error) => {
            // An error is ignored: nothing can be printed if the terminal is closed.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Done.into()
            };
        }
        Err(error) => {
            let args: Vec<_> = std::env::args_os().collect();
            print_failure(&usage::failure(&error, &args), usage::wants_json(&args));
            return Exit::Usage.into();
        }
    };
    let cli = match cli {
        Cli {
            verb: Verb::Vex { args },
            ..
        } => return built_in_agent::main(args),
        cli => cli,
    };
    set_time_zone(TimeZone::system());
    secrets::learn_own_keys();
    match dispatch(&cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            print_failure(&failure, json);
            failure.exit.into()
        }
    }
}

/// Returns the arguments, and whether errors must be printed as JSON too.
fn parse() -> Result<(Cli, bool), clap::Error> {
    let matches = command().try_get_matches()?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command()))?;
    Ok((cli, has_json_flag(&matches)))
}

/// Returns whether the command line has the `--json` of the command that it names.
fn has_json_flag(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, command)) => has_json_flag(command),
        None => matches.try_get_one("json").is_ok_and(|json| json == Some(&true)),
    }
}

fn is_help(error: &clap::Error) -> bool {
    !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

fn print_failure(failure: &Failure, json: bool) {
    if json {
        let body = serde_json::json!({ "schema": vik_api::SCHEMA, "error": failure.body() });
        print(&format!("{body}\n"));
    }
    let stderr = std::io::stderr();
    let text = failure.text(vik_base::report::colored(&stderr));
    let _ = stderr.lock().write_all(vik_mask::mask(&text).as_bytes());
}

fn dispatch(cli: &Cli) -> CliResult {
    let workflow = &*cli.workflow;
    match &cli.verb {
        Verb::Init(args) => init::run(workflow, args),
        Verb::Doctor(args) => doctor::run(args.workflow.or(workflow), args),
        Verb::Run(args) => run::run(args.workflow.or(workflow), args),
        Verb::Status(args) => status::run(args.workflow.or(workflow), args),
        Verb::Stop(args) => stop::run(args.workflow.or(workflow), args),
        Verb::Restart(args) => restart::run(args.workflow.or(workflow), args),
        Verb::Uninstall(args) => uninstall::run(args.workflow.or(workflow), args),
        Verb::Runs(args) => runs::run(workflow, args),
        Verb::Show(args) => show::run(workflow, args),
        Verb::Diff(args) => diff::run(workflow, args),
        Verb::Logs(args) => logs::run(workflow, args),
        Verb::Explain(args) => explain::run(workflow, args),
        Verb::Report(args) => report::run(workflow, args),
        Verb::Top(args) => top::run(workflow, args),
        Verb::SignIns(args) => sign_ins::run(workflow, args),
        Verb::Trace(args) => trace::run(workflow, args),
        Verb::Schedule(args) => schedule::run(workflow, args),
        Verb::Refresh => refresh::run(workflow),
        Verb::Pause(args) => pause::run(workflow, args),
        Verb::Resume(args) => resume::run(workflow, args),
        Verb::Cancel(args) => cancel::run(workflow, args),
        Verb::Retry(args) => retry::run(workflow, args),
        Verb::Approve(args) => approve::run(workflow, args),
        Verb::Deny(args) => deny::run(workflow, args),
        Verb::Answer(args) => answer_question::run(workflow, args),
        Verb::Message(args) => message::run(workflow, args),
        Verb::Takeover(args) => takeover::run(workflow, args),
        Verb::Handback(args) => handback::run(workflow, args),
        Verb::Drain(args) => drain::run(workflow, args),
        Verb::Prune(args) => prune::run(workflow, args),
        Verb::Notify(args) => notify::run(workflow, args),
        Verb::Git(args) => git::run(workflow, args),
        Verb::Issue(args) => issue_verb(workflow, args),
        Verb::Tracker(args) => tracker::run(workflow, args),
        #[cfg(feature = "temporal")]
        Verb::Worker(args) => worker::run(workflow, args),
        Verb::Vex { .. } => Ok(Exit::Usage),
        Verb::Schema => schema::workflow(),
        Verb::Completions { shell } => schema::completions(*shell),
        Verb::Man(args) => schema::man(args),
        Verb::Unknown(command) => unknown::refuse(command),
    }
}

/// Asks a question. Returns whether the answer is yes.
fn confirm(input: &mut dyn BufRead, output: &mut dyn Write, question: &str) -> std::io::Result<bool> {
    output.write_all(question.as_bytes())?;
    output.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Returns a command line for a workflow, with the path of the file unless it is `./workflow.yml`.
fn with_workflow(command: &str, workflow: &Path) -> String {
    let path = absolute(workflow);
    let path = match std::env::current_dir() {
        Ok(folder) => path.strip_prefix(&folder).unwrap_or(&path),
        Err(_) => &path,
    };
    if path == Path::new("workflow.yml") {
        return command.to_owned();
    }
    let path = path.display().to_string();
    format!("{command} --workflow {}", shell_quoted(&clean(&path)))
}

/// Returns the workflow of the hook in which Vik runs, unless another one is given. A hook runs in
/// the workspace, where the agent controls `./workflow.yml`.
fn workflow_of_hook(given: &Path) -> PathBuf {
    match std::env::var_os("VIK_WORKFLOW").filter(|path| !path.is_empty()) {
        Some(path) if given == Path::new("./workflow.yml") => PathBuf::from(path),
        _ => given.to_owned(),
    }
}

fn issue_verb(workflow: &Path, args: &issue::IssueArgs) -> CliResult {
    let (mut stdin, mut stdout, mut stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    match issue::run(workflow, args, &mut stdin, &mut stdout, &mut stderr) {
        Ok(code) => {
            if let Some(warning) = issue::unknown_state(&workflow_of_hook(workflow), args) {
                warn(&warning);
            }
            Ok(Exit::from_code(code).unwrap_or(Exit::Failed))
        }
        // A reader that closed the pipe has read enough.
        Err(TrackerError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(error) => {
            let exit = Exit::from_code(error.exit_code()).unwrap_or(Exit::Failed);
            let failure = Failure::new(exit, error.code(), error.to_string());
            let failure = match std::error::Error::source(&error) {
                Some(source) => failure.with_source(source),
                None => failure,
            };
            Err(match error.hint() {
                Some(hint) => failure.hint(hint),
                None => failure,
            })
        }
    }
}

/// Writes data to stdout and masks its secrets. A closed pipe is not an error.
pub fn print(text: &str) {
    let text = vik_mask::mask_json(text);
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Writes a warning for people to stderr.
pub fn warn(text: &str) {
    let _ = std::io::stderr()
        .lock()
        .write_all(vik_mask::mask(text).as_bytes());
}

/// Writes one pretty JSON value to stdout.
pub fn print_json(value: &impl serde::Serialize) {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let text = if std::io::stdout().is_terminal() {
        vik_core::visible::escaped(&text)
    } else {
        text.as_str().into()
    };
    print(&format!("{text}\n"));
}

/// Writes the result of a command to stdout: as JSON, or as a text for people.
pub fn print_result<T: serde::Serialize>(json: bool, value: &T, text: impl FnOnce() -> String) -> CliResult {
    if json {
        print_json(value);
    } else {
        print(&text());
    }
    Ok(Exit::Done)
}

/// Returns a runtime for the asynchronous part of a command.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(ErrorCode::Runtime, "cannot start", &error))
}

/// Returns the clap command.
pub fn command() -> clap::Command {
    help::with_groups(Cli::command())
}
