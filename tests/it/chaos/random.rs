//! Random kills under load. `VIK_CHAOS_KILLS` sets their number, `VIK_CHAOS_SEED` the seed.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::rig::{Rig, Target};
use crate::support::eventually;

/// The number of issues that are open at a time.
const LOAD: usize = 4;

/// xorshift64*: the seed determines all values.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % sides
    }
}

pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_kills_under_load_lose_double_and_leave_nothing() {
    let kills = number("VIK_CHAOS_KILLS").unwrap_or(50);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let seed = number("VIK_CHAOS_SEED").unwrap_or(clock as u64 | 1);
    println!("VIK_CHAOS_SEED={seed} VIK_CHAOS_KILLS={kills}");
    let mut dice = Dice(seed);
    let mut issues: Vec<String> = (1..=LOAD).map(|number| number.to_string()).collect();
    let first: Vec<_> = issues.iter().map(|issue| (issue.as_str(), "todo")).collect();
    let rig = Rig::new(&first, 60);
    let mut open = issues.clone();
    rig.up();
    let (mut blows, mut hit, mut stops, mut jumps) = (0, 0, 0, 0);
    let started = Instant::now();
    while blows < kills {
        // The length of the pause is random, so that a kill can fall anywhere.
        std::thread::park_timeout(Duration::from_millis(dice.roll(250) as u64));
        if dice.roll(10) == 0 {
            let targets = [Target::Daemon, Target::Shims, Target::Agents];
            for pid in rig.of(targets[dice.roll(3)]) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGSTOP);
                std::thread::park_timeout(Duration::from_millis(dice.roll(50) as u64));
                let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
                stops += 1;
            }
        }
        if dice.roll(10) == 0 {
            rig.world.jump(dice.roll(200_000) as i64 - 100_000);
            jumps += 1;
        }
        let target = Target::ALL[dice.roll(Target::ALL.len())];
        let one_only = matches!(target, Target::Shims | Target::Agents) && dice.roll(2) == 0;
        if one_only {
            let pids = rig.of(target);
            if !pids.is_empty() {
                let _ = kill(Pid::from_raw(pids[dice.roll(pids.len())]), Signal::SIGKILL);
                hit += 1;
                blows += 1;
            }
        } else {
            let killed = rig.kill(target);
            hit += killed;
            // A kill that hits no process does not count.
            blows += u64::from(killed > 0);
        }
        if !rig.is_up() {
            rig.up();
        } else if dice.roll(4) == 0 {
            rig.unpark_all();
        }
        // Reads all states at once: on a slow machine issues are done while they are counted.
        open.retain(|issue| rig.world.tracker.state(issue).as_deref() != Some("done"));
        while open.len() < LOAD {
            let next = (issues.len() + 1).to_string();
            rig.world.tracker.add(&next, "more", "todo");
            open.push(next.clone());
            issues.push(next);
        }
    }
    eventually("the daemon answers", || {
        if !rig.is_up() {
            rig.up();
        }
        rig.world.status().is_some()
    });
    rig.settle(&issues);
    rig.check(&issues);
    println!(
        "{blows} blows killed {hit} processes, {stops} were stopped and continued, {jumps} jumps of the clock; {} issues, {} agents, {:.0?}",
        issues.len(),
        rig.starts(),
        started.elapsed()
    );
}
