//! The environment of an agent: an allow-list of the daemon's variables, the adapter's, and the
//! profile's own.
//!
//! Later ones win: the allow-list, the adapter's quiet switches, `env_pass`, `env`. No other
//! variable of the daemon reaches an agent.

use std::collections::BTreeMap;

use crate::launch::path_text;
use crate::{Driver, LaunchContext, LaunchError};

/// The variables that every agent gets: search path, settings, locale, terminal, proxy,
/// certificates.
pub const COMMON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// The prefixes of variables that every agent gets.
pub const COMMON_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// The other variables of an agent that its MCP servers get: certificates, caches, and those of Vik
/// that describe the sandbox, the issue and the attempt.
const OF_SERVERS: &[&str] = &[
    "NODE_EXTRA_CA_CERTS",
    "NODE_USE_ENV_PROXY",
    "XDG_CACHE_HOME",
    "npm_config_cache",
    "VIK_ATTEMPT",
    "VIK_ATTEMPT_ID",
    "VIK_BASE_COMMIT",
    "VIK_CACHE",
    "VIK_INSTANCE",
    "VIK_ISSUES_DIR",
    "VIK_ISSUE_ID",
    "VIK_ISSUE_STATE",
    "VIK_ISSUE_TITLE",
    "VIK_RUN_ID",
    "VIK_STAGE",
    "VIK_WORKFLOW",
];

/// Returns the variables that an agent must pass on to its MCP servers, if it does not pass on its
/// whole environment.
pub(crate) fn variables_of_servers<'a>() -> impl Iterator<Item = &'a str> {
    COMMON.iter().chain(OF_SERVERS).copied()
}

/// Returns those of the daemon's variables that every agent gets.
pub fn common_variables(environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let common = environment.iter().filter(|(name, _)| is_common(name));
    common
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn is_common(name: &str) -> bool {
    COMMON.contains(&name) || COMMON_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Builds the environment, with the folder of a private home; `set` has the adapter's variables.
pub(crate) fn environment(
    driver: &dyn Driver,
    cx: &LaunchContext<'_>,
    set: &[(&str, String)],
) -> Result<BTreeMap<String, String>, LaunchError> {
    let mut env: BTreeMap<String, String> = cx
        .environment
        .iter()
        .filter(|(name, _)| allowed(driver, name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if let (Some(variable), Some(home)) = (driver.home_variable(), cx.private_home) {
        env.insert(variable.to_owned(), path_text(home)?.to_owned());
    }
    env.extend(
        set.iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone())),
    );
    for name in &cx.profile.env_pass {
        if let Some(value) = cx.environment.get(name) {
            env.insert(name.clone(), value.clone());
        }
    }
    env.extend(cx.profile.env.clone());
    Ok(env)
}

fn allowed(driver: &dyn Driver, name: &str) -> bool {
    let mut prefixes = driver.provider_prefixes().iter();
    is_common(name)
        || driver.provider_names().contains(&name)
        || prefixes.any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use vik_core::workflow::Runtime;

    use super::*;
    use crate::driver;
    use crate::testing::{context, profile};

    #[test]
    fn environment_holds_the_allow_list_and_the_profiles_own() {
        let mut profile = profile(Runtime::Codex);
        profile.env_pass = vec!["SSH_AUTH_SOCK".into(), "ABSENT".into(), "TERM".into()];
        profile.env = BTreeMap::from([("LANG".into(), "C".into())]);
        let daemon: BTreeMap<String, String> = [
            ("PATH", "/bin"),
            ("LANG", "de"),
            ("LC_ALL", "de"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("GITHUB_TOKEN", "g"),
            ("OPENAI_API_KEY", "o"),
            ("ANTHROPIC_API_KEY", "a"),
            ("SSH_AUTH_SOCK", "/s"),
            ("TERM", "dumb"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let mut cx = context(&profile);
        cx.environment = &daemon;
        let env = environment(
            driver(Runtime::Codex),
            &cx,
            &[("TERM", "set".into()), ("QUIET", "1".into())],
        )
        .unwrap();
        let pairs: Vec<_> = env
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            pairs,
            [
                "LANG=C",
                "LC_ALL=de",
                "OPENAI_API_KEY=o",
                "PATH=/bin",
                "QUIET=1",
                "SSH_AUTH_SOCK=/s",
                "TERM=dumb"
            ]
        );
    }
}
