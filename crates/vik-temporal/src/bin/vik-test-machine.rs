//! A hub or a worker as a process of its own, for the tests of this crate. Development only.
//!
//! `vik-test-machine hub WORKFLOW ADDRESS` and `vik-test-machine worker WORKFLOW ADDRESS NAME` run
//! until a signal ends them, and log to stderr.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tracing::Level;
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_daemon::logging::Console;
use vik_daemon::{ListenOptions, ServeOptions, serve};
use vik_orchestrator::{Options, Silent};
use vik_temporal::codec::Codec;
use vik_temporal::connect::Settings;
use vik_temporal::engine::TemporalEngine;
use vik_temporal::names::Queue;
use vik_temporal::worker_process::{WorkerOptions, serve_worker};
use vik_workflow::{LoadedWorkflow, WorkflowFile};

/// Long enough for a busy machine, and short for a test that waits for a loss.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(6);

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
        ["hub", workflow, address] => {
            let options = ServeOptions {
                loaded: load(workflow)?,
                options: Options::default(),
                console,
                observer: Box::new(Silent),
                listen: ListenOptions::default(),
                on_listening: |_| {},
                engine: Some(Box::new(engine(address, "hub")?)),
            };
            serve(options, None).map(drop)
        }
        ["worker", workflow, address, name] => {
            let options = WorkerOptions {
                name: name.parse().map_err(|error| usage(&error))?,
                labels: BTreeSet::new(),
                capacity: NonZeroU32::MIN,
            };
            serve_worker(&engine(address, name)?, &load(workflow)?, &options, console)
        }
        _ => Err(Failure::new(Exit::Usage, ErrorCode::Usage, "unknown arguments")),
    }
}

fn load(workflow: &str) -> Result<LoadedWorkflow, Failure> {
    WorkflowFile::valid(Path::new(workflow), |_| {})
}

fn engine(address: &str, identity: &str) -> Result<TemporalEngine, Failure> {
    Ok(TemporalEngine {
        settings: Settings {
            address: address.to_owned(),
            namespace: "default".to_owned(),
            identity: identity.to_owned(),
            tls: None,
            api_key: None,
            codec: Codec::default(),
        },
        queue: Queue::new("test").map_err(|error| usage(&error))?,
        heartbeat_timeout: HEARTBEAT_TIMEOUT,
    })
}

fn usage(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Usage, ErrorCode::Usage, error.to_string())
}
