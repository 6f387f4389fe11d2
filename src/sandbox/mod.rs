//! The sandbox of an attempt: from what the workflow says to paths of this machine.
//!
//! The wall itself is the operating system's, put up by the shim ([`vik_proc::Sandbox`]). It is on unless the workflow
//! says `sandbox: off`, and what this system does not uphold is refused, never left out.

mod keys;
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

use crate::host::Host;
use crate::report::Failure;
use crate::workspace::fs::create_private_dir_all;
use paths::{below, resolve};

/// For whom a sandbox is.
#[derive(Clone, Copy, Debug)]
pub struct Inmate<'a> {
    /// The issue.
    pub issue: &'a IssueId,
    /// The secrets of the workflow: files that hold them are nobody's to read.
    pub secrets: &'a BTreeMap<String, SecretSource>,
    /// Its workspace.
    pub workdir: &'a Path,
    /// The agent: its own folder (settings, logins, conversations) is open to it. `None` for a script, which may write
    /// in the workspace whatever the agents of the policy may.
    pub agent: Option<&'a AgentProfile>,
    /// What of the workspace it may change: only the folders in which that can be are opened. The kernel knows no patterns;
    /// the end of the attempt does.
    pub scope: Option<&'a Scope>,
}

/// What the operating system is asked to uphold. Folders for temporary files and caches are made, and named in the
/// environment where the profile does not name others; so is the agent's own folder where it is not there yet.
///
/// # Errors
/// When these folders cannot be made.
pub fn confine(
    host: &Host,
    policy: &SandboxPolicy,
    inmate: Inmate<'_>,
    env: &mut BTreeMap<String, String>,
) -> io::Result<Sandbox> {
    let scratch = host.layout.scratch_dir(inmate.issue);
    let (tmp, cache) = (scratch.join("tmp"), scratch.join("cache"));
    create_private_dir_all(&tmp)?;
    create_private_dir_all(&cache)?;
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
    let own = inmate.agent.map(|profile| vik_agents::state_paths(profile, env));
    let own = own.unwrap_or_default();
    // The agent would make its folder when it first needs it, and could not in there. Where it cannot be made here either,
    // the agent says so.
    for folder in own
        .iter()
        .filter(|path| path.extension().is_none() && !path.exists())
    {
        let _ = create_private_dir_all(folder);
    }
    Ok(plan(host, policy, inmate, &scratch, &own, env))
}

fn plan(
    host: &Host,
    policy: &SandboxPolicy,
    inmate: Inmate<'_>,
    scratch: &Path,
    own: &[PathBuf],
    env: &BTreeMap<String, String>,
) -> Sandbox {
    let Inmate { workdir, agent, .. } = inmate;
    let home = env.get("HOME").map(PathBuf::from);
    let home = home.as_deref();
    let repository = vik_proc::repository_in(workdir);
    let mut write: Vec<PathBuf> = vik_proc::DEVICES.iter().map(PathBuf::from).collect();
    write.push(scratch.to_owned());
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
        write.extend(repository.iter().cloned());
    }
    write.extend(own.iter().cloned());
    write.extend(policy.write.iter().filter_map(|path| below(workdir, home, path)));
    let place = |path: &String| resolve(workdir, home, path);
    // Vik's program is vex too, and what hooks and verification call; it may lie where the agent sees a folder of its own.
    let mut shown = vec![workdir.to_owned(), host.vik.clone()];
    shown.extend(repository);
    shown.extend(policy.read.iter().map(place));
    let mut hidden = vec![host.layout.home().join("workflows")];
    hidden.extend(keys::hidden(host, home, own));
    hidden.extend(inmate.secrets.values().filter_map(|source| match source {
        SecretSource::File(path) => Some(resolve(&host.workflow_dir, home, path)),
        SecretSource::Env(_) | SecretSource::Command(_) => None,
    }));
    hidden.extend(policy.hide.iter().map(place));
    Sandbox {
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
    }
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
) -> io::Result<Option<Sandbox>> {
    let inmate = Inmate {
        issue,
        secrets: &workflow.secrets,
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
    pub fn words(self) -> &'static str {
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
