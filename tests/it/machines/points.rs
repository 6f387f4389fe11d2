//! `kill -9` of a worker or a hub at each named point of an attempt on several machines.

use vik_base::failpoint::{LEAD_POINTS, WORKER_POINTS};

use super::cluster::{Cluster, Machine};
use super::pulse;
use crate::support::{eventually, stat_fields};

/// The points of an attempt on a worker. Its `after_run` moves the issue in the tracker.
const ON_WORKER: [&str; 17] = [
    "attempt_taken",
    "begun",
    "locked",
    "workspace_ready",
    "before_run_started",
    "before_run_ended",
    "prompt_ready",
    "base_taken",
    "shim_started",
    "agent_started",
    "agent_ended",
    "changes_found",
    "verify_ended",
    "log_ended",
    "after_run_started",
    "after_run_ended",
    "attempt_ended",
];

/// The points of a decision, and of the end of an attempt, on the hub that leads.
const ON_HUB: [&str; 4] = ["decided", "committed", "reported", "end_committed"];

/// Machines with the same role, which are started again after a kill.
struct Machines<'c> {
    cluster: &'c Cluster,
    start: fn(&Cluster, &str) -> Machine,
    running: Vec<(String, Machine)>,
}

impl<'c> Machines<'c> {
    fn new(cluster: &'c Cluster, start: fn(&Cluster, &str) -> Machine, names: [&str; 2]) -> Self {
        let machine = |name: &str| (name.to_owned(), start(cluster, name));
        let running = names.into_iter().map(machine).collect();
        Self {
            cluster,
            start,
            running,
        }
    }

    /// Kills the machine that has stopped itself, and returns its name.
    #[track_caller]
    fn kill_stopped(&mut self) -> String {
        let is_stopped = |machine: &Machine| {
            stat_fields(machine.pid())
                .first()
                .is_some_and(|state| state == "T")
        };
        let mut found = None;
        eventually("a machine has stopped itself", || {
            found = self.running.iter().position(|(_, machine)| is_stopped(machine));
            found.is_some()
        });
        let (name, machine) = self.running.remove(found.unwrap());
        machine.kill();
        name
    }

    fn restart(&mut self, name: String) {
        let machine = (self.start)(self.cluster, &name);
        self.running.push((name, machine));
    }
}

fn arm(cluster: &Cluster, point: &str) {
    cluster.env.write(format!("crash/{point}.armed"), "");
}

/// Waits until a machine has stopped at the point.
#[track_caller]
fn wait_for_point(cluster: &Cluster, point: &str) {
    let hit = cluster.env.path(format!("crash/{point}.hit"));
    eventually(&format!("a machine is at `{point}`"), || hit.exists());
}

fn add(cluster: &Cluster, issue: &str) {
    pulse::release(cluster, issue);
    cluster.tracker.add(issue, "Work", "todo");
}

#[track_caller]
fn wait_for_done(cluster: &Cluster, issue: &str) {
    eventually(&format!("the issue of `{issue}` is done"), || {
        cluster.tracker.state(issue).as_deref() == Some("done")
    });
}

/// Checks that all issues were moved once, that no two agents worked on one, and that nothing runs.
fn check(cluster: &Cluster, points: &[&str], machines: [Machines<'_>; 2]) {
    let mut moves: Vec<_> = points.iter().map(|point| format!("move {point} done")).collect();
    moves.sort();
    assert_eq!(cluster.moves(), moves);
    assert_eq!(pulse::overlaps(cluster), "");
    for (_, machine) in machines.into_iter().flat_map(|machines| machines.running) {
        machine.stop();
    }
    cluster.stop_server();
    eventually("nothing is left", || cluster.env.leftovers().is_empty());
}

fn cluster() -> Option<Cluster> {
    let cluster = Cluster::with(&[], pulse::agent(), "Work.", |flow, _| {
        let stage = &mut flow["issue"]["stages"]["work"];
        stage["verify"] = "true".into();
        stage["hooks"]["before_run"] = "true".into();
    })?;
    cluster.env.write("shared/starts", "");
    std::fs::create_dir_all(cluster.env.path("crash")).unwrap();
    Some(cluster)
}

#[test]
fn worker_killed_at_each_point_loses_nothing() {
    let Some(cluster) = cluster() else { return };
    assert!(WORKER_POINTS.iter().all(|point| ON_WORKER.contains(point)));
    let hubs = Machines::new(&cluster, Cluster::hub, ["hub-0", "hub-1"]);
    let mut workers = Machines::new(&cluster, Cluster::worker, ["a", "b"]);
    for point in ON_WORKER {
        arm(&cluster, point);
        add(&cluster, point);
        wait_for_point(&cluster, point);
        let killed = workers.kill_stopped();
        wait_for_done(&cluster, point);
        workers.restart(killed);
    }
    check(&cluster, &ON_WORKER, [hubs, workers]);
}

#[test]
fn hub_killed_at_each_point_loses_nothing() {
    let Some(cluster) = cluster() else { return };
    let mut hubs = Machines::new(&cluster, Cluster::hub, ["hub-0", "hub-1"]);
    let workers = Machines::new(&cluster, Cluster::worker, ["a", "b"]);
    for point in ON_HUB {
        arm(&cluster, point);
        add(&cluster, point);
        wait_for_point(&cluster, point);
        let killed = hubs.kill_stopped();
        wait_for_done(&cluster, point);
        hubs.restart(killed);
        // An attempt is not started again because its hub was killed.
        assert_eq!(pulse::starts(&cluster, point).len(), 1, "{point}");
    }
    check(&cluster, &ON_HUB, [hubs, workers]);
}

#[test]
fn hub_killed_while_it_starts_to_lead_loses_nothing() {
    let Some(cluster) = cluster() else { return };
    let workers = Machines::new(&cluster, Cluster::worker, ["a", "b"]);
    let mut hubs = Machines::new(&cluster, Cluster::hub, ["hub-0", "hub-1"]);
    for point in LEAD_POINTS {
        let leading = || hubs.running.iter().position(|(_, hub)| cluster.leads(hub));
        eventually("a hub leads", || leading().is_some());
        arm(&cluster, point);
        let leads = leading();
        let (name, leader) = hubs.running.remove(leads.unwrap());
        leader.kill();
        add(&cluster, point);
        wait_for_point(&cluster, point);
        let killed = hubs.kill_stopped();
        hubs.restart(name);
        hubs.restart(killed);
        wait_for_done(&cluster, point);
        assert_eq!(pulse::starts(&cluster, point).len(), 1, "{point}");
    }
    check(&cluster, LEAD_POINTS, [hubs, workers]);
}
