//! Selects the provider: the known ones by name, their settings and those of others, and the origin
//! of keys (the environment, and nowhere else).

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProviderError;
use super::protocol::Protocol;

/// The settings of a provider. Absent values come from the known provider of that name.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// The protocol of its API.
    pub protocol: Option<Protocol>,
    /// The base URL. If it has no path, `/v1` is added for the protocols chat and responses.
    pub base_url: Option<String>,
    /// The environment variable that contains the API key.
    pub api_key_env: Option<String>,
    /// The header with the API key, if it is not the default header of the protocol.
    pub api_key_header: Option<String>,
    /// Additional headers of each request.
    pub headers: BTreeMap<String, String>,
    /// Additional query parameters of each request.
    pub query: BTreeMap<String, String>,
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("protocol", &self.protocol)
            .field("base_url", &self.base_url)
            .field("api_key_env", &self.api_key_env)
            .field("api_key_header", &self.api_key_header)
            .field("headers", &self.headers.keys())
            .field("query", &self.query.keys())
            .finish()
    }
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// A provider that is ready for requests.
#[derive(Clone)]
pub struct Endpoint {
    pub name: String,
    pub protocol: Protocol,
    /// The address before the protocol's own paths, without a `/` at the end.
    pub base_url: String,
    /// The key, if there is one.
    pub key: Option<Secret>,
    /// The variable of the key, if the provider uses one.
    pub key_env: Option<String>,
    /// The header for the key, if it differs from the protocol's own.
    pub key_header: Option<String>,
    /// Additional headers of each request.
    pub headers: BTreeMap<String, String>,
    /// Additional query parameters of each request.
    pub query: BTreeMap<String, String>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("name", &self.name)
            .field("protocol", &self.protocol)
            .field("base_url", &self.base_url)
            .field("key", &self.key)
            .field("headers", &self.headers.keys())
            .field("query", &self.query.keys())
            .finish()
    }
}

impl Endpoint {
    /// Returns the address of one of the provider's paths (`/chat/completions`), without the query.
    pub fn address(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    /// Returns whether it is on this machine.
    pub fn is_local(&self) -> bool {
        is_loopback(&self.base_url)
    }

    /// Returns whether its key would be sent unencrypted over the network.
    pub fn shows_key(&self) -> bool {
        self.key.is_some() && self.base_url.starts_with("http://") && !self.is_local()
    }
}

/// A provider that needs no settings.
struct KnownProvider {
    name: &'static str,
    protocol: Protocol,
    base_url: &'static str,
    key_env: Option<&'static str>,
    url_env: Option<&'static str>,
    /// A model for a start.
    example: &'static str,
}

const KNOWN: &[KnownProvider] = &[
    KnownProvider {
        name: "anthropic",
        protocol: Protocol::Messages,
        base_url: "https://api.anthropic.com",
        key_env: Some("ANTHROPIC_API_KEY"),
        url_env: Some("ANTHROPIC_BASE_URL"),
        example: "claude-sonnet-5-5",
    },
    KnownProvider {
        name: "openai",
        protocol: Protocol::Responses,
        base_url: "https://api.openai.com/v1",
        key_env: Some("OPENAI_API_KEY"),
        url_env: Some("OPENAI_BASE_URL"),
        example: "gpt-6.2-sol",
    },
    KnownProvider {
        name: "openrouter",
        protocol: Protocol::Chat,
        base_url: "https://openrouter.ai/api/v1",
        key_env: Some("OPENROUTER_API_KEY"),
        url_env: None,
        example: "anthropic/claude-sonnet-5.5",
    },
    KnownProvider {
        name: "ollama",
        protocol: Protocol::Chat,
        base_url: "http://127.0.0.1:11434/v1",
        key_env: None,
        url_env: None,
        example: "qwen2.5-coder",
    },
    KnownProvider {
        name: LOCAL,
        protocol: Protocol::Chat,
        base_url: "http://127.0.0.1:8080/v1",
        key_env: None,
        url_env: None,
        example: "default",
    },
];

/// The provider of an address that is given without a name.
const LOCAL: &str = "local";

/// Looks up a variable of the environment; an empty one counts as missing.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads the variables of the process itself.
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the names of all available providers.
pub fn names(configured: &BTreeMap<String, ProviderConfig>) -> Vec<String> {
    let mut names: Vec<String> = KNOWN.iter().map(|known| known.name.to_owned()).collect();
    names.extend(configured.keys().filter(|name| known(name).is_none()).cloned());
    names
}

/// Returns the variables that may hold keys: their values must never be shown.
pub fn key_variables(configured: &BTreeMap<String, ProviderConfig>) -> Vec<String> {
    let known = KNOWN.iter().filter_map(|known| known.key_env.map(str::to_owned));
    let own = configured
        .values()
        .filter_map(|config| config.api_key_env.clone());
    known.chain(own).collect()
}

/// Finds the provider and its address. `base_url` comes from the command line.
///
/// Without a name it is `local` if an address is given (so that no key is sent to it by chance),
/// else the one whose key is set, if it is exactly one.
///
/// # Errors
/// When the provider is ambiguous, lacks an address or a key, or has an invalid address.
pub fn endpoint(
    name: Option<&str>,
    base_url: Option<&str>,
    configured: &BTreeMap<String, ProviderConfig>,
    env: Env<'_>,
) -> Result<Endpoint, ProviderError> {
    let config_error = |text: String| Err(ProviderError::Config(text));
    let set = |variable: &str| env(variable).filter(|value| !value.is_empty());
    let name = match (name, base_url) {
        (Some(name), _) => name.to_owned(),
        (None, Some(_)) => LOCAL.to_owned(),
        (None, None) => only_one_with_key(configured, &set)?,
    };
    let known = known(&name);
    let config = configured.get(&name);
    if known.is_none() && config.is_none() {
        return config_error(format!(
            "unknown provider {name:?}: expected one of {}, or a [providers.NAME] table in the settings",
            names(configured).join(", ")
        ));
    }
    let config = config.cloned().unwrap_or_default();
    let Some(protocol) = config.protocol.or(known.map(|known| known.protocol)) else {
        return config_error(format!(
            "the provider {name:?} has no protocol: set providers.{name}.protocol to messages, chat or responses"
        ));
    };
    let from_env = known.and_then(|known| known.url_env).and_then(&set);
    let address = base_url
        .map(str::to_owned)
        .or(from_env)
        .or(config.base_url)
        .or_else(|| known.map(|known| known.base_url.to_owned()));
    let Some(address) = address else {
        return config_error(format!(
            "the provider {name:?} has no address: set providers.{name}.base_url or --base-url"
        ));
    };
    let base_url = base_of(&address, protocol).map_err(ProviderError::Config)?;
    let key_env = config
        .api_key_env
        .or_else(|| known.and_then(|known| known.key_env.map(str::to_owned)));
    let key = key_env
        .as_deref()
        .and_then(&set)
        .map(|key| Secret::new(key.trim()));
    if let (Some(variable), None) = (&key_env, &key)
        && !is_loopback(&base_url)
    {
        return config_error(format!("{variable} is not set: {name} requires an API key"));
    }
    Ok(Endpoint {
        name,
        protocol,
        base_url,
        key,
        key_env,
        key_header: config.api_key_header,
        headers: config.headers,
        query: config.query,
    })
}

/// Returns a model of a known provider, for a hint.
pub(crate) fn example_model(name: &str) -> Option<&'static str> {
    known(name).map(|known| known.example)
}

fn known(name: &str) -> Option<&'static KnownProvider> {
    KNOWN.iter().find(|known| known.name == name)
}

fn only_one_with_key(
    configured: &BTreeMap<String, ProviderConfig>,
    set: &dyn Fn(&str) -> Option<String>,
) -> Result<String, ProviderError> {
    let key_of = |name: &str| {
        let own = configured.get(name).and_then(|config| config.api_key_env.clone());
        own.or_else(|| known(name)?.key_env.map(str::to_owned))
    };
    let all = names(configured);
    let keyed: Vec<(&String, String)> = all
        .iter()
        .filter_map(|name| Some((name, key_of(name)?)))
        .collect();
    let ready: Vec<&String> = keyed
        .iter()
        .filter(|(_, variable)| set(variable).is_some())
        .map(|(name, _)| *name)
        .collect();
    match ready[..] {
        [one] => Ok(one.clone()),
        [] => {
            let variables: Vec<&str> = keyed.iter().map(|(_, variable)| variable.as_str()).collect();
            Err(ProviderError::Config(format!(
                "no provider is selected: set one of {}, --provider NAME ({}) or --base-url URL",
                variables.join(", "),
                all.join(", ")
            )))
        }
        _ => {
            let names: Vec<&str> = ready.iter().map(|name| name.as_str()).collect();
            Err(ProviderError::Config(format!(
                "cannot select a provider: API keys are set for {}; choose one with --provider NAME",
                names.join(" and ")
            )))
        }
    }
}

/// Returns the address before the protocol's own paths.
fn base_of(address: &str, protocol: Protocol) -> Result<String, String> {
    let url = reqwest::Url::parse(address)
        .map_err(|error| format!("invalid provider address {address:?}: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(format!(
            "invalid provider address {address:?}: it does not start with http:// or https://"
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "the address of a provider must not contain a user name or password; set the API key in the environment".into(),
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!(
            "the address {address:?} has a query: set providers.NAME.query instead"
        ));
    }
    let path = url.path().trim_end_matches('/');
    let path = match protocol {
        // Its paths contain the version, which ANTHROPIC_BASE_URL does not by convention.
        Protocol::Messages => path.strip_suffix("/v1").unwrap_or(path),
        Protocol::Chat | Protocol::Responses if path.is_empty() => "/v1",
        Protocol::Chat | Protocol::Responses => path,
    };
    Ok(url.origin().ascii_serialization() + path)
}

/// Returns whether an address is on this machine.
pub(crate) fn is_loopback(address: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(address) else {
        return false;
    };
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || ip.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests;
