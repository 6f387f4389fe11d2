//! What goes wrong, and when: a seed chooses it, and progress triggers it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::Serialize;

use super::record::{Fault, LAST, Piece, STAGES, Step, Taken};
use super::scene::Scene;
use crate::interrupt::pause;
use crate::repo::{Context as _, TaskResult};

/// The interval of reading the progress.
const INTERVAL: Duration = Duration::from_millis(50);
/// How long Redmine hangs at least: as long as a request of the tracker may take.
const HANG: Duration = Duration::from_secs(30);
/// How long the daemon runs after the last move: it must not change anything more.
const QUIET: Duration = Duration::from_secs(5);
/// The states of issues that a person takes.
const CANCELLED: &str = "Rejected";
const MOVED_BACK: &str = "Feedback";

/// A fault that follows this report of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    pub fault: Fault,
    pub step: Step,
    pub number: usize,
    /// How long Redmine or Vik is down, or the key is wrong.
    pub lasts: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub issues: u32,
    pub failures: BTreeSet<Piece>,
    pub moments: Vec<Moment>,
    /// The issue that a person cancels, and the one that a person moves back.
    pub taken: [Taken; 2],
}

/// SplitMix64: the seed determines all values.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % sides as u64).unwrap_or(0)
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.roll(at + 1));
        }
    }
}

impl Plan {
    pub fn new(seed: u64, issues: u32) -> Self {
        let mut dice = Dice(seed);
        let mut ids: Vec<String> = (1..=issues).map(|id| id.to_string()).collect();
        dice.shuffle(&mut ids);
        let stage = STAGES[dice.roll(STAGES.len())].0;
        let taken =
            [(&ids[0], stage, CANCELLED), (&ids[1], "review", MOVED_BACK)].map(|(issue, stage, to)| Taken {
                piece: Piece::new(issue, stage),
                to: to.to_owned(),
            });
        // A fifth of the others fails once.
        let others = ids[2..].iter().take((issues as usize / 5).max(1));
        let failures = others.map(|issue| Piece::new(issue, STAGES[dice.roll(STAGES.len())].0));
        let failures = failures.collect();
        let mut faults = [
            Fault::KillRedmine,
            Fault::KillRedmine,
            Fault::WrongKey,
            Fault::Hang,
            Fault::KillVik,
        ];
        dice.shuffle(&mut faults);
        // Each step has at least `2 * issues - 3` reports. Some follow the last fault.
        let section = (issues as usize * 2 - 3) * 2 / 3 / faults.len();
        let moments = faults.into_iter().enumerate().map(|(nth, fault)| Moment {
            fault,
            step: match fault {
                // An agent is running.
                Fault::KillVik => Step::Run,
                _ => [Step::Run, Step::Try, Step::Comment][dice.roll(3)],
            },
            number: nth * section + 1 + dice.roll(section),
            lasts: Duration::from_secs(2 + dice.roll(6) as u64),
        });
        let moments = moments.collect();
        Self {
            issues,
            failures,
            moments,
            taken,
        }
    }
}

/// Lets the daemon work until everything has happened. Returns the faults that struck, each with
/// the number of reports before it.
pub fn run(scene: &mut Scene, plan: &Plan, within: Duration) -> TaskResult<Vec<(Fault, usize)>> {
    let until = Instant::now() + within;
    let mut moments = plan.moments.iter();
    let mut next = moments.next().copied();
    let mut untaken: Vec<&Taken> = plan.taken.iter().collect();
    let mut struck = Vec::new();
    let mut shown = (0, 0);
    // The first report of the present daemon: agents of an earlier one do not run any more.
    let mut from = 0;
    loop {
        scene.check()?;
        let reports = scene.reports()?;
        let count = |step| reports.iter().filter(|report| report.step == step).count();
        if let Some(moment) = next.filter(|moment| count(moment.step) >= moment.number) {
            eprintln!("{:?} after {:?} {}", moment.fault, moment.step, moment.number);
            struck.push((moment.fault, reports.len()));
            strike(scene, &moment)?;
            if moment.fault == Fault::KillVik {
                from = reports.len();
            }
            // The work goes on before something else fails.
            let reports = scene.reports()?;
            next = moments.next().copied().map(|moment| {
                let count = reports.iter().filter(|report| report.step == moment.step).count();
                Moment {
                    number: moment.number.max(count + 1),
                    ..moment
                }
            });
            continue;
        }
        let is_there = |taken: &&Taken| {
            reports[from..]
                .iter()
                .any(|report| report.step == Step::Run && report.piece == taken.piece)
        };
        if let Some(at) = untaken.iter().position(is_there) {
            let Taken { piece, to } = untaken.remove(at);
            eprintln!(
                "a person moves issue {} to {to} during {}",
                piece.issue, piece.stage
            );
            scene.redmine.move_issue(&piece.issue, to)?;
            // The agent of a cancelled issue waits until Vik stops it.
            if to == MOVED_BACK {
                let gate = scene.env.path(format!("gates/{piece}"));
                std::fs::remove_file(gate).context(format!("gates/{piece}"))?;
            }
        }
        let is_taken = |issue: &str| plan.taken.iter().any(|taken| taken.piece.issue == *issue);
        let states = scene.redmine.states()?;
        let done = states
            .iter()
            .filter(|(issue, state)| state == LAST && !is_taken(issue))
            .count();
        let expected = states.iter().filter(|(issue, _)| !is_taken(issue)).count();
        if shown != (done, count(Step::Run)) {
            shown = (done, count(Step::Run));
            eprintln!("{done} of {expected} issues are done, {} agents ran", shown.1);
        }
        let is_over = Instant::now() > until;
        if is_over {
            eprintln!("not everything was done within {} s", within.as_secs());
        }
        if is_over || (done == expected && untaken.is_empty()) {
            pause(QUIET)?;
            return Ok(struck);
        }
        pause(INTERVAL)?;
    }
}

fn strike(scene: &mut Scene, moment: &Moment) -> TaskResult {
    match moment.fault {
        Fault::KillRedmine => {
            scene.redmine.signal(Signal::SIGKILL);
            pause(moment.lasts)?;
            scene.redmine.start()
        }
        Fault::WrongKey => {
            scene.redmine.set_key_validity(false)?;
            pause(moment.lasts)?;
            scene.redmine.set_key_validity(true)
        }
        Fault::Hang => {
            scene.redmine.signal(Signal::SIGSTOP);
            pause(HANG + moment.lasts)?;
            scene.redmine.signal(Signal::SIGCONT);
            Ok(())
        }
        Fault::KillVik => {
            scene.kill_daemon();
            pause(moment.lasts)?;
            scene.start_daemon()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_depends_on_the_seed_alone_and_fits_few_issues() {
        assert_eq!(Plan::new(7, 25), Plan::new(7, 25));
        assert_ne!(Plan::new(7, 25), Plan::new(8, 25));
        for seed in 0..200 {
            let plan = Plan::new(seed, 10);
            let is_taken = |piece: &Piece| plan.taken.iter().any(|taken| taken.piece.issue == piece.issue);
            assert!(!plan.failures.iter().any(is_taken), "{plan:?}");
            assert!(plan.moments.iter().all(|moment| moment.number <= 11), "{plan:?}");
            assert!(plan.moments.is_sorted_by_key(|moment| moment.number), "{plan:?}");
        }
    }
}
