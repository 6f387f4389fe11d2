//! Opens the provider: a recording, or an API over HTTP.

use std::path::Path;

use super::output::with_source;
use crate::config::Settings;
use crate::interrupt::Interrupt;
use crate::provider::catalog::process_env;
use crate::provider::learned::LearnedForm;
use crate::provider::replay::{Recording, Replay};
use crate::provider::{Provider, ProviderError, open};

/// The name of the provider that plays recordings.
pub(super) const REPLAY: &str = "replay";

/// A recording, as flags name it.
#[derive(Clone, Copy, Default)]
pub(super) struct RecordingArgs<'a> {
    pub(super) file: Option<&'a Path>,
    pub(super) folder: Option<&'a Path>,
}

/// A provider that is ready for requests.
pub(super) struct OpenedProvider {
    pub(super) name: String,
    /// A warning for the user.
    pub(super) warning: Option<String>,
    pub(super) provider: Box<dyn Provider>,
    /// Where the form of calls of an unknown model is remembered.
    pub(super) learn: Option<LearnedForm>,
}

/// Opens the provider in the settings. A named recording takes precedence.
pub(super) fn open_provider(
    settings: &Settings,
    recorded: RecordingArgs<'_>,
    session: &str,
    interrupt: &Interrupt,
) -> Result<OpenedProvider, ProviderError> {
    if recorded.file.is_none() && settings.provider.as_deref() != Some(REPLAY) {
        let endpoint = open::endpoint(settings, &process_env)?;
        let mut provider = open::open(settings, &process_env, Some(session), interrupt)?;
        let mut learn = LearnedForm::of(settings, &endpoint.base_url, &provider.model().model);
        if let Some(form) = learn.as_ref().and_then(LearnedForm::remembered) {
            provider.set_tool_calls(form);
            learn = None;
        }
        return Ok(OpenedProvider {
            learn,
            warning: endpoint.shows_key().then(|| {
                format!(
                    "the API key of {} is sent to {} without encryption: use https",
                    endpoint.name, endpoint.base_url
                )
            }),
            name: endpoint.name,
            provider: Box::new(provider),
        });
    }
    let model = settings.model.as_deref();
    let recording = Recording::locate(
        recorded.file,
        settings.base_url.as_deref(),
        recorded.folder,
        model,
    )
    .and_then(|path| Recording::load(&path))
    .map_err(|error| ProviderError::Config(with_source(&error)))?;
    Ok(OpenedProvider {
        learn: None,
        name: REPLAY.to_owned(),
        warning: None,
        provider: Box::new(Replay::new(recording, model.unwrap_or(REPLAY))),
    })
}
