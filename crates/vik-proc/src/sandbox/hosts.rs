//! The hosts that are allowed by the proxy.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The ports of a host that is named without a port.
const WEB: [u16; 2] = [80, 443];

/// One host, or all hosts below a domain, and optionally one port.
///
/// # Examples
///
/// ```
/// use vik_proc::HostRule;
///
/// let rule = HostRule::parse("*.example.com").expect("a valid rule");
/// assert!(rule.allows("api.example.com", 443));
/// assert!(!rule.allows("example.com", 443));
/// assert!(!rule.allows("api.example.com", 22));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct HostRule {
    name: String,
    below: bool,
    port: Option<u16>,
}

impl HostRule {
    /// Parses `api.example.com`, `*.example.com`, `127.0.0.1:8080` or `[::1]:8080`. Returns `None`
    /// for any other form.
    pub fn parse(text: &str) -> Option<Self> {
        let (below, tail) = match text.strip_prefix("*.") {
            Some(tail) => (true, tail),
            None => (false, text),
        };
        let (name, port) = split(tail)?;
        (!name.is_empty()).then_some(Self { name, below, port })
    }

    /// Returns whether the rule allows this host at this port.
    pub fn allows(&self, host: &str, port: u16) -> bool {
        let named = if self.below {
            host.strip_suffix(&self.name)
                .is_some_and(|prefix| prefix.len() > 1 && prefix.ends_with('.'))
        } else {
            host == self.name
        };
        named && self.port.map_or(WEB.contains(&port), |own| own == port)
    }

    /// Returns whether the rule names an address, or this machine, literally: only then does it
    /// allow an address of this machine.
    pub(crate) fn is_literal(&self) -> bool {
        self.name == "localhost" || self.name.parse::<IpAddr>().is_ok()
    }

    /// Returns the port of 127.0.0.1 that the rule names. A listener at another address of the
    /// loopback is another service.
    pub(crate) fn loopback_port(&self) -> Option<u16> {
        let here = matches!(self.name.as_str(), "localhost" | "127.0.0.1");
        self.port.filter(|_| here && !self.below)
    }
}

/// Splits a text into a host, in lower case and without brackets, and its port.
pub(crate) fn split(text: &str) -> Option<(String, Option<u16>)> {
    let (host, suffix) = match text.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => text.find(':').map_or((text, ""), |colon| text.split_at(colon)),
    };
    let port = match suffix.strip_prefix(':') {
        Some(port) => Some(port.parse().ok()?),
        None if suffix.is_empty() => None,
        None => return None,
    };
    Some((host.trim_end_matches('.').to_ascii_lowercase(), port))
}

impl From<HostRule> for String {
    fn from(rule: HostRule) -> Self {
        let star = if rule.below { "*." } else { "" };
        let name = if rule.name.contains(':') {
            format!("[{}]", rule.name)
        } else {
            rule.name
        };
        let port = rule.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{star}{name}{port}")
    }
}

impl TryFrom<String> for HostRule {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("no host")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_rule_allows_only_matching_hosts() {
        let allows = |rule: &str, host: &str, port| HostRule::parse(rule).unwrap().allows(host, port);
        assert!(allows("api.example.com", "api.example.com", 443));
        assert!(allows("API.example.com.", "api.example.com", 80));
        assert!(allows("*.example.com", "a.b.example.com", 443));
        assert!(allows("x:8080", "x", 8080));
        assert!(allows("[::1]:9", "::1", 9));
        assert!(!allows("api.example.com", "api.example.com", 22));
        assert!(!allows("api.example.com", "evil-api.example.com", 443));
        assert!(!allows("*.example.com", "example.com", 443));
        assert!(!allows("*.example.com", "evilexample.com", 443));
        assert!(!allows("*.example.com", ".example.com", 443));
        assert!(!allows("x:8080", "x", 443));
        assert_eq!(HostRule::parse("localhost:81").unwrap().loopback_port(), Some(81));
        for elsewhere in [
            "example.com:81",
            "[::1]:81",
            "127.0.0.2:81",
            "*.localhost:81",
            "localhost",
        ] {
            assert_eq!(
                HostRule::parse(elsewhere).unwrap().loopback_port(),
                None,
                "{elsewhere}"
            );
        }
    }

    #[test]
    fn host_rule_round_trips_through_its_text() {
        for text in [
            "api.example.com",
            "*.example.com:8443",
            "[::1]:8080",
            "127.0.0.1:80",
        ] {
            let rule = HostRule::parse(text).unwrap();
            assert_eq!(String::from(rule.clone()), text);
            let json = serde_json::to_string(&rule).unwrap();
            assert_eq!(serde_json::from_str::<HostRule>(&json).unwrap(), rule);
        }
    }
}
