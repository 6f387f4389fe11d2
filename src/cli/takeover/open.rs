//! Opens the session of a person in the terminal.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use vik_base::report::{ErrorCode, Exit, Failure, clean, describe_exit};
use vik_proc::{FileLock, Terminal};
use vik_session::attempt::{PersonSession, SessionCommand};
use vik_workspace::Workspace;

use super::{CliResult, Held, TakeoverArgs, attempt_failure, confirm, print, with_workflow};
use crate::cli::runtime;

/// Opens the session, and returns when it has ended.
pub fn run(held: Held, args: &TakeoverArgs, id: &str, workflow: &Path) -> CliResult {
    let planted = held.planted();
    let command = held.command()?;
    let Held {
        folder,
        lock,
        session,
        worker,
        ..
    } = held;
    if let Some(worker) = worker {
        let problem = format!("the workspace of issue {id} is on the worker `{worker}`, not on this machine");
        return Err(
            Failure::new(Exit::Failed, ErrorCode::Takeover, problem).hint(format!(
                "it stays taken over: work on it there, outside of Vik, and then use `vik handback {id}`"
            )),
        );
    }
    let (Some(folder), Some(session), Some(command)) = (folder, session, command) else {
        let problem = format!(
            "issue {id} has no session to continue: no attempt of it has left a workspace and a record"
        );
        return Err(
            Failure::new(Exit::Failed, ErrorCode::Takeover, problem).hint(format!(
                "it stays taken over; `vik handback {id}` lets its first attempt start"
            )),
        );
    };
    let Some(lock) = lock else {
        let problem = format!("a session of issue {id} is open already");
        return Err(Failure::new(Exit::Failed, ErrorCode::InUse, problem).hint("close it first"));
    };
    let (lock, _stages) = lock.into_parts();
    let ended = if args.outside {
        if !args.yes && !is_confirmed(&planted)? {
            print("nothing was opened\n");
            return Ok(Exit::Done);
        }
        outside(&command, folder.path(), &lock)?
    } else {
        inside(&session, &folder, lock)?
    };
    let back = with_workflow(&format!("vik handback {id}"), workflow);
    print(&format!("\n{ended}; hand the issue back with `{back}`\n"));
    Ok(Exit::Done)
}

/// Asks whether to start a program outside of the sandbox.
fn is_confirmed(planted: &[String]) -> Result<bool, Failure> {
    if planted.is_empty() {
        print("The workspace has no settings, hooks or tasks that are known to start programs.\n");
    } else {
        print("These files of the workspace can start programs outside of the sandbox:\n");
        for line in planted {
            print(&format!("  {}\n", clean(line)));
        }
    }
    let mut input = std::io::stdin().lock();
    confirm(
        &mut input,
        &mut std::io::stdout(),
        "Open the session outside of the sandbox? [y/N] ",
    )
    .map_err(|error| Failure::failed(ErrorCode::Terminal, "cannot ask", &error))
}

/// Runs the session with the environment of the person. The lock is held until it has ended: keys
/// that interrupt or quit are for the session, and a request to end is passed on to it.
fn outside(command: &SessionCommand, workdir: &Path, _lock: &FileLock) -> Result<String, Failure> {
    let Some((program, args)) = command.argv.split_first() else {
        return Ok("the agent has no command".to_owned());
    };
    let failed = |error: &std::io::Error| {
        let problem = format!("cannot run {}", clean(program));
        Failure::failed(ErrorCode::Takeover, problem, error)
    };
    let mut process = Command::new(program);
    process.args(args).current_dir(workdir);
    if let Some((name, value)) = &command.home {
        process.env(name, value);
    }
    let run = async {
        let _ignored = (signal(SignalKind::interrupt())?, signal(SignalKind::quit())?);
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut child = process.spawn()?;
        loop {
            let passed_on = tokio::select! {
                status = child.wait() => break status,
                _ = terminate.recv() => Signal::SIGTERM,
                _ = hang_up.recv() => Signal::SIGHUP,
            };
            if let Some(pid) = child.id() {
                let _ = kill(Pid::from_raw(pid.cast_signed()), passed_on);
            }
        }
    };
    let status = runtime()?.block_on(run).map_err(|error| failed(&error))?;
    Ok(format!("the session has ended ({status})"))
}

/// Runs the session on a terminal of its own, in the sandbox of the stage.
fn inside(session: &PersonSession, folder: &Workspace, lock: FileLock) -> Result<String, Failure> {
    let failed =
        |error: &std::io::Error| Failure::failed(ErrorCode::Terminal, "cannot use the terminal", error);
    runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(|error| failed(&error))?;
        let mut hang_up = signal(SignalKind::hangup()).map_err(|error| failed(&error))?;
        let mut terminal = Terminal::open().map_err(|error| failed(&error))?;
        let path = terminal.path().to_owned();
        let running = session
            .start(folder, lock, &path)
            .await
            .map_err(|failure| attempt_failure(&failure))?;
        let mut relay = tokio::task::spawn_blocking(move || {
            let result = terminal.relay();
            // Restores the terminal before anything is printed.
            drop(terminal);
            result
        });
        let mut has_relay = true;
        let mut wait = std::pin::pin!(running.wait(folder));
        let end = loop {
            tokio::select! {
                end = &mut wait => break end,
                _ = terminate.recv() => running.stop(),
                _ = hang_up.recv() => running.stop(),
                result = &mut relay, if has_relay => {
                    has_relay = false;
                    if !matches!(result, Ok(Ok(()))) {
                        running.stop();
                    }
                }
            }
        };
        if has_relay {
            let _ = relay.await;
        }
        let end = end.map_err(|failure| attempt_failure(&failure))?;
        Ok(match end {
            Ok(record) => format!("the session {}", describe_exit(&record)),
            Err(lost) => format!("the session has ended: {lost}"),
        })
    })
}
