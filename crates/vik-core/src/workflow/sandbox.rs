//! `sandbox`: what an agent may access, enforced by the operating system.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agent::{AgentProfile, Permission};
use super::model::Stage;

/// The default limit of processes of an agent's tree: more than any build needs, fewer than a
/// machine can bear.
pub const DEFAULT_PIDS: u32 = 4096;

/// The mechanism of a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxBackend {
    /// Landlock and seccomp.
    #[default]
    Landlock,
    /// Landlock and seccomp within namespaces that bubblewrap creates.
    Bubblewrap,
}

/// The write access to the workspace of the issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxFiles {
    /// All of it.
    Workspace,
    /// Nothing.
    ReadOnly,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxNetwork {
    /// TCP and UDP to any host.
    On,
    Off,
    /// Only these hosts, through a proxy.
    Hosts(Vec<String>),
}

/// `sandbox` of a profile or a stage, as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxChoice {
    Off,
    /// `on`, or a map of keys.
    On(SandboxKeys),
}

/// The written keys of a `sandbox`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxKeys {
    pub backend: Option<SandboxBackend>,
    pub files: Option<SandboxFiles>,
    pub write: Option<Vec<String>>,
    pub read: Option<Vec<String>>,
    pub hide: Option<Vec<String>>,
    pub network: Option<SandboxNetwork>,
    pub unix_sockets: Option<bool>,
    pub memory: Option<u64>,
    pub pids: Option<u32>,
    pub disk: Option<u64>,
}

/// The sandbox of an attempt: the keys of stage and profile, and the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// The mechanism that enforces it.
    pub backend: SandboxBackend,
    /// Write access in the issue workspace.
    pub files: SandboxFiles,
    pub write: Vec<String>,
    /// Readable paths among the hidden ones.
    pub read: Vec<String>,
    pub hide: Vec<String>,
    pub network: SandboxNetwork,
    /// Whether sockets of the machine can be used.
    pub unix_sockets: bool,
    /// The maximum memory of the process tree, in bytes.
    pub memory: Option<u64>,
    /// The maximum number of processes of the tree.
    pub pids: u32,
    /// The maximum use of a file system, in bytes; `None` for half of the free space.
    pub disk: Option<u64>,
}

impl SandboxNetwork {
    /// Returns whether a host can be reached at this port. A rule without a port permits those of
    /// the web.
    pub fn allows(&self, host: &str, port: u16) -> bool {
        let hosts = match self {
            Self::On => return true,
            Self::Off => return false,
            Self::Hosts(hosts) => hosts,
        };
        hosts.iter().any(|rule| {
            let (rule, rule_port) = match rule.rsplit_once(':') {
                Some((rule, port)) if !port.ends_with(']') => (rule, port.parse::<u16>().ok()),
                _ => (rule.as_str(), None),
            };
            let is_port = rule_port.map_or(matches!(port, 80 | 443), |own| own == port);
            let rule = rule.trim_start_matches('[').trim_end_matches([']', '.']);
            let is_host = match rule.strip_prefix("*.") {
                Some(parent) => host
                    .strip_suffix(parent)
                    .is_some_and(|below| below.ends_with('.')),
                None => host == rule,
            };
            is_port && is_host
        })
    }
}

impl Default for SandboxPolicy {
    fn default() -> Self {
        Self::from_keys(SandboxKeys::default(), Permission::default())
    }
}

impl SandboxPolicy {
    fn from_keys(keys: SandboxKeys, permission: Permission) -> Self {
        Self {
            backend: keys.backend.unwrap_or_default(),
            files: keys.files.unwrap_or(match permission {
                Permission::ReadOnly => SandboxFiles::ReadOnly,
                Permission::WorkspaceWrite | Permission::Full => SandboxFiles::Workspace,
            }),
            write: keys.write.unwrap_or_default(),
            read: keys.read.unwrap_or_default(),
            hide: keys.hide.unwrap_or_default(),
            network: keys.network.unwrap_or(SandboxNetwork::On),
            unix_sockets: keys.unix_sockets.unwrap_or(false),
            memory: keys.memory,
            pids: keys.pids.unwrap_or(DEFAULT_PIDS),
            disk: keys.disk,
        }
    }

    /// Returns the sandbox of a stage's attempts; `None` for none. Keys of the stage override the
    /// profile.
    pub fn of(profile: &AgentProfile, stage: &Stage) -> Option<Self> {
        let keys = match (&stage.sandbox, &profile.sandbox) {
            (Some(SandboxChoice::Off), _) | (None, Some(SandboxChoice::Off)) => return None,
            (Some(SandboxChoice::On(stage)), Some(SandboxChoice::On(profile))) => stage.over(profile),
            (Some(SandboxChoice::On(keys)), _) | (None, Some(SandboxChoice::On(keys))) => keys.clone(),
            (None, None) => SandboxKeys::default(),
        };
        Some(Self::from_keys(keys, profile.permission))
    }
}

impl SandboxKeys {
    /// Returns these keys with the absent ones taken from `below`.
    fn over(&self, below: &Self) -> Self {
        Self {
            backend: self.backend.or(below.backend),
            files: self.files.or(below.files),
            write: self.write.clone().or_else(|| below.write.clone()),
            read: self.read.clone().or_else(|| below.read.clone()),
            hide: self.hide.clone().or_else(|| below.hide.clone()),
            network: self.network.clone().or_else(|| below.network.clone()),
            unix_sockets: self.unix_sockets.or(below.unix_sockets),
            memory: self.memory.or(below.memory),
            pids: self.pids.or(below.pids),
            disk: self.disk.or(below.disk),
        }
    }
}

impl fmt::Display for SandboxChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::On(keys) if *keys == SandboxKeys::default() => f.write_str("on"),
            Self::On(keys) => {
                let mut keys = serde_json::to_value(keys).unwrap_or_default();
                if let Some(keys) = keys.as_object_mut() {
                    keys.retain(|_, value| !value.is_null());
                }
                write!(f, "{keys}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_allows_the_hosts_of_its_rules() {
        let rules = [
            "a.example",
            "*.b.example",
            "c.example:8443",
            "localhost:9",
            "[::1]:7",
        ];
        let hosts = SandboxNetwork::Hosts(rules.map(str::to_owned).to_vec());
        for (host, port, is_allowed) in [
            ("a.example", 443, true),
            ("a.example", 8443, false),
            ("x.a.example", 443, false),
            ("x.b.example", 80, true),
            ("b.example", 443, false),
            ("xb.example", 443, false),
            ("c.example", 8443, true),
            ("c.example", 443, false),
            ("localhost", 9, true),
            ("::1", 7, true),
            ("::1", 443, false),
        ] {
            assert_eq!(hosts.allows(host, port), is_allowed, "{host}:{port}");
        }
        assert!(SandboxNetwork::On.allows("a", 1) && !SandboxNetwork::Off.allows("a", 443));
    }
}
