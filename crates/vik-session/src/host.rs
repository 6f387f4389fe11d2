//! The context for everything that Vik starts: paths, and the environment of child processes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use vik_core::attempt::Start;
use vik_core::issue::Issue;
use vik_core::workflow::AgentProfile;
use vik_proc::{Lease, Mark, ProcessId, ShimSpec, Supervisor};
use vik_store::AttemptFiles;
use vik_workspace::Layout;

mod environment;

pub use environment::Environment;

/// The variable that marks every process of one attempt or hook. The shim uses it to find processes
/// that escaped.
pub const ATTEMPT_MARK: &str = "VIK_ATTEMPT_ID";

/// The variable with the home of the workflow on a worker: it is not the one that follows from the
/// path of the workflow file.
pub const WORKER_ROOT: &str = "VIK_WORKER_ROOT";

/// The variable that names the daemon instance of a process. `vik stop` uses it to find leftover
/// processes.
pub const INSTANCE_MARK: &str = "VIK_INSTANCE";

/// The variable that marks the shims of a daemon instance. The processes that a shim runs do not
/// have it.
pub const SHIM_MARK: &str = "VIK_SHIM";

/// Variables for the daemon alone: no child process gets them, so that none can control the daemon.
const OWN_SECRETS: [&str; 2] = [API_TOKEN, API_TOKEN_FILE];

/// The variable that holds the token of the HTTP API.
pub const API_TOKEN: &str = "VIK_API_TOKEN";

/// The variable that names a file with the token of the HTTP API.
pub const API_TOKEN_FILE: &str = "VIK_API_TOKEN_FILE";

/// The maximum size of a value in a variable. Linux allows 128 KiB, including the name.
const MAX_VARIABLE_BYTES: usize = 32 * 1024;

/// The surroundings of one daemon instance.
#[derive(Clone, Debug)]
pub struct Host {
    /// The absolute path of the workflow file.
    pub workflow_path: PathBuf,
    /// Its folder: pull commands run there, and relative paths are resolved against it.
    pub workflow_dir: PathBuf,
    /// The paths that Vik owns.
    pub layout: Layout,
    /// The daemon's environment, as text.
    pub environment: Environment,
    pub supervisor: Supervisor,
    /// The name of the instance folder.
    pub instance: String,
    /// The absolute path of Vik's own program.
    pub vik: PathBuf,
    /// The shims whose processes must not use the API.
    pub agent_shims: AgentShims,
}

/// The shims of agents and of scripts that run agent output. Cheap to clone.
///
/// A lock, not a message to the loop: an agent may call the API as soon as it runs, so its shim must
/// be known before that.
#[derive(Clone, Debug, Default)]
pub struct AgentShims(Arc<Mutex<Shims>>);

#[derive(Debug, Default)]
struct Shims {
    known: Vec<ProcessId>,
    /// The number of known shims at which those that have exited are dropped.
    limit: usize,
}

/// The number of shims that have exited and may still be known. The daemon starts many in its life.
const MAX_EXITED: usize = 64;

impl Shims {
    fn drop_exited(&mut self) {
        self.known.retain(|shim| shim.is_alive());
        self.limit = 2 * self.known.len() + MAX_EXITED;
    }
}

impl AgentShims {
    /// Adds shims. Each must be added before it starts a process.
    pub fn add(&self, shims: impl IntoIterator<Item = ProcessId>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.known.extend(shims);
        if all.known.len() > all.limit {
            all.drop_exited();
        }
    }

    /// Returns the shims that still run.
    pub fn alive(&self) -> Vec<ProcessId> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.drop_exited();
        all.known.clone()
    }
}

impl Host {
    /// Returns this host with all processes that it starts under a lease.
    pub fn under_lease(&self, lease: Lease) -> Self {
        Self {
            supervisor: self.supervisor.with_lease(lease),
            ..self.clone()
        }
    }

    /// Returns the paths of the files of an attempt.
    pub fn attempt_files(&self, start: &Start) -> AttemptFiles {
        let dir = self.layout.issue_sessions_dir(&start.issue.id);
        AttemptFiles::new(&dir, &start.stage.name, start.attempt_id)
    }

    /// Returns the environment for pull and show commands: the daemon's environment without
    /// secrets, with Vik's own folder on PATH and with `VIK_ISSUES_DIR`.
    pub fn command_env(&self) -> BTreeMap<String, String> {
        let mut env = self.environment.shared();
        self.add_own(&mut env);
        env
    }

    /// Adds what every child gets: Vik's own folder on PATH, `VIK_ISSUES_DIR` and the instance
    /// mark.
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

    /// Adds the variables of an issue for a script or an agent in its workspace.
    pub fn add_issue(&self, issue: &Issue, env: &mut BTreeMap<String, String>) {
        let issues_dir = self.layout.issues_dir();
        let own: [(&str, &str); 5] = [
            ("VIK_ISSUE_ID", issue.id.as_str()),
            ("VIK_ISSUE_TITLE", &issue.title),
            ("VIK_ISSUE_STATE", &issue.state),
            ("VIK_WORKFLOW", &self.workflow_path.to_string_lossy()),
            // git must not use a repository around a workspace that has none itself.
            ("GIT_CEILING_DIRECTORIES", &issues_dir.to_string_lossy()),
        ];
        env.extend(own.map(|(name, value)| (name.to_owned(), env_value(value))));
        if self.layout.is_of_worker() {
            // Commands of vik would find the workspaces of a hub on this machine.
            let root = self.layout.root().to_string_lossy();
            env.insert(WORKER_ROOT.to_owned(), env_value(&root));
        }
    }

    /// Returns the program of an agent that the workflow names by a relative path with a `/`, such
    /// as `./agent.sh`, if the folder of the workflow file has it. Another name is searched for on
    /// PATH, and another relative path in the issue workspace.
    pub fn program_beside_workflow(&self, profile: &AgentProfile) -> Option<PathBuf> {
        let name = profile.command.first().filter(|name| name.contains('/'))?;
        // The components leave out `.`; an absolute path replaces the folder.
        let path: PathBuf = self.workflow_dir.join(name).components().collect();
        (Path::new(name).is_relative() && path.is_file()).then_some(path)
    }

    /// Returns the program of an MCP server: a name on PATH, or a path. A relative path with a `/` is
    /// relative to the folder of the workflow file.
    pub fn program_of_server(&self, command: &[String]) -> String {
        let name = command.first().map_or("", String::as_str);
        if !name.contains('/') {
            return name.to_owned();
        }
        // The components leave out `.`; an absolute path replaces the folder.
        let path: PathBuf = self.workflow_dir.join(name).components().collect();
        path.to_string_lossy().into_owned()
    }

    /// Returns the specification of a shell script file that runs under the shim.
    pub fn script(&self, script: &Path, cwd: &Path, env: BTreeMap<String, String>, mark: &str) -> ShimSpec {
        let mut spec = ShimSpec::command("sh", cwd);
        spec.args = vec![script.into()];
        spec.env = os_env(env);
        spec.mark = Some(Mark::new(ATTEMPT_MARK, mark));
        spec
    }
}

/// Returns a value that fits into an environment variable: without NUL and with a limited length.
pub fn env_value(value: &str) -> String {
    let end = value.floor_char_boundary(MAX_VARIABLE_BYTES);
    value[..end].replace('\0', "\u{fffd}")
}

/// Converts an environment for a [`ShimSpec`], without entries that an environment cannot hold.
pub fn os_env(env: BTreeMap<String, String>) -> Vec<(OsString, OsString)> {
    env.into_iter()
        .filter(|(name, value)| !name.contains(['=', '\0']) && !value.contains('\0'))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// Returns the daemon's own environment without its own secrets and without variables that are not
/// text.
pub fn own_environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter(|(name, _)| !OWN_SECRETS.iter().any(|secret| name == secret))
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Returns a duration in whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exited_shims_are_forgotten_and_running_ones_are_not() {
        let shims = AgentShims::default();
        let running = ProcessId::current();
        shims.add([running]);
        for start_time in 1..10_000 {
            shims.add([ProcessId {
                start_time,
                ..running
            }]);
            let known = shims.0.lock().unwrap().known.len();
            assert!(known <= 2 + MAX_EXITED, "{known}");
        }
        assert_eq!(shims.alive(), [running]);
    }
}
