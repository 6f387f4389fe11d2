//! `vik run`

use std::ffi::OsString;
use std::net::IpAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use clap::Args;
use vik_api::ApiView;
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::ids::{IssueId, StageName};
use vik_core::scheduler::Filter;
use vik_daemon::logging::Console;
use vik_daemon::{ListenOptions, Ready, ServeOptions};
use vik_orchestrator::{Observer, OpenFiles, Options, Silent, api_view};
use vik_session::hooks::outside;
use vik_workflow::{LoadedWorkflow, WorkflowFile, absolute};
use vik_workspace::Layout;

use super::completion::{issues, stages};
use super::engine::{self, Patience, Role};
use super::positional::Positional;
use super::progress::{Lines, WorkResult, summary};
use super::{CliResult, built_in_agent, print};

/// `vik run`
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub workflow: Positional,
    /// Run in the background; return when the daemon is ready
    #[arg(short, long, alias = "detached", conflicts_with_all = ["once", "dry_run"])]
    pub detach: bool,
    /// Run until no work is left, then exit with a code for the result
    #[arg(long)]
    pub once: bool,
    /// Pull once and show what would start, with rendered prompts and hooks, without starting anything
    #[arg(long, conflicts_with = "once")]
    pub dry_run: bool,
    /// Handle only this issue (can be repeated)
    #[arg(long, value_name = "ID", add = issues())]
    pub issue: Vec<String>,
    /// Run only this stage (can be repeated)
    #[arg(long, value_name = "NAME", add = stages())]
    pub stage: Vec<String>,
    /// Exit after this many pulls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_iterations: Option<u64>,
    /// Port of the dashboard and the HTTP API; 0 selects a free port [default: `http.port` of the workflow]
    #[arg(long, value_name = "N", conflicts_with = "dry_run")]
    pub port: Option<u16>,
    /// Address of the dashboard and the HTTP API; an address other than loopback exposes them to the network unencrypted [default: `http.bind` of the workflow, or 127.0.0.1]
    #[arg(long, value_name = "A", conflicts_with = "dry_run")]
    pub bind_address: Option<IpAddr>,
    /// What this process does, if the workflow has an `engine`: `hub`
    #[arg(long, value_enum, value_name = "ROLE", hide_possible_values = true)]
    pub role: Option<Role>,
    /// Log more to stderr (-v info, -vv debug)
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Run as the detached daemon process
    #[arg(long, hide = true)]
    pub daemon_child: bool,
    /// Follow the hub that leads again, after this process has led
    #[arg(long, hide = true)]
    pub follow_again: bool,
}

/// Runs the daemon, or one round of work.
pub fn run(workflow: &Path, args: &RunArgs) -> CliResult {
    if args.detach {
        let mut daemon_args = options(args).to_args();
        daemon_args.extend(listen(args).to_args());
        daemon_args.extend(args.role.map(|Role::Hub| "--role=hub".to_owned()));
        return detach(workflow, daemon_args);
    }
    let ready = args.daemon_child.then(Ready::enter);
    let loaded = match valid(workflow, args).inspect(warn_of_hooks) {
        Ok(loaded) => loaded,
        Err(failure) => {
            if let Some(ready) = ready {
                ready.failed(&failure);
            }
            return Err(failure);
        }
    };
    if args.dry_run {
        return super::dry_run::run(&loaded, options(args).filter);
    }
    let console = match args.verbose {
        _ if args.daemon_child => Console::Off,
        0 => Console::Off,
        1 => Console::From(tracing::Level::INFO),
        _ => Console::From(tracing::Level::DEBUG),
    };
    let observer: Box<dyn Observer> = if args.daemon_child || args.verbose > 0 {
        Box::new(Silent)
    } else {
        Box::new(Lines::new())
    };
    let patience = match args.follow_again {
        true => Patience::Unlimited,
        false => Patience::Start,
    };
    let serve = ServeOptions {
        engine: engine::of_hub(&loaded, patience)?,
        loaded,
        options: options(args),
        console,
        observer,
        listen: listen(args),
        on_listening: if args.daemon_child { |_| {} } else { print_address },
    };
    let workflow_path = serve.loaded.path.clone();
    let root = serve.loaded.workflow.workspace_root.clone();
    let closing = match vik_daemon::serve(serve, ready) {
        Err(failure) if failure.code() == ErrorCode::Superseded.as_str() => return follow_again(args),
        closing => closing?,
    };
    if !args.daemon_child {
        let layout = Layout::resolve(&workflow_path, &root);
        let results = layout.map_or(Vec::new(), |layout| WorkResult::find(&closing, &layout));
        print(&summary(&closing, &results, args.once));
    }
    Ok(vik_daemon::exit_of(&closing, args.once))
}

/// Replaces this process by a hub that follows, after another one has taken the lead. A new process
/// has nothing of the old one but its arguments.
fn follow_again(args: &RunArgs) -> CliResult {
    let failed = |error: &std::io::Error| {
        Failure::failed(ErrorCode::Daemon, "cannot follow the hub that leads", error)
    };
    let mut command = Command::new(std::env::current_exe().map_err(|error| failed(&error))?);
    command.args(std::env::args_os().skip(1));
    if !args.follow_again {
        command.arg("--follow-again");
    }
    Err(failed(&command.exec()))
}

fn listen(args: &RunArgs) -> ListenOptions {
    ListenOptions {
        port: args.port,
        bind: args.bind_address,
    }
}

fn print_address(api: &ApiView) {
    print(&format!(
        "dashboard and API at http://{}/; `vik status` prints a link to sign in\n",
        api.address
    ));
}

fn valid(workflow: &Path, args: &RunArgs) -> Result<LoadedWorkflow, Failure> {
    let valid = WorkflowFile::valid(workflow, super::warn)?;
    built_in_agent::check(&valid.workflow)?;
    engine::check(&valid.path, &valid.workflow)?;
    if !args.dry_run {
        engine::check_role(&valid.workflow, args.role)?;
    }
    // An address without a port would never be served.
    let is_served = valid
        .workflow
        .http
        .address(args.port, args.bind_address)
        .is_some();
    if args.bind_address.is_some() && !is_served {
        return Err(
            Failure::new(Exit::Usage, ErrorCode::Usage, "`--bind-address` needs a port")
                .hint("add `--port N`, or `http.port` to the workflow"),
        );
    }
    for name in &args.stage {
        if valid.workflow.stage(&StageName::new(name.as_str())).is_none() {
            return Err(api_view::unknown_stage(name, valid.workflow.stage_names()));
        }
    }
    Ok(valid)
}

fn options(args: &RunArgs) -> Options {
    let filter = Filter {
        issues: args.issue.iter().map(|id| IssueId::new(id.as_str())).collect(),
        stages: args
            .stage
            .iter()
            .map(|name| StageName::new(name.as_str()))
            .collect(),
    };
    Options {
        once: args.once,
        max_iterations: args.max_iterations,
        filter,
    }
}

/// Warns about hooks outside of the sandbox that run what an agent may have written.
fn warn_of_hooks(loaded: &LoadedWorkflow) {
    let folder = loaded.path.parent().unwrap_or(Path::new("/"));
    let found = outside::find(&loaded.workflow, |prompt| {
        loaded.prompts.source(folder, prompt).ok()
    });
    for found in found {
        super::warn(&format!(
            "warning: {}\n   hint: {}\n",
            found.message(),
            found.hint()
        ));
    }
}

/// Warns if the workflow allows more sessions than the limit on open files. A daemon in the
/// foreground does it itself.
fn warn_of_open_files(loaded: &LoadedWorkflow) {
    if let Some((problem, hint)) = OpenFiles::of_daemon().problem(&loaded.workflow) {
        super::warn(&format!("warning: {problem}\n   hint: {hint}\n"));
    }
}

/// Starts a detached daemon and prints its pid. `options` are passed to the daemon's own `run`.
pub fn detach(workflow: &Path, options: Vec<String>) -> CliResult {
    // Warnings are for the person at the terminal, not for the daemon's log.
    WorkflowFile::valid(workflow, super::warn)
        .inspect(warn_of_hooks)
        .inspect(warn_of_open_files)?;
    let mut args: Vec<OsString> = vec!["run".into(), "--daemon-child".into()];
    args.extend(["--workflow".into(), absolute(workflow).into()]);
    args.extend(options.into_iter().map(OsString::from));
    let pid = vik_daemon::detach(&args)?;
    print(&format!(
        "vik started (pid {pid}); check it with `vik status`, stop it with `vik stop`\n"
    ));
    if let Some(api) = super::history::status(workflow).and_then(|status| status.api) {
        print_address(&api);
    }
    Ok(Exit::Done)
}
