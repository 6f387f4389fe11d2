//! What a program and all that it starts may write, upheld by the kernel: Landlock on Linux, nothing elsewhere.
//!
//! A [`Sandbox`] says what is wanted, a [`Fence`] is what this system makes of it, ready to be put around a child
//! between `fork` and `exec`. It cannot be taken off again, and holds for everything that the child starts.
//!
//! Not restricted, since Landlock knows nothing of it: modes, owners, times and attributes of files that are there;
//! what others write who are asked through a socket; the network.

use std::path::PathBuf;

/// What may be read and written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Files, and folders with all that is below them, that may be written. What is not there is passed over.
    pub write: Vec<PathBuf>,
    /// What may be read.
    pub read: Reads,
}

/// What may be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// Everything that the user may read.
    #[default]
    All,
    /// These files and folders, and what may be written.
    Only(Vec<PathBuf>),
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
    /// The system refuses to put rules into force.
    #[error("the system refuses to enforce a sandbox")]
    Refused(#[source] std::io::Error),
}

/// Rules that this system upholds.
#[derive(Debug)]
pub struct Fence {
    #[cfg(target_os = "linux")]
    rules: std::os::fd::OwnedFd,
    abi: i64,
}

impl Fence {
    /// The version of Landlock that is used: 1 and 2 cannot keep a file from being truncated, 1 cannot allow a file to
    /// move to another folder, below 5 what is done with devices beyond reading and writing is free.
    pub fn abi(&self) -> i64 {
        self.abi
    }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::enforce;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd, RawFd};

    use landlock::{
        ABI, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
        path_beneath_rules,
    };
    use nix::libc;

    use super::{Fence, Reads, Sandbox, SandboxError};
    use crate::sys;

    /// The newest version whose rights are known here; an older kernel gets what it has.
    const NEWEST: ABI = ABI::V7;

    impl Sandbox {
        /// Makes rules of it, and tries on a thread of its own that this system puts them into force.
        ///
        /// # Errors
        /// When it does not.
        pub fn fence(&self) -> Result<Fence, SandboxError> {
            let abi = sys::landlock_abi().map_err(|error| {
                SandboxError::Unsupported(match error.raw_os_error() {
                    Some(libc::EOPNOTSUPP) => "Landlock is switched off in this kernel",
                    Some(libc::ENOSYS) => "this kernel has no Landlock (Linux 5.13 and later can have it)",
                    _ => "Landlock may not be used here",
                })
            })?;
            let rules = self
                .rules()
                .map_err(|error| SandboxError::Rules(error.to_string()))?
                .ok_or(SandboxError::Unsupported("this kernel's Landlock is not known"))?;
            let fence = Fence { rules, abi };
            // Only this thread is confined, and ends.
            let tried = std::thread::scope(|scope| scope.spawn(|| enforce(fence.raw())).join());
            match tried {
                Ok(Ok(())) => Ok(fence),
                Ok(Err(error)) => Err(SandboxError::Refused(error)),
                Err(_) => Err(SandboxError::Unsupported("Landlock could not be tried")),
            }
        }

        fn rules(&self) -> Result<Option<OwnedFd>, RulesetError> {
            let writing = AccessFs::from_write(NEWEST);
            let (handled, reads) = match &self.read {
                Reads::All => (writing, &[][..]),
                Reads::Only(paths) => (writing | AccessFs::from_read(NEWEST), &paths[..]),
            };
            let rules = Ruleset::default()
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(handled)?
                .create()?
                .add_rules(path_beneath_rules(&self.write, handled))?
                .add_rules(path_beneath_rules(reads, handled & AccessFs::from_read(NEWEST)))?;
            Ok(rules.into())
        }
    }

    impl Fence {
        /// The rules, open as long as this is.
        pub(crate) fn raw(&self) -> RawFd {
            self.rules.as_raw_fd()
        }
    }

    /// Confines the calling thread for ever. Safe between `fork` and `exec`.
    pub(crate) fn enforce(rules: RawFd) -> io::Result<()> {
        sys::landlock_restrict(rules)
    }
}

#[cfg(not(target_os = "linux"))]
impl Sandbox {
    /// Makes rules of it: not here.
    ///
    /// # Errors
    /// Always.
    pub fn fence(&self) -> Result<Fence, SandboxError> {
        Err(SandboxError::Unsupported("only Linux has Landlock"))
    }
}

#[cfg(not(target_os = "linux"))]
impl Fence {
    pub(crate) fn raw(&self) -> std::os::fd::RawFd {
        -1
    }
}

/// There is no fence to enforce.
#[cfg(not(target_os = "linux"))]
pub(crate) fn enforce(_rules: std::os::fd::RawFd) -> std::io::Result<()> {
    Ok(())
}
