//! A short run of the simulation, of which `cargo xtask simulate` is the long one.
#![allow(clippy::unwrap_used, reason = "a broken assumption fails the test")]

use std::time::Duration;

use vik_sim::{Campaign, Fault, run_seed, self_test};

fn campaign(threads: usize) -> Campaign {
    Campaign {
        first: 1,
        seeds: 24,
        steps: 400,
        fault: None,
        events: 40,
        threads,
    }
}

fn quietly(_: u64, _: u64, _: Duration) {}

#[test]
fn invariants_hold_in_many_worlds_with_any_number_of_threads() {
    let alone = campaign(1).run(quietly);
    assert_eq!(alone.failure, None);
    assert!(alone.steps > 24 * 400 && alone.seeds == 24);
    assert_eq!(alone.hash, campaign(3).run(quietly).hash);
}

#[test]
fn failing_seed_fails_again_in_the_same_way() {
    let run = |seed| run_seed(seed, 1_000, Some(Fault::DoubleSpawn), 10);
    let seed = (1..50).find(|seed| run(*seed).is_err()).unwrap();
    let fail = || run(seed);
    let (once, again) = (fail().unwrap_err(), fail().unwrap_err());
    assert_eq!(once, again);
    assert_eq!(once.events.len(), 10);
    assert_ne!(
        run_seed(2, 300, None, 0).unwrap().hash,
        run_seed(3, 300, None, 0).unwrap().hash
    );
}

#[test]
fn planted_faults_are_found() {
    let caught = self_test(1, 400, 1_000, 2);
    let missed: Vec<_> = caught
        .iter()
        .filter(|caught| caught.found.is_none())
        .map(|caught| caught.fault.name())
        .collect();
    assert_eq!(missed, [""; 0]);
    assert!(caught.len() >= 12);
}
