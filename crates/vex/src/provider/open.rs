//! Creates a provider over HTTP from the settings.

use super::ProviderError;
use super::catalog::{self, Endpoint, Env};
use super::http::{HttpProvider, HttpSettings, ListedModel, list_models};
use super::protocol::{ModelSettings, Protocol, ToolCalls};
use crate::config::Settings;
use crate::interrupt::Interrupt;

/// The default for the longest answer: longer ones only use up the context.
const LONGEST_ANSWER: u32 = 32_000;

/// Returns the provider's endpoint from the settings.
///
/// # Errors
/// When the settings are incomplete.
pub fn endpoint(settings: &Settings, env: Env<'_>) -> Result<Endpoint, ProviderError> {
    catalog::endpoint(
        settings.provider.as_deref(),
        settings.base_url.as_deref(),
        &settings.providers,
        env,
    )
}

/// Returns the setup of the provider and the model from the settings. If they name no model, a
/// server on this machine is asked for the only one that it has. `session` identifies the
/// conversation for the provider's cache.
///
/// # Errors
/// When the provider or the model is ambiguous, or the server does not list its models.
pub fn http_settings(
    settings: &Settings,
    env: Env<'_>,
    session: Option<&str>,
    interrupt: &Interrupt,
) -> Result<HttpSettings, ProviderError> {
    let endpoint = endpoint(settings, env)?;
    let model = match &settings.model {
        Some(model) => model.clone(),
        None => only_model(settings, &endpoint, interrupt)?,
    };
    let facts = super::prices::facts(&model, &settings.models);
    // Only this protocol requires the limit; others use the model's maximum.
    let asked = facts
        .max_output_tokens
        .filter(|_| endpoint.protocol == Protocol::Messages)
        .map(|most| most.min(LONGEST_ANSWER));
    let own = settings.models.get(&model).cloned().unwrap_or_default();
    let model = ModelSettings {
        max_output_tokens: own.max_output_tokens.or(asked),
        effort: settings.effort,
        thinking_budget: own.thinking_budget,
        tool_calls: own.tool_calls.unwrap_or_else(|| ToolCalls::of_model(&model)),
        structured_output: settings.output_schema.is_some() && !endpoint.is_local(),
        cache: true,
        cache_key: session.map(str::to_owned),
        extra: own.extra,
        ..ModelSettings::new(model)
    };
    Ok(HttpSettings {
        fallback_model: settings.fallback_model.clone(),
        models: settings.models.clone(),
        deadlines: settings.deadlines,
        retry: settings.retry,
        ca_file: settings.ca_file.clone(),
        ..HttpSettings::new(endpoint, model)
    })
}

/// Opens the provider in the settings.
///
/// # Errors
/// As [`http_settings`].
pub fn open(
    settings: &Settings,
    env: Env<'_>,
    session: Option<&str>,
    interrupt: &Interrupt,
) -> Result<HttpProvider, ProviderError> {
    HttpProvider::new(http_settings(settings, env, session, interrupt)?)
}

fn only_model(
    settings: &Settings,
    endpoint: &Endpoint,
    interrupt: &Interrupt,
) -> Result<String, ProviderError> {
    if endpoint.is_local() {
        let listed = list_models(endpoint.clone(), settings.ca_file.as_deref(), interrupt)?;
        if let [ListedModel { name, .. }] = &listed[..] {
            return Ok(name.clone());
        }
        let names: Vec<&str> = listed.iter().map(|model| model.name.as_str()).collect();
        return Err(ProviderError::Config(format!(
            "no model is set: choose one with -m MODEL; {} has {}",
            endpoint.name,
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        )));
    }
    let example = catalog::example_model(&endpoint.name);
    let example = example.map_or_else(String::new, |example| format!(", for example -m {example}"));
    Err(ProviderError::Config(format!(
        "no model is set: choose one with -m MODEL{example}; `vex models` lists the models of {}",
        endpoint.name
    )))
}
