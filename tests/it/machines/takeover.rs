//! How long it takes until another machine has the work of a killed one, with the shortest heartbeat.
//! `VIK_TAKEOVER_ROUNDS` sets how often each kind of machine is killed.

use super::cluster::{Cluster, Machine};
use super::pulse;
use crate::chaos::random::number;
use crate::support::eventually;

/// The middle of the times must be below it, in milliseconds: a busy machine delays some of them.
const LIMIT: u128 = 5_000;

fn rounds() -> usize {
    number("VIK_TAKEOVER_ROUNDS").map_or(3, |rounds| usize::try_from(rounds).unwrap())
}

fn start() -> Option<Cluster> {
    let cluster = Cluster::start(&[], pulse::agent(), "Work.")?;
    cluster.env.write("shared/starts", "");
    Some(cluster)
}

fn finish(cluster: &Cluster, issue: &str) {
    pulse::release(cluster, issue);
    eventually("the issue is done", || {
        cluster.tracker.state(issue).as_deref() == Some("done")
    });
}

#[track_caller]
#[expect(clippy::print_stdout, reason = "the figures of the test")]
fn check(name: &str, mut times: Vec<u128>) {
    times.sort_unstable();
    let middle = times[times.len() / 2];
    println!("takeover of a killed {name}: p50 {middle} ms, all {times:?}");
    assert!(middle < LIMIT, "{times:?}");
}

#[test]
fn killed_worker_is_replaced_within_five_seconds() {
    let Some(cluster) = start() else { return };
    let hub = cluster.hub("hub");
    let mut workers = ["a", "b"].map(|name| Some(cluster.worker(name)));
    let mut times = Vec::new();
    for issue in (1..=rounds()).map(|issue| issue.to_string()) {
        cluster.tracker.add(&issue, "Work", "todo");
        let first = pulse::wait_for_start(&cluster, &issue, 1);
        let number = usize::from(first.worker == "b");
        let killed = pulse::now();
        workers[number].take().unwrap().kill();
        let second = pulse::wait_for_start(&cluster, &issue, 2);
        times.push((second.at - killed) / 1_000_000);
        assert_ne!(first.worker, second.worker);
        assert!(pulse::last_pulse(&cluster, &first) < second.at);
        finish(&cluster, &issue);
        workers[number] = Some(cluster.start_worker(&first.worker));
        let ready = |worker: &Machine| worker.log().matches(" ready").count();
        let worker = workers[number].as_ref().unwrap();
        let before = times.len();
        eventually("the worker is ready again", || ready(worker) > 1 || before == 0);
    }
    assert_eq!(pulse::overlaps(&cluster), "");
    check("worker", times);
    hub.stop();
    workers.into_iter().flatten().for_each(Machine::stop);
}

#[test]
fn killed_hub_is_replaced_within_five_seconds() {
    let Some(cluster) = start() else { return };
    let worker = cluster.worker("w");
    let mut leader = cluster.hub("hub-0");
    leader.wait_for(" leading");
    let mut times = Vec::new();
    for round in 1..=rounds() {
        let issue = round.to_string();
        let next = cluster.hub(&format!("hub-{round}"));
        next.wait_for("following");
        let killed = pulse::now();
        leader.kill();
        // Only a hub that leads pulls it.
        cluster.tracker.add(&issue, "Work", "todo");
        let start = pulse::wait_for_start(&cluster, &issue, 1);
        times.push((start.at - killed) / 1_000_000);
        finish(&cluster, &issue);
        leader = next;
    }
    check("hub", times);
    leader.stop();
    worker.stop();
}
