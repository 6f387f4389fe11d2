//! The sandbox of an attempt: from what the workflow says to paths of this machine.
//!
//! The wall itself is the operating system's, put up by the shim ([`vik_proc::Sandbox`]). It is on unless the workflow
//! says `sandbox: off`, and what this system does not uphold is refused, never left out.

mod homes;
mod keys;
mod opened;
mod paths;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use vik_core::ids::IssueId;
use vik_core::scope::Scope;
use vik_core::workflow::{
    AgentProfile, Runtime, SandboxBackend, SandboxFiles, SandboxNetwork, SandboxPolicy, SecretSource,
    Workflow,
};
use vik_proc::{
    Backend, Calls, DiskLimit, HostRule, Network, PROXY_PORT, Reads, Sandbox, SandboxError, SandboxLimits,
};

use crate::host::{Host, own_environment};
use crate::report::{Exit, Failure};
use crate::secrets::Environment;
use crate::workspace::fs::{create_private_dir_all, create_private_dir_below};
pub use homes::Homes;
use opened::Opened;
use paths::{below, resolve};

/// For whom a sandbox is.
#[derive(Clone, Copy, Debug)]
pub struct SandboxSubject<'a> {
    /// The issue.
    pub issue: &'a IssueId,
    /// The workflow: files that hold its secrets are nobody's to read, and what its agents may write is not trusted.
    pub workflow: &'a Workflow,
    /// Its workspace.
    pub workdir: &'a Path,
    /// The agent: its own folder (settings, logins, conversations) is open to it. `None` for a script, which may write
    /// in the workspace whatever the agents of the policy may.
    pub agent: Option<&'a AgentProfile>,
    /// What of the workspace it may change: only the folders in which that can be are opened. The kernel knows no patterns;
    /// the end of the attempt does.
    pub scope: Option<&'a Scope>,
}

/// Why no sandbox can be described for a process.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The folders for temporary files and caches cannot be made.
    #[error("cannot make the folder for temporary files")]
    Scratch(#[from] io::Error),
    /// It is not known where the user's keys are.
    #[error("the user's home directory is unknown, so keys in it cannot be hidden: set HOME for the daemon")]
    NoHome,
    /// A place leads through a link that an agent may have made.
    #[error(
        "the sandbox does not open {}: {} is a symbolic link in a folder that agents can write; remove it, or write the \
         path that it leads to",
        path.display(), link.display()
    )]
    PlantedLink {
        /// The place.
        path: PathBuf,
        /// The link.
        link: PathBuf,
    },
    /// A place that is to be written holds keys.
    #[error(
        "`write` of the sandbox does not open {}: {} is hidden from agents; name it under `read` as well to open it",
        path.display(), hidden.display()
    )]
    Hidden {
        /// The place.
        path: PathBuf,
        /// What is hidden.
        hidden: PathBuf,
    },
}

/// What the operating system is asked to uphold. Folders for temporary files and caches are made, and named in the
/// environment where the profile does not name others; so is the agent's own folder where it is not there yet.
///
/// # Errors
/// When these folders cannot be made, or a place cannot be opened safely.
pub fn confine(
    host: &Host,
    policy: &SandboxPolicy,
    inmate: SandboxSubject<'_>,
    env: &mut BTreeMap<String, String>,
) -> Result<Sandbox, ConfineError> {
    let scratch = host.layout.scratch_dir(inmate.issue);
    let (tmp, cache) = (scratch.join("tmp"), scratch.join("cache"));
    for folder in [&tmp, &cache] {
        // Earlier attempts could replace them.
        let below = folder
            .strip_prefix(host.layout.root())
            .map_err(io::Error::other)?;
        create_private_dir_below(host.layout.root(), below)?;
    }
    let runtime = inmate.agent.map_or(Runtime::Command, |profile| profile.runtime);
    let temporary = vik_agents::temporary_variables(runtime).iter();
    let caches = [("npm_config_cache", cache.join("npm")), ("XDG_CACHE_HOME", cache)];
    for (name, path) in temporary.map(|name| (*name, tmp.clone())).chain(caches) {
        let is_own = |profile: &AgentProfile| {
            profile.env.contains_key(name) || profile.env_pass.iter().any(|passed| passed == name)
        };
        if !inmate.agent.is_some_and(is_own) {
            env.insert(name.to_owned(), path.to_string_lossy().into_owned());
        }
    }
    if matches!(policy.network, SandboxNetwork::Hosts(_)) {
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            env.insert(name.to_owned(), proxy.clone());
            env.insert(name.to_ascii_lowercase(), proxy.clone());
        }
        // The inside is no place that is reached without it. Node.js looks at these variables only when it is told to.
        env.insert("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned());
        for name in ["NO_PROXY", "no_proxy"] {
            env.remove(name);
        }
    }
    // What is opened must have no links: the agents cannot replace these two.
    let (scratch, workdir) = (scratch.canonicalize()?, inmate.workdir.canonicalize()?);
    let inmate = SandboxSubject {
        workdir: &workdir,
        ..inmate
    };
    let homes = Homes::of_process(&host.environment, env, inmate.workdir);
    let opened = Opened::new(host, policy, inmate, &homes)?;
    let own = inmate.agent.map(|profile| vik_agents::state_paths(profile, env));
    let own = own.unwrap_or_default();
    let mut write = vec![scratch];
    for path in &own {
        let folder = opened.follow(path)?;
        // The agent would make its folder when it first needs it, and could not in there. Where it cannot be made here either,
        // the agent says so.
        if path.extension().is_none() && !folder.exists() {
            let _ = create_private_dir_all(&folder);
        }
        write.push(folder);
    }
    let hidden = keys::hidden(host, &homes, &own);
    plan(host, policy, inmate, &opened, hidden, write)
}

fn plan(
    host: &Host,
    policy: &SandboxPolicy,
    inmate: SandboxSubject<'_>,
    opened: &Opened<'_>,
    mut hidden: Vec<PathBuf>,
    mut write: Vec<PathBuf>,
) -> Result<Sandbox, ConfineError> {
    let SandboxSubject { workdir, agent, .. } = inmate;
    let repository = vik_proc::repository_in(workdir);
    write.extend(vik_proc::DEVICES.iter().map(PathBuf::from));
    if policy.files == SandboxFiles::Workspace || agent.is_none() {
        match inmate.scope {
            None => write.push(workdir.to_owned()),
            Some(scope) => {
                let roots = scope.write_roots().into_iter();
                let roots = roots.filter_map(|root| below(workdir, None, &root.to_string_lossy()));
                write.extend(roots);
                // A commit is judged by what it holds.
                let git = workdir.join(".git");
                write
                    .extend(Some(git).filter(|git| git.symlink_metadata().is_ok_and(|facts| facts.is_dir())));
            }
        }
        // Of the repository of a linked work tree only the tree's own part: an agent that could write the rest could destroy it.
        write.extend(repository.last().cloned());
    }
    hidden.push(host.layout.home().join("workflows"));
    hidden.extend(
        inmate
            .workflow
            .secrets
            .values()
            .filter_map(|source| match source {
                SecretSource::File(path) => Some(resolve(&host.workflow_dir, opened.home(), path)),
                SecretSource::Env(_) | SecretSource::Command(_) => None,
            }),
    );
    hidden.extend(
        policy
            .hide
            .iter()
            .map(|path| resolve(workdir, opened.home(), path)),
    );
    // Vik's program is vex too, and what hooks and verification call; it may lie where the agent sees a folder of its own.
    let vik = host.vik.canonicalize().unwrap_or_else(|_| host.vik.clone());
    let mut shown = vec![workdir.to_owned(), vik];
    shown.extend(repository);
    let read = opened.read()?;
    write.extend(opened.write(&read, &hidden)?);
    shown.extend(read);
    Ok(Sandbox {
        backend: backend(policy),
        write,
        read: Reads::AllBut { hidden, shown },
        calls: Some(Calls {
            // vex ends the trees of its own tools, and proves that they ended.
            subreaper: agent.is_some_and(|profile| profile.runtime == Runtime::Vex),
            ..calls(policy)
        }),
        limits: SandboxLimits {
            memory: policy.memory,
            processes: Some(policy.pids),
            disk: Some(policy.disk.map_or(DiskLimit::HalfOfFree, DiskLimit::Bytes)),
        },
    })
}

fn backend(policy: &SandboxPolicy) -> Backend {
    match policy.backend {
        SandboxBackend::Landlock => Backend::Landlock,
        SandboxBackend::Bubblewrap => Backend::Bubblewrap,
    }
}

fn calls(policy: &SandboxPolicy) -> Calls {
    Calls {
        network: match &policy.network {
            SandboxNetwork::On => Network::On,
            SandboxNetwork::Off => Network::Off,
            SandboxNetwork::Hosts(hosts) => {
                Network::Hosts(hosts.iter().filter_map(|host| HostRule::parse(host)).collect())
            }
        },
        unix_sockets: policy.unix_sockets,
        subreaper: false,
    }
}

/// The sandbox of `before_remove`, where the workflow wants one around it.
///
/// # Errors
/// As [`confine`].
pub fn of_hook(
    host: &Host,
    workflow: &Workflow,
    issue: &IssueId,
    workdir: &Path,
    env: &mut BTreeMap<String, String>,
) -> Result<Option<Sandbox>, ConfineError> {
    let inmate = SandboxSubject {
        issue,
        workflow,
        workdir,
        agent: None,
        scope: None,
    };
    let wanted = workflow.issue.hooks_in_sandbox.then(SandboxPolicy::default);
    wanted
        .map(|policy| confine(host, &policy, inmate, env))
        .transpose()
}

/// What a wall that stands does not keep out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// Signals to other processes of this user.
    Signals,
}

impl Weakness {
    /// Of a backend, with this version of Landlock.
    fn of(backend: Backend, landlock: i64) -> Option<Self> {
        let is_weak = backend == Backend::Landlock && landlock < SIGNALS_SINCE;
        is_weak.then_some(Self::Signals)
    }

    /// What it is, for people.
    pub fn description(self) -> &'static str {
        match self {
            Self::Signals => {
                "this kernel lets agents signal other processes of this user (Linux 6.12 and later do not)"
            }
        }
    }

    /// What shuts it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Signals => "`sandbox: {backend: bubblewrap}` shuts that out on any kernel",
        }
    }
}

/// The first version of Landlock that knows of signals.
const SIGNALS_SINCE: i64 = 6;

/// Whether this system upholds the sandboxes that a workflow asks for, and what they leave open: nothing is started where it
/// does not.
///
/// # Errors
/// When one cannot be put up, with the way out.
pub fn check(workflow: &Workflow) -> Result<Option<Weakness>, Failure> {
    let mut weakness = None;
    let mut tried: Vec<(Backend, Calls)> = Vec::new();
    for stage in &workflow.issue.stages {
        let profile = workflow.agents.get(&stage.agent);
        let Some(policy) = profile.and_then(|profile| SandboxPolicy::of(profile, stage)) else {
            continue;
        };
        if Homes::of_daemon(&Environment::from(own_environment()))
            .first()
            .is_none()
        {
            return Err(Failure::new(
                Exit::Failed,
                "sandbox",
                ConfineError::NoHome.to_string(),
            ));
        }
        let walls = (backend(&policy), calls(&policy));
        if tried.contains(&walls) {
            continue;
        }
        let landlock = probe(walls.0, walls.1.clone()).map_err(|error| {
            let what = format!(
                "the sandbox of the stage `{}` cannot be put up on this system",
                stage.name
            );
            Failure::failed("sandbox", what, &error).hint(error.hint().unwrap_or(
                "`vik doctor` says what this system gives; with `sandbox: off` in the agent's profile its agents run \
                 with all the rights of this user",
            ))
        })?;
        weakness = weakness.or(Weakness::of(walls.0, landlock));
        tried.push(walls);
    }
    Ok(weakness)
}

/// Tries walls of every kind; gives the version of Landlock.
fn probe(backend: Backend, calls: Calls) -> Result<i64, SandboxError> {
    let sandbox = Sandbox {
        backend,
        calls: Some(calls),
        read: Reads::AllBut {
            hidden: vec!["/nothing".into()],
            shown: Vec::new(),
        },
        ..Sandbox::default()
    };
    sandbox.fence().map(|fence| fence.abi())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_kernel_leaves_open_is_known() {
        for (backend, landlock, weak) in [
            (Backend::Landlock, 5, true),
            (Backend::Landlock, 6, false),
            (Backend::Bubblewrap, 1, false),
        ] {
            assert_eq!(
                Weakness::of(backend, landlock).is_some(),
                weak,
                "{backend:?} {landlock}"
            );
        }
    }
}
