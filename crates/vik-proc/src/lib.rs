//! Processes: the shim that owns one agent's process tree, and the part of the daemon that
//! supervises shims.
//!
//! The shim is a small process between the daemon and the agent (see [`shim`]). It inherits every
//! orphan of its tree (Linux: subreaper), so "no child left" proves that no process of the tree
//! lives. [`Supervisor`] starts shims and waits for their [`ExitRecord`]. This is the only crate of
//! the workspace that uses `unsafe`.
//!
//! Linux is first class. macOS has no subreaper and no parent-death signal, and the environment of
//! other processes cannot be read there. A process that leaves the agent's group and loses its
//! parent is not found on macOS, and the proof of an end shows that ([`Proof::Group`]).

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("Vik runs on Linux (first class) and macOS (best effort); use WSL 2 on Windows");

mod audit;
mod boot_time;
#[expect(clippy::disallowed_methods, reason = "reads files of the kernel")]
mod capabilities;
#[expect(clippy::disallowed_methods, reason = "opens files of Vik's own")]
mod census;
#[expect(clippy::disallowed_methods, reason = "reads files of the kernel")]
mod cgroup;
mod direct;
mod heap;
pub mod identity;
#[expect(clippy::disallowed_methods, reason = "reads files of the kernel")]
mod kernel_file;
mod lease;
#[expect(clippy::disallowed_methods, reason = "opens files of Vik's own")]
mod lock;
mod os_text;
mod peer;
mod reap;
mod sandbox;
#[expect(clippy::disallowed_methods, reason = "opens pipes of Vik's own")]
pub mod servers;
mod shield;
pub mod shim;
mod space;
mod spec;
mod supervise;
mod sweep;
mod sys;
#[expect(clippy::disallowed_methods, reason = "reads files of the kernel")]
mod task_group;
#[cfg_attr(target_os = "macos", path = "tcp_peer/macos.rs")]
#[expect(clippy::disallowed_methods, reason = "reads files of the kernel")]
mod tcp_peer;
mod terminal;
mod tree;
pub mod untrusted;

pub use audit::{Audited, audit};
pub use boot_time::BootTime;
pub use capabilities::{Capability, capabilities, unenforced_limits};
pub use census::Census;
pub use direct::{Direct, DirectSpec, kill_descendants};
pub use heap::lean_heap;
pub use identity::ProcessId;
pub use lease::{Lease, LeaseSender};
pub use lock::FileLock;
pub use peer::{descends_from, peek, peer_pid};
pub use reap::{adopt_orphans, is_init, reap_orphans_forever};
pub use sandbox::{
    Backend, Calls, DEVICES, DiskLimit, Fence, HostRule, Network, Overrun, PROXY_PORT, Reads, Refusal,
    Sandbox, SandboxError, SandboxLimits, hidden_places, read_refusals, repository_in, repository_of,
    without_hidden,
};
pub use shield::set_non_dumpable;
pub use space::Space;
pub use spec::{
    Cause, ExitRecord, Graces, Mark, Output, Proof, SHIM_VERB, ShimSpec, SpawnFailure, SpawnFailureKind,
    Stdin,
};
pub use supervise::{
    AdoptError, CommandRun, Handle, Limits, MAX_OUTPUT_FILE_BYTES, ProcError, ShimLost, SpawnError,
    StdoutMode, Supervised, Supervisor, highest_file_limit, keep_files_private, raise_file_limit,
    read_exit_record, recover,
};
pub use sweep::{end_all, end_marked, sweep, sweep_others};
pub use tcp_peer::{TcpPeer, tcp_peer, tcp_peer_user};
pub use terminal::Terminal;
