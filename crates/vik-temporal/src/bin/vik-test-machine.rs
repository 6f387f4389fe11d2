//! A hub or a worker as a process of its own, for the tests of this crate. Development only.
//!
//! `vik-test-machine hub WORKFLOW` and `vik-test-machine worker WORKFLOW NAME` run until a signal
//! ends them, and log to stderr.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::ExitCode;

use tracing::Level;
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::workflow::Engine;
use vik_daemon::logging::Console;
use vik_daemon::{ListenOptions, ServeOptions, serve};
use vik_orchestrator::{Options, Silent};
use vik_temporal::engine::TemporalEngine;
use vik_temporal::worker_process::{WorkerOptions, serve_worker};
use vik_workflow::{LoadedWorkflow, WorkflowFile};

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(verb) if verb == vik_proc::SHIM_VERB => vik_proc::shim::main(),
        Some(verb) if verb == vik_proc::servers::CONNECT_VERB => vik_proc::servers::main(),
        _ => match run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                tracing::error!("{failure:?}");
                ExitCode::FAILURE
            }
        },
    }
}

fn run() -> Result<(), Failure> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let console = Console::From(Level::INFO);
    match args[..] {
        ["hub", workflow] => {
            let loaded = load(workflow)?;
            let options = ServeOptions {
                engine: Some(Box::new(engine(&loaded, "hub")?)),
                loaded,
                options: Options::default(),
                console,
                observer: Box::new(Silent),
                listen: ListenOptions::default(),
                on_listening: |_| {},
            };
            serve(options, None).map(drop)
        }
        ["worker", workflow, name] => {
            let options = WorkerOptions {
                name: name.parse().map_err(|error| usage(&error))?,
                host: "test".to_owned(),
                labels: BTreeSet::new(),
                capacity: NonZeroU32::MIN,
                on_announced: |_| {},
            };
            let loaded = load(workflow)?;
            serve_worker(&engine(&loaded, name)?, &loaded, &options, console)
        }
        _ => Err(Failure::new(Exit::Usage, ErrorCode::Usage, "unknown arguments")),
    }
}

fn load(workflow: &str) -> Result<LoadedWorkflow, Failure> {
    WorkflowFile::valid(Path::new(workflow), |_| {})
}

fn engine(loaded: &LoadedWorkflow, identity: &str) -> Result<TemporalEngine, Failure> {
    match &loaded.workflow.engine {
        Some(Engine::Temporal(temporal)) => TemporalEngine::new(temporal.clone(), identity.to_owned()),
        None => Err(Failure::new(
            Exit::Usage,
            ErrorCode::Usage,
            "the workflow has no engine",
        )),
    }
}

fn usage(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Usage, ErrorCode::Usage, error.to_string())
}
