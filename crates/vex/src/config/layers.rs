//! Layers of values. Each is checked on its own, then they are merged.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use super::error::friendly;
use super::keys::{self, KEYS, OTHER_VARIABLES};
use super::{ConfigError, LoadedConfig, Settings, mcp_file};

/// The maximum size of a file, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// Lists to which each layer adds.
const GROWING: &[&str] = &[
    "allow",
    "deny",
    "hooks",
    "env_pass",
    "sandbox.write",
    "trusted_projects",
];

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    File(PathBuf),
    Variable(String),
    Override,
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Override => f.write_str("--config"),
            // The flag only switches it off.
            Self::Flag("skills") => f.write_str("--no-skills"),
            Self::Flag(key) => write!(f, "--{}", key.replace('_', "-")),
        }
    }
}

/// The value of a flag.
#[derive(Clone, Debug)]
pub struct Flag {
    /// The key of the setting: the flag has the same name.
    pub key: &'static str,
    pub value: Value,
}

/// The origins of each value by its path. A list to which layers add has one for each entry.
pub(super) type Origins = BTreeMap<Vec<String>, Vec<Origin>>;

/// The layers so far.
#[derive(Default)]
pub(super) struct Layers {
    table: Table,
    origins: Origins,
}

impl Layers {
    /// Adds a file; a missing file is an empty layer.
    pub(super) fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        if let Some(text) = read(path)? {
            let (table, _) = parse(&path.display().to_string(), &text)?;
            self.add_layer(table, &Origin::File(path.to_owned()));
        }
        Ok(())
    }

    /// Adds the servers of a file of `--mcp-config`. Each replaces one of the same name as a whole.
    pub(super) fn add_mcp_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let missing = || ConfigError::Read {
            path: path.to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        };
        let text = read(path)?.ok_or_else(missing)?;
        let servers = mcp_file::servers(&path.display().to_string(), &text)?;
        if let Some(Value::Table(known)) = self.table.get_mut("mcp") {
            for name in servers.keys() {
                known.remove(name);
                self.origins.retain(
                    |path, _| !matches!(path.as_slice(), [mcp, server, ..] if mcp == "mcp" && server == name),
                );
            }
        }
        let layer = Table::from_iter([("mcp".to_owned(), Value::Table(servers))]);
        self.add_layer(layer, &Origin::File(path.to_owned()));
        Ok(())
    }

    /// Adds the variables that are settings. Returns warnings about variables that look like
    /// settings.
    pub(super) fn add_variables(
        &mut self,
        variables: &[(String, String)],
    ) -> Result<Vec<String>, ConfigError> {
        let mut unknown = Vec::new();
        for (name, text) in variables.iter().filter(|(name, _)| name.starts_with("VEX_")) {
            if text.is_empty() || OTHER_VARIABLES.contains(&name.as_str()) {
                continue;
            }
            match KEYS.iter().find(|key| key.variable() == *name) {
                Some(key) => {
                    let value = key
                        .value(text)
                        .map_err(|message| ConfigError::invalid(name, message))?;
                    self.add(name, key.name, value, &Origin::Variable(name.clone()))?;
                }
                None => unknown.push(name),
            }
        }
        let all: Vec<String> = KEYS.iter().map(keys::Key::variable).collect();
        let known = || {
            all.iter()
                .map(String::as_str)
                .chain(OTHER_VARIABLES.iter().copied())
        };
        let warn = |name: &String| {
            let hint = keys::nearest(name, known())
                .map_or_else(String::new, |near| format!("; did you mean {near}?"));
            format!("the variable {name} is not a setting{hint}")
        };
        Ok(unknown.into_iter().map(warn).collect())
    }

    /// Adds one `KEY=VALUE`; a value that is not valid TOML is a text.
    pub(super) fn add_override(&mut self, text: &str) -> Result<(), ConfigError> {
        let place = format!("--config {text}");
        let Some((key, value)) = text.split_once('=') else {
            return Err(ConfigError::invalid(
                place,
                "expected KEY=VALUE, for example model=NAME",
            ));
        };
        let (key, value) = (key.trim(), value.trim());
        // One line: a value must not add further keys.
        let as_toml = (!value.contains('\n')).then(|| format!("{key} = {value}"));
        let as_text = format!("{key} = {}", Value::String(value.to_owned()));
        let checked = |line: &str| {
            let table: Table = line
                .parse()
                .map_err(|error: toml::de::Error| error.message().to_owned())?;
            match Settings::deserialize(table.clone()) {
                Ok(_) => Ok(table),
                Err(error) => Err(error.message().to_owned()),
            }
        };
        let table = match as_toml.as_deref().map(checked) {
            Some(Ok(table)) => table,
            // A value that is not valid TOML, or does not fit, may be a text; if it is not, the
            // first error is more helpful.
            Some(Err(first)) => checked(&as_text).map_err(|second| {
                let is_toml = as_toml
                    .as_deref()
                    .is_some_and(|line| line.parse::<Table>().is_ok());
                ConfigError::invalid(&place, friendly(if is_toml { &first } else { &second }))
            })?,
            None => checked(&as_text).map_err(|error| ConfigError::invalid(&place, friendly(&error)))?,
        };
        self.add_layer(table, &Origin::Override);
        Ok(())
    }

    /// Adds the value of a flag.
    pub(super) fn add_flag(&mut self, flag: &Flag) -> Result<(), ConfigError> {
        let origin = Origin::Flag(flag.key);
        self.add(&origin.to_string(), flag.key, flag.value.clone(), &origin)
    }

    fn add(&mut self, place: &str, key: &str, value: Value, origin: &Origin) -> Result<(), ConfigError> {
        let table = nested(key, value);
        Settings::deserialize(table.clone())
            .map_err(|error| ConfigError::invalid(place, friendly(error.message())))?;
        self.add_layer(table, origin);
        Ok(())
    }

    fn add_layer(&mut self, table: Table, origin: &Origin) {
        overlay(&mut self.table, &mut self.origins, table, &mut Vec::new(), origin);
    }

    /// Merges all layers into settings.
    pub(super) fn finish(self) -> Result<LoadedConfig, ConfigError> {
        let settings = Settings::deserialize(self.table)
            .map_err(|error| ConfigError::Conflict(friendly(error.message())))?;
        Ok(LoadedConfig {
            settings,
            origins: self.origins,
            warnings: Vec::new(),
        })
    }
}

/// Puts the values of a table over those below. Tables are merged, lists that grow are joined.
fn overlay(below: &mut Table, origins: &mut Origins, above: Table, path: &mut Vec<String>, origin: &Origin) {
    for (key, value) in above {
        path.push(key.clone());
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, origins, above, path, origin),
            (None, Value::Table(above)) => {
                let mut fresh = Table::new();
                overlay(&mut fresh, origins, above, path, origin);
                below.insert(key, Value::Table(fresh));
            }
            (found, Value::Array(more)) if GROWING.contains(&path.join(".").as_str()) => {
                let known = origins.entry(path.clone()).or_default();
                known.extend(more.iter().map(|_| origin.clone()));
                match found {
                    Some(Value::Array(list)) => list.extend(more),
                    _ => {
                        below.insert(key, Value::Array(more));
                    }
                }
            }
            (_, value) => {
                origins.insert(path.clone(), vec![origin.clone()]);
                below.insert(key, value);
            }
        }
        path.pop();
    }
}

/// Returns `a.b` and a value as nested tables.
fn nested(key: &str, value: Value) -> Table {
    match key.split_once('.') {
        Some((first, remaining)) => {
            Table::from_iter([(first.to_owned(), Value::Table(nested(remaining, value)))])
        }
        None => Table::from_iter([(key.to_owned(), value)]),
    }
}

/// Returns the text of a file, or `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let failed = |source| ConfigError::Read {
        path: path.to_owned(),
        source,
    };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    let mut text = String::new();
    file.take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(failed(std::io::Error::other("larger than 1 MiB")));
    }
    Ok(Some(text))
}

/// Parses a text into a table with only known keys and fitting values, and into settings.
///
/// # Errors
/// With line and column.
pub(super) fn parse(name: &str, text: &str) -> Result<(Table, Settings), ConfigError> {
    let error = |error: toml::de::Error| ConfigError::in_text(name, text, &error);
    let table: Table = text.parse().map_err(error)?;
    let settings = toml::from_str(text).map_err(error)?;
    Ok((table, settings))
}
