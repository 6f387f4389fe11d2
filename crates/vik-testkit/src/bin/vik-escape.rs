//! A hostile agent: it tries to get out of its sandbox in every way that is known here, and says of each whether it came
//! through. What it tries to reach stands in the JSON file that `ESCAPE_PLAN` names.
//!
//! Each line of its output is `escaped NAME` or `stopped NAME: WHY`. It exits with 0 whatever came of it.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "without a plan there is nothing to try, and its output is what it is for"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::unistd::Pid;
use serde::Deserialize;

/// What there is to reach.
#[derive(Deserialize)]
struct Plan {
    /// A folder outside of the workspace, with a file `there`.
    outside: PathBuf,
    /// Files that are not to be read.
    secrets: Vec<PathBuf>,
    /// Files and folders that are not to be written, though they are this user's.
    guarded: Vec<PathBuf>,
    /// Sockets of the machine that somebody listens on.
    sockets: Vec<PathBuf>,
    /// A process of this user that is not of this tree.
    victim: i32,
    /// A port of the loopback on which TCP is listened for.
    tcp: u16,
    /// One for UDP.
    udp: u16,
    /// Whether the network is off.
    offline: bool,
}

type Try = Result<(), String>;

fn main() {
    let plan = std::env::var_os("ESCAPE_PLAN").expect("ESCAPE_PLAN names a file");
    let plan: Plan = serde_json::from_slice(&fs::read(plan).expect("the plan")).expect("a plan");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    files(&plan);
    links(&plan);
    processes(&plan);
    network(&plan);
    kernel(&plan);
    vik();
}

fn tell(name: &str, tried: Try) {
    match tried {
        Ok(()) => println!("escaped {name}"),
        Err(why) => println!("stopped {name}: {}", why.replace('\n', " ")),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn files(plan: &Plan) {
    let there = plan.outside.join("there");
    tell("create", fs::write(plan.outside.join("new"), "x").map_err(text));
    tell("overwrite", fs::write(&there, "x").map_err(text));
    let append = OpenOptions::new().append(true).open(&there);
    tell("append", append.map(drop).map_err(text));
    let truncate = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_TRUNC)
        .open(&there);
    tell(
        "truncate at open",
        truncate.and_then(|_| emptied(&there)).map_err(text),
    );
    let path = nix::unistd::truncate(&there, 0);
    tell("truncate by path", path.map_err(text));
    tell("remove", fs::remove_file(&there).map_err(text));
    tell(
        "make a folder",
        fs::create_dir(plan.outside.join("folder")).map_err(text),
    );
    for (number, secret) in plan.secrets.iter().enumerate() {
        tell(
            &format!("read {number}"),
            fs::read(secret).map(drop).map_err(text),
        );
        let folder = secret.parent().expect("a file is in a folder");
        tell(
            &format!("list {number}"),
            fs::read_dir(folder).map(drop).map_err(text),
        );
    }
    for (number, place) in plan.guarded.iter().enumerate() {
        let tried = if place.is_dir() {
            fs::write(place.join("planted"), "x")
        } else {
            OpenOptions::new().write(true).open(place).map(drop)
        };
        tell(&format!("write {number}"), tried.map_err(text));
    }
}

fn emptied(path: &Path) -> std::io::Result<()> {
    if fs::metadata(path)?.len() == 0 {
        Ok(())
    } else {
        Err(std::io::Error::other("it kept its content"))
    }
}

fn links(plan: &Plan) {
    let there = plan.outside.join("there");
    let _ = symlink(&plan.outside, "way-out");
    tell(
        "write through a link",
        fs::write("way-out/linked", "x").map_err(text),
    );
    tell("link a file in", fs::hard_link(&there, "hard").map_err(text));
    let _ = fs::write("own", "x");
    tell(
        "link a file out",
        fs::hard_link("own", plan.outside.join("hard")).map_err(text),
    );
    tell("move a file in", fs::rename(&there, "moved").map_err(text));
    tell(
        "move a file out",
        fs::rename("own", plan.outside.join("moved")).map_err(text),
    );
    let workdir = std::env::current_dir().unwrap_or_default();
    let aside = workdir.with_extension("aside");
    let swapped = fs::rename(&workdir, &aside).and_then(|()| symlink(&plan.outside, &workdir));
    tell("put a link in place of the workspace", swapped.map_err(text));
    // Somebody exchanges a folder for a link while it is written through.
    let race = std::thread::spawn(|| {
        for _ in 0..2000 {
            let _ = fs::create_dir("race");
            let _ = fs::remove_dir_all("race");
            let _ = symlink("way-out", "race");
            let _ = fs::remove_file("race");
        }
    });
    while !race.is_finished() {
        let _ = fs::write("race/raced", "x");
    }
    let raced = plan.outside.join("raced");
    let raced = if raced.exists() {
        Ok(())
    } else {
        Err("nothing came there".to_owned())
    };
    tell("race a link", raced);
}

fn processes(plan: &Plan) {
    let victim = Pid::from_raw(plan.victim);
    let of = |name: &str| PathBuf::from(format!("/proc/{}/{name}", plan.victim));
    tell("signal nobody's own", kill(victim, None).map_err(text));
    tell(
        "stop another process",
        kill(victim, Signal::SIGSTOP).map_err(text),
    );
    tell(
        "kill the parent",
        kill(nix::unistd::getppid(), Signal::SIGTERM).map_err(text),
    );
    tell(
        "read an environment",
        fs::read(of("environ")).map(drop).map_err(text),
    );
    tell(
        "open memory",
        OpenOptions::new()
            .write(true)
            .open(of("mem"))
            .map(drop)
            .map_err(text),
    );
    tell(
        "go in by its root",
        fs::read(of("root").join("etc/passwd")).map(drop).map_err(text),
    );
    tell(
        "go in by its folder",
        fs::read_dir(of("cwd")).map(drop).map_err(text),
    );
    tell("take its files", File::open(of("fd/0")).map(drop).map_err(text));
    for target in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
    ] {
        tell(
            &format!("write {target}"),
            OpenOptions::new()
                .write(true)
                .open(target)
                .map(drop)
                .map_err(text),
        );
    }
}

fn network(plan: &Plan) {
    for (number, path) in plan.sockets.iter().enumerate() {
        tell(
            &format!("connect to socket {number}"),
            UnixStream::connect(path).map(drop).map_err(text),
        );
    }
    tell(
        "datagrams of the machine",
        UnixDatagram::unbound().map(drop).map_err(text),
    );
    let pair = UnixDatagram::pair().map(drop);
    tell("a pair to connect anew", pair.map_err(text));
    for (name, family, kind) in [
        ("raw socket", AddressFamily::Inet, SockType::Raw),
        ("raw socket of version 6", AddressFamily::Inet6, SockType::Raw),
        #[cfg(target_os = "linux")]
        ("packet socket", AddressFamily::Packet, SockType::Raw),
        #[cfg(target_os = "linux")]
        ("socket to the host", AddressFamily::Vsock, SockType::Stream),
        #[cfg(target_os = "linux")]
        (
            "socket of the kernel's ciphers",
            AddressFamily::Alg,
            SockType::SeqPacket,
        ),
    ] {
        tell(
            name,
            socket(family, kind, SockFlag::empty(), None)
                .map(drop)
                .map_err(text),
        );
    }
    if plan.offline {
        let wait = Duration::from_secs(2);
        let to = std::net::SocketAddr::from(([127, 0, 0, 1], plan.tcp));
        tell(
            "TCP",
            TcpStream::connect_timeout(&to, wait).map(drop).map_err(text),
        );
        let udp =
            UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"x", ("127.0.0.1", plan.udp)));
        tell("UDP", udp.map(drop).map_err(text));
        let udp = UdpSocket::bind("[::]:0").map(drop);
        tell("UDP of version 6", udp.map_err(text));
        tell(
            "a listener",
            std::net::TcpListener::bind("0.0.0.0:0").map(drop).map_err(text),
        );
    }
}

fn kernel(plan: &Plan) {
    for (name, line) in [
        ("mount", "mount -t tmpfs none /tmp"),
        (
            "mount in other namespaces",
            "unshare -Urm sh -c 'mount --bind / /mnt'",
        ),
        (
            "write from other namespaces",
            "unshare -Ur sh -c 'echo x > \"$OUT/from-ns\"'",
        ),
        ("join a namespace", "nsenter -t \"$VICTIM\" -a true"),
        ("leave by chroot", "chroot /proc/1/root true"),
        ("device", "mknod dev-sda b 8 0 && head -c1 dev-sda"),
        ("setuid", "sudo -n true"),
    ] {
        let done = Command::new("sh")
            .args(["-c", line])
            .env("OUT", &plan.outside)
            .env("VICTIM", plan.victim.to_string())
            .output();
        let tried = match done {
            Ok(done) if done.status.success() => Ok(()),
            Ok(done) => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
            Err(error) => Err(text(error)),
        };
        tell(name, tried);
    }
    let memory = File::options().read(true).open("/dev/mem");
    tell("memory of the machine", memory.map(drop).map_err(text));
    let _ = fs::set_permissions("own", fs::Permissions::from_mode(0o600));
}

/// Steers its own daemon.
fn vik() {
    for verb in ["unpark", "cancel", "explain", "approve"] {
        let id = std::env::var("VIK_ISSUE_ID").unwrap_or_default();
        let workflow = std::env::var("VIK_WORKFLOW").unwrap_or_default();
        let done = Command::new("vik")
            .args(["--workflow", &workflow, verb, &id])
            .output();
        let tried = match done {
            Ok(done) if done.status.success() => Ok(()),
            Ok(done) => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
            Err(error) => Err(text(error)),
        };
        tell(&format!("vik {verb}"), tried);
    }
    let _ = std::io::stdout().flush();
}
