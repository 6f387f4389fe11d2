//! `engine`: what coordinates the machines of a workflow that runs on several of them.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::mcp::secret_name;
use crate::duration::Span;

/// The maximum length of the name of a task queue, in bytes.
const MAX_QUEUE_BYTES: usize = 64;

/// The maximum length of a host name, in bytes.
const MAX_HOST_BYTES: usize = 253;

/// `engine`: what coordinates several machines. A workflow without one runs on this machine alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// `temporal`: a Temporal server.
    Temporal(Temporal),
}

/// `engine.temporal`: a Temporal server, and what belongs to this workflow on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Temporal {
    pub address: ServerAddress,
    pub namespace: String,
    pub task_queue: TaskQueueName,
    /// `tls`: the certificates of the connection. `None` if it is not encrypted, except with an API
    /// key.
    pub tls: Option<EngineTls>,
    /// `api_key`: the secret that the server requires.
    pub api_key: Option<SecretRef>,
    /// `payload_key`: the secret with the key that encrypts what the server stores.
    pub payload_key: Option<SecretRef>,
    /// `heartbeat`: how long a worker may be silent before it has lost its attempts.
    pub heartbeat: Span,
}

impl Temporal {
    /// The minimum of `heartbeat`.
    ///
    /// All times of an attempt are shares of it, counted from before the last confirmed heartbeat was
    /// sent. With three seconds, the next one is due after 0.75 s, and the lease ends after 2.25 s.
    /// The server counts from when it has the heartbeat, which is later, so it gives the attempt to
    /// another worker after 3 s at the earliest. In the 0.75 s between, the shim must see the end of
    /// the lease and kill the tree. It has a timer for that; a shim without one reads the clock each
    /// half second, which leaves 0.25 s for the kill. With two seconds, nothing would be left. No two
    /// clocks are compared: the server and the worker only measure durations.
    pub const MIN_HEARTBEAT: Span = Span::secs(3);
    /// The maximum of `heartbeat`.
    pub const MAX_HEARTBEAT: Span = Span::mins(5);
}

/// `engine.temporal.tls`: certificates, as files relative to the workflow file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineTls {
    /// `ca_file`: the authorities that are trusted; `None` for those of the system.
    pub ca_file: Option<String>,
    /// `server_name`: the name in the certificate of the server; `None` for that of the address.
    pub server_name: Option<String>,
    /// `cert_file` and `key_file`: the certificate of this client.
    pub client: Option<ClientCertificate>,
}

/// The certificate of a client and its private key, as files relative to the workflow file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientCertificate {
    pub cert_file: String,
    pub key_file: String,
}

/// Why a text cannot be a value of `engine`. It never contains the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEngineText {
    #[error("an address has the form `host:port`, without a scheme")]
    Address,
    #[error("the name of a task queue has 1 to {MAX_QUEUE_BYTES} letters, digits, `-`, `_` and `.`")]
    TaskQueue,
    #[error("a secret is written as `${{NAME}}`")]
    Secret,
}

macro_rules! engine_text {
    ($(#[$doc:meta])* $name:ident, $is_valid:ident, $error:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Returns the text as it is written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidEngineText;

            fn try_from(text: String) -> Result<Self, InvalidEngineText> {
                if $is_valid(&text) {
                    Ok(Self(text))
                } else {
                    Err(InvalidEngineText::$error)
                }
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0
            }
        }
    };
}

engine_text! {
    /// The address of a server, `host:port`. It has neither a scheme nor credentials.
    ServerAddress, is_address, Address
}
engine_text! {
    /// The name that the machines of a workflow have in common. The names of its task queues and
    /// the ids on the server start with it.
    TaskQueueName, is_task_queue, TaskQueue
}

/// A secret by its name in `secrets`, written `${NAME}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretRef(String);

impl SecretRef {
    /// Returns the name of the secret.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SecretRef {
    type Error = InvalidEngineText;

    fn try_from(text: String) -> Result<Self, InvalidEngineText> {
        let name = secret_name(&text).ok_or(InvalidEngineText::Secret)?;
        Ok(Self(name.to_owned()))
    }
}

impl From<SecretRef> for String {
    fn from(secret: SecretRef) -> Self {
        format!("${{{}}}", secret.0)
    }
}

fn is_task_queue(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=MAX_QUEUE_BYTES).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => is_host(host),
    };
    // The parser of numbers accepts a plus sign.
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    is_host && is_port && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Returns whether the text is a host name or an IPv4 address. As in URLs, a name whose last label
/// is a number can only be an address.
fn is_host(host: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_allowed);
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    host.len() <= MAX_HOST_BYTES
        && host.split('.').all(is_label)
        && (!is_number || host.parse::<Ipv4Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_address_is_a_host_and_a_port() {
        for text in [
            "temporal:7233",
            "127.0.0.1:1",
            "[::1]:7233",
            "a.b-c.example:443",
            "temporal_server:65535",
        ] {
            let address = ServerAddress::try_from(text.to_owned()).unwrap();
            assert_eq!(address.as_str(), text);
            assert_eq!(serde_json::to_value(&address).unwrap(), text);
        }
        for text in [
            "",
            "host",
            ":1",
            "host:",
            "host:0",
            "host:+1",
            "host:99999",
            "http://host:1",
            "u:p@host:1",
            "host:1/x",
            "host:1?x:1",
            "::1",
            "[host]:1",
            "300.1.1.1:1",
            "1.2.3:1",
            "a..b:1",
            "host :1",
            "hóst:1",
            "host:1\n",
            &format!("{}:1", "a".repeat(254)),
        ] {
            assert_eq!(
                ServerAddress::try_from(text.to_owned()),
                Err(InvalidEngineText::Address),
                "{text:?}"
            );
            assert!(
                serde_json::from_value::<ServerAddress>(text.into()).is_err(),
                "{text:?}"
            );
        }
    }

    #[test]
    fn task_queue_name_cannot_change_an_id() {
        for text in ["a", "team-a_1.x", &"x".repeat(64)] {
            assert_eq!(TaskQueueName::try_from(text.to_owned()).unwrap().as_str(), text);
        }
        for text in ["", "a/b", "a b", "ä", "a%", "a\n", &"x".repeat(65)] {
            assert_eq!(
                TaskQueueName::try_from(text.to_owned()),
                Err(InvalidEngineText::TaskQueue),
                "{text:?}"
            );
        }
    }

    #[test]
    fn secret_ref_never_holds_a_literal() {
        let secret = SecretRef::try_from("${TEAM_KEY}".to_owned()).unwrap();
        assert_eq!(secret.name(), "TEAM_KEY");
        assert_eq!(String::from(secret), "${TEAM_KEY}");
        for text in ["", "literal", "TEAM_KEY", "$TEAM_KEY", "${A}x", "${A-b}", "${}"] {
            let error = SecretRef::try_from(text.to_owned()).unwrap_err();
            assert_eq!(error, InvalidEngineText::Secret, "{text:?}");
        }
        assert_eq!(
            InvalidEngineText::Secret.to_string(),
            "a secret is written as `${NAME}`"
        );
    }
}
