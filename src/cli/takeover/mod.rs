//! `vik takeover`

mod open;
mod planted;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use vik_api::TakeoverView;
use vik_base::report::{ErrorCode, Exit, Failure, date_time, one_line};
use vik_core::ids::{IssueId, StageName};
use vik_core::machine::{IssueMachine, TakenOver};
use vik_core::scheduler::{Command, TakeOver};
use vik_core::worker::WorkerName;
use vik_core::workflow::shell_quoted;
use vik_daemon::Instance;
use vik_session::attempt::{PersonSession, SessionCommand};
use vik_session::host::Host;
use vik_session::taken_over;
use vik_store::AttemptFailure;
use vik_store::ledger::Reader;
use vik_workflow::{LoadedWorkflow, WorkflowFile, absolute};
use vik_workspace::{Workspace, WorkspaceLock};

use super::client::{self, ActionOutcome};
use super::completion::stages;
use super::issue_arg::RequiredIssue;
use super::{CliResult, confirm, print, print_json, with_workflow};

/// How often the end of the agent is checked.
const POLL: Duration = Duration::from_millis(200);

/// `vik takeover`
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing of the issue starts, and nothing of it is pruned or removed, until `vik handback`, also \
                  over restarts of the daemon. The stopped agent uses up no attempt. The usage of your session \
                  is not counted."
)]
pub struct TakeoverArgs {
    #[command(flatten)]
    pub issue: RequiredIssue,
    /// Let the running agent end first, instead of stopping it
    #[arg(long)]
    pub wait: bool,
    /// Start the agent's own session in this terminal, in the sandbox of the stage
    #[arg(long, conflicts_with = "json")]
    pub open: bool,
    /// Print the folder and the command of the session [default]
    #[arg(long, conflicts_with = "open")]
    pub print: bool,
    /// With --open, start it outside of the sandbox, with your own environment
    #[arg(long, requires = "open")]
    pub outside: bool,
    /// With --outside, do not ask
    #[arg(long, short, requires = "outside")]
    pub yes: bool,
    /// Continue the conversation of this stage [default: the stage that runs or ran last]
    #[arg(long, value_name = "NAME", add = stages())]
    pub stage: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// An issue that is taken over, and no agent of which is left.
struct Held {
    host: Arc<Host>,
    issue: IssueId,
    hold: TakenOver,
    folder: Option<Workspace>,
    /// `None` while another session is open.
    lock: Option<WorkspaceLock>,
    session: Option<PersonSession>,
    /// The worker that has the workspace, if it is not on this machine.
    worker: Option<WorkerName>,
}

/// Takes an issue over from its agent.
pub fn run(workflow: &Path, args: &TakeoverArgs) -> CliResult {
    let path = absolute(workflow);
    let loaded = WorkflowFile::valid(&path, |_| {})?;
    let issue = IssueId::from(args.issue.id());
    let id = one_line(args.issue.id(), 60);
    if args.open && !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        let problem = "`--open` needs a terminal";
        return Err(Failure::new(Exit::Usage, ErrorCode::Terminal, problem)
            .hint("use `--print`, and start the printed command yourself"));
    }
    if let Some(stage) = args.stage.as_deref().map(StageName::new)
        && loaded.workflow.stage(&stage).is_none()
    {
        let problem = format!("the workflow has no stage `{}`", one_line(stage.as_str(), 60));
        return Err(Failure::new(Exit::Usage, ErrorCode::UnknownStage, problem));
    }
    let request = TakeOver {
        issue: issue.clone(),
        stage: args.stage.clone().map(StageName::new),
        wait: args.wait,
    };
    let outcome = client::act(workflow, Command::TakeOver(request))?;
    let host = Arc::new(vik_daemon::host(
        &loaded.path,
        &loaded.workflow,
        &Instance::of(&path)?,
    )?);
    let hold = wait_for_end(workflow, &host, &issue, &outcome)?;
    let held = Held::new(host, &loaded, issue, hold)?;
    if args.open {
        return open::run(held, args, &id, workflow);
    }
    held.print(args, &id, workflow)
}

/// Waits until no agent of the issue is left, and returns the hold.
fn wait_for_end(
    workflow: &Path,
    host: &Host,
    issue: &IssueId,
    outcome: &ActionOutcome,
) -> Result<TakenOver, Failure> {
    let id = one_line(issue.as_str(), 60);
    let mut is_announced = false;
    loop {
        let machine = machine(host, issue)?;
        let hold = machine.as_ref().and_then(IssueMachine::taken_over).cloned();
        let (Some(machine), Some(hold)) = (machine, hold) else {
            let why = match outcome {
                ActionOutcome::Nothing(why) => why.clone(),
                ActionOutcome::Applied(_) => "it was handed back meanwhile".to_owned(),
            };
            return Err(Failure::new(
                Exit::Failed,
                ErrorCode::NothingWaits,
                format!("issue {id}: {why}"),
            ));
        };
        if !machine.is_busy() {
            return Ok(hold);
        }
        client::find(workflow).map_err(|error| {
            error.hint("an agent of an earlier daemon may be alive: start the daemon, which ends it")
        })?;
        if !std::mem::replace(&mut is_announced, true) {
            super::warn(&format!(
                "issue {id} is taken over; waiting until its agent has ended (Ctrl-C stops only the waiting)\n"
            ));
        }
        std::thread::sleep(POLL);
    }
}

/// Returns what the ledger has of an issue.
fn machine(host: &Host, issue: &IssueId) -> Result<Option<IssueMachine>, Failure> {
    let reader = Reader::open(&host.layout.service_dir())?;
    let Some(reader) = reader else { return Ok(None) };
    let machines = reader.recall(std::slice::from_ref(issue));
    Ok(machines?.pop())
}

impl Held {
    fn new(
        host: Arc<Host>,
        loaded: &LoadedWorkflow,
        issue: IssueId,
        hold: TakenOver,
    ) -> Result<Self, Failure> {
        let layout = &host.layout;
        let failure = |error: &dyn std::error::Error| {
            Failure::failed(
                ErrorCode::Takeover,
                "cannot open the workspace of the issue",
                error,
            )
        };
        let folder = vik_workspace::open(layout, &issue).map_err(|error| failure(&error))?;
        let lock = match &folder {
            Some(_) => vik_workspace::lock(layout, &issue).map_err(|error| failure(&error))?,
            None => None,
        };
        if lock.is_some() {
            taken_over::record_base(layout, &issue, &hold).map_err(|error| failure(&error))?;
        }
        let worker = match (&folder, &loaded.workflow.engine) {
            (None, Some(_)) => machine(&host, &issue)?.and_then(|machine| machine.worker().cloned()),
            _ => None,
        };
        let past = taken_over::latest_attempt(layout, &issue, hold.stage.as_ref());
        let past = past.map_err(|error| failure(&error))?;
        let session = past.and_then(|past| PersonSession::new(Arc::clone(&host), loaded, &past, &hold));
        Ok(Self {
            host,
            issue,
            hold,
            folder,
            lock,
            session,
            worker,
        })
    }

    fn command(&self) -> Result<Option<SessionCommand>, Failure> {
        let command = self.session.as_ref().zip(self.folder.as_ref());
        let command = command.map(|(session, folder)| session.command(folder.path()));
        command.transpose().map_err(|failure| attempt_failure(&failure))
    }

    fn planted(&self) -> Vec<String> {
        let folder = self.folder.as_ref();
        folder.map_or_else(Vec::new, |folder| {
            planted::list(&self.host.layout, &self.issue, folder.path())
        })
    }

    fn view(&self, command: Option<SessionCommand>, workdir: Option<&Path>) -> TakeoverView {
        let resumes = command.as_ref().is_some_and(|command| command.resumes);
        let session = self.session.as_ref().filter(|_| resumes);
        let (argv, home) = command.map_or_else(Default::default, |command| (command.argv, command.home));
        TakeoverView {
            schema: vik_api::SCHEMA,
            issue_id: self.issue.clone(),
            session_id: self.hold.session.to_string(),
            by: self.hold.by.clone(),
            since: self.hold.since,
            stage: self.hold.stage.clone(),
            workdir: workdir.map(|workdir| workdir.to_string_lossy().into_owned()),
            conversation: session.and_then(PersonSession::conversation).map(str::to_owned),
            argv,
            env: home.into_iter().collect(),
            planted: self.planted(),
        }
    }

    fn print(&self, args: &TakeoverArgs, id: &str, workflow: &Path) -> CliResult {
        let command = self.command()?;
        let workdir = self.folder.as_ref().map(Workspace::path);
        if args.json {
            print_json(&self.view(command, workdir));
            return Ok(Exit::Done);
        }
        let mut out = format!(
            "issue {id} is taken over by {} since {}\n",
            one_line(&self.hold.by, 80),
            date_time(self.hold.since)
        );
        match (workdir, &command) {
            (Some(workdir), Some(command)) => {
                let open = with_workflow(&format!("vik takeover {} --open", shell_quoted(id)), workflow);
                out.push_str(&format!("folder   {}\n", workdir.display()));
                out.push_str(&format!("session  {}\n", about(command)));
                out.push_str(&format!("open     {open}\n"));
                out.push_str(&format!("outside  {}\n", command_line(command, workdir)));
                let planted = self.planted();
                if !planted.is_empty() {
                    out.push_str("\nThe last command runs outside of the sandbox, where these files of the workspace can start programs:\n");
                    planted
                        .iter()
                        .for_each(|line| out.push_str(&format!("  {line}\n")));
                }
                if self.lock.is_none() {
                    out.push_str("\nA session is open already: close it before you open another one.\n");
                }
                out.push('\n');
            }
            (Some(workdir), None) => {
                out.push_str(&format!(
                    "folder   {}\nNo attempt has left a record, so there is no session to continue.\n",
                    workdir.display()
                ));
            }
            (None, _) => match &self.worker {
                Some(worker) => out.push_str(&format!(
                    "Its workspace is on the worker `{worker}`: work on it there, outside of Vik.\n"
                )),
                None => out.push_str("It has no workspace yet, because no attempt has created one.\n"),
            },
        }
        let back = with_workflow(&format!("vik handback {}", shell_quoted(id)), workflow);
        out.push_str(&format!(
            "Nothing of it starts until `{back}`. The usage of your session is not counted.\n"
        ));
        print(&out);
        Ok(Exit::Done)
    }
}

/// Returns what a command is, for people.
fn about(command: &SessionCommand) -> &'static str {
    match (command.is_agent, command.resumes) {
        (true, true) => "the agent's own, which continues its conversation",
        (true, false) => "the agent's own, as a new conversation: the last attempt has none",
        (false, _) => "a shell: the agent has no session for people",
    }
}

/// Returns a line for a shell.
fn command_line(command: &SessionCommand, workdir: &Path) -> String {
    let mut line = format!("cd {} && ", shell_quoted(&workdir.to_string_lossy()));
    if let Some((name, value)) = &command.home {
        line.push_str(&format!("{name}={} ", shell_quoted(value)));
    }
    let args: Vec<_> = command.argv.iter().map(|arg| shell_quoted(arg)).collect();
    line.push_str(&args.join(" "));
    line
}

fn attempt_failure(failure: &AttemptFailure) -> Failure {
    let reason = failure.plain_reason().to_owned();
    Failure::new(
        Exit::Failed,
        ErrorCode::Takeover,
        format!("cannot prepare the session: {reason}"),
    )
}
