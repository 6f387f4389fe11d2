//! `vex exec`: one prompt, one run, one exit code.

use super::args::ExecArgs;
use super::output::with_source;
use super::provider::{OpenedProvider, REPLAY, RecordingArgs, open_provider};
use super::{chat, models, output, prompt, skills};
use crate::agent::limits::Limits;
use crate::agent::output::{OutputSchema, OutputSchemaError};
use crate::agent::prompt::{environment, system};
use crate::agent::verify::Verify;
use crate::agent::{self, Ending};
use crate::ask::CallApprover;
use crate::config::{LoadedConfig, Period, Settings};
use crate::events::{ExitReason, Journal, SessionStart};
use crate::evidence::RepositoryBaseline;
use crate::inbox::Inbox;
use crate::interrupt::Interrupt;
use crate::provider::{ProviderError, catalog};
use crate::redact::redact;
use crate::session::{Head, Origin, Session, SessionError, SessionId, Store};
use crate::skills::Skills;
use crate::tools::{Permission, Policy, Root, Rules, Toolbox};

pub(super) fn run(args: &ExecArgs) -> ExitReason {
    if args.ask && !args.json {
        return chat::run(args);
    }
    let journal = Journal::stdio(args.json);
    let interrupt = Interrupt::new();
    let last = journal.clone();
    let cut_off = move || {
        last.try_end(
            ExitReason::Interrupted,
            Some("interrupted by a signal and ended without cleanup"),
        );
    };
    if let Err(error) = interrupt.install(cut_off) {
        journal.error(&format!("cannot handle signals: {error}"), true, None);
        return journal.end(ExitReason::Failed, Some("cannot handle signals"));
    }
    let ending = work(args, &journal, &interrupt);
    let ending = keep_output(args, &journal, ending);
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
    let config = |message: String| Ending::failed(ExitReason::Config, message);
    let LoadedConfig {
        settings, warnings, ..
    } = match args.load() {
        Ok(loaded) => loaded,
        Err(error) => return config(with_source(&error)),
    };
    let scope = match args.scope() {
        Ok(scope) => scope,
        Err(error) => return config(error),
    };
    crate::redact::init(&catalog::key_variables(&settings.providers));
    let id = args.resume.unwrap_or_else(SessionId::fresh);
    let opened = open_model(args, &settings, id, interrupt);
    let (provider, model) = match &opened {
        Ok(opened) => (opened.name.clone(), opened.provider.model().model.clone()),
        Err(_) => {
            let provider = settings.provider.clone().unwrap_or_else(|| "none".to_owned());
            let model = settings.model.clone().unwrap_or_else(|| provider.clone());
            (provider, model)
        }
    };
    let dir = args.choice.dir();
    let root = Root::open(dir, settings.permission == Permission::Full).map(|root| root.with_scope(scope));
    let cwd = root.as_ref().map_or(dir, Root::path).display().to_string();
    let inbox = Inbox::default();
    let (asker, asked) = if args.ask || args.messages {
        let messages = args.messages.then(|| inbox.clone());
        match CallApprover::listen(std::io::stdin(), interrupt, messages) {
            Ok((asker, prompt)) => (Some(asker).filter(|_| args.ask), Some(prompt)),
            Err(error) => {
                let flag = if args.ask { "--ask" } else { "--messages" };
                return Ending::failed(ExitReason::Usage, format!("{flag}: {error}"));
            }
        }
    } else {
        (None, None)
    };
    let found = match &root {
        Ok(root) => skills::load(&args.skill, &settings, root.path()),
        Err(_) => Ok(Skills::default()),
    };
    let (found, unusable) = match found {
        Ok(found) => (found, None),
        Err(error) => (Skills::default(), Some(error)),
    };
    let policy = Policy {
        asker,
        skills: found,
        ..policy(&settings)
    };
    let tools = root.map(|root| Toolbox::new(root, policy));
    let sandbox = tools.as_ref().ok().map(Toolbox::sandbox);
    journal.session_start(&SessionStart {
        session_id: &id.to_string(),
        model: &model,
        version: crate::VERSION,
        provider: &provider,
        cwd: &cwd,
        permission: settings.permission.as_str(),
        sandbox: match &sandbox {
            Some(Ok(sandbox) | Err(sandbox)) => Some(sandbox),
            None => None,
        },
        resumed_from: args.resume.map(|id| id.to_string()).as_deref(),
        forked_from: args.fork.map(|from| from.to_string()).as_deref(),
    });
    for warning in &warnings {
        journal.warning(warning);
    }
    if let Some(error) = unusable {
        return config(error.to_string());
    }
    let mut tools = match tools {
        Ok(tools) => tools,
        Err(error) => return config(with_source(&error)),
    };
    skills::report(journal, tools.skills());
    if let Some(Err(why)) = sandbox {
        return config(why);
    }
    if settings.tries.get() > 1 && settings.verify.is_none() {
        let hint = "give a command that shows whether a try succeeded with --verify";
        return config(format!("--tries {} requires --verify: {hint}", settings.tries));
    }
    let (mut provider_in_use, learn) = match opened {
        Ok(opened) => {
            if let Some(warning) = &opened.warning {
                journal.warning(warning);
            }
            (opened.provider, opened.learn)
        }
        Err(error) => return refused(error),
    };
    let limits = match bounds(&settings, provider != REPLAY) {
        Ok(limits) => agent::Settings { learn, ..limits },
        Err(error) => return config(with_source(&error)),
    };
    let is_resumed = args.resume.is_some() || args.fork.is_some();
    let prompt = match (&args.prompt, is_resumed) {
        _ if asked.is_some() => asked,
        (None, true) => None,
        (argument, _) => match prompt::read(argument.as_deref(), interrupt) {
            Ok(prompt) => Some(prompt),
            Err(ending) => return ending,
        },
    };
    if let Some(ending) = start_servers(&mut tools, &settings, journal, interrupt) {
        return ending;
    }
    let instructions: Vec<&str> = settings.instructions.iter().map(String::as_str).collect();
    let writes_fences = provider_in_use.model().tool_calls.in_fences();
    let catalogue = skills::catalogue(journal, &tools, provider_in_use.model().context_window);
    let system = system(
        tools.root().path(),
        &instructions,
        tools.definitions(),
        &catalogue,
        writes_fences,
    );
    // In fences, the agent describes the workspace with its files.
    let environment = (!writes_fences).then(|| environment(tools.root().path(), settings.permission));
    let head = Head {
        id,
        ..Head::new(cwd, model, provider, system)
    };
    let opened = open_session(args, settings.no_session, head, journal)
        .and_then(|mut session| session.ask(prompt, environment).map(|()| session));
    let mut session = match opened {
        Ok(session) => session,
        Err(error) => return Ending::failed(ExitReason::Failed, with_source(&error)),
    };
    let before = RepositoryBaseline::capture(tools.root().path());
    let ending = agent::run(agent::Run {
        provider: provider_in_use.as_mut(),
        tools: &tools,
        journal,
        interrupt,
        session: &mut session,
        settings: &limits,
        inbox: &inbox,
    });
    journal.evidence(|evidence| before.add_to(evidence));
    ending
}

/// Starts the MCP servers, within the time of the run. Returns the ending of a run that cannot go on without one.
fn start_servers(
    tools: &mut Toolbox,
    settings: &Settings,
    journal: &Journal,
    interrupt: &Interrupt,
) -> Option<Ending> {
    if settings.mcp.is_empty() {
        return None;
    }
    let limit = settings.timeout.map(Period::get);
    if let Some(Err(error)) = limit.map(|limit| interrupt.stop_after(limit)) {
        let message = format!("cannot enforce the time limit: {error}");
        return Some(Ending::failed(ExitReason::Failed, message));
    }
    let starts = match tools.start_servers(&settings.mcp, interrupt) {
        Ok(Some(starts)) => starts,
        Ok(None) => {
            return Some(match limit.filter(|_| interrupt.timed_out()) {
                Some(limit) => {
                    let message = format!(
                        "reached the time limit of {} s while MCP servers started",
                        limit.as_secs_f64()
                    );
                    Ending::failed(ExitReason::Limit, message)
                }
                None => Ending::failed(ExitReason::Interrupted, "interrupted by a signal"),
            });
        }
        Err(error) => {
            let message = format!("cannot start a thread for MCP servers: {error}");
            return Some(Ending::failed(ExitReason::Failed, message));
        }
    };
    for start in starts {
        let name = &start.name;
        match start.outcome {
            Ok(tools) => {
                if let Some(why) = tools.refusal() {
                    let message = format!("the MCP server {name}: {why}");
                    return Some(Ending::failed(ExitReason::Config, message));
                }
                for warning in &tools.warnings {
                    journal.warning(&format!("the MCP server {name}: {warning}"));
                }
            }
            Err(error) => {
                let message = format!("the MCP server {name} does not start: {error}");
                if start.required {
                    return Some(Ending::failed(ExitReason::Config, redact(&message)));
                }
                journal.warning(&message);
            }
        }
    }
    None
}

/// Opens the provider. A recording and another provider exclude each other.
fn open_model(
    args: &ExecArgs,
    settings: &Settings,
    id: SessionId,
    interrupt: &Interrupt,
) -> Result<OpenedProvider, ProviderError> {
    let recorded = RecordingArgs {
        file: args.replay.as_deref(),
        folder: args.replay_dir.as_deref(),
    };
    match args.choice.provider.as_deref() {
        Some(other) if recorded.file.is_some() && other != REPLAY => Err(ProviderError::Config(format!(
            "--replay cannot be used with --provider {other:?}: remove one of them"
        ))),
        _ => open_provider(settings, recorded, &id.to_string(), interrupt),
    }
}

/// Returns the policy in the settings.
pub(super) fn policy(settings: &Settings) -> Policy {
    Policy {
        permission: settings.permission,
        tools: settings.tools.clone(),
        rules: Rules {
            allow: settings.allow.clone(),
            deny: settings.deny.clone(),
        },
        hooks: settings.hooks.clone(),
        asker: None,
        write: settings.write,
        sandbox_write: settings.sandbox.write.clone(),
        sandbox_required: settings.sandbox.require,
        hide_env: catalog::key_variables(&settings.providers),
        pass_env: settings.env_pass.clone(),
        skills: Skills::default(),
    }
}

/// Returns the limits and checks in the settings.
fn bounds(settings: &Settings, summaries: bool) -> Result<agent::Settings, OutputSchemaError> {
    Ok(agent::Settings {
        limits: Limits {
            turns: Some(settings.max_turns),
            tokens: settings.max_tokens,
            usd: settings.max_usd,
            time: settings.timeout.map(Period::get),
        },
        window: None,
        context: settings.context,
        summaries,
        verify: settings.verify.as_ref().map(|command| Verify {
            attempts: settings.verify_attempts.get(),
            ..Verify::new(command)
        }),
        more_tries: settings.tries.get() - 1,
        learn: None,
        snapshots: Store::of_user().ok().map(|store| store.beside("snapshots")),
        second_look: settings.second_look,
        output: settings
            .output_schema
            .as_deref()
            .map(OutputSchema::load)
            .transpose()?,
    })
}

/// Opens the session. If the log of a new one cannot be written, the run continues without a log.
fn open_session(
    args: &ExecArgs,
    unkept: bool,
    head: Head,
    journal: &Journal,
) -> Result<Session, SessionError> {
    let origin = match (args.resume, args.fork) {
        (Some(id), _) => Origin::Resume(id),
        (None, Some(from)) => Origin::Fork(from),
        (None, None) => Origin::New,
    };
    let kept = || Session::open(Some(&Store::of_user()?), origin, head.clone());
    // A resumed conversation is read from its log, so its log must be writable.
    match (!unkept || origin != Origin::New).then(kept).transpose() {
        Ok(None) => Session::open(None, origin, head),
        Ok(Some(session)) => Ok(session),
        Err(error) if origin == Origin::New => {
            let why = with_source(&error);
            journal.warning(&format!("this session cannot be resumed later: {why}"));
            Session::open(None, origin, head)
        }
        Err(error) => Err(error),
    }
}

/// Returns the ending of a run whose provider cannot be opened.
fn refused(error: ProviderError) -> Ending {
    let reason = models::reason(&error);
    let mut ending = Ending::failed(reason, error.to_string());
    if let ProviderError::Reported { class, .. } = error {
        ending.class = class;
    }
    ending
}

/// Writes the file of `-o`. A run whose answer could not be written has failed.
fn keep_output(args: &ExecArgs, journal: &Journal, ending: Ending) -> Ending {
    let (Some(path), Some(mut text)) = (&args.output, journal.final_text()) else {
        return ending;
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    match output::write_file(path, &text) {
        Err(error) if ending.reason == ExitReason::Done => Ending::failed(
            ExitReason::Failed,
            format!("cannot write {}: {error}", path.display()),
        ),
        Err(error) => {
            journal.warning(&format!("cannot write {}: {error}", path.display()));
            ending
        }
        Ok(()) => ending,
    }
}
