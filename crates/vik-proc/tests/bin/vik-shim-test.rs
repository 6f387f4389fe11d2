//! The shim and a misbehaving agent for the tests of vik-proc: `vik-shim-test __shim`, or
//! `vik-shim-test WORD…`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test program"
)]

#[cfg(target_os = "linux")]
mod attack;

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigHandler, Signal, raise, signal};
use vik_proc::servers::CONNECT_VERB;
use vik_proc::{BootTime, Handle, ProcessId, SHIM_VERB, ShimSpec, StdoutMode, Supervisor};

/// The lifetime of each test process, whatever happens.
const LIFETIME: Duration = Duration::from_secs(120);
/// The time from a renewal of a lease to its end.
const RENEWED_FOR: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == SHIM_VERB) {
        return vik_proc::shim::main();
    }
    if args.first().is_some_and(|arg| arg == CONNECT_VERB) {
        return vik_proc::servers::main();
    }
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        let mut next = || args.next().expect("an argument").to_owned();
        match arg {
            // ignore NAME: for this process, and those that it starts.
            "ignore" => ignore(&next()),
            "say" => println!("{}", next()),
            // Shows the test that all steps before this one are done.
            "ready" => std::fs::write(next(), std::process::id().to_string()).unwrap(),
            // Waits for another process's "ready".
            "await" => {
                let path = next();
                let until = Instant::now() + LIFETIME;
                while !std::fs::exists(&path).unwrap() && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            "bytes" => {
                let mut line = vec![b'x'; next().parse().unwrap()];
                line.push(b'\n');
                std::io::stdout().write_all(&line).unwrap();
            }
            "flood" => loop {
                if std::io::stdout().write_all(&[b'y'; 8192]).is_err() {
                    break;
                }
            },
            "count-stdin" => {
                let mut input = Vec::new();
                std::io::stdin().read_to_end(&mut input).unwrap();
                println!("{}", input.len());
            }
            // daemon SPEC NOTE: starts the spec in the file under a shim, writes the shim's
            // identity to NOTE, and watches the shim. It renews a lease.
            "daemon" => daemon(Path::new(&next()), Path::new(&next()), None),
            // adopt SPEC NOTE: like daemon, but adopts the shim in NOTE instead of a new one.
            "adopt" => {
                let (spec, note) = (next(), next());
                let shim = serde_json::from_slice(&std::fs::read(&note).unwrap()).unwrap();
                daemon(Path::new(&spec), Path::new(&note), Some(shim));
            }
            "setsid" => drop(nix::unistd::setsid().unwrap()),
            "become-root" => nix::unistd::setuid(0.into()).unwrap(),
            // The remaining words are a program and its arguments.
            "as-nobody" => {
                nix::unistd::setuid(65534.into()).unwrap();
                let program = next();
                let error = Command::new(program).args(args.by_ref()).exec();
                panic!("{error}");
            }
            // Reads a file of the parent that only a dumpable process shows to others of its user.
            "peek-at-shim" => {
                let secret = std::fs::read(format!("/proc/{}/environ", nix::unistd::getppid()));
                println!("{}", if secret.is_ok() { "seen" } else { "refused" });
            }
            "env" => std::env::vars().for_each(|(name, value)| println!("{name}={value}")),
            "fds" => {
                let mut fds: Vec<String> = std::fs::read_dir("/proc/self/fd")
                    .unwrap()
                    .flatten()
                    .map(|entry| entry.file_name().into_string().unwrap())
                    .collect();
                fds.sort();
                // One of them is the folder that is being read.
                println!("{}", fds.len() - 1);
            }
            "limit" => {
                let limit =
                    nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
                println!("{}", limit.0);
            }
            "hang" => hang(),
            "exit" => return ExitCode::from(next().parse::<u8>().unwrap()),
            "raise" => {
                let name: Signal = next().parse().unwrap();
                raise(name).unwrap();
            }
            // child FLAGS WORDS…: a child runs the remaining words. s: in a session of its own, c:
            // with an empty environment, d: its parent exits at once (daemonised), n: without its
            // parent's stdout.
            "child" => {
                let flags = next();
                start(&flags, &args.by_ref().map(str::to_owned).collect::<Vec<_>>());
            }
            // also FLAGS N WORDS…: a child runs the next N words, then this process continues.
            "also" => {
                let flags = next();
                let count: usize = next().parse().unwrap();
                start(
                    &flags,
                    &(0..count)
                        .map(|_| args.next().unwrap().to_owned())
                        .collect::<Vec<_>>(),
                );
            }
            // Each generation starts two of the next, in new sessions, until DEPTH; all hang.
            "storm" => {
                ignore("SIGTERM");
                ignore("SIGINT");
                let depth: u32 = next().parse().unwrap();
                if depth > 0 {
                    for _ in 0..2 {
                        start("s", &["storm".to_owned(), (depth - 1).to_string()]);
                    }
                }
                hang();
            }
            // A chain: each generation starts the next and exits.
            "relay" => {
                let left: u32 = next().parse().unwrap();
                if left > 0 {
                    start("sc", &["relay".to_owned(), (left - 1).to_string()]);
                }
            }
            // The attacks of a hostile program: see `attack`.
            #[cfg(target_os = "linux")]
            "comets" => attack::comets(&next(), next().parse().unwrap()),
            #[cfg(target_os = "linux")]
            "reaper" => attack::become_reaper(),
            #[cfg(target_os = "linux")]
            "zombies" => attack::zombies(next().parse().unwrap()),
            #[cfg(target_os = "linux")]
            "stopped" => attack::stopped(next().parse().unwrap()),
            #[cfg(target_os = "linux")]
            "threads" => attack::threads(next().parse().unwrap()),
            #[cfg(target_os = "linux")]
            "pairs" => attack::pairs(),
            #[cfg(target_os = "linux")]
            "system-v" => attack::system_v(),
            #[cfg(target_os = "linux")]
            "memory" => attack::memory(&next(), next().parse().unwrap()),
            #[cfg(target_os = "linux")]
            "fork-steadily" => attack::fork_steadily(&next(), &next()),
            other => panic!("unknown word {other:?}"),
        }
    }
    ExitCode::SUCCESS
}

#[allow(unsafe_code)]
fn ignore(name: &str) {
    // SAFETY: ignoring a signal runs no code.
    unsafe { signal(name.parse().unwrap(), SigHandler::SigIgn) }.unwrap();
}

#[allow(
    clippy::zombie_processes,
    reason = "what is left behind is what the tests are about"
)]
fn start(flags: &str, args: &[String]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    if flags.contains('d') {
        command.args(["also", &flags.replace('d', ""), &args.len().to_string()]);
    } else if flags.contains('s') {
        command.arg("setsid");
    }
    command.args(args);
    if flags.contains('c') {
        command.env_clear();
    }
    if flags.contains('n') {
        command.stdout(Stdio::null());
    }
    let mut child = command.spawn().unwrap();
    if flags.contains('d') {
        child.wait().unwrap();
    }
}

fn daemon(spec: &Path, note: &Path, adopted: Option<ProcessId>) {
    let spec: ShimSpec = serde_json::from_slice(&std::fs::read(spec).unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let program = std::env::current_exe().unwrap();
        let supervisor = Supervisor::new(program, [SHIM_VERB.into()]).unwrap();
        let supervised = match adopted {
            Some(shim) => supervisor.adopt(&spec, shim, None).await.unwrap(),
            None => supervisor.spawn(&spec, None, StdoutMode::Null).await.unwrap(),
        };
        std::fs::write(note, serde_json::to_vec(&supervised.shim()).unwrap()).unwrap();
        let watched = note.with_extension("watched");
        std::fs::write(watched, std::process::id().to_string()).unwrap();
        let handle = supervised.handle();
        tokio::select! {
            _ = tokio::time::timeout(LIFETIME, supervised.wait()) => {}
            () = renew(&spec, &handle) => {}
        }
    });
}

/// Renews the lease of the spec, if there is one, as a worker does whose requests are confirmed.
async fn renew(spec: &ShimSpec, handle: &Handle) {
    if spec.lease.is_none() {
        std::future::pending::<()>().await;
    }
    loop {
        handle.renew(BootTime::now().saturating_add(RENEWED_FOR));
        tokio::time::sleep(RENEWED_FOR / 20).await;
    }
}

fn hang() {
    let until = Instant::now() + LIFETIME;
    while Instant::now() < until {
        std::thread::sleep(Duration::from_secs(1));
    }
}
