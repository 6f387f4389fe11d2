//! What a program and all that it starts may do, upheld by the kernel: Landlock and seccomp on Linux, perhaps within
//! namespaces; nothing elsewhere.
//!
//! A [`Sandbox`] says what is wanted, a [`Fence`] is what this system makes of it, ready to be put around a child
//! between `fork` and `exec`. It cannot be taken off again, and holds for everything that the child starts.
//!
//! Not restricted without namespaces, since Landlock knows nothing of it: modes, owners, times and attributes of files
//! that are there.

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
use linux::Walls;
#[cfg(not(target_os = "linux"))]
use other::Walls;
pub use places::{DEVICES, repository_in, repository_of};
pub(crate) use proxy::serve;
pub use proxy::{PROXY_PORT, Refusal, read_refusals};
pub use readable::{hidden_places, without_hidden};

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// By what it is upheld.
    #[serde(default)]
    pub backend: Backend,
    /// Files, and folders with all that is below them, that may be written. What is not there is passed over. A symbolic link
    /// on the way is followed when the sandbox is described ([`Sandbox::resolve_links`]), and never when it is enforced.
    #[serde(with = "os_text::paths")]
    pub write: Vec<PathBuf>,
    /// What may be read.
    pub read: Reads,
    /// What may be asked of the kernel beside files; `None` leaves all of it free.
    pub calls: Option<Calls>,
    /// How much may be used. The shim watches it; a [`Fence`] alone does not uphold it.
    #[serde(default)]
    pub limits: SandboxLimits,
}

/// By what a sandbox is upheld.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// Landlock and seccomp.
    #[default]
    Landlock,
    /// These, within namespaces of users, mounts, processes and more that `bwrap` makes: what is outside is not there. The
    /// shim puts them up; a [`Fence`] alone does not.
    Bubblewrap,
}

/// What may be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// Everything that the user may read, but for what is `hidden`; of that, what is `shown`, and what may be written.
    ///
    /// What is put into a folder that holds something hidden later cannot be read: the kernel takes a list of what is
    /// allowed, which is made before the start. Nor can such a folder be listed, but with [`Backend::Bubblewrap`].
    AllBut {
        /// Files, and folders with all that is below them. They need not be there.
        #[serde(with = "os_text::paths")]
        hidden: Vec<PathBuf>,
        /// What may be read though it is below something hidden.
        #[serde(with = "os_text::paths")]
        shown: Vec<PathBuf>,
    },
    /// These files and folders, and what may be written.
    Only(#[serde(with = "os_text::paths")] Vec<PathBuf>),
}

impl Default for Reads {
    fn default() -> Self {
        Self::AllBut {
            hidden: Vec::new(),
            shown: Vec::new(),
        }
    }
}

/// What may be asked of the kernel.
///
/// Whatever is chosen, these are refused: raw and packet sockets, sockets of families nobody needs, `io_uring` (its
/// requests pass by every filter of calls), keyrings, `bpf`, kernel modules, handles of files, mounts, other namespaces,
/// System V queues, semaphores and segments larger than a page.
/// Signals go to the own tree only, where the kernel knows of that (Landlock 6, Linux 6.12).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// The network.
    pub network: Network,
    /// Whether sockets of the machine (`AF_UNIX`) may be made: through them goes everything that listens on one, such
    /// as Docker, D-Bus, a key agent. Stream and seqpacket pairs are always free.
    pub unix_sockets: bool,
    /// Whether it may inherit the orphans of its own tree. Without it they come to the shim, which reaps them.
    #[serde(default)]
    pub subreaper: bool,
}

/// What of the network may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// TCP and UDP, to everywhere.
    #[default]
    On,
    /// Nothing: no socket can be made.
    Off,
    /// A network of its own, with nothing in it but a proxy at [`PROXY_PORT`] that leads to these hosts. A port of this
    /// machine that is named is there at the same port. The shim puts it up; a [`Fence`] alone does not.
    Hosts(Vec<HostRule>),
}

/// Why this system upholds no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// It has nothing of the kind.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The rules could not be made.
    #[error("the rules of the sandbox cannot be made: {0}")]
    Rules(String),
    /// The system gives no network of its own.
    #[error(
        "hosts can only be listed where a process may have a network of its own (a namespace of users), which this system refuses"
    )]
    Network(#[source] std::io::Error),
    /// The program of [`Backend::Bubblewrap`] is not there.
    #[error("bubblewrap (`bwrap`) is not installed")]
    NoBubblewrap,
    /// It does not know what is asked of it.
    #[error("this bubblewrap is too old: {0}")]
    OldBubblewrap(String),
    /// It cannot make namespaces here.
    #[error("bubblewrap cannot put up its namespaces here: {0}")]
    Namespaces(String),
    /// The system refuses to put rules into force.
    #[error("the system refuses to enforce a sandbox")]
    Refused(#[source] std::io::Error),
}

impl SandboxError {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoBubblewrap => {
                Some("install it (`apt-get install bubblewrap`), or write `sandbox: {backend: landlock}`")
            }
            Self::OldBubblewrap(_) => {
                Some("bubblewrap 0.8 is known to do; or write `sandbox: {backend: landlock}`")
            }
            Self::Namespaces(_) => Some(
                "it needs namespaces of users, which containers and some systems refuse to processes without \
                 privileges; where they cannot be allowed, write `sandbox: {backend: landlock}`",
            ),
            _ => None,
        }
    }
}

/// Rules that this system upholds.
#[derive(Clone, Debug)]
pub struct Fence {
    walls: Arc<Walls>,
    abi: i64,
}

impl Fence {
    /// The version of Landlock that is used: 1 cannot allow a file to move to another folder, below 5 what is done with
    /// devices beyond reading and writing is free, below 6 signals are.
    pub fn abi(&self) -> i64 {
        self.abi
    }

    /// Confines the calling thread for ever. Safe between `fork` and `exec`.
    pub(crate) fn enforce(&self) -> std::io::Result<()> {
        self.walls.enforce()
    }
}

impl Sandbox {
    /// Replaces the places that are opened by what they lead to now. Rules follow no links: one that is put on the way later
    /// opens nothing.
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

    /// Lets this file or folder be read. Links are followed now.
    pub fn show(&mut self, path: &std::path::Path) {
        let found = path.canonicalize();
        let path = found.as_deref().unwrap_or(path);
        match &mut self.read {
            Reads::AllBut { shown, .. } => shown.push(path.to_owned()),
            Reads::Only(paths) => paths.push(path.to_owned()),
        }
    }

    /// The hosts that may be reached, where they are listed.
    pub(crate) fn hosts(&self) -> Option<&[HostRule]> {
        match self.calls.as_ref().map(|calls| &calls.network) {
            Some(Network::Hosts(hosts)) => Some(hosts),
            _ => None,
        }
    }

    /// The ports of the inside at which something is: the proxy's, and those of this machine that are named.
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

    /// Makes rules of it, and tries on a thread of its own that this system puts them into force.
    ///
    /// # Errors
    /// When it does not.
    pub fn fence(&self) -> Result<Fence, SandboxError> {
        #[cfg(target_os = "linux")]
        if self.hosts().is_some() {
            crate::sys::Gate::try_out().map_err(SandboxError::Network)?;
        }
        #[cfg(target_os = "linux")]
        if self.backend == Backend::Bubblewrap {
            bubblewrap::try_out(self)?;
        }
        let fence = self.rules()?;
        let tried = fence.clone();
        // Only this thread is confined, and ends.
        match std::thread::spawn(move || tried.enforce()).join() {
            Ok(Ok(())) => Ok(fence),
            Ok(Err(error)) => Err(SandboxError::Refused(error)),
            Err(_) => Err(SandboxError::Unsupported("a sandbox could not be tried")),
        }
    }

    /// Makes rules of it, and does not try them.
    fn rules(&self) -> Result<Fence, SandboxError> {
        let (walls, abi) = Walls::of(self)?;
        Ok(Fence {
            walls: Arc::new(walls),
            abi,
        })
    }

    /// The rules that hold within the namespaces of bubblewrap, made there.
    #[cfg(target_os = "linux")]
    pub(crate) fn fence_within(mut self) -> Result<Fence, SandboxError> {
        // Devices and terminals are the tree's own in there, but for those that it may write anyway.
        let own = bubblewrap::PRIVATE.into_iter().chain(["/dev"]);
        self.write.extend(own.map(PathBuf::from));
        self.rules()
    }
}
