//! Where a login of an agent can be detected, for `doctor`. The caller checks these places.

use std::collections::BTreeMap;
use std::path::PathBuf;

use vik_core::workflow::{AgentProfile, Runtime};

/// A sign of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginSign {
    /// This variable of the agent's environment is set and not empty.
    Variable(&'static str),
    File(PathBuf),
}

/// Returns the folder that a variable names, or a folder in the home directory.
fn configured_folder(environment: &BTreeMap<String, String>, variable: &str, below: &str) -> Option<PathBuf> {
    let set = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    let own = set(variable).map(PathBuf::from);
    own.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(below)))
}

/// Returns the paths of an agent's own settings, logins and conversations, which it must be able to
/// write.
///
/// `environment` is the agent's own, as in [`crate::Launch::env`].
pub fn state_paths(profile: &AgentProfile, environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let folder = |variable: &str, below: &str| configured_folder(environment, variable, below);
    let program = profile
        .command
        .first()
        .map(|program| program.rsplit('/').next().unwrap_or(program));
    let places = match (profile.runtime, program) {
        (Runtime::Codex, _) => vec![folder("CODEX_HOME", ".codex")],
        (Runtime::ClaudeCode, _) if environment.contains_key("CLAUDE_CONFIG_DIR") => {
            vec![folder("CLAUDE_CONFIG_DIR", ".claude")]
        }
        (Runtime::ClaudeCode, _) => vec![folder("", ".claude"), folder("", ".claude.json")],
        (Runtime::Vex, _) if environment.contains_key("VEX_HOME") => vec![folder("VEX_HOME", ".vex")],
        (Runtime::Vex, _) => vec![folder("XDG_STATE_HOME", ".local/state").map(|state| state.join("vex"))],
        (Runtime::Command, Some("gemini")) => vec![folder("", ".gemini")],
        (Runtime::Command, Some("copilot")) => vec![folder("", ".copilot")],
        (Runtime::Command, Some("opencode")) => vec![
            folder("XDG_DATA_HOME", ".local/share").map(|data| data.join("opencode")),
            folder("XDG_STATE_HOME", ".local/state").map(|state| state.join("opencode")),
        ],
        (Runtime::Command, _) => Vec::new(),
    };
    places.into_iter().flatten().collect()
}

/// Returns the variables that tell an agent of this runtime where to put temporary files.
pub fn temporary_variables(runtime: Runtime) -> &'static [&'static str] {
    match runtime {
        Runtime::ClaudeCode => &["TMPDIR", "CLAUDE_CODE_TMPDIR"],
        Runtime::Codex | Runtime::Vex | Runtime::Command => &["TMPDIR"],
    }
}

/// Returns the signs of a login of this agent, of which one is enough. Empty if no login is known
/// to be necessary.
///
/// `environment` is the agent's own, as in [`crate::Launch::env`].
pub fn login_signs(profile: &AgentProfile, environment: &BTreeMap<String, String>) -> Vec<LoginSign> {
    use LoginSign::{File, Variable};
    let home = |variable: &str, below: &str| configured_folder(environment, variable, below);
    match profile.runtime {
        Runtime::Codex => {
            let mut signs = vec![Variable("CODEX_API_KEY"), Variable("OPENAI_API_KEY")];
            signs.extend(home("CODEX_HOME", ".codex").map(|dir| File(dir.join("auth.json"))));
            signs
        }
        Runtime::ClaudeCode => {
            let mut signs = vec![
                Variable("ANTHROPIC_API_KEY"),
                Variable("ANTHROPIC_AUTH_TOKEN"),
                Variable("CLAUDE_CODE_OAUTH_TOKEN"),
            ];
            signs.extend(home("CLAUDE_CONFIG_DIR", ".claude").map(|dir| File(dir.join(".credentials.json"))));
            signs
        }
        Runtime::Vex => match profile.provider.as_deref() {
            Some(name) if name.contains("anthropic") || name.contains("messages") => {
                vec![Variable("ANTHROPIC_API_KEY")]
            }
            Some(name) if name.contains("openai") || name.contains("responses") => {
                vec![Variable("OPENAI_API_KEY")]
            }
            _ => Vec::new(),
        },
        Runtime::Command => Vec::new(),
    }
}

/// Returns the files in an agent's own folder that hold its login and that it rewrites when it
/// refreshes its tokens.
pub fn login_files(runtime: Runtime) -> &'static [&'static str] {
    match runtime {
        Runtime::Codex => &["auth.json"],
        Runtime::ClaudeCode => &[".credentials.json"],
        Runtime::Vex | Runtime::Command => &[],
    }
}

/// Returns what a person does to log this agent in.
pub fn login_hint(profile: &AgentProfile) -> Option<&'static str> {
    match profile.runtime {
        Runtime::Codex => Some("run `codex login`, or set OPENAI_API_KEY"),
        Runtime::ClaudeCode => Some("run `claude` once and log in, or set ANTHROPIC_API_KEY"),
        Runtime::Vex => Some("set the API key of its provider in the environment"),
        Runtime::Command => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile;

    #[test]
    fn login_signs_prefer_the_agents_folder_over_home() {
        let mut env = BTreeMap::from([("HOME".to_owned(), "/home/u".to_owned())]);
        let file = |env: &_| login_signs(&profile(Runtime::Codex), env).pop();
        assert_eq!(
            file(&env),
            Some(LoginSign::File("/home/u/.codex/auth.json".into()))
        );
        env.insert("CODEX_HOME".to_owned(), "/c".to_owned());
        assert_eq!(file(&env), Some(LoginSign::File("/c/auth.json".into())));
        assert!(login_signs(&profile(Runtime::Command), &env).is_empty());
    }
}
