//! Tests that the ledger returns exactly the committed changes.

use std::collections::BTreeMap;

use jiff::civil::Date;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    /// The issue, the increments of its counters, and its runs with stage and phase.
    IssueMachine(usize, u32, u64, Vec<(bool, bool)>),
    Day(i8, u64),
    Pause(bool),
    Decide,
    /// The ledger is closed and opened again.
    Reopen,
    /// The files that a crash would leave are opened, and the test continues with them.
    Crash,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..4_usize, 0..3_u32, 0..1000_u64, prop::collection::vec(any::<(bool, bool)>(), 0..3))
            .prop_map(|(issue, attempts, tokens, runs)| Op::IssueMachine(issue, attempts, tokens, runs)),
        2 => (1..6_i8, 0..i64::MAX as u64).prop_map(|(day, tokens)| Op::Day(day, tokens)),
        1 => any::<bool>().prop_map(Op::Pause),
        1 => Just(Op::Decide),
        1 => Just(Op::Reopen),
        1 => Just(Op::Crash),
    ]
}

/// Ids that a tracker may use.
const IDS: [&str; 4] = ["A-1", "../x'; DROP TABLE issues;--", "ünï \n\t\"q\"", "0"];

#[derive(Default)]
struct Model {
    life: BTreeMap<usize, (u32, u64)>,
    machines: BTreeMap<String, IssueMachine>,
    days: BTreeMap<Date, Charges>,
    paused: bool,
    runs: u64,
}

impl Model {
    fn changes(&mut self, op: &Op) -> Changes {
        let mut changes = Changes::default();
        match op {
            Op::IssueMachine(issue, attempts, tokens, runs) => {
                let life = self.life.entry(*issue).or_default();
                *life = (life.0 + attempts, life.1 + tokens);
                let mut list = Vec::new();
                for (review, is_parked) in runs {
                    self.runs += 1;
                    let phase = if *is_parked { parked("lost") } else { settling() };
                    list.push(run(
                        self.runs,
                        if *review { "review" } else { "plan" },
                        *attempts,
                        &phase,
                    ));
                }
                let machine = machine(IDS[*issue], life.0, life.1, &list);
                self.machines.insert(IDS[*issue].to_owned(), machine.clone());
                changes.machines.push(machine);
            }
            Op::Day(day, tokens) => {
                let date = jiff::civil::date(2027, 1, *day);
                let charges = Charges {
                    total: Spend {
                        tokens: *tokens,
                        usd: MicroUsd(tokens / 2),
                    },
                    estimated: Spend {
                        tokens: tokens / 3,
                        usd: MicroUsd(0),
                    },
                };
                let known = self.days.entry(date).or_default();
                *known = known.max(charges);
                changes.days.push((date, charges));
            }
            Op::Pause(paused) => {
                self.paused = *paused;
                changes.paused = Some(*paused);
            }
            Op::Decide => changes.decisions.push(decision(Some("A-1"), 1)),
            Op::Reopen | Op::Crash => {}
        }
        changes
    }

    fn stored(&self) -> Stored {
        Stored {
            machines: self
                .machines
                .values()
                .filter(|machine| !machine.is_idle())
                .cloned()
                .collect(),
            days: self.days.iter().map(|(day, charges)| (*day, *charges)).collect(),
            paused: self.paused,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn reopened_ledger_equals_the_commits(ops in prop::collection::vec(op(), 1..30)) {
        let mut folder = TempDir::new().unwrap();
        let mut model = Model::default();
        let (mut ledger, _) = Ledger::open(folder.path()).unwrap();
        for op in ops.into_iter().chain([Op::Crash, Op::Reopen]) {
            match op {
                Op::Reopen => {
                    ledger.close().unwrap();
                    let (opened, stored) = Ledger::open(folder.path()).unwrap();
                    prop_assert_eq!(stored, model.stored());
                    ledger = opened;
                }
                Op::Crash => {
                    let copied = TempDir::new().unwrap();
                    copy(folder.path(), copied.path(), &[DB, WAL, LOCK]);
                    let (opened, stored) = Ledger::open(copied.path()).unwrap();
                    prop_assert_eq!(stored, model.stored());
                    (ledger, folder) = (opened, copied);
                }
                op => ledger.commit(model.changes(&op)).wait().unwrap(),
            }
            let reader = Reader::open(folder.path()).unwrap().unwrap();
            prop_assert_eq!(reader.stored().unwrap(), model.stored());
            let all: Vec<IssueId> = model.machines.keys().map(|id| id.as_str().into()).collect();
            let machines: Vec<_> = model.machines.values().cloned().collect();
            prop_assert_eq!(ledger.recall(all).wait().unwrap(), machines, "also those that are not loaded");
            let parked: usize = model.machines.values().flat_map(|machine| machine.runs())
                .filter(|run| matches!(run.phase, vik_core::machine::Phase::Parked { .. })).count();
            prop_assert_eq!(reader.parked().unwrap().len(), parked);
        }
    }
}

#[test]
fn queued_commits_are_stored_in_order_and_together() {
    let (folder, ledger) = empty();
    let commits: Vec<_> = (1..=3000_u32)
        .map(|number| ledger.commit(of_machine(machine("A-1", number, 0, &[]))))
        .collect();
    for commit in commits {
        commit.wait().unwrap();
    }
    drop(ledger);
    let (ledger, stored) = Ledger::open(folder.path()).unwrap();
    assert_eq!(stored.machines, [], "no issue is in use");
    let recalled = ledger.recall(vec!["A-1".into(), "A-2".into()]).wait().unwrap();
    assert_eq!(recalled, [machine("A-1", 3000, 0, &[])]);
    let Health::Good { commits, .. } = check(folder.path()) else {
        panic!("not good")
    };
    assert!(commits < 3000, "{commits} commits for 3000 changes");
}
