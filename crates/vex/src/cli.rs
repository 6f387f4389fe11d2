//! The command line.

use std::io::Read;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;

use clap::{Args, Parser, Subcommand};

use crate::agent::limits::Limits;
use crate::agent::prompt::{self, INSTRUCTIONS};
use crate::agent::{self, Ending};
use crate::config::Settings;
use crate::evidence::Before;
use crate::interrupt::Interrupt;
use crate::journal::{ExitReason, Journal, SessionStart};
use crate::provider::Provider;
use crate::provider::catalog::process_env;
use crate::provider::open::open;
use crate::provider::replay::{Recording, RecordingError, Replay};
use crate::session::{ForkPoint, Head, Origin, Session, SessionError, SessionId, Store};
use crate::tools::{Permission, Root, Toolbox};

/// The largest prompt, in bytes.
const MAX_PROMPT_BYTES: u64 = 16 * 1024 * 1024;

/// The coding agent that is built into Vik
#[derive(Debug, Parser)]
#[command(name = "vex", version)]
pub struct VexArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: VexCommand,
}

/// The verbs of vex.
#[derive(Debug, Subcommand)]
pub enum VexCommand {
    /// Work on one prompt, then exit
    #[command(
        after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 settings, 4 login or model refused, 5 limit reached,\n\
                            6 no progress, 7 denied by the permission, 130 interrupted"
    )]
    Exec(Box<ExecArgs>),
}

/// `vex exec`
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Print events as JSON lines
    #[arg(long)]
    pub json: bool,

    /// The model; for the provider `replay` the name of a recording
    #[arg(short, long)]
    pub model: Option<String>,

    /// The model provider: anthropic, openai, openrouter, ollama, local or replay [default: the one whose key is set]
    #[arg(long)]
    pub provider: Option<String>,

    /// The provider's address; for `replay` the folder of the recordings, or one recording
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,

    /// The workspace [default: the current directory]
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// What may be done without asking
    #[arg(long, value_enum, default_value_t)]
    pub permission: Permission,

    /// The recording to replay
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,

    /// The folder of recordings where --base-url is not given
    #[arg(long, value_name = "DIR", env = "VEX_REPLAY_DIR", hide = true)]
    pub replay_dir: Option<PathBuf>,

    /// Answers of the model, at most
    #[arg(long, value_name = "N", default_value = "200")]
    pub max_turns: NonZeroU32,

    /// Go on with an earlier session, in its own workspace; the prompt may be left out
    #[arg(long, value_name = "ID", conflicts_with_all = ["fork", "no_session"])]
    pub resume: Option<SessionId>,

    /// Begin a session with what another one holds, up to the end of a turn
    #[arg(long, value_name = "ID[@TURN]", conflicts_with = "no_session")]
    pub fork: Option<ForkPoint>,

    /// Keep no session log: nothing can be resumed
    #[arg(long)]
    pub no_session: bool,

    /// The task; `-` reads it from stdin
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
}

/// Runs vex on a parsed command line; listens to signals and writes to stdout and stderr.
pub fn run(args: VexArgs) -> ExitCode {
    let VexCommand::Exec(args) = args.command;
    ExitCode::from(exec(&args).code())
}

fn exec(args: &ExecArgs) -> ExitReason {
    let journal = Journal::stdio(args.json);
    let interrupt = Interrupt::new();
    let last = journal.clone();
    let cut_off = move || {
        last.try_end(
            ExitReason::Interrupted,
            Some("interrupted by a signal, and cut off"),
        );
    };
    if let Err(error) = interrupt.install(cut_off) {
        journal.error(&format!("cannot listen to signals: {error}"), true, None);
        return journal.end(ExitReason::Failed, Some("cannot listen to signals"));
    }
    let ending = work(args, &journal, &interrupt);
    if let Some(message) = ending
        .message
        .as_deref()
        .filter(|_| ending.reason != ExitReason::Done)
    {
        let class = match ending.reason {
            ExitReason::Config | ExitReason::Usage => Some("usage"),
            _ => ending.class.as_deref(),
        };
        journal.error(message, true, class);
    }
    journal.end(ending.reason, ending.message.as_deref())
}

fn work(args: &ExecArgs, journal: &Journal, interrupt: &Interrupt) -> Ending {
    let provider = match (&args.provider, &args.replay) {
        (Some(name), _) => name.as_str(),
        (None, Some(_)) => "replay",
        (None, None) => "the one whose key is set",
    };
    let dir = args.dir.as_deref().unwrap_or(Path::new("."));
    let root = Root::open(dir, args.permission == Permission::Full);
    let shown = root.as_ref().map_or(dir, Root::path).display().to_string();
    let system = prompt::system(prompt::Place {
        cwd: Path::new(&shown),
        permission: args.permission,
        instructions: &INSTRUCTIONS,
    });
    let name = args.model.as_deref().unwrap_or(provider);
    let head = Head::new(shown.clone(), name.to_owned(), provider.to_owned(), system);
    journal.session_start(&SessionStart {
        session_id: &args.resume.unwrap_or(head.id).to_string(),
        model: name,
        version: crate::VERSION,
        provider,
        cwd: &shown,
        permission: args.permission.as_str(),
        resumed_from: args.resume.map(|id| id.to_string()).as_deref(),
        forked_from: args.fork.map(|from| from.to_string()).as_deref(),
        ..SessionStart::default()
    });
    let root = match root {
        Ok(root) => root,
        Err(error) => return Ending::failed(ExitReason::Config, with_source(&error)),
    };
    let mut model: Box<dyn Provider> = match model(args, provider, interrupt) {
        Ok(model) => model,
        Err(ending) => return ending,
    };
    let goes_on = args.resume.is_some() || args.fork.is_some();
    let prompt = match (&args.prompt, goes_on) {
        (None, true) => None,
        (argument, _) => match read_prompt(argument.as_deref(), interrupt) {
            Ok(prompt) => Some(prompt),
            Err(ending) => return ending,
        },
    };
    let mut session = match open_session(args, head, prompt, journal) {
        Ok(session) => session,
        Err(error) => return Ending::failed(ExitReason::Failed, with_source(&error)),
    };
    let before = Before::look(root.path());
    let tools = Toolbox::new(root, args.permission);
    let settings = agent::Settings {
        limits: Limits {
            turns: Some(args.max_turns),
            ..Limits::default()
        },
        summaries: provider != "replay",
        ..agent::Settings::default()
    };
    let ending = agent::run(agent::Run {
        provider: &mut *model,
        tools: &tools,
        journal,
        interrupt,
        session: &mut session,
        settings: &settings,
    });
    journal.evidence(|evidence| before.add_to(evidence));
    ending
}

/// What answers: a recording, or a provider over HTTP.
fn model(args: &ExecArgs, provider: &str, interrupt: &Interrupt) -> Result<Box<dyn Provider>, Ending> {
    if provider != "replay" {
        let settings = Settings {
            model: args.model.clone(),
            provider: args.provider.clone(),
            base_url: args.base_url.clone(),
            ..Settings::default()
        };
        return match open(&settings, &process_env, None, interrupt) {
            Ok(provider) => Ok(Box::new(provider)),
            Err(error) => Err(Ending::failed(ExitReason::Config, error.to_string())),
        };
    }
    let recording = Recording::locate(
        args.replay.as_deref(),
        args.base_url.as_deref(),
        args.replay_dir.as_deref(),
        args.model.as_deref(),
    )
    .and_then(|path| Recording::load(&path));
    match recording {
        Ok(recording) => Ok(Box::new(Replay::new(
            recording,
            args.model.as_deref().unwrap_or(provider),
        ))),
        Err(error @ RecordingError::Read { .. }) => {
            Err(Ending::failed(ExitReason::Config, with_source(&error)))
        }
        Err(error) => Err(Ending::failed(ExitReason::Config, error.to_string())),
    }
}

/// Opens the conversation and puts the prompt into it. A new one is not worth giving up the work where it cannot be kept.
fn open_session(
    args: &ExecArgs,
    head: Head,
    prompt: Option<String>,
    journal: &Journal,
) -> Result<Session, SessionError> {
    let origin = match (args.resume, args.fork) {
        (Some(id), _) => Origin::Resume(id),
        (None, Some(from)) => Origin::Fork(from),
        (None, None) => Origin::New,
    };
    let kept = || Session::open(Some(&Store::of_user()?), origin, head.clone());
    let mut session = match (!args.no_session).then(kept).transpose() {
        Ok(None) => Session::open(None, origin, head)?,
        Ok(Some(session)) => session,
        Err(error) if origin == Origin::New => {
            let why = with_source(&error);
            journal.warning(&format!("this session is not kept: {why}"));
            Session::open(None, origin, head)?
        }
        Err(error) => return Err(error),
    };
    session.ask(prompt)?;
    Ok(session)
}

fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// The prompt from the argument, or all of stdin.
fn read_prompt(argument: Option<&str>, interrupt: &Interrupt) -> Result<String, Ending> {
    let usage = |message: &str| Ending::failed(ExitReason::Usage, message);
    let text = match argument {
        None => {
            return Err(usage(
                "no prompt: give it as an argument, or `-` to read it from stdin",
            ));
        }
        Some("-") => {
            // A thread of its own, so that a stdin that nobody closes can be left.
            let (tell, told) = sync_channel(2);
            let tell_interrupt = tell.clone();
            let listening = interrupt.listen(move || drop(tell_interrupt.try_send(None)));
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let read = std::io::stdin()
                    .take(MAX_PROMPT_BYTES + 1)
                    .read_to_end(&mut bytes);
                let _ = tell.send(Some(read.map(|_| bytes)));
            });
            let read = told.recv().ok().flatten();
            drop(listening);
            let bytes = match read {
                Some(Ok(bytes)) => bytes,
                Some(Err(error)) => {
                    return Err(usage(&format!("cannot read the prompt from stdin: {error}")));
                }
                None => return Err(Ending::failed(ExitReason::Interrupted, "interrupted by a signal")),
            };
            if bytes.len() as u64 > MAX_PROMPT_BYTES {
                return Err(usage("the prompt is longer than 16 MiB"));
            }
            String::from_utf8(bytes).map_err(|_| usage("the prompt is not UTF-8 text"))?
        }
        Some(text) => text.to_owned(),
    };
    if text.trim().is_empty() {
        return Err(usage("the prompt is empty"));
    }
    Ok(text)
}
