//! The system calls that are refused.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use crate::sandbox::{Calls, Network, SandboxError};
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
const X32: u32 = 0x4000_0000;

/// Instructions of the kernel's filters.
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
#[cfg(target_arch = "x86_64")]
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_IF_GREATER: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// How many numbers are tested one after another, after a comparison with the last.
const CHUNK: usize = 8;

/// The first version of Landlock that covers truncation.
const TRUNCATE_SINCE: i64 = 3;

/// The low bits of a socket's type; the others are flags.
const TYPE_MASK: u64 = 0xf;

/// The largest System V segment that may be created, in bytes. Segments belong to no process and
/// outlive all of them; the kernel has room for 4096. PostgreSQL needs one of 56 bytes.
const MAX_SEGMENT: u64 = 4096;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The rules of a sandbox: what fails as not permitted, and what fails as not implemented. A call
/// with no conditions fails always.
struct Refused {
    denied: Rules,
    absent: Rules,
}

/// Creates the filter of a sandbox, for this version of Landlock.
pub(super) fn filter(calls: &Calls, landlock: i64) -> Result<CallFilter, SandboxError> {
    let refused = refused(calls, landlock).map_err(|error| SandboxError::Rules(error.to_string()))?;
    program(refused).map(CallFilter::new)
}

fn refused(calls: &Calls, landlock: i64) -> Result<Refused, Error> {
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
    Ok(Refused { denied, absent })
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

/// Returns conditions on the second argument that together match every type of socket except these.
/// Each fixes as few bits of the type as possible, so that there are few.
fn types_but(allowed: &[i32]) -> Vec<(u8, Op, i32)> {
    let types = || 0..=TYPE_MASK;
    let is_allowed = |kind: u64| allowed.iter().any(|&allowed| u64::try_from(allowed) == Ok(kind));
    let mut masks: Vec<u64> = types().collect();
    masks.sort_by_key(|mask| mask.count_ones());
    let mut refused: Vec<u64> = types().filter(|&kind| !is_allowed(kind)).collect();
    let mut conditions = Vec::new();
    for (mask, value) in masks
        .iter()
        .flat_map(|&mask| types().map(move |value| (mask, value)))
    {
        let matches = |kind: &u64| kind & mask == value;
        if refused.iter().any(matches) && !types().filter(matches).any(is_allowed) {
            refused.retain(|kind| !matches(kind));
            conditions.extend(i32::try_from(value).map(|value| (1, Op::MaskedEq(mask), value)));
        }
    }
    conditions
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

/// Makes one program of all rules. Two programs, one for each error, would say the same, but the
/// kernel would translate both for each agent, and try both with the number of every call.
///
/// The library tests one number after another, with five instructions for each. So this code tests
/// the calls without conditions, before all others.
fn program(refused: Refused) -> Result<Vec<libc::sock_filter>, SandboxError> {
    let Refused { denied, absent } = refused;
    let (always, conditional): (Rules, Rules) = denied.into_iter().partition(|(_, rules)| rules.is_empty());
    let always = always.into_keys().map(|call| (call, libc::EPERM));
    let absent = absent.into_keys().map(|call| (call, libc::ENOSYS));
    let mut always: Vec<(i64, i32)> = always.chain(absent).collect();
    always.sort_unstable();
    let mut program = compile(conditional).map_err(|error| SandboxError::Rules(error.to_string()))?;
    // It starts with a test of the architecture, and then loads the number of the call.
    let unknown = || SandboxError::Rules("the library makes another form of filters".to_owned());
    let load = program.iter().position(|one| one.code == LOAD && one.k == 0);
    let numbers = numbers(&always).ok_or_else(unknown)?;
    let start = load.ok_or_else(unknown)? + 1;
    program.splice(start..start, numbers);
    Ok(program)
}

fn compile(rules: Rules) -> Result<Vec<libc::sock_filter>, Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(Error::Backend)?;
    let refusal = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch).map_err(Error::Backend)?;
    let program: BpfProgram = filter.try_into().map_err(Error::Backend)?;
    let instruction = |one: seccompiler::sock_filter| libc::sock_filter {
        code: one.code,
        jt: one.jt,
        jf: one.jf,
        k: one.k,
    };
    Ok(program.into_iter().map(instruction).collect())
}

/// Returns the instructions that refuse the calls of a sorted list, each with its error. Other
/// numbers reach the end. `None` if the list is too long.
fn numbers(calls: &[(i64, i32)]) -> Option<Vec<libc::sock_filter>> {
    let step = |code, k, jt: usize| {
        let jt = u8::try_from(jt).ok()?;
        Some(libc::sock_filter { code, jt, jf: 0, k })
    };
    let chunks = || calls.chunks(CHUNK);
    // Each chunk is preceded by a jump over it, and followed by one to the end.
    let mut left: usize = chunks().map(|chunk| chunk.len() + 2).sum();
    let mut program = Vec::new();
    #[cfg(target_arch = "x86_64")]
    program.push(step(AND, !X32, 0)?);
    for chunk in chunks() {
        let (last, _) = chunk.last()?;
        program.push(step(
            JUMP_IF_GREATER,
            u32::try_from(*last).ok()?,
            chunk.len() + 1,
        )?);
        left -= 1;
        for (call, errno) in chunk {
            left -= 1;
            let refusal = left + 1 + usize::from(*errno == libc::ENOSYS);
            program.push(step(JUMP_IF_EQUAL, u32::try_from(*call).ok()?, refusal)?);
        }
        left -= 1;
        program.push(step(JUMP, u32::try_from(left + 3).ok()?, 0)?);
    }
    program.push(step(JUMP, 2, 0)?);
    for errno in [libc::EPERM, libc::ENOSYS] {
        program.push(step(RETURN, libc::SECCOMP_RET_ERRNO | errno.cast_unsigned(), 0)?);
    }
    Some(program)
}

#[cfg(test)]
#[path = "calls/tests.rs"]
mod tests;
