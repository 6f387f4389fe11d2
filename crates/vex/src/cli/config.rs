//! `vex config`: the effective settings and their origins.

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

use super::args::ChoiceArgs;
use super::output;
use crate::config::{ShownSetting, Sources};
use crate::events::ExitReason;

/// `vex config`
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Which part of it.
    #[command(subcommand)]
    pub verb: ConfigVerb,
}

/// The verbs of `vex config`.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Show each value and its origin; secrets are never shown
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Show only values that are set
        #[arg(long)]
        set: bool,
        /// What could change the settings.
        #[command(flatten)]
        choice: ChoiceArgs,
    },
    /// List the settings files; later ones take precedence
    Path {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// What could change the places.
        #[command(flatten)]
        choice: ChoiceArgs,
    },
}

#[derive(Serialize)]
struct Report {
    settings: Vec<ShownSetting>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct File {
    path: String,
    exists: bool,
}

pub(super) fn run(args: &ConfigArgs) -> ExitReason {
    match &args.verb {
        ConfigVerb::Show { json, set, choice } => show(*json, *set, choice),
        ConfigVerb::Path { json, choice } => path(*json, choice),
    }
}

fn show(json: bool, set: bool, choice: &ChoiceArgs) -> ExitReason {
    let loaded = match choice.load(Vec::new()) {
        Ok(loaded) => loaded,
        Err(error) => return output::fail(ExitReason::Config, &output::with_source(&error)),
    };
    let mut settings = loaded.shown();
    settings.retain(|shown| !set || shown.origin != "default");
    if json {
        return output::print_json(&Report {
            settings,
            warnings: loaded.warnings,
        });
    }
    for warning in &loaded.warnings {
        output::warn(&format!("warning: {warning}"));
    }
    let rows: Vec<Vec<String>> = settings
        .into_iter()
        .map(|shown| {
            let value = match shown.value {
                Value::Null => "-".to_owned(),
                value => value.to_string(),
            };
            vec![shown.key, value, shown.origin]
        })
        .collect();
    output::print(&output::columns(&rows))
}

fn path(json: bool, choice: &ChoiceArgs) -> ExitReason {
    let workspace = choice.dir().canonicalize().ok();
    let files: Vec<File> = Sources::of_process(workspace.as_deref(), &choice.config, Vec::new())
        .files()
        .into_iter()
        .map(|path| File {
            exists: path.exists(),
            path: path.display().to_string(),
        })
        .collect();
    if json {
        return output::print_json(&files);
    }
    let row = |file: &File| {
        vec![
            file.path.clone(),
            if file.exists { "" } else { "(missing)" }.to_owned(),
        ]
    };
    output::print(&output::columns(&files.iter().map(row).collect::<Vec<_>>()))
}
