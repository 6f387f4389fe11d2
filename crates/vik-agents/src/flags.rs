//! `agents.N.args`: the profile's own flags, which precede the ones that Vik sets.
//!
//! A flag that Vik sets itself is dropped from `args` if it has the same value (`json: true`), and
//! refused otherwise. An explicit permission flag overrides the profile's `permission`, so that
//! workflows from before `permission` keep their meaning.

use vik_core::workflow::{AgentProfile, ArgValue, ArgsStyle};

use crate::LaunchError;

/// A flag that Vik sets itself.
pub(crate) struct ReservedFlag {
    /// Its names, without dashes.
    pub(crate) names: &'static [&'static str],
    /// The value that Vik sets as well; `true` means the bare flag.
    pub(crate) accepted_value: Option<&'static str>,
    /// What to use instead.
    pub(crate) instead: &'static str,
}

/// The flags of a runtime that a profile may not set freely.
pub(crate) struct FlagRules {
    pub(crate) reserved: &'static [ReservedFlag],
    /// The flags that control the permissions of the agent.
    pub(crate) permission_flags: &'static [&'static str],
}

/// The profile's own flags as arguments.
pub(crate) struct OwnFlags {
    pub(crate) argv: Vec<String>,
    /// Whether one of the flags controls permissions.
    pub(crate) has_permission_flag: bool,
}

/// Converts `args` to arguments.
///
/// # Errors
///
/// Returns an error for an invalid name and for a reserved flag with another value.
pub(crate) fn own_flags(profile: &AgentProfile, rules: &FlagRules) -> Result<OwnFlags, LaunchError> {
    let mut own = OwnFlags {
        argv: Vec::new(),
        has_permission_flag: false,
    };
    for (key, value) in &profile.args {
        let name = key.trim_start_matches('-');
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '=') {
            return Err(LaunchError::BadFlag { flag: key.clone() });
        }
        if let Some(fixed) = rules.reserved.iter().find(|fixed| fixed.names.contains(&name)) {
            if is_accepted_value(value, fixed.accepted_value) {
                continue;
            }
            return Err(LaunchError::ReservedFlag {
                runtime: profile.runtime.as_str(),
                flag: key.clone(),
                instead: fixed.instead,
            });
        }
        let before = own.argv.len();
        push(&mut own.argv, name, value, profile.args_style);
        own.has_permission_flag |= own.argv.len() > before && rules.permission_flags.contains(&name);
    }
    Ok(own)
}

/// Returns whether the profile sets a flag under one of these names.
pub(crate) fn has_flag(profile: &AgentProfile, names: &[&str]) -> bool {
    profile.args.iter().any(|(key, value)| {
        names.contains(&key.trim_start_matches('-')) && !matches!(value, ArgValue::Switch(false))
    })
}

/// Returns the texts that the profile's own flags give to an option.
pub(crate) fn own_texts<'p>(
    profile: &'p AgentProfile,
    name: &str,
) -> impl DoubleEndedIterator<Item = &'p str> {
    profile.args.iter().filter_map(move |(key, value)| match value {
        ArgValue::Text(text) if key.trim_start_matches('-') == name => Some(text.as_str()),
        _ => None,
    })
}

fn is_accepted_value(value: &ArgValue, same: Option<&str>) -> bool {
    match (value, same) {
        (ArgValue::Switch(on), Some("true")) => *on,
        (ArgValue::Text(text), Some(same)) => text == same,
        (ArgValue::List(list), Some(same)) => matches!(list.as_slice(), [only] if only == same),
        _ => false,
    }
}

fn push(argv: &mut Vec<String>, name: &str, value: &ArgValue, style: ArgsStyle) {
    match value {
        ArgValue::Switch(false) => {}
        ArgValue::Switch(true) => argv.push(dashed(name)),
        ArgValue::Text(text) => push_pair(argv, name, text),
        ArgValue::List(list) if list.is_empty() => {}
        ArgValue::List(list) => match style {
            ArgsStyle::Repeat => list.iter().for_each(|item| push_pair(argv, name, item)),
            ArgsStyle::Join => push_pair(argv, name, &list.join(",")),
        },
    }
}

/// Appends `--name value`. A value with a leading dash would be read as a flag, so it is joined to
/// its name.
fn push_pair(argv: &mut Vec<String>, name: &str, value: &str) {
    if !value.starts_with('-') {
        argv.extend([dashed(name), value.to_owned()]);
    } else if is_short(name) {
        argv.push(format!("-{name}{value}"));
    } else {
        argv.push(format!("--{name}={value}"));
    }
}

fn dashed(name: &str) -> String {
    if is_short(name) {
        format!("-{name}")
    } else {
        format!("--{name}")
    }
}

fn is_short(name: &str) -> bool {
    name.chars().count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile;

    const RULES: FlagRules = FlagRules {
        reserved: &[
            ReservedFlag {
                names: &["json"],
                accepted_value: Some("true"),
                instead: "Vik reads JSON",
            },
            ReservedFlag {
                names: &["model", "m"],
                accepted_value: None,
                instead: "use `model`",
            },
        ],
        permission_flags: &["s", "sandbox"],
    };

    fn flags(args: &[(&str, ArgValue)], style: ArgsStyle) -> Result<OwnFlags, LaunchError> {
        let mut profile = profile(vik_core::workflow::Runtime::Codex);
        profile.args = args
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect();
        profile.args_style = style;
        own_flags(&profile, &RULES)
    }

    fn text(text: &str) -> ArgValue {
        ArgValue::Text(text.to_owned())
    }

    #[test]
    fn flags_are_built_from_each_value_shape() {
        let list = ArgValue::List(vec!["a".into(), "b=1".into()]);
        let args = [
            ("search", ArgValue::Switch(true)),
            ("oss", ArgValue::Switch(false)),
            ("profile", text("fast")),
            ("c", list.clone()),
            ("add-dir", ArgValue::List(vec![])),
            ("append", text("- be brief")),
            ("i", text("-1")),
        ];
        assert_eq!(
            flags(&args, ArgsStyle::Repeat).unwrap().argv,
            [
                "--search",
                "--profile",
                "fast",
                "-c",
                "a",
                "-c",
                "b=1",
                "--append=- be brief",
                "-i-1"
            ]
        );
        assert_eq!(
            flags(&[("tools", list)], ArgsStyle::Join).unwrap().argv,
            ["--tools", "a,b=1"]
        );
    }

    #[test]
    fn reserved_flag_is_dropped_or_refused() {
        assert!(
            flags(&[("json", ArgValue::Switch(true))], ArgsStyle::Repeat)
                .unwrap()
                .argv
                .is_empty()
        );
        assert!(flags(&[("--json", ArgValue::Switch(false))], ArgsStyle::Repeat).is_err());
        assert!(matches!(
            flags(&[("m", text("x"))], ArgsStyle::Repeat),
            Err(LaunchError::ReservedFlag { flag, .. }) if flag == "m"
        ));
    }

    #[test]
    fn permission_flag_counts_only_when_set() {
        assert!(
            flags(&[("s", text("read-only"))], ArgsStyle::Repeat)
                .unwrap()
                .has_permission_flag
        );
        assert!(
            !flags(&[("sandbox", ArgValue::Switch(false))], ArgsStyle::Repeat)
                .unwrap()
                .has_permission_flag
        );
    }

    #[test]
    fn invalid_flag_name_is_refused() {
        for bad in ["", "--", "a b", "a=b", "a\n"] {
            assert!(
                matches!(
                    flags(&[(bad, text("x"))], ArgsStyle::Repeat),
                    Err(LaunchError::BadFlag { .. })
                ),
                "{bad:?}"
            );
        }
    }
}
