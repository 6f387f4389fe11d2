//! Restricts a program and all its descendants by means of the kernel: Landlock and seccomp on
//! Linux, optionally within namespaces; nothing on other systems.
//!
//! A [`Sandbox`] describes the restrictions. A [`Fence`] contains the rules that this system makes
//! of them, ready to be applied to a child between `fork` and `exec`. The rules cannot be removed,
//! and apply to every descendant of the child.
//!
//! Without namespaces, the modes, owners, times and attributes of existing files are not
//! restricted: Landlock does not cover them.

#[cfg(target_os = "linux")]
pub(crate) mod bubblewrap;
mod hosts;
mod limits;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
mod places;
#[expect(clippy::disallowed_methods, reason = "opens files of Vik's own")]
mod proxy;
mod readable;

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::os_text;
pub use hosts::HostRule;
pub use limits::{DiskLimit, Overrun, SandboxLimits};
#[cfg(target_os = "linux")]
pub(crate) use linux::OpenedPlaces;
#[cfg(target_os = "linux")]
use linux::Walls;
#[cfg(target_os = "linux")]
pub(crate) use linux::{HiddenList, KeptPlaces, MAX_LIST};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::OpenedPlaces;
#[cfg(not(target_os = "linux"))]
use other::Walls;
pub use places::{DEVICES, repository_in, repository_of};
#[cfg_attr(
    not(target_os = "linux"),
    expect(unused_imports, reason = "the proxy is only available on Linux")
)]
pub(crate) use proxy::serve;
pub use proxy::{PROXY_PORT, Refusal, read_refusals};
pub use readable::{hidden_places, without_hidden};

/// The restrictions of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    #[serde(default)]
    pub backend: Backend,
    /// Files, and folders with everything below them, that are writable. Missing paths are skipped.
    /// A symbolic link on the way is followed when the sandbox is described
    /// ([`Sandbox::resolve_links`]), and never when it is enforced.
    #[serde(with = "os_text")]
    pub write: Vec<PathBuf>,
    pub read: Reads,
    /// The allowed system calls beside those on files; `None` allows all of them.
    pub calls: Option<Calls>,
    /// The limits on resources. The shim enforces them; a [`Fence`] alone does not.
    #[serde(default)]
    pub limits: SandboxLimits,
}

/// The mechanism that enforces a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    #[default]
    Landlock,
    /// Landlock and seccomp within namespaces of users, mounts, processes and more that `bwrap`
    /// creates: the outside is not visible. The shim starts `bwrap`; a [`Fence`] alone does not.
    Bubblewrap,
}

/// The places that are readable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// Everything that the user may read, except the `hidden` places. Below a hidden place, the
    /// `shown` and the writable places are readable.
    ///
    /// A file that is later added to a folder with a hidden place cannot be read: the kernel takes
    /// a list of allowed places, which is made before the start. Such a folder cannot be listed
    /// either, except with [`Backend::Bubblewrap`].
    AllBut {
        /// Files, and folders with everything below them. They need not exist.
        #[serde(with = "os_text")]
        hidden: Vec<PathBuf>,
        /// Places that are readable although they are below a hidden place.
        #[serde(with = "os_text")]
        shown: Vec<PathBuf>,
    },
    /// These files and folders, and the writable places.
    Only(#[serde(with = "os_text")] Vec<PathBuf>),
}

impl Default for Reads {
    fn default() -> Self {
        Self::AllBut {
            hidden: Vec::new(),
            shown: Vec::new(),
        }
    }
}

/// The allowed system calls.
///
/// These are always refused: raw and packet sockets, sockets of families that programs do not need,
/// `io_uring` (its requests bypass every filter of calls), keyrings, `bpf`, kernel modules, handles
/// of files, mounts, other namespaces, System V queues, semaphores and segments larger than a page.
/// Signals reach only the own tree, if the kernel supports that (Landlock 6, Linux 6.12).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    pub network: Network,
    /// Whether `AF_UNIX` sockets may be created. They give access to every service that listens on
    /// one, such as Docker, D-Bus or a key agent. Stream and seqpacket pairs are always allowed.
    pub unix_sockets: bool,
    /// Whether the tree may contain a subreaper. Otherwise the shim inherits and reaps all orphans.
    #[serde(default)]
    pub subreaper: bool,
}

/// The allowed part of the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// TCP and UDP to all destinations.
    #[default]
    On,
    /// No network: no socket can be created.
    Off,
    /// A network namespace that contains only a proxy at [`PROXY_PORT`], which connects to these
    /// hosts. A named port of this machine is available at the same port. The shim sets it up; a
    /// [`Fence`] alone does not.
    Hosts(Vec<HostRule>),
}

/// The reason why this system cannot enforce a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// This system has no sandbox.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The rules could not be created.
    #[error("cannot create the rules of the sandbox: {0}")]
    Rules(String),
    /// The system refuses network namespaces.
    #[error("a list of hosts requires a network namespace (in a user namespace), which this system refuses")]
    Network(#[source] std::io::Error),
    /// The program of [`Backend::Bubblewrap`] is missing.
    #[error("bubblewrap (`bwrap`) is not installed")]
    NoBubblewrap,
    /// The installed version does not support a required option.
    #[error("bubblewrap is too old: {0}")]
    OldBubblewrap(String),
    /// It cannot create namespaces here.
    #[error("bubblewrap cannot create its namespaces here: {0}")]
    Namespaces(String),
    /// The system refuses to enforce the rules.
    #[error("this system refuses to enforce a sandbox")]
    Refused(#[source] std::io::Error),
}

impl SandboxError {
    /// Returns how to fix the error, if that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoBubblewrap => {
                Some("install it (`apt-get install bubblewrap`), or set `sandbox: {backend: landlock}`")
            }
            Self::OldBubblewrap(_) => {
                Some("bubblewrap 0.8 is known to work; or set `sandbox: {backend: landlock}`")
            }
            Self::Namespaces(_) => Some(
                "it needs user namespaces, which containers and some systems refuse to unprivileged processes; if they cannot be allowed, set `sandbox: {backend: landlock}`",
            ),
            _ => None,
        }
    }
}

/// Rules that this system enforces.
#[derive(Clone, Debug)]
pub struct Fence {
    walls: Arc<Walls>,
    abi: i64,
}

impl Fence {
    /// Returns the version of Landlock that is used. Version 1 cannot allow a file to move to
    /// another folder. Versions below 5 do not restrict calls on devices other than reading and
    /// writing, versions below 6 do not restrict signals.
    pub fn abi(&self) -> i64 {
        self.abi
    }

    /// Confines the calling thread permanently. Safe between `fork` and `exec`.
    pub(crate) fn enforce(&self) -> std::io::Result<()> {
        self.walls.enforce()
    }
}

impl Sandbox {
    /// Replaces the readable and writable places by the targets of their links. The rules do not
    /// follow links: a link that is created later gives access to nothing.
    pub fn resolve_links(&mut self) {
        let opened = match &mut self.read {
            Reads::AllBut { shown, .. } => shown,
            Reads::Only(paths) => paths,
        };
        for path in opened.iter_mut().chain(&mut self.write) {
            if let Ok(found) = path.canonicalize() {
                *path = found;
            }
        }
    }

    /// Makes this file or folder readable. Links are followed now.
    pub fn show(&mut self, path: &std::path::Path) {
        let found = path.canonicalize();
        let path = found.as_deref().unwrap_or(path);
        match &mut self.read {
            Reads::AllBut { shown, .. } => shown.push(path.to_owned()),
            Reads::Only(paths) => paths.push(path.to_owned()),
        }
    }

    /// Hides these files and folders, except what is below a writable or shown place.
    pub fn hide(&mut self, paths: &[PathBuf]) {
        if let Reads::AllBut { hidden, .. } = &mut self.read {
            hidden.extend_from_slice(paths);
        }
    }

    /// Returns the hosts that may be reached, if the sandbox lists them.
    pub(crate) fn hosts(&self) -> Option<&[HostRule]> {
        match self.calls.as_ref().map(|calls| &calls.network) {
            Some(Network::Hosts(hosts)) => Some(hosts),
            _ => None,
        }
    }

    /// Returns the ports that have a listener in the network namespace: the proxy's, and the named
    /// ports of this machine.
    #[cfg(target_os = "linux")]
    pub(crate) fn ports(&self) -> Option<Vec<u16>> {
        let hosts = self.hosts()?;
        let mut ports = vec![PROXY_PORT];
        for port in hosts.iter().filter_map(HostRule::loopback_port) {
            if !ports.contains(&port) && ports.len() < crate::sys::MAX_PORTS {
                ports.push(port);
            }
        }
        Some(ports)
    }

    /// Creates the rules, and tests on a separate thread that this system enforces them.
    ///
    /// # Errors
    /// When it does not enforce them.
    pub fn fence(&self) -> Result<Fence, SandboxError> {
        #[cfg(target_os = "linux")]
        if self.hosts().is_some() {
            crate::sys::Gate::try_out().map_err(SandboxError::Network)?;
        }
        #[cfg(target_os = "linux")]
        if self.backend == Backend::Bubblewrap {
            bubblewrap::try_out(self)?;
        }
        let fence = self.rules(None)?;
        let tried = fence.clone();
        // Only this thread is confined; it ends afterwards.
        match std::thread::spawn(move || tried.enforce()).join() {
            Ok(Ok(())) => Ok(fence),
            Ok(Err(error)) => Err(SandboxError::Refused(error)),
            Err(_) => Err(SandboxError::Unsupported("cannot test a sandbox")),
        }
    }

    /// Creates the rules without a test. Places that are `opened` already need not be searched for.
    pub(crate) fn rules(&self, opened: Option<&OpenedPlaces>) -> Result<Fence, SandboxError> {
        let (walls, abi) = Walls::of(self, opened)?;
        Ok(Fence {
            walls: Arc::new(walls),
            abi,
        })
    }

    /// Creates the rules that apply within the namespaces of bubblewrap. It must be called there.
    #[cfg(target_os = "linux")]
    pub(crate) fn fence_within(mut self) -> Result<Fence, SandboxError> {
        // Devices and terminals belong to the tree alone in there, except those that are writable
        // anyway.
        let own = bubblewrap::PRIVATE.into_iter().chain(["/dev"]);
        self.write.extend(own.map(PathBuf::from));
        self.rules(None)
    }
}
