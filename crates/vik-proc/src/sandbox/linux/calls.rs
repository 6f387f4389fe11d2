//! The system calls that are refused.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use crate::sandbox::{Calls, Network};
use crate::sys::CallFilter;

/// Refused in every sandbox. Calls that affect other processes of the same tree (`ptrace`, signals)
/// are left to Landlock, which knows the tree.
const NEVER: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    // System V queues and semaphores use kernel memory that belongs to no process and outlives all
    // of them.
    libc::SYS_msgget,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_semget,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
];

/// Reported as not implemented, so that programs use an alternative.
const ABSENT: &[libc::c_long] = &[
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
];

/// The flag of the x32 ABI, in which a 64-bit kernel offers the same calls under other numbers.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// The first version of Landlock that covers truncation.
const TRUNCATE_SINCE: i64 = 3;

/// The low bits of a socket's type; the others are flags.
const TYPE_MASK: u64 = 0xf;

/// The largest System V segment that may be created, in bytes. Segments belong to no process and
/// outlive all of them; the kernel has room for 4096. PostgreSQL needs one of 56 bytes.
const MAX_SEGMENT: u64 = 4096;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

pub(super) fn filters(calls: &Calls, landlock: i64) -> Result<Vec<CallFilter>, Error> {
    let mut denied: Rules = always(NEVER);
    let mut absent: Rules = always(ABSENT);
    denied.insert(libc::SYS_socket, sockets(calls)?);
    denied.insert(libc::SYS_prlimit64, vec![limits_of_others()?]);
    denied.insert(libc::SYS_socketpair, pairs(calls)?);
    denied.insert(libc::SYS_shmget, segments()?);
    // With a lease on a file that is only readable for it, an agent could delay every process that
    // opens the file.
    denied.insert(libc::SYS_fcntl, vec![rule(&[(1, Op::Eq, libc::F_SETLEASE)])?]);
    if !calls.subreaper {
        denied.insert(
            libc::SYS_prctl,
            vec![rule(&[(0, Op::Eq, libc::PR_SET_CHILD_SUBREAPER)])?],
        );
    }
    if landlock < TRUNCATE_SINCE {
        denied.insert(libc::SYS_truncate, Vec::new());
        absent.insert(libc::SYS_openat2, Vec::new());
        let flags = Op::MaskedEq(u64::from((libc::O_ACCMODE | libc::O_TRUNC).cast_unsigned()));
        #[cfg(target_arch = "x86_64")]
        denied.insert(libc::SYS_open, vec![rule(&[(1, flags.clone(), libc::O_TRUNC)])?]);
        denied.insert(libc::SYS_openat, vec![rule(&[(2, flags, libc::O_TRUNC)])?]);
    }
    Ok(vec![
        compile(absent, libc::ENOSYS)?,
        compile(denied, libc::EPERM)?,
    ])
}

fn always(calls: &[libc::c_long]) -> Rules {
    calls.iter().map(|&call| (call, Vec::new())).collect()
}

/// Returns the rules for sockets that are refused.
fn sockets(calls: &Calls) -> Result<Vec<SeccompRule>, Error> {
    let mut families = Vec::new();
    if calls.network != Network::Off {
        // Netlink is allowed only for reading routes and addresses.
        families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
    }
    if calls.unix_sockets {
        families.push(libc::AF_UNIX);
    }
    if families.is_empty() {
        return Ok(Vec::new());
    }
    let others: Vec<_> = families.iter().map(|&family| (0, Op::Ne, family)).collect();
    let netlink = [(0, Op::Eq, libc::AF_NETLINK), (2, Op::Ne, libc::NETLINK_ROUTE)];
    let mut rules = vec![rule(&others)?, rule(&netlink)?];
    for family in [libc::AF_INET, libc::AF_INET6] {
        for kind in types_but(&[libc::SOCK_STREAM, libc::SOCK_DGRAM]) {
            rules.push(rule(&[(0, Op::Eq, family), kind])?);
        }
    }
    Ok(rules)
}

/// Returns the rules for socket pairs that are refused. One end of a datagram pair can be connected
/// to another socket of the machine; ends of stream and seqpacket pairs cannot. The kernel creates
/// datagram sockets for other types too.
fn pairs(calls: &Calls) -> Result<Vec<SeccompRule>, Error> {
    let mut rules = vec![rule(&[(0, Op::Ne, libc::AF_UNIX)])?];
    if !calls.unix_sockets {
        for kind in types_but(&[libc::SOCK_STREAM, libc::SOCK_SEQPACKET]) {
            rules.push(rule(&[kind])?);
        }
    }
    Ok(rules)
}

/// Returns conditions on the second argument that match every type of socket except these.
fn types_but(allowed: &[i32]) -> impl Iterator<Item = (u8, Op, i32)> {
    (0..=TYPE_MASK)
        .filter_map(|kind| i32::try_from(kind).ok())
        .filter(|kind| !allowed.contains(kind))
        .map(|kind| (1, Op::MaskedEq(TYPE_MASK), kind))
}

/// Returns the rules for System V segments that are refused: large ones, and those with huge pages,
/// whatever their size.
fn segments() -> Result<Vec<SeccompRule>, Error> {
    let large = SeccompCondition::new(1, Len::Qword, Op::Gt, MAX_SEGMENT).map_err(Error::Backend)?;
    let huge_pages = u64::from(libc::SHM_HUGETLB.cast_unsigned());
    Ok(vec![
        SeccompRule::new(vec![large]).map_err(Error::Backend)?,
        rule(&[(2, Op::MaskedEq(huge_pages), libc::SHM_HUGETLB)])?,
    ])
}

/// Returns the rule against setting limits of other processes. Such a limit, for example no CPU
/// time left, ends a process as a signal does, and Landlock does not cover it. The filter does not
/// know the caller's own pid, so a process can set its own limits only with pid 0, as libraries do.
/// Reading limits is allowed.
fn limits_of_others() -> Result<SeccompRule, Error> {
    let is_named = SeccompCondition::new(0, Len::Dword, Op::Ne, 0);
    // All 64 bits of the pointer are compared: its lower half alone can be 0.
    let is_new = SeccompCondition::new(2, Len::Qword, Op::Ne, 0);
    let conditions = [is_named, is_new].into_iter().collect::<Result<_, _>>();
    SeccompRule::new(conditions.map_err(Error::Backend)?).map_err(Error::Backend)
}

fn rule(conditions: &[(u8, Op, i32)]) -> Result<SeccompRule, Error> {
    let conditions = conditions.iter().map(|(argument, op, value)| {
        let value = u64::from(value.cast_unsigned());
        SeccompCondition::new(*argument, Len::Dword, op.clone(), value)
    });
    let conditions = conditions.collect::<Result<_, _>>().map_err(Error::Backend)?;
    SeccompRule::new(conditions).map_err(Error::Backend)
}

#[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
fn compile(mut rules: Rules, errno: i32) -> Result<CallFilter, Error> {
    #[cfg(target_arch = "x86_64")]
    rules.extend(rules.clone().into_iter().map(|(call, rules)| (call | X32, rules)));
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(Error::Backend)?;
    let errno = SeccompAction::Errno(errno.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, errno, arch).map_err(Error::Backend)?;
    let program: BpfProgram = filter.try_into().map_err(Error::Backend)?;
    let instruction = |one: seccompiler::sock_filter| libc::sock_filter {
        code: one.code,
        jt: one.jt,
        jf: one.jf,
        k: one.k,
    };
    Ok(CallFilter::new(program.into_iter().map(instruction).collect()))
}
