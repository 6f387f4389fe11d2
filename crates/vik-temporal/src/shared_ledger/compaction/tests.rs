use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;
use vik_core::changes::Stored;
use vik_store::ledger::{LedgerCopy, LogId};

use super::*;

const ISSUES: u8 = 6;

/// Returns a machine in its `version`; each second one is idle.
fn machine(issue: u8, version: u32) -> IssueMachine {
    let id = format!("A-{issue}");
    let payload = json!({"id": id, "title": "T", "state": "todo"}).to_string();
    serde_json::from_value(json!({
        "issue": {"id": id, "title": "T", "state": "todo", "payload": payload},
        "present": true,
        "runs": [],
        "life": {"attempts": version, "extra_attempts": 0, "spend": {"tokens": version, "usd": 0}},
        "paused": issue.is_multiple_of(2),
    }))
    .unwrap()
}

fn open_copy(folder: &TempDir, start: u64) -> LedgerCopy {
    let log: LogId = "log".parse().unwrap();
    LedgerCopy::start_over(folder.path(), &log, start).unwrap().0
}

/// Returns everything that is decided with.
fn content(folder: &TempDir, copy: LedgerCopy) -> (Stored, Vec<IssueMachine>) {
    let all = (0..ISSUES).map(|issue| IssueId::from(format!("A-{issue}").as_str()));
    let machines = copy.recall(all.collect()).wait().unwrap();
    copy.close().unwrap();
    (open(folder.path()).unwrap().stored().unwrap(), machines)
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// An entry changes this issue.
    Change(u8),
    /// The next part is read from the copy, and is written after this number of further entries.
    ReadPart(usize),
    /// The copy adds the next entry.
    Copy,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..ISSUES).prop_map(Step::Change),
        2 => (0..3_usize).prop_map(Step::ReadPart),
        3 => Just(Step::Copy),
    ]
}

/// The log of a hub that leads, whose copy may be behind.
struct Leader {
    log: Vec<Changes>,
    copy: LedgerCopy,
    copied: usize,
    versions: [u32; ISSUES as usize],
}

impl Leader {
    fn change(&mut self, issue: u8) -> Changes {
        let version = &mut self.versions[usize::from(issue)];
        *version += 1;
        let changes = Changes {
            machines: vec![machine(issue, *version)],
            ..Changes::default()
        };
        self.log.push(changes.clone());
        changes
    }

    fn copy_next(&mut self) {
        if let Some(changes) = self.log.get(self.copied) {
            self.copied += 1;
            let committed = self.copy.commit_entry(self.copied as u64, changes.clone());
            committed.wait().unwrap();
        }
    }

    fn copy_all(&mut self) {
        while self.copied < self.log.len() {
            self.copy_next();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// However decisions and parts of a snapshot alternate, and however far the copy is behind: the
    /// log from the snapshot on has everything, and its parts change nothing for other copies.
    #[test]
    fn log_from_a_snapshot_on_is_the_whole_log(
        before in prop::collection::vec(0..ISSUES, 0..8),
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let folders = [(); 3].map(|()| TempDir::new().unwrap());
        let mut leader = Leader {
            log: Vec::new(),
            copy: open_copy(&folders[0], 0),
            copied: 0,
            versions: [0; ISSUES as usize],
        };
        for issue in before {
            leader.change(issue);
        }
        leader.copy_all();
        let start = leader.log.len();
        let mut snapshot = open(folders[0].path()).unwrap().into_snapshot(0);
        leader.log.push(snapshot.next().unwrap().unwrap());
        let mut changed = ChangedIssues::default();
        let mut decisions = leader.log.clone();
        let mut waiting: Option<(usize, Vec<IssueMachine>)> = None;
        let parts = (0..=2 * ISSUES).map(|_| Step::ReadPart(0));
        for step in steps.into_iter().chain(parts) {
            match step {
                Step::Change(issue) => {
                    let changes = leader.change(issue);
                    changed.add(&changes);
                    decisions.push(changes);
                }
                Step::Copy => leader.copy_next(),
                Step::ReadPart(delay) if waiting.is_none() => {
                    let part = snapshot.next().transpose().unwrap();
                    waiting = part.map(|part| (delay, part.machines));
                }
                Step::ReadPart(_) => {}
            }
            match waiting.take() {
                Some((0, mut machines)) => {
                    changed.remove_from(&mut machines);
                    leader.log.push(Changes { machines, ..Changes::default() });
                }
                later => waiting = later.map(|(delay, machines)| (delay - 1, machines)),
            }
        }
        prop_assert!(snapshot.next().is_none() && waiting.is_none());
        leader.copy_all();
        let new = open_copy(&folders[1], start as u64);
        for (position, changes) in (start as u64 + 1..).zip(&leader.log[start..]) {
            new.commit_entry(position, changes.clone()).wait().unwrap();
        }
        let without_parts = open_copy(&folders[2], 0);
        for (position, changes) in (1..).zip(decisions) {
            without_parts.commit_entry(position, changes).wait().unwrap();
        }
        let expected = content(&folders[2], without_parts);
        prop_assert_eq!(&content(&folders[0], leader.copy), &expected);
        prop_assert_eq!(content(&folders[1], new), expected);
    }
}

#[test]
fn limit_is_five_states_and_at_least_the_minimum() {
    let limits = CompactionLimits {
        min_bytes: 100,
        max_part_bytes: 1,
    };
    for (state, limit) in [(0, 100), (20, 100), (21, 105), (u64::MAX, u64::MAX)] {
        assert_eq!(limits.limit(state), limit);
    }
}
