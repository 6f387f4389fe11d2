//! The settings of the workspace. Their author is the author of the code there, so they can only
//! narrow.
//!
//! Accepted are `deny`, limits that are lower than the user's own, `skills = false`, and
//! `instructions` (paths in the workspace). All other keys are ignored with a warning: a cloned repository must not choose where
//! code is sent, what may run, or hooks.

use std::path::{Component, Path, PathBuf};

use super::layers::{self, Origin};
use super::{ConfigError, LoadedConfig};

/// Returns the path of the file.
pub(super) fn path(workspace: &Path) -> PathBuf {
    workspace.join(".vex/config.toml")
}

/// Applies the workspace's file to the loaded settings.
pub(super) fn narrow(
    workspace: &Path,
    loaded: &mut LoadedConfig,
    warnings: &mut Vec<String>,
) -> Result<(), ConfigError> {
    let path = path(workspace);
    // A broken file is an error: its `deny` must not be lost.
    let Some(text) = layers::read(&path)? else {
        return Ok(());
    };
    let name = path.display().to_string();
    let (table, given) = layers::parse(&name, &text)?;
    let mut warn = |message: String| warnings.push(format!("{name}: {message}"));
    let origin = Origin::File(path);
    let mut taken = |key: &str, count: usize, grows: bool| {
        let known = loaded.origins.entry(vec![key.to_owned()]).or_default();
        if !grows {
            known.clear();
        }
        known.extend(std::iter::repeat_n(origin.clone(), count));
    };
    let settings = &mut loaded.settings;
    for key in table.keys() {
        let lower = match key.as_str() {
            "deny" => {
                taken(key, given.deny.len(), true);
                settings.deny.extend(given.deny.iter().cloned());
                continue;
            }
            "instructions" => {
                let (inside, outside): (Vec<_>, Vec<_>) = given
                    .instructions
                    .iter()
                    .cloned()
                    .partition(|path| is_inside(path));
                if let Some(path) = outside.first() {
                    warn(format!(
                        "`instructions` names a path outside of the workspace: {path}"
                    ));
                }
                taken(key, inside.len(), false);
                settings.instructions = inside;
                continue;
            }
            "max_turns" => lower(&mut settings.max_turns, given.max_turns),
            "max_tokens" => lower_limit(&mut settings.max_tokens, given.max_tokens),
            "max_usd" => lower_limit(&mut settings.max_usd, given.max_usd),
            "skills" => lower(&mut settings.skills, given.skills),
            "timeout" => lower_limit(&mut settings.timeout, given.timeout),
            _ => {
                warn(format!(
                    "`{key}` is ignored: settings of the workspace can only restrict"
                ));
                continue;
            }
        };
        if lower {
            taken(key, 1, false);
        }
    }
    Ok(())
}

fn lower<T: PartialOrd>(value: &mut T, given: T) -> bool {
    let is_lower = given < *value;
    if is_lower {
        *value = given;
    }
    is_lower
}

fn lower_limit<T: PartialOrd>(value: &mut Option<T>, given: Option<T>) -> bool {
    match (value.as_mut(), given) {
        (Some(value), Some(given)) => lower(value, given),
        (None, Some(given)) => {
            *value = Some(given);
            true
        }
        (_, None) => false,
    }
}

fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}
