//! The host on which a worker is installed, and the name of its unit.

use std::fmt;
use std::str::FromStr;

/// A host as `ssh` takes it: `[USER@]HOST`, a name of its configuration, or
/// `ssh://[USER@]HOST[:PORT]`. It is neither an option nor anything that a shell would change, which
/// a `ProxyCommand` may pass it to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination(String);

/// A text that is no host for `ssh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `[USER@]HOST` or `ssh://[USER@]HOST[:PORT]`, which does not begin with `-`")]
pub struct InvalidDestination;

impl Destination {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Destination {
    type Err = InvalidDestination;

    fn from_str(text: &str) -> Result<Self, InvalidDestination> {
        let is_allowed = |c: char| c.is_alphanumeric() || "._-@:/[]%+".contains(c);
        let host = text.strip_prefix("ssh://").unwrap_or(text);
        let parts = host.rsplit_once('@');
        let parts = parts.map_or([host, host], |(user, host)| [user, host]);
        let is_part = |part: &str| !part.is_empty() && !part.starts_with('-');
        if text.len() <= 255 && text.chars().all(is_allowed) && parts.into_iter().all(is_part) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidDestination)
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a systemd unit without `.service`, which is also that of the worker's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitName(String);

/// A text that is no name of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to 64 letters, digits, `_` and `-` that start with a letter or a digit")]
pub struct InvalidUnitName;

impl UnitName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for UnitName {
    type Err = InvalidUnitName;

    fn from_str(text: &str) -> Result<Self, InvalidUnitName> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        let is_valid = (1..=64).contains(&text.len())
            && text.bytes().all(is_allowed)
            && text.starts_with(|first: char| first.is_ascii_alphanumeric());
        is_valid.then(|| Self(text.to_owned())).ok_or(InvalidUnitName)
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destination_is_no_option_and_no_shell_text() {
        for text in [
            "build-1",
            "vik@build-1.example.com",
            "ssh://vik@build-1:2222",
            "fe80::1%eth0",
            "vik@[::1]",
        ] {
            assert_eq!(text.parse::<Destination>().unwrap().as_str(), text);
        }
        for text in [
            "",
            "@",
            "vik@",
            "@build-1",
            "-oProxyCommand=touch",
            "vik@-oProxyCommand=x",
            "-vik@build-1",
            "ssh://-x",
            "ssh://",
            "a b",
            "a\nb",
            "$(touch x)",
            "a;b",
            "a`b`",
            "a'b",
            "a\"b",
            "a\\b",
            "a|b",
            "a&b",
            "a>b",
            "a*",
        ] {
            assert_eq!(text.parse::<Destination>(), Err(InvalidDestination), "{text:?}");
        }
        assert!("a".repeat(256).parse::<Destination>().is_err());
    }

    #[test]
    fn unit_name_is_a_plain_file_name() {
        assert!("vik-worker".parse::<UnitName>().is_ok());
        for text in ["", "-a", "a/b", "..", "a b", "a@b", "a'b", "a.service"] {
            assert_eq!(text.parse::<UnitName>(), Err(InvalidUnitName), "{text:?}");
        }
    }
}
