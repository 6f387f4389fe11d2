//! `sandbox`: what an agent may access, enforced by the operating system.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;
use vik_core::workflow::{SandboxBackend, SandboxChoice, SandboxFiles, SandboxKeys, SandboxNetwork};
use vik_yaml::{Kind, Node};

use super::amounts::{Memory, SlotLimit};
use super::decode::{Cx, Decode};
use super::section::section;
use super::values::{Text, list, unexpanded};

section! {
    /// The restrictions that the operating system enforces on the agent and all of its descendants;
    /// with `off` the agent has all rights of the user.
    struct Sandbox: strict => SandboxKeys;
    /// The mechanism. `landlock`: kernel rules for the agent. `bubblewrap`: the same rules within
    /// user, mount and process namespaces, which hide everything outside; it requires `bwrap` and a
    /// system that permits namespaces. Default: `landlock`.
    "backend" backend: optional SandboxBackend;
    /// Write access to the workspace of the issue: `workspace` (all of it) or `read-only`
    /// (nothing). Default: according to `permission`. A folder for the agent's temporary files is
    /// always writable.
    "files" files: optional SandboxFiles;
    /// Additional writable paths: relative to the workspace, absolute, or in the home directory
    /// (`~/`). A pattern such as `src/**/*.rs` permits the folder before its first `*`.
    "write" write: optional Paths;
    /// Readable paths among the hidden ones. Hidden are Vik's own files, the files of other issues
    /// and the usual locations of keys.
    "read" read: optional Paths;
    /// Additional hidden paths.
    "hide" hide: optional Paths;
    /// `on`: TCP and UDP to any host. `off`: no sockets. A list of hosts, such as
    /// `api.example.com`, `*.example.com` or `example.com:8443`: only these, through a proxy that
    /// is set in the agent's environment. Default: `on`.
    "network" network: optional SandboxNetwork;
    /// Whether the agent can use Unix sockets of this machine, and so every service that listens on
    /// one, such as Docker, a desktop or a key agent. Default: false.
    "unix_sockets" unix_sockets: optional bool;
    /// The maximum memory of the agent and all of its descendants, such as `4GiB`. Beyond it, the
    /// agent is killed. Default: no limit.
    "memory" memory: optional Memory;
    /// The maximum number of processes. Beyond it, the agent is killed. Default: 4096.
    "pids" pids: optional SlotLimit;
    /// The maximum space on each file system that the agent writes to, such as `20GiB`. Beyond it,
    /// the agent is killed. Default: half of the free space at the start.
    "disk" disk: optional Memory;
    instead {
        "wall" | "driver" => "did you mean `backend`?",
        "mode" | "filesystem" => "did you mean `files`?",
        "writable" | "writable_roots" => "did you mean `write`?",
        "readable" => "did you mean `read`?",
        "deny" => "did you mean `hide`?",
        "hosts" => "list the hosts in `network`",
        "processes" => "did you mean `pids`?",
        "storage" => "did you mean `disk`?",
        "ram" => "did you mean `memory`?",
    }
}

impl Decode for SandboxChoice {
    type Value = Self;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        match &node.kind {
            Kind::Scalar(scalar) => match scalar.text.as_str() {
                "off" | "false" => Some(Self::Off),
                "on" | "true" => Some(Self::On(SandboxKeys::default())),
                text => {
                    let hint = "write `off`, `on`, or a map with `backend`, `files`, `write`, `read`, `hide`, `network`, `unix_sockets`, `memory`, `pids` and `disk`";
                    cx.refuse_text("unknown_value", node, ("unknown value", text), hint)
                }
            },
            _ => Sandbox::decode(node, cx).map(Self::On),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Sandbox::schema(generator);
        // With several types, each keyword applies to its own type.
        schema.insert("type".to_owned(), json!(["object", "string", "boolean"]));
        schema.insert("pattern".to_owned(), "^(on|off)$".into());
        schema
    }
}

/// A list of nonempty paths.
pub(crate) struct Paths;

impl Decode for Paths {
    type Value = Vec<String>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Vec<String>> {
        let items = list(node, cx, "a list of paths", "[src, ~/.cache/tool]")?;
        let path = |item| {
            let path = Text::decode(item, cx)?;
            let why = if path.contains('\0') {
                Some("the path contains a NUL character")
            } else if path.split('/').any(|part| part == "..") {
                Some("the path contains `..`")
            } else {
                unexpanded(&path)
            };
            match why {
                None => Some(path),
                Some(why) => cx.refuse_text("bad_path", item, ("invalid path", &path), why),
            }
        };
        Some(items.iter().filter_map(path).collect())
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "string", "minLength": 1 } })
    }
}

const HOST_PATTERN: &str =
    r"^(\*\.)?([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$";

/// Returns whether a text is a host for `network`, optionally with a port.
fn is_host(text: &str) -> bool {
    let host_and_port = text.strip_prefix("*.").unwrap_or(text);
    let (host, port) = match host_and_port.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => ("v6", port),
            _ => return false,
        },
        None => match host_and_port.find(':') {
            Some(colon) => host_and_port.split_at(colon),
            None => (host_and_port, ""),
        },
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = host.as_bytes();
    let port_fits = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| {
            port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
    bytes.len() <= 253
        && bytes.iter().all(|&byte| fits(byte))
        && ends(bytes.first())
        && ends(bytes.last())
        && port_fits
}

impl Decode for SandboxNetwork {
    type Value = Self;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        if let Kind::Scalar(scalar) = &node.kind {
            return match scalar.text.as_str() {
                "on" | "true" => Some(Self::On),
                "off" | "false" => Some(Self::Off),
                text => {
                    let hint =
                        "write `on`, `off`, or a list of hosts: `[api.example.com, \"*.example.org\"]`";
                    cx.refuse_text("unknown_value", node, ("unknown value", text), hint)
                }
            };
        }
        let items = list(node, cx, "`on`, `off` or a list of hosts", "[api.example.com]")?;
        let host = |item| {
            let host = Text::decode(item, cx)?;
            if is_host(&host) {
                return Some(host.to_ascii_lowercase());
            }
            let hint = "write `api.example.com`, `*.example.com`, or `example.com:8443` with a port, without `https://` and without a path";
            cx.refuse_text("bad_host", item, ("invalid host name", &host), hint)
        };
        let hosts: Vec<_> = items.iter().filter_map(host).collect();
        if hosts.is_empty() && items.is_empty() {
            return Some(Self::Off);
        }
        Some(Self::Hosts(hosts))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "enum": ["on", "off", true, false] },
                { "type": "array", "items": { "type": "string", "pattern": HOST_PATTERN } },
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_with_a_port_at_most() {
        for good in [
            "a",
            "api.example.com",
            "*.example.com",
            "127.0.0.1:80",
            "[::1]:8080",
            "[::1]",
            "x_y:1",
        ] {
            assert!(is_host(good), "{good}");
        }
        for bad in [
            "",
            "*",
            "*.",
            "https://x",
            "x/",
            "x:",
            "x:0",
            "x:65536",
            "x:+1",
            "-x",
            "x-",
            ".x",
            "x.",
            "a b",
            "[::1",
            "[x]:1",
            "::1",
            "x:1:2",
            "a.*.b",
        ] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
