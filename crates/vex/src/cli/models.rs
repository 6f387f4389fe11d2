//! `vex models`: the models of a provider.

use clap::Args;
use serde::Serialize;

use super::args::ChoiceArgs;
use super::output;
use crate::events::ExitReason;
use crate::interrupt::Interrupt;
use crate::provider::catalog::process_env;
use crate::provider::http::list_models;
use crate::provider::prices;
use crate::provider::{ProviderError, open};

/// `vex models`
#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Whose models.
    #[command(flatten)]
    pub choice: ChoiceArgs,
}

#[derive(Serialize)]
struct Model {
    model: String,
    context_window: Option<u64>,
    /// Whether its price is known, which `--max-usd` requires.
    priced: bool,
}

pub(super) fn run(args: &ModelsArgs) -> ExitReason {
    let loaded = match args.choice.load(Vec::new()) {
        Ok(loaded) => loaded,
        Err(error) => return output::fail(ExitReason::Config, &output::with_source(&error)),
    };
    let settings = loaded.settings;
    let listed = open::endpoint(&settings, &process_env)
        .and_then(|endpoint| list_models(endpoint, settings.ca_file.as_deref(), &Interrupt::new()));
    let listed = match listed {
        Ok(listed) => listed,
        Err(error) => return output::fail(reason(&error), &error.to_string()),
    };
    let models: Vec<Model> = listed
        .into_iter()
        .map(|listed| {
            let facts = prices::facts(&listed.name, &settings.models);
            Model {
                context_window: listed.context_window.or(facts.context_window),
                priced: facts.price.is_some(),
                model: listed.name,
            }
        })
        .collect();
    if args.json {
        return output::print_json(&models);
    }
    let row = |model: &Model| {
        let window = model
            .context_window
            .map_or_else(String::new, |tokens| format!("{tokens} tokens"));
        vec![
            model.model.clone(),
            window,
            if model.priced { "price known" } else { "" }.to_owned(),
        ]
    };
    output::print(&output::columns(&models.iter().map(row).collect::<Vec<_>>()))
}

/// Returns the exit code for a failed request.
pub(super) fn reason(error: &ProviderError) -> ExitReason {
    match error {
        ProviderError::Config(_) => ExitReason::Config,
        ProviderError::Interrupted => ExitReason::Interrupted,
        ProviderError::Reported { class, .. } if matches!(class.as_deref(), Some("auth" | "model")) => {
            ExitReason::Refused
        }
        _ => ExitReason::Failed,
    }
}
