//! A machine that is cut off from the server, or frozen with all its processes, and comes back.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cluster::{Cluster, HUB, WORKER};
use super::network::{self, Link, SERVER};
use super::pulse;
use crate::support::{alive, eventually, stat_fields, wait_for_value};

/// How long an agent may run after it wakes, in nanoseconds.
const AWAKE: u128 = 1_000_000_000;

/// How long a worker may take until it gets attempts again: it announces itself once a minute.
const BACK: Duration = Duration::from_secs(150);

fn wait_for_done(cluster: &Cluster, issue: &str) {
    eventually(&format!("issue {issue} is done"), || {
        cluster.tracker.state(issue).as_deref() == Some("done")
    });
}

fn assert_nothing_is_left(cluster: &Cluster) {
    cluster.stop_server();
    eventually("nothing is left", || cluster.env.leftovers().is_empty());
}

#[test]
fn worker_without_a_network_has_ended_its_agent_when_another_one_starts() {
    if !network::enter() {
        return;
    }
    let Some(cluster) = Cluster::at(SERVER, &[("1", "todo")], pulse::agent(), "Work.", |_, _| {}) else {
        return;
    };
    cluster.env.write("shared/starts", "");
    let mut args = WORKER.to_vec();
    args.push("cut");
    let (cut, link) = Link::start(&cluster, "cut", &args);
    cut.wait_for("ready");
    let hub = cluster.hub("hub");
    let first = pulse::wait_for_start(&cluster, "1", 1);
    assert_eq!(first.worker, "cut");
    let other = cluster.worker("other");
    link.cut();
    let second = pulse::wait_for_start(&cluster, "1", 2);
    assert_eq!(second.worker, "other");
    let margin = second.at.checked_sub(pulse::last_pulse(&cluster, &first));
    let margin = margin.expect("the first agent has ended before");
    println!(
        "the first agent ended {} ms before the second one",
        margin / 1_000_000
    );
    assert_eq!(pulse::overlaps(&cluster), "");
    // What the first attempt still had to send arrives now, and changes nothing.
    link.repair();
    pulse::release(&cluster, "1");
    wait_for_done(&cluster, "1");
    other.stop();
    cluster.tracker.add("2", "Issue 2", "todo");
    pulse::release(&cluster, "2");
    let is_done = || (cluster.tracker.state("2").as_deref() == Some("done")).then_some(());
    let served = wait_for_value(BACK, is_done);
    assert!(served.is_some(), "the worker serves again:\n{}", cut.log());
    assert!(
        pulse::starts(&cluster, "2")
            .iter()
            .all(|start| start.worker == "cut")
    );
    assert_eq!(cluster.moves(), ["move 1 done", "move 2 done"]);
    assert_eq!(pulse::starts(&cluster, "1").len(), 2);
    hub.stop();
    cut.stop();
    assert_nothing_is_left(&cluster);
}

#[test]
fn hub_without_a_network_decides_nothing_and_follows_when_it_is_back() {
    if !network::enter() {
        return;
    }
    let Some(cluster) = Cluster::at(SERVER, &[("1", "todo")], pulse::agent(), "Work.", |_, _| {}) else {
        return;
    };
    cluster.env.write("shared/starts", "");
    let worker = cluster.worker("w");
    let (cut, link) = Link::start(&cluster, "cut", &HUB);
    cut.wait_for(" leading");
    pulse::wait_for_start(&cluster, "1", 1);
    let other = cluster.hub("other");
    other.wait_for("following");
    link.cut();
    // Both hubs see it, as the tracker is on this machine.
    cluster.tracker.add("2", "Issue 2", "todo");
    other.wait_for(" leading");
    pulse::release(&cluster, "1");
    pulse::release(&cluster, "2");
    wait_for_done(&cluster, "1");
    wait_for_done(&cluster, "2");
    link.repair();
    eventually("the hub follows again", || {
        cut.log().matches("following").count() == 2
    });
    for issue in ["1", "2"] {
        assert_eq!(pulse::starts(&cluster, issue).len(), 1, "issue {issue}");
    }
    assert_eq!(cluster.moves(), ["move 1 done", "move 2 done"]);
    // It can lead again.
    other.stop();
    eventually("the hub leads again", || {
        cut.log().matches(" leading").count() == 2
    });
    cut.stop();
    worker.stop();
    assert_nothing_is_left(&cluster);
}

/// Returns a process and all below it.
fn tree(root: i32) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let all: Vec<i32> = all
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    let parent = |pid| {
        stat_fields(pid)
            .get(1)
            .and_then(|parent| parent.parse::<i32>().ok())
    };
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&pid) = tree.get(next) {
        tree.extend(all.iter().filter(|&&child| parent(child) == Some(pid)));
        next += 1;
    }
    tree
}

/// Stops a process and all below it, also those that start meanwhile. Returns them.
fn freeze(root: i32) -> Vec<i32> {
    let mut frozen = Vec::new();
    loop {
        let new: Vec<_> = tree(root)
            .into_iter()
            .filter(|pid| !frozen.contains(pid))
            .collect();
        if new.is_empty() {
            return frozen;
        }
        for pid in new {
            let _ = kill(Pid::from_raw(pid), Signal::SIGSTOP);
            frozen.push(pid);
        }
    }
}

#[test]
fn agent_that_was_frozen_with_its_worker_ends_within_a_second_of_waking() {
    let Some(cluster) = Cluster::start(&[("1", "todo")], pulse::agent(), "Work.") else {
        return;
    };
    cluster.env.write("shared/starts", "");
    let frozen = cluster.worker("frozen");
    let hub = cluster.hub("hub");
    let first = pulse::wait_for_start(&cluster, "1", 1);
    let other = cluster.worker("other");
    let processes = freeze(frozen.pid());
    let is_agent = |pid: &i32| {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.contains("VIK_ATTEMPT_ID.pulse")
    };
    let agents: Vec<_> = processes.iter().copied().filter(is_agent).collect();
    assert!(!agents.is_empty(), "{processes:?}");
    let second = pulse::wait_for_start(&cluster, "1", 2);
    assert_eq!(second.worker, "other");
    let asleep = pulse::last_pulse(&cluster, &first);
    assert!(asleep < second.at);
    assert!(agents.iter().all(|&pid| alive(pid)), "they are only frozen");
    let woken = pulse::now();
    // The agent wakes first, the worker last.
    for pid in processes.iter().rev() {
        let _ = kill(Pid::from_raw(*pid), Signal::SIGCONT);
    }
    eventually("the first agent has ended", || {
        !agents.iter().any(|&pid| alive(pid))
    });
    let last = pulse::last_pulse(&cluster, &first);
    let awake = last.saturating_sub(woken);
    println!("the agent ran for {} ms after it woke", awake / 1_000_000);
    assert!(awake < AWAKE, "{awake} ns");
    pulse::release(&cluster, "1");
    wait_for_done(&cluster, "1");
    assert_eq!(pulse::starts(&cluster, "1").len(), 2);
    assert_eq!(cluster.moves(), ["move 1 done"]);
    hub.stop();
    frozen.stop();
    other.stop();
    assert_nothing_is_left(&cluster);
}
