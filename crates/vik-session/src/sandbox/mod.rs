//! The sandbox of an attempt: translates the workflow's policy to paths of this machine.
//!
//! The operating system enforces the sandbox, and the shim sets it up ([`vik_proc::Sandbox`]). It
//! is on unless the workflow says `sandbox: off`. A policy that this system cannot enforce is
//! refused, never ignored.

mod allowed_paths;
mod homes;
mod keys;
mod paths;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use vik_agents::driver;
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_core::ids::IssueId;
use vik_core::scope::Scope;
use vik_core::workflow::{
    AgentProfile, Runtime, SandboxBackend, SandboxFiles, SandboxNetwork, SandboxPolicy, SecretSource,
    Workflow,
};
use vik_proc::{
    Backend, Calls, DiskLimit, HostRule, Network, PROXY_PORT, Reads, Sandbox, SandboxError, SandboxLimits,
};
use vik_workspace::fs::{create_private_dir_all, create_private_dir_below};

use crate::host::{Environment, Host, own_environment};

use allowed_paths::AllowedPaths;
pub use homes::Homes;
use paths::{below, resolve};

/// The process for which a sandbox is made.
#[derive(Clone, Copy, Debug)]
pub struct SandboxSubject<'a> {
    pub issue: &'a IssueId,
    /// The workflow: nobody may read the files with its secrets, and paths that its agents may
    /// write are not trusted.
    pub workflow: &'a Workflow,
    pub workdir: &'a Path,
    /// The agent, which can access its own folder (settings, logins, conversations). `None` for a
    /// script, which may write in the workspace whatever the policy of the agents is.
    pub agent: Option<&'a AgentProfile>,
    /// The part of the workspace that it may change: only folders that can contain matching paths
    /// are opened. The kernel knows no patterns, so the paths themselves are checked at the end of
    /// the attempt.
    pub scope: Option<&'a Scope>,
    /// The existing folder for temporary files and caches; `None` for that of the issue, which all of
    /// its agents share.
    pub scratch: Option<&'a Path>,
}

/// The variable with the folder for caches: an agent that confines its commands itself has to let
/// them write there.
pub const CACHE: &str = "VIK_CACHE";

/// Why the sandbox of a process cannot be described.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The folders for temporary files and caches cannot be created.
    #[error("cannot create the folder for temporary files")]
    Scratch(#[from] io::Error),
    /// The location of the user's keys is not known.
    #[error("cannot determine the user's home directory to hide the keys in it: set HOME for the daemon")]
    NoHome,
    /// A path leads through a link that an agent may have created.
    #[error(
        "the sandbox does not open {}: {} is a symbolic link in a folder that agents can write to; remove it, or name its target",
        path.display(), link.display()
    )]
    PlantedLink { path: PathBuf, link: PathBuf },
    /// A path under `write` contains keys.
    #[error(
        "`write` of the sandbox does not open {}: {} is hidden from agents; list it under `read` as well",
        path.display(), hidden.display()
    )]
    Hidden { path: PathBuf, hidden: PathBuf },
}

/// Returns the sandbox that the operating system is to enforce. Creates the folders for temporary
/// files and caches and sets their variables in the environment, unless the profile sets them; also
/// creates the agent's own folder if it does not exist.
///
/// # Errors
/// When these folders cannot be created, or a path cannot be opened safely.
pub fn confine(
    host: &Host,
    policy: &SandboxPolicy,
    subject: SandboxSubject<'_>,
    env: &mut BTreeMap<String, String>,
) -> Result<Sandbox, ConfineError> {
    let (base, scratch) = match subject.scratch {
        Some(folder) => (folder, folder.to_owned()),
        None => (host.layout.root(), host.layout.scratch_dir(subject.issue)),
    };
    let (tmp, cache) = (scratch.join("tmp"), scratch.join("cache"));
    for folder in [&tmp, &cache] {
        // Earlier attempts could have replaced these folders.
        let relative = folder.strip_prefix(base).map_err(io::Error::other)?;
        create_private_dir_below(base, relative)?;
    }
    // A program other than an agent gets the variables of an unknown command.
    let runtime = subject.agent.map_or(Runtime::Command, |profile| profile.runtime);
    let temporary = driver(runtime).temporary_variables().iter();
    let caches = [
        ("npm_config_cache", cache.join("npm")),
        (CACHE, cache.clone()),
        ("XDG_CACHE_HOME", cache),
    ];
    for (name, path) in temporary.map(|name| (*name, tmp.clone())).chain(caches) {
        let is_own = |profile: &AgentProfile| {
            profile.env.contains_key(name) || profile.env_pass.iter().any(|passed| passed == name)
        };
        if !subject.agent.is_some_and(is_own) {
            env.insert(name.to_owned(), path.to_string_lossy().into_owned());
        }
    }
    if matches!(policy.network, SandboxNetwork::Hosts(_)) {
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            env.insert(name.to_owned(), proxy.clone());
            env.insert(name.to_ascii_lowercase(), proxy.clone());
        }
        // Without the proxy no destination is reachable, so nothing may bypass it. Node.js uses
        // these variables only if this one is set.
        env.insert("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned());
        for name in ["NO_PROXY", "no_proxy"] {
            env.remove(name);
        }
    }
    // Opened paths must contain no links: the agents cannot replace these two.
    let (scratch, workdir) = (scratch.canonicalize()?, subject.workdir.canonicalize()?);
    let subject = SandboxSubject {
        workdir: &workdir,
        ..subject
    };
    let homes = Homes::of_process(&host.environment, env, subject.workdir);
    let opened = AllowedPaths::new(host, policy, subject, &homes)?;
    let state_paths = subject
        .agent
        .map(|profile| driver(profile.runtime).state_paths(profile, env));
    let state_paths = state_paths.unwrap_or_default();
    let mut write = vec![scratch];
    for path in &state_paths {
        let folder = opened.follow(path)?;
        // The agent creates its folder on first use, which the sandbox would prevent. If it cannot
        // be created here either, the agent reports it.
        if path.extension().is_none() && !folder.exists() {
            let _ = create_private_dir_all(&folder);
        }
        write.push(folder);
    }
    let hidden = keys::hidden(host, &homes, &state_paths);
    plan(host, policy, subject, &opened, hidden, write)
}

fn plan(
    host: &Host,
    policy: &SandboxPolicy,
    subject: SandboxSubject<'_>,
    opened: &AllowedPaths<'_>,
    mut hidden: Vec<PathBuf>,
    mut write: Vec<PathBuf>,
) -> Result<Sandbox, ConfineError> {
    let SandboxSubject { workdir, agent, .. } = subject;
    let repository = vik_proc::repository_in(workdir);
    write.extend(vik_proc::DEVICES.iter().map(PathBuf::from));
    if policy.files == SandboxFiles::Workspace || agent.is_none() {
        match subject.scope {
            None => write.push(workdir.to_owned()),
            Some(scope) => {
                let roots = scope.write_roots().into_iter();
                let roots = roots.filter_map(|root| below(workdir, None, &root.to_string_lossy()));
                write.extend(roots);
                // Commits are checked by their content.
                let git = workdir.join(".git");
                write
                    .extend(Some(git).filter(|git| git.symlink_metadata().is_ok_and(|facts| facts.is_dir())));
            }
        }
        // In the repository of a linked work tree only the tree's own part is writable: an agent
        // that could write the rest could destroy the repository.
        write.extend(repository.last().cloned());
    }
    hidden.push(host.layout.home().join("workflows"));
    hidden.extend(
        subject
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
    // Vik's program is also vex, and hooks and `verify` call it; it may be in a folder that the
    // sandbox replaces by another one.
    let vik = host.vik.canonicalize().unwrap_or_else(|_| host.vik.clone());
    let mut shown = vec![workdir.to_owned(), vik];
    shown.extend(repository);
    // The folder of the workflow may be hidden; its agent must still start.
    let program = agent.and_then(|profile| host.program_beside_workflow(profile));
    shown.extend(program.map(|path| opened.follow(&path)).transpose()?);
    let read = opened.read()?;
    write.extend(opened.write(&read, &hidden)?);
    shown.extend(read);
    Ok(Sandbox {
        backend: backend(policy),
        write,
        read: Reads::AllBut { hidden, shown },
        calls: Some(Calls {
            subreaper: agent.is_some_and(|profile| driver(profile.runtime).needs_subreaper()),
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

/// Returns the sandbox of `before_remove`, if the workflow demands one.
///
/// # Errors
/// The same as [`confine`].
pub fn confine_hook(
    host: &Host,
    workflow: &Workflow,
    issue: &IssueId,
    workdir: &Path,
    env: &mut BTreeMap<String, String>,
) -> Result<Option<Sandbox>, ConfineError> {
    let subject = SandboxSubject {
        issue,
        workflow,
        workdir,
        agent: None,
        scope: None,
        scratch: None,
    };
    let wanted = workflow.issue.hooks_in_sandbox.then(SandboxPolicy::default);
    wanted
        .map(|policy| confine(host, &policy, subject, env))
        .transpose()
}

/// An action that an active sandbox does not prevent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weakness;

impl Weakness {
    /// Returns the weakness of a backend with this version of Landlock.
    fn of(backend: Backend, landlock: i64) -> Option<Self> {
        let is_weak = backend == Backend::Landlock && landlock < SIGNALS_SINCE;
        is_weak.then_some(Self)
    }

    /// Returns a description for people.
    pub fn description(self) -> &'static str {
        "this kernel lets agents send signals to other processes of this user (Linux 6.12 and later do not)"
    }

    /// Returns how to prevent it.
    pub fn hint(self) -> &'static str {
        "`sandbox: {backend: bubblewrap}` prevents this on any kernel"
    }
}

/// The first version of Landlock that restricts signals.
const SIGNALS_SINCE: i64 = 6;

/// Checks that this system can enforce the sandboxes of a workflow, and returns their weakness. If
/// it cannot, nothing is started.
///
/// # Errors
/// When a sandbox cannot be set up, with a hint.
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
                ErrorCode::Sandbox,
                ConfineError::NoHome.to_string(),
            ));
        }
        let config = (backend(&policy), calls(&policy));
        if tried.contains(&config) {
            continue;
        }
        let landlock = probe(config.0, config.1.clone()).map_err(|error| {
            let message = format!(
                "cannot set up the sandbox of the stage `{}` on this system",
                stage.name
            );
            Failure::failed(ErrorCode::Sandbox, message, &error).hint(error.hint().unwrap_or(
                "`vik doctor` shows what this system supports; with `sandbox: off` in the agent's profile, its agents run with all the rights of this user",
            ))
        })?;
        weakness = weakness.or(Weakness::of(config.0, landlock));
        tried.push(config);
    }
    Ok(weakness)
}

/// Sets up a sandbox of this kind as a test. Returns the version of Landlock.
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
    fn older_landlock_is_reported_as_a_weakness() {
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
