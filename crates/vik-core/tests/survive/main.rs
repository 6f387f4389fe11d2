//! What must hold whatever happens: whoever lies, whatever comes late, and however often the daemon
//! dies.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a broken assumption fails the test"
)]

mod rules;
mod world;

use proptest::prelude::*;
use vik_core::outcome::{FailureClass, Outcome};

use world::{ISSUES, STATES, Step, World};

fn class() -> impl Strategy<Value = Option<FailureClass>> {
    prop_oneof![
        5 => Just(Some(FailureClass::Agent)),
        1 => Just(Some(FailureClass::Auth)),
        1 => Just(Some(FailureClass::Hook)),
        1 => Just(Some(FailureClass::RateLimit)),
        1 => Just(Some(FailureClass::UnprovenEnd)),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        4 => Just(Outcome::Succeeded),
        4 => Just(Outcome::Failed),
        1 => Just(Outcome::TimedOut),
        1 => Just(Outcome::Cancelled),
        1 => Just(Outcome::OverBudget),
        1 => Just(Outcome::Lost),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 0..ISSUES;
    let end = (0..8usize, outcome(), class(), prop::option::of(0..200u64));
    prop_oneof![
        8 => prop::collection::vec(prop::option::weighted(0.9, 0..STATES.len()), ISSUES).prop_map(Step::Pull),
        6 => prop::collection::vec(Just(Some(0)), ISSUES).prop_map(Step::Pull),
        1 => Just(Step::FailedPull),
        10 => end.prop_map(|(nth, outcome, class, tokens)| Step::End(nth, outcome, class, tokens)),
        3 => (0..8usize, 0..200u64).prop_map(|(nth, tokens)| Step::Spent(nth, tokens)),
        6 => (0..900u64).prop_map(Step::Wait),
        1 => (-30..30i64).prop_map(Step::Jump),
        1 => number().prop_map(Step::Edit),
        2 => Just(Step::Crash),
        1 => prop::option::of(number()).prop_map(Step::Pause),
        2 => prop::option::of(number()).prop_map(Step::Continue),
        1 => number().prop_map(Step::Cancel),
        1 => (number(), prop::option::of(0..3u32)).prop_map(|(number, more)| Step::Retry(number, more)),
        6 => (0..8usize, 0..4u8).prop_map(|(nth, how)| Step::Show(nth, how)),
        2 => (0..8usize, any::<bool>()).prop_map(|(nth, removed)| Step::Removed(nth, removed)),
        1 => prop::bool::weighted(0.3).prop_map(Step::Pressure),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn survival_rules_hold_under_any_steps(show in any::<bool>(), steps in prop::collection::vec(step(), 1..150)) {
        let mut world = World::new(show);
        for step in &steps {
            world.apply(step);
        }
    }
}
