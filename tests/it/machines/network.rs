//! Networks of their own for a test and for some of its machines, and the links between them.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use vik_testkit::{report_skipped, test_name};

use super::cluster::{Cluster, Machine};
use crate::support::eventually;

/// The address of the server in the network of the test.
pub const SERVER: &str = "10.111.0.1";

/// The variable that a test has in its own network.
const INSIDE: &str = "VIK_TEST_NETWORK";

/// Takes its end of the link when there is one, and runs the program.
const BEHIND: &str = r#"
link=$1 address=$2
shift 2
ip link set lo up
until ip address add "$address" peer 10.111.0.1 dev "$link" 2>/dev/null; do sleep 0.02; done
ip link set "$link" up
exec "$@"
"#;

/// Runs the test in a network of its own, as another process. Returns whether this is that process;
/// prints why there can be none.
#[expect(clippy::print_stdout, reason = "the figures of the test")]
pub fn enter() -> bool {
    if std::env::var_os(INSIDE).is_some() {
        ip(&["link", "set", "lo", "up"]);
        ip(&["address", "add", SERVER, "dev", "lo"]);
        return true;
    }
    if std::env::var_os("VIK_TEMPORAL_BIN").is_none() {
        report_skipped("VIK_TEMPORAL_BIN does not name the program of a Temporal server");
        return false;
    }
    let kind = if nix::unistd::geteuid().is_root() {
        "-n"
    } else {
        "-Urn"
    };
    let probe = "ip link add ahead type veth peer name behind";
    let done = Command::new("unshare").args([kind, "sh", "-c", probe]).output();
    if !done.is_ok_and(|done| done.status.success()) {
        report_skipped("there can be no network of its own here (unshare, ip)");
        return false;
    }
    let thread = std::thread::current();
    let test = thread.name().unwrap();
    let done = Command::new("unshare")
        .arg(kind)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && printed.contains("1 passed"),
        "{}: {printed}\n{}",
        test_name(),
        String::from_utf8_lossy(&done.stderr)
    );
    println!("{printed}");
    false
}

/// The link between the network of the test and that of one machine.
pub struct Link {
    /// The end in the network of the test.
    ahead: String,
}

impl Link {
    /// Starts a machine in a network of its own, behind a new link.
    pub fn start(cluster: &Cluster, name: &str, args: &[&str]) -> (Machine, Self) {
        static LINKS: AtomicU16 = AtomicU16::new(1);
        let number = LINKS.fetch_add(1, Ordering::Relaxed);
        let (ahead, behind) = (format!("ahead{number}"), format!("behind{number}"));
        let [upper, lower] = number.to_be_bytes();
        let address = format!("10.112.{upper}.{lower}");
        ip(&["link", "add", &ahead, "type", "veth", "peer", "name", &behind]);
        ip(&["address", "add", SERVER, "peer", &address, "dev", &ahead]);
        let link = Self { ahead };
        link.repair();
        let vik = PathBuf::from(env!("CARGO_BIN_EXE_vik"));
        let mut command = cluster.env.command("unshare");
        command
            .args(["-n", "sh", "-c", BEHIND, "sh", &behind, &address])
            .arg(vik)
            .args(args);
        let machine = cluster.machine(name, command);
        let network = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
        let (own, pid) = (network("thread-self"), machine.pid().to_string());
        eventually("the machine is in its network", || {
            network(&pid).is_some_and(|other| Some(other) != own)
        });
        ip(&["link", "set", &behind, "netns", &pid]);
        (machine, link)
    }

    pub fn cut(&self) {
        ip(&["link", "set", &self.ahead, "down"]);
    }

    pub fn repair(&self) {
        ip(&["link", "set", &self.ahead, "up"]);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // It is gone already with the last process behind it.
        let mut command = Command::new("ip");
        let _ = command.args(["link", "delete", &self.ahead]).output();
    }
}

fn ip(args: &[&str]) {
    let done = Command::new("ip").args(args).status().unwrap();
    assert!(done.success(), "ip {args:?}");
}
