//! `http`: the dashboard and the HTTP API on TCP.

use std::net::{IpAddr, Ipv4Addr};

use schemars::{Schema, SchemaGenerator, json_schema};
use vik_core::workflow;
use vik_yaml::{Diagnostic, Node};

use crate::check::Check;
use crate::decode::{Cx, Decode};
use crate::section::section;
use crate::values::{Text, Whole, list};

section! {
    /// The dashboard and the HTTP API on TCP. Requests need the token or a sign-in. Not used with
    /// `run --once`. A change requires a restart.
    struct Http: strict;
    /// The port; 0 selects a free one. Without a port, nothing is served unless `run --port` is
    /// used, which replaces this key.
    "port" port: optional Whole<u16, 0, { u16::MAX as u64 }>;
    /// The IP address to listen at; `run --bind-address` replaces it. An address other than
    /// loopback accepts unencrypted connections from other machines.
    "bind" bind: defaults BindAddress = Ipv4Addr::LOCALHOST.into();
    /// Host names without a port by which a reverse proxy or a browser addresses the server, such
    /// as `vik.example.com`. Requests to any other name are refused; addresses and `localhost` are
    /// always accepted.
    "names" names: optional HostNames;
    instead {
        "listen" => "write `port` and `bind`",
        "address" | "bind_address" => "did you mean `bind`?",
        "host" => "did you mean `bind`? Host names of a reverse proxy belong to `names`",
        "hosts" | "name" => "did you mean `names`?",
    }
}

/// An IP address without a port.
pub(crate) struct BindAddress;

impl Decode for BindAddress {
    type Value = IpAddr;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<IpAddr> {
        let text = Text::decode(node, cx)?;
        if let Ok(address) = text.parse() {
            return Some(address);
        }
        let hint = "write an IP address without a port: `127.0.0.1`, `0.0.0.0` or `\"::1\"`";
        cx.refuse_text("bad_address", node, ("invalid IP address", &text), hint)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[0-9A-Fa-f:.]+$" })
    }
}

/// Host names without wildcards and ports.
pub(crate) struct HostNames;

impl Decode for HostNames {
    type Value = Vec<String>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Vec<String>> {
        let items = list(node, cx, "a list of host names", "[vik.example.com]")?;
        let host = |item| {
            let name = Text::decode(item, cx)?;
            if is_host_name(&name) {
                return Some(name.to_ascii_lowercase());
            }
            let hint = "write the name without scheme, port and wildcard: `vik.example.com`";
            cx.refuse_text("bad_host", item, ("invalid host name", &name), hint)
        };
        Some(items.iter().filter_map(host).collect())
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "string", "pattern": r"^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$" } })
    }
}

fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

impl Check<'_> {
    pub(crate) fn http(&mut self, section: Option<Http>) -> workflow::Http {
        let Some(section) = section else {
            return workflow::Http::default();
        };
        let http = workflow::Http {
            port: section.port,
            bind: section.bind,
            names: section.names.unwrap_or_default(),
        };
        if http.port.is_some() && !http.bind.is_loopback() {
            self.report(
                Diagnostic::warning(
                    "open_listener",
                    "http.bind",
                    format!(
                        "the dashboard at {} accepts unencrypted connections from other machines",
                        http.bind
                    ),
                )
                .hint("listen on `127.0.0.1`, behind a reverse proxy or a tunnel that provides HTTPS"),
            );
        }
        http
    }
}
