//! Networks of their own for a test and for one of its machines, and the link between them.

use std::path::PathBuf;
use std::process::Command;

use vik_testkit::{report_skipped, test_name};

use super::cluster::{Cluster, Machine};
use crate::support::eventually;

/// The address of the server in the network of the test.
pub const SERVER: &str = "10.111.0.1";

/// The variable that a test has in its own network.
const INSIDE: &str = "VIK_TEST_NETWORK";

/// Takes its end of the link when there is one, and runs the program.
const BEHIND: &str = r#"
ip link set lo up
until ip address add 10.111.0.2/24 dev behind 2>/dev/null; do sleep 0.02; done
ip link set behind up
exec "$@"
"#;

/// Runs the test in a network of its own, as another process. Returns whether this is that process;
/// prints why there can be none.
#[expect(clippy::print_stdout, reason = "the figures of the test")]
pub fn enter() -> bool {
    if std::env::var_os(INSIDE).is_some() {
        ip(&["link", "set", "lo", "up"]);
        ip(&["link", "add", "ahead", "type", "veth", "peer", "name", "behind"]);
        ip(&["address", "add", &format!("{SERVER}/24"), "dev", "ahead"]);
        ip(&["link", "set", "ahead", "up"]);
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

/// Starts a machine in a network behind the link.
pub fn machine_behind(cluster: &Cluster, name: &str, args: &[&str]) -> Machine {
    let vik = PathBuf::from(env!("CARGO_BIN_EXE_vik"));
    let mut command = cluster.env.command("unshare");
    command.args(["-n", "sh", "-c", BEHIND, "sh"]).arg(vik).args(args);
    let machine = cluster.machine(name, command);
    let network = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let (own, pid) = (network("thread-self"), machine.pid().to_string());
    eventually("the machine is in its network", || {
        network(&pid).is_some_and(|other| Some(other) != own)
    });
    ip(&["link", "set", "behind", "netns", &pid]);
    machine
}

pub fn cut() {
    ip(&["link", "set", "ahead", "down"]);
}

pub fn repair() {
    ip(&["link", "set", "ahead", "up"]);
}

fn ip(args: &[&str]) {
    let done = Command::new("ip").args(args).status().unwrap();
    assert!(done.success(), "ip {args:?}");
}
