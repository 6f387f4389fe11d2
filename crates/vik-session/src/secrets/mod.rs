//! Secrets: their values for the agents and scripts that list them. A value is looked up when it is
//! needed, registered with the masker before anything else gets it, and stored nowhere.

pub mod masked;
mod resolve;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use vik_core::workflow::{AgentProfile, NotifyAddress, NotifyChannel, SecretSource, Workflow};
use vik_mask::{Label, key_values};
use vik_workflow::WorkflowFile;
use vik_workspace::resolve_path;

use crate::host::Environment;
pub use resolve::{Resolver, SecretError, Values, is_short};

/// The variable with the names of an agent's secrets; vex masks them too.
pub const NAMES: &str = "VIK_SECRETS";

/// Registers all keys in this process's environment with the masker.
pub fn learn_own_keys() {
    let variables = std::env::vars_os();
    let texts =
        variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    vik_mask::learn(key_values(texts, &[]));
}

/// Registers the secrets of a workflow with the masker if their values are in this process's
/// environment or in a file: no command is run. A workflow that cannot be read has no secrets.
pub fn learn_stored(workflow_path: &Path) {
    let Ok(file) = WorkflowFile::read(workflow_path) else {
        return;
    };
    let folder = workflow_path.parent().unwrap_or(Path::new("/"));
    let sources = file.loaded.draft().map(|workflow| &workflow.secrets);
    for (name, source) in sources.into_iter().flatten() {
        let bytes = match source {
            SecretSource::Env(variable) => std::env::var_os(variable).map(OsString::into_vec),
            SecretSource::File(file) => resolve::read_file(&resolve_path(folder, file)).ok(),
            SecretSource::Command(_) => None,
        };
        if let Some(value) = bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
            vik_mask::learn([(Label::Secret(name.clone()), value)]);
        }
    }
}

/// Prepares for a workflow: its secrets are withheld from processes that do not list them, and the
/// keys in the workflow are masked.
pub fn protect_secrets(environment: &Environment, workflow: &Workflow) {
    environment.withhold(withheld(&workflow.secrets));
    let profiles = workflow.agents.values();
    let of_agents = profiles.flat_map(|AgentProfile { env, .. }| env.clone());
    vik_mask::learn(key_values(of_agents, &[]));
    let notifiers = workflow
        .notify
        .values()
        .flat_map(|notifier| match &notifier.channel {
            NotifyChannel::Webhook { address, secret_env } => {
                let address = match address {
                    NotifyAddress::Env(name) => Some(name),
                    NotifyAddress::Url(_) => None,
                };
                address.into_iter().chain(secret_env).collect()
            }
            NotifyChannel::Command(_) => Vec::new(),
        });
    let senders = workflow.webhooks.hooks.values().map(|hook| &hook.secret_env);
    let values = notifiers.chain(senders).filter_map(|name| environment.get(name));
    vik_mask::learn(values.map(|value| (Label::Key, value.to_owned())));
}

/// Returns the variables that are withheld from processes that do not list the secret: its source
/// and its own name.
fn withheld(secrets: &BTreeMap<String, SecretSource>) -> impl Iterator<Item = String> {
    secrets.iter().flat_map(|(name, source)| {
        let variable = match source {
            SecretSource::Env(variable) => Some(variable.clone()),
            SecretSource::File(_) | SecretSource::Command(_) => None,
        };
        variable.into_iter().chain([name.clone()])
    })
}
