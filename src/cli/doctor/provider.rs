//! Checks the model provider of the built-in agent.

use std::collections::BTreeMap;
use std::path::Path;

use vex::config::{LoadedConfig, Sources};
use vex::provider::catalog::Endpoint;
use vex::provider::open;
use vex::provider::replay::{Recording, RecordingError};
use vik_base::report::chain;
use vik_core::ids::AgentName;
use vik_core::workflow::AgentProfile;
use vik_session::host::Host;

use super::check::{Check, Group};

const GROUP: Group = Group::Agents;

/// Returns the server that the built-in agent would use, from its own settings and the profile.
fn endpoint(profile: &AgentProfile, env: &BTreeMap<String, String>) -> Result<Endpoint, String> {
    let variables = env.iter().map(|(name, value)| (name.clone(), value.clone()));
    let loaded =
        LoadedConfig::load(&Sources::of_variables(variables.collect())).map_err(|error| chain(&error))?;
    let mut settings = loaded.settings;
    let override_with = |from_profile: &Option<String>, target: &mut Option<String>| {
        if from_profile.is_some() {
            target.clone_from(from_profile);
        }
    };
    override_with(&profile.provider, &mut settings.provider);
    override_with(&profile.base_url, &mut settings.base_url);
    open::endpoint(&settings, &|name| env.get(name).cloned()).map_err(|error| error.to_string())
}

/// Checks the provider of the built-in agent.
pub(super) fn check(
    host: &Host,
    name: &AgentName,
    profile: &AgentProfile,
    env: &BTreeMap<String, String>,
) -> Check {
    let check = format!("provider.{name}");
    if profile.provider.as_deref() != Some("replay") {
        return match endpoint(profile, env) {
            Ok(endpoint) => {
                let message = format!("{} at {}", endpoint.name, endpoint.base_url);
                Check::ok(GROUP, check, message)
            }
            Err(message) => Check::error(GROUP, check, "agent_provider", message)
                .hint("run `vik vex doctor --probe` with the same provider and model for details"),
        };
    }
    let base_url = profile
        .base_url
        .as_deref()
        .map(|path| match path.strip_prefix("file://") {
            Some(_) => path.to_owned(),
            None => host.workflow_dir.join(path).to_string_lossy().into_owned(),
        });
    let folder = env.get("VEX_REPLAY_DIR").map(Path::new);
    let recording = Recording::locate(None, base_url.as_deref(), folder, profile.model.as_deref())
        .and_then(|path| Recording::load(&path).map(|_| path));
    match recording {
        Ok(path) => Check::ok(GROUP, check, format!("replays {}", path.display())),
        Err(RecordingError::Read { path, source }) if source.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("recording {} not found", path.display());
            Check::error(GROUP, check, "recording_missing", message).hint(
                "`model` is the name of a recording in the folder `base_url`; for a real model, set another `provider`",
            )
        }
        Err(error) => Check::error(GROUP, check, "recording_broken", chain(&error)),
    }
}
