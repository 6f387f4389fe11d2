//! `vik notify test`

use std::path::Path;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use vik_base::clock;
use vik_base::report::{ErrorCode, Exit, Failure, chain, one_line};
use vik_daemon::Instance;
use vik_daemon::notify::{Delivery, deliver, test_notification};
use vik_orchestrator::signals::Signals;
use vik_workflow::WorkflowFile;

use super::completion::notifiers;
use super::doctor::Scratch;
use super::{CliResult, print, print_json, runtime};

/// `vik notify`
#[derive(Debug, Args)]
pub struct NotifyArgs {
    /// The command to run
    #[command(subcommand)]
    pub verb: NotifyVerb,
}

/// The verbs of `vik notify`.
#[derive(Debug, Subcommand)]
pub enum NotifyVerb {
    /// Send a test notification and print the result
    Test {
        /// Notifier to test [default: all]
        #[arg(value_name = "NAME", add = notifiers())]
        name: Option<String>,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
}

/// Sends a test notification once, immediately.
pub fn run(workflow: &Path, args: &NotifyArgs) -> CliResult {
    let NotifyVerb::Test { name, json } = &args.verb;
    let loaded = WorkflowFile::valid(workflow, super::warn)?;
    let known: Vec<_> = loaded.workflow.notify.keys().cloned().collect();
    let named: Vec<_> = match name {
        None => known.clone(),
        Some(name) => known
            .iter()
            .filter(|known_name| *known_name == name)
            .cloned()
            .collect(),
    };
    if named.is_empty() {
        let heading = match name {
            Some(name) if !known.is_empty() => format!("unknown notifier `{}`", one_line(name, 64)),
            _ => "the workflow has no notifiers".to_owned(),
        };
        let hint = if known.is_empty() {
            "add one under `notify`".to_owned()
        } else {
            format!("known notifiers: {}", known.join(", "))
        };
        return Err(Failure::new(Exit::Usage, ErrorCode::UnknownNotifier, heading).hint(hint));
    }
    let instance = Instance::of(&loaded.path)?;
    let host = Arc::new(vik_daemon::host(&loaded.path, &loaded.workflow, &instance)?);
    let scratch = Scratch::new()
        .map_err(|error| Failure::failed(ErrorCode::Notify, "cannot create a temporary folder", &error))?;
    let runtime = runtime()?;
    let (mut results, mut exit) = (Vec::new(), Exit::Done);
    for name in named {
        let Some(notifier) = loaded.workflow.notify.get(&name) else {
            continue;
        };
        let delivery = Delivery {
            host: Arc::clone(&host),
            notifier: notifier.clone(),
            notification: test_notification(&name, &loaded.path, clock::now()),
            folder: scratch.path().to_owned(),
        };
        let result = runtime.block_on(async {
            let mut signals = Signals::listen()
                .map_err(|error| Failure::failed(ErrorCode::Notify, "cannot handle signals", &error))?;
            let interrupt = async {
                signals.next().await;
            };
            Ok::<_, Failure>(deliver(&delivery, interrupt).await)
        })?;
        let error = result.err().map(|error| one_line(&chain(&error), 600));
        if error.is_some() {
            exit = Exit::Failed;
        }
        if !json {
            print(&match &error {
                None => format!("{name}: delivered\n"),
                Some(error) => format!("{name}: FAILED: {error}\n"),
            });
        }
        results.push(json!({
            "notifier": name,
            "ok": error.is_none(),
            "error": error,
            "delivery_id": delivery.notification.delivery_id,
        }));
    }
    if *json {
        print_json(&results);
    }
    Ok(exit)
}
