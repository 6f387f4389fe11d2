//! Five workers, two hubs and the server, killed, frozen and cut off at random under load.
//! `VIK_CHAOS_KILLS` sets the number of faults, `VIK_CHAOS_SEED` the seed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use serde_json::json;

use super::cluster::{Cluster, HUB, Machine, WORKER};
use super::network::{self, Link, SERVER};
use crate::chaos::random::{Dice, number};
use crate::support::eventually;

const WORKERS: usize = 5;
const HUBS: usize = 2;

/// The number of issues that are open at a time.
const LOAD: usize = 6;

/// How long the machines may take until all issues are done, after the last fault.
const PATIENCE: Duration = Duration::from_secs(180);

/// Takes a lock of the issue while it runs, and notes who else has it.
const AGENT: &str = r#"
dir=$(dirname "$HOME")/shared
exec 9>>"$dir/$VIK_ISSUE_ID.lock"
flock -n 9 || echo "$VIK_ISSUE_ID" >>"$dir/overlaps"
sleep 0.7
echo "$VIK_ISSUE_ID" >>"$dir/worked"
"#;

struct Machines<'c> {
    cluster: &'c Cluster,
    hubs: Vec<Option<(Machine, Link)>>,
    workers: Vec<Option<(Machine, Link)>>,
}

impl Machines<'_> {
    /// Starts what does not run.
    fn up(&mut self) {
        let is_down = |machine: &mut Option<(Machine, Link)>| {
            machine.as_mut().is_none_or(|(machine, _)| !machine.is_running())
        };
        for (number, hub) in self.hubs.iter_mut().enumerate() {
            if is_down(hub) {
                *hub = Some(Link::start(self.cluster, &format!("hub-{number}"), &HUB));
            }
        }
        for (number, worker) in self.workers.iter_mut().enumerate() {
            if is_down(worker) {
                let name = format!("worker-{number}");
                let args = [&WORKER[..], &[&name]].concat();
                *worker = Some(Link::start(self.cluster, &name, &args));
            }
        }
    }

    fn machine(&mut self, dice: &mut Dice) -> &mut Option<(Machine, Link)> {
        let number = dice.roll(HUBS + WORKERS);
        match number.checked_sub(HUBS) {
            None => &mut self.hubs[number],
            Some(worker) => &mut self.workers[worker],
        }
    }
}

fn pause(milliseconds: usize) {
    std::thread::park_timeout(Duration::from_millis(milliseconds as u64));
}

#[test]
fn no_issue_is_lost_or_worked_on_twice_at_once_whatever_fails() {
    if !network::enter() {
        return;
    }
    let faults = number("VIK_CHAOS_KILLS").unwrap_or(20);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let seed = number("VIK_CHAOS_SEED").unwrap_or(clock as u64 | 1);
    println!("VIK_CHAOS_SEED={seed} VIK_CHAOS_KILLS={faults}");
    let mut dice = Dice(seed);
    let names: Vec<String> = (1..=LOAD).map(|number| number.to_string()).collect();
    let first: Vec<_> = names.iter().map(|name| (name.as_str(), "todo")).collect();
    let agent = json!({
        "runtime": "command",
        "command": ["sh", "-c", AGENT],
    });
    let Some(cluster) = Cluster::at(SERVER, &first, agent, "Work.", |_, _| {}) else {
        return;
    };
    cluster.env.write("shared/worked", "");
    let mut issues = LOAD;
    let mut machines = Machines {
        cluster: &cluster,
        hubs: (0..HUBS).map(|_| None).collect(),
        workers: (0..WORKERS).map(|_| None).collect(),
    };
    machines.up();
    for _ in 0..faults {
        pause(200 + dice.roll(1_500));
        match dice.roll(20) {
            0 => cluster.restart_server(),
            1 => {
                cluster.signal_server(Signal::SIGSTOP);
                pause(dice.roll(8_000));
                cluster.signal_server(Signal::SIGCONT);
            }
            2..6 => {
                if let Some((machine, _)) = machines.machine(&mut dice) {
                    machine.signal(Signal::SIGSTOP);
                    pause(dice.roll(10_000));
                    machine.signal(Signal::SIGCONT);
                }
            }
            6..10 => {
                if let Some((_, link)) = machines.machine(&mut dice) {
                    link.cut();
                    pause(dice.roll(10_000));
                    link.repair();
                }
            }
            10..12 => {
                // It ends its attempts, or its turn to lead.
                if let Some((machine, _)) = machines.machine(&mut dice) {
                    machine.signal(Signal::SIGTERM);
                }
            }
            _ => {
                if let Some((machine, _link)) = machines.machine(&mut dice).take() {
                    machine.kill();
                }
            }
        }
        machines.up();
        let open = cluster
            .tracker
            .issues()
            .iter()
            .filter(|issue| issue.state == "todo")
            .count();
        for _ in open..LOAD {
            issues += 1;
            cluster.tracker.add(&issues.to_string(), "More", "todo");
        }
    }
    let started = std::time::Instant::now();
    let is_done = || cluster.tracker.issues().iter().all(|issue| issue.state == "done");
    while !is_done() && started.elapsed() < PATIENCE {
        pause(200);
        machines.up();
    }
    let open: Vec<_> = cluster
        .tracker
        .issues()
        .into_iter()
        .filter(|issue| issue.state != "done")
        .collect();
    let shared = cluster.env.read("shared/overlaps");
    let explained = || {
        let hubs = machines.hubs.iter().flatten();
        hubs.map(|(hub, _)| cluster.status(hub).unwrap_or_default().to_string())
            .collect::<Vec<_>>()
    };
    assert!(open.is_empty(), "not done: {open:?}\n{:#?}", explained());
    assert_eq!(shared, "", "worked on twice at once");
    // A success was handed over once: a move that is repeated would be another line.
    let moves = cluster.moves();
    let expected: std::collections::BTreeSet<_> =
        (1..=issues).map(|issue| format!("move {issue} done")).collect();
    assert_eq!(
        moves.iter().cloned().collect::<std::collections::BTreeSet<_>>(),
        expected
    );
    println!(
        "{issues} issues, {} attempts that ended, {} moves",
        cluster.env.read("shared/worked").lines().count(),
        moves.len()
    );
    for (machine, _link) in machines.workers.into_iter().chain(machines.hubs).flatten() {
        machine.signal(Signal::SIGTERM);
        machine.ended();
    }
    cluster.stop_server();
    eventually("nothing is left", || cluster.env.leftovers().is_empty());
}
