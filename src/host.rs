//! What everything that Vik starts needs to know: where things are, and what a child process may see.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use vik_proc::{Mark, ProcessId, ShimSpec, Supervisor};

use crate::secrets::Environment;
use crate::workspace::Layout;

/// The variable that marks every process of one attempt or hook; the shim finds what escaped by it.
pub const ATTEMPT_MARK: &str = "VIK_ATTEMPT_ID";

/// The variable that tells which daemon instance a process belongs to; `vik stop` finds leftovers by it.
pub const INSTANCE_MARK: &str = "VIK_INSTANCE";

/// The variable that marks the shims of a daemon instance, and nothing that they run.
pub const SHIM_MARK: &str = "VIK_SHIM";

/// What is for the daemon alone: nothing that it starts may steer it.
const OWN_SECRETS: [&str; 2] = [API_TOKEN, API_TOKEN_FILE];

/// The variable that holds the token of the HTTP API.
pub const API_TOKEN: &str = "VIK_API_TOKEN";

/// The variable that names a file with it.
pub const API_TOKEN_FILE: &str = "VIK_API_TOKEN_FILE";

/// The most of a value that goes into a variable: Linux takes 128 KiB, name and all.
const MAX_VARIABLE_BYTES: usize = 32 * 1024;

/// The surroundings of one daemon instance.
#[derive(Debug)]
pub struct Host {
    /// The workflow file, absolute.
    pub workflow_path: PathBuf,
    /// Its folder: pull commands run there, relative paths start there.
    pub workflow_dir: PathBuf,
    /// Every path that Vik owns.
    pub layout: Layout,
    /// The daemon's environment, as text.
    pub environment: Environment,
    /// Starts processes under the shim.
    pub supervisor: Supervisor,
    /// The name of the instance folder.
    pub instance: String,
    /// Vik's own program, absolute.
    pub vik: PathBuf,
    /// The shims whose processes must not use the API.
    pub agent_shims: AgentShims,
}

/// The shims of agents, and of scripts that run what agents wrote. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AgentShims(Arc<Mutex<Vec<ProcessId>>>);

impl AgentShims {
    /// Adds shims, each before it starts anything.
    pub fn add(&self, shims: impl IntoIterator<Item = ProcessId>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(shims);
    }

    /// Returns those that still run.
    pub fn alive(&self) -> Vec<ProcessId> {
        let mut shims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shims.retain(|shim| shim.is_alive());
        shims.clone()
    }
}

impl Host {
    /// The daemon's environment without secrets, with Vik's own folder on PATH and `VIK_ISSUES_DIR`: for pull and show
    /// commands.
    pub fn command_env(&self) -> BTreeMap<String, String> {
        let mut env = self.environment.shared();
        self.add_own(&mut env);
        env
    }

    /// Adds what every child gets: Vik's own folder on PATH, `VIK_ISSUES_DIR`, and the instance's mark.
    pub fn add_own(&self, env: &mut BTreeMap<String, String>) {
        let own = self
            .vik
            .parent()
            .unwrap_or(Path::new("/"))
            .to_string_lossy()
            .into_owned();
        let path = match env.get("PATH") {
            Some(path) if path.split(':').any(|folder| folder == own) => path.clone(),
            Some(path) if !path.is_empty() => format!("{own}:{path}"),
            _ => format!("{own}:/usr/local/bin:/usr/bin:/bin"),
        };
        env.insert("PATH".to_owned(), path);
        let issues = self
            .environment
            .get("VIK_ISSUES_DIR")
            .filter(|given| !given.is_empty())
            .map_or_else(
                || self.workflow_dir.join("issues"),
                |given| self.workflow_dir.join(given),
            );
        env.insert("VIK_ISSUES_DIR".to_owned(), issues.to_string_lossy().into_owned());
        env.insert(INSTANCE_MARK.to_owned(), self.instance.clone());
    }

    /// A shell script file to run under the shim, its output going to `log`.
    pub fn script(&self, script: &Path, cwd: &Path, env: BTreeMap<String, String>, mark: &str) -> ShimSpec {
        let mut spec = ShimSpec::command("sh", cwd);
        spec.args = vec![script.into()];
        spec.env = os_env(env);
        spec.mark = Some(Mark::new(ATTEMPT_MARK, mark));
        spec
    }
}

/// A value as an environment can hold it: no NUL, and not so long that nothing could be started with it.
pub fn fit(value: &str) -> String {
    let end = value.floor_char_boundary(MAX_VARIABLE_BYTES);
    value[..end].replace('\0', "\u{fffd}")
}

/// An environment for a [`ShimSpec`].
pub fn os_env(env: BTreeMap<String, String>) -> Vec<(OsString, OsString)> {
    env.into_iter()
        .filter(|(name, value)| !name.contains(['=', '\0']) && !value.contains('\0'))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// The daemon's own environment; variables that are not text are left out.
pub fn own_environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter(|(name, _)| !OWN_SECRETS.iter().any(|secret| name == secret))
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// A duration as whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
