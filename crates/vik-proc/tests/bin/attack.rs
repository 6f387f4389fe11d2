//! Attacks by a hostile program on processes, socket pairs and memory. Each attack ends by itself
//! in time.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::libc;

/// The lifetime of each storm, whatever happens to the test.
const LIFETIME: Duration = Duration::from_secs(50);

/// Starts `count` chains of processes in which each starts the next and exits.
pub(crate) fn comets(kind: &str, count: usize) {
    let until = Instant::now() + LIFETIME;
    for _ in 0..count {
        if fork() == 0 {
            chain(kind, until);
        }
    }
}

/// Runs a chain. Each link is a process that runs this loop.
fn chain(kind: &str, until: Instant) -> ! {
    while Instant::now() < until {
        let child = match kind {
            "plain" => fork(),
            "setsid" => {
                let _ = nix::unistd::setsid();
                fork()
            }
            // The parent is the process that started the chain, which inherits its orphans.
            "sibling" => clone3(libc::CLONE_PARENT as u64, libc::SIGCHLD as u64),
            // The end of this child is not reported.
            "silent" => clone3(0, 0),
            "vfork" => clone3(libc::CLONE_VFORK as u64, libc::SIGCHLD as u64),
            "double" => {
                let middle = fork();
                if middle > 0 {
                    exit();
                }
                let _ = nix::unistd::setsid();
                fork()
            }
            "thread" => threaded_link(),
            _ => panic!("unknown kind of chain {kind:?}"),
        };
        if child > 0 {
            exit();
        }
        if child < 0 {
            std::thread::yield_now();
        }
    }
    exit()
}

/// Starts the next link from a thread.
fn threaded_link() -> i32 {
    std::thread::spawn(fork).join().unwrap_or(-1)
}

#[allow(unsafe_code)]
fn fork() -> i32 {
    // SAFETY: the child continues with code that needs no other thread.
    unsafe { libc::fork() }
}

#[allow(unsafe_code)]
fn clone3(flags: u64, signal: u64) -> i32 {
    // SAFETY: plain data; without a stack the call is a fork.
    unsafe {
        let mut args: libc::clone_args = std::mem::zeroed();
        args.flags = flags;
        args.exit_signal = signal;
        libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) as i32
    }
}

#[allow(unsafe_code)]
fn exit() -> ! {
    // SAFETY: it runs no code of this process.
    unsafe { libc::_exit(0) }
}

/// Makes this process a subreaper that waits for no orphan. Prints whether that is allowed.
pub(crate) fn become_reaper() {
    match nix::sys::prctl::set_child_subreaper(true) {
        Ok(()) => println!("reaper"),
        Err(error) => println!("reaper {error}"),
    }
}

/// Starts children that end at once and are not waited for.
pub(crate) fn zombies(count: usize) {
    let until = Instant::now() + LIFETIME;
    let mut made = 0;
    while made < count && Instant::now() < until {
        match fork() {
            0 => exit(),
            1.. => made += 1,
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Starts children that stop themselves, each with a child that does the same.
pub(crate) fn stopped(count: usize) {
    for _ in 0..count {
        if fork() == 0 {
            fork();
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
            exit();
        }
    }
}

/// Starts threads that wait.
pub(crate) fn threads(count: usize) {
    for _ in 0..count {
        let made = std::thread::Builder::new().stack_size(64 * 1024);
        let _ = made.spawn(|| std::thread::sleep(LIFETIME));
    }
}

/// Prints which socket pairs can be created, and their types: `FAMILY KIND TYPE`.
#[allow(unsafe_code)]
pub(crate) fn pairs() {
    for flags in [0, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK] {
        for family in [libc::AF_UNIX, libc::AF_TIPC] {
            for kind in 0..16 {
                let mut ends = [-1; 2];
                // SAFETY: plain numbers, and room for two descriptors.
                let made = unsafe { libc::socketpair(family, kind | flags, 0, ends.as_mut_ptr()) };
                if made == 0 {
                    // SAFETY: both descriptors were just created.
                    let ends = ends.map(|end| unsafe { std::os::fd::BorrowedFd::borrow_raw(end) });
                    let is = nix::sys::socket::getsockopt(&ends[0], nix::sys::socket::sockopt::SockType);
                    println!("{family} {kind} {:?}", is.unwrap());
                }
            }
        }
    }
}

/// Prints which System V objects can be created, and removes those that were.
#[allow(unsafe_code)]
pub(crate) fn system_v() {
    let print_result = |name: &str, id: i32| println!("{name} {}", if id >= 0 { "made" } else { "refused" });
    // SAFETY: plain numbers.
    unsafe {
        for (name, size, flags) in [
            ("small", 56, 0),
            ("large", 4097, 0),
            ("enormous", 1 << 32, 0),
            ("huge", 56, libc::SHM_HUGETLB),
        ] {
            let id = libc::shmget(libc::IPC_PRIVATE, size, libc::IPC_CREAT | 0o600 | flags);
            print_result(name, id);
            libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
        }
        let id = libc::semget(libc::IPC_PRIVATE, 1, libc::IPC_CREAT | 0o600);
        print_result("semaphores", id);
        libc::semctl(id, 0, libc::IPC_RMID);
        let id = libc::msgget(libc::IPC_PRIVATE, libc::IPC_CREAT | 0o600);
        print_result("queue", id);
        libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut());
    }
}

/// Fills memory that belongs to no process; `how` names its holder.
#[allow(unsafe_code)]
pub(crate) fn memory(how: &str, mib: usize) {
    use std::io::Write;
    let chunk = vec![1_u8; 1 << 20];
    let fill = |file: &mut std::fs::File| (0..mib).for_each(|_| file.write_all(&chunk).unwrap());
    let memfd = || {
        let fd = nix::sys::memfd::memfd_create(c"attack", nix::sys::memfd::MFdFlags::empty());
        std::fs::File::from(fd.unwrap())
    };
    // The form is `named:PATH`.
    let path = how.strip_prefix("named:");
    let mut file = match how {
        _ if path.is_some() => std::fs::File::create(path.unwrap()).unwrap(),
        "memfd" | "mapped" | "both" => memfd(),
        "deleted" => {
            let path = format!("/dev/shm/vik-proc-test-{}", std::process::id());
            let file = std::fs::File::create(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            file
        }
        _ => panic!("unknown way {how:?}"),
    };
    fill(&mut file);
    if how == "mapped" || how == "both" {
        // SAFETY: a new mapping of a file of this process.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mib << 20,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        if how == "both" {
            // SAFETY: within the mapping.
            let sum: u64 = (0..mib)
                .map(|mib| unsafe { u64::from(*at.cast::<u8>().add(mib << 20)) })
                .sum();
            println!("{sum}");
        }
    }
    if how != "mapped" && path.is_none() {
        std::mem::forget(file);
    }
    println!("filled");
}

/// Starts a process again and again until `stop` exists, and writes the number of failures to
/// `note`.
#[allow(unsafe_code)]
pub(crate) fn fork_steadily(stop: &str, note: &str) {
    let until = Instant::now() + LIFETIME;
    let (mut done, mut failed) = (0_u32, 0_u32);
    while Instant::now() < until && !std::fs::exists(stop).unwrap_or(false) {
        match fork() {
            0 => exit(),
            -1 => failed += 1,
            child => {
                done += 1;
                // SAFETY: plain numbers; the exit status is not needed.
                unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    std::fs::write(note, format!("{done} {failed}")).unwrap();
}
