//! Commands of people while no daemon runs: the core applies them to the ledger, as a daemon would,
//! and the next daemon does what follows from them.

use std::sync::Arc;

use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::ids::IssueId;
use vik_core::machine::IssueMachine;
use vik_core::scheduler::{
    Actor, Command, CommandResult, Effect, Filter, HandBack, Input, Scheduler, not_to_be_handed_back,
};
use vik_core::time::{Mono, Now};
use vik_proc::{Census, ProcessId};
use vik_session::taken_over;
use vik_store::ledger::Reader;
use vik_workflow::LoadedWorkflow;
use vik_workspace::{Layout, censuses};

use crate::instance::Instance;
use crate::serve::{lock_home, open_ledger};

/// Applies a command to the ledger, under the locks of a daemon. It is on disk when this returns.
///
/// # Errors
/// If a daemon runs, the workflow has an engine, whose hubs alone decide, the caller is an agent, or
/// the ledger cannot be read or written.
pub fn apply(loaded: &LoadedWorkflow, command: Command) -> Result<CommandResult, Failure> {
    let issue = command.issue().cloned();
    decide(loaded, issue.as_ref(), |_, _| Ok(Ok(command)))
}

/// Hands an issue back that a person had taken over: records what they changed, and ends their hold.
///
/// # Errors
/// Those of [`apply`], or if the session of the person is open, or the changes cannot be recorded.
pub fn hand_back(
    loaded: &LoadedWorkflow,
    issue: &IssueId,
    message: Option<String>,
) -> Result<CommandResult, Failure> {
    decide(loaded, Some(issue), |layout, machine| {
        let Some(machine) = machine else {
            return Ok(Err(CommandResult::UnknownIssue));
        };
        let why = not_to_be_handed_back(machine);
        let Some(hold) = machine.taken_over().filter(|_| why.is_none()) else {
            return Ok(Err(CommandResult::NoEffect(why.unwrap_or_default())));
        };
        let files = taken_over::record_changes(layout, issue, hold)
            .map_err(|error| Failure::failed(ErrorCode::InUse, "cannot hand the issue back", &error))?;
        Ok(Ok(Command::HandBack(HandBack {
            issue: issue.clone(),
            message,
            files,
        })))
    })
}

/// Applies the command that `choose` returns for the machine of an issue, or returns its response.
fn decide(
    loaded: &LoadedWorkflow,
    issue: Option<&IssueId>,
    choose: impl FnOnce(&Layout, Option<&IssueMachine>) -> Result<Result<Command, CommandResult>, Failure>,
) -> Result<CommandResult, Failure> {
    if loaded.workflow.engine.is_some() {
        return Err(Failure::new(
            Exit::NoDaemon,
            ErrorCode::NoDaemon,
            format!("no hub is running for {}", loaded.path.display()),
        )
        .hint("start one with `vik run --role hub`: the ledger of this machine is a copy, and only a hub changes it"));
    }
    let instance = Instance::of(&loaded.path)?;
    // While this lock is held, no daemon can start.
    let _lock = instance.acquire()?;
    let mut host = crate::host(&loaded.path, &loaded.workflow, &instance)?;
    let layout = &mut host.layout;
    refuse_agent(layout)?;
    layout.create().map_err(|error| {
        Failure::failed(
            ErrorCode::Home,
            "cannot create the folders of this workflow",
            &error,
        )
    })?;
    let _home_lock = lock_home(layout)?;
    let (ledger, mut stored) = open_ledger(layout)?;
    if let Some(issue) = issue
        && !stored.machines.iter().any(|machine| machine.issue().id == *issue)
        && let Some(reader) = Reader::open(&layout.service_dir())?
    {
        let recalled = reader.recall(std::slice::from_ref(issue));
        stored.machines.extend(recalled?);
    }
    let mut machines = stored.machines.iter();
    let machine = issue.and_then(|issue| machines.find(|machine| machine.issue().id == *issue));
    let command = match choose(layout, machine)? {
        Ok(command) => command,
        Err(result) => return Ok(result),
    };
    let now = Now {
        wall: vik_base::clock::now(),
        mono: Mono::default(),
    };
    let mut seed = [0; 6];
    seed.copy_from_slice(&uuid::Uuid::new_v4().as_bytes()[..6]);
    let workflow = Arc::clone(&loaded.workflow);
    // The next daemon recovers the attempts that were active.
    let (mut scheduler, _) = Scheduler::restore(workflow, Filter::default(), seed, stored, now);
    let by = Actor::person("command line, without a daemon");
    let effects = scheduler.handle(now, Input::Command(0, command, by));
    // Nothing starts before a pull, and the next daemon repeats all other effects.
    let result = effects.into_iter().find_map(|effect| match effect {
        Effect::CommandResult(_, result) => Some(result),
        _ => None,
    });
    let changes = scheduler.take_changes();
    let committed = ledger.commit(changes).wait();
    committed.map_err(|error| Failure::failed(ErrorCode::Ledger, "cannot write the ledger", &error))?;
    ledger.close()?;
    Ok(result.unwrap_or(CommandResult::NoEffect("the command has no result")))
}

/// Refuses agents, which can outlive a daemon: they must not control the next one.
fn refuse_agent(layout: &Layout) -> Result<(), Failure> {
    let boot_id = vik_proc::identity::boot_id();
    let shims: Vec<ProcessId> = censuses(layout.root())
        .iter()
        .filter_map(|path| Census::read(path))
        .filter(|census| census.boot_id == boot_id)
        .filter_map(|census| census.shim)
        .filter(|shim| shim.is_alive())
        .chain(taken_over::session_shims(layout))
        .collect();
    let own = ProcessId::current();
    match vik_proc::descends_from(own.pid, &shims) {
        Some(false) => Ok(()),
        _ => Err(Failure::new(
            Exit::Failed,
            ErrorCode::Refused,
            "agents must not control the daemon that runs them",
        )),
    }
}
