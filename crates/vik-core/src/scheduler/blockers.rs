//! Issues that wait for other issues (`blocked_by`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Hold, LookupResult, Scheduler};
use crate::decision_kind::DecisionKind;
use crate::ids::IssueId;
use crate::issue::{Issue, UNREADABLE_BLOCKER};
use crate::machine::RootCause;
use crate::time::Now;

/// The dependencies between issues.
#[derive(Clone, Debug, Default)]
pub(super) struct Blockers {
    holds: HashMap<IssueId, Hold>,
    /// Issues of the last successful pull that match no stage, kept because some may be blockers.
    others: HashMap<IssueId, Issue>,
    /// Blockers that no pull returns, with the result of their lookup.
    absent: BTreeMap<IssueId, Absent>,
}

#[derive(Clone, Debug)]
enum Absent {
    /// The issue is terminal or missing, or the workflow has no `show` command.
    Closed,
    Open(Arc<[IssueId]>),
    /// The lookup has no result yet.
    Unknown,
}

impl Blockers {
    pub(super) fn hold(&self, issue: &IssueId) -> Option<&Hold> {
        self.holds.get(issue)
    }
}

impl Scheduler {
    /// Updates the blockers after a successful pull. `others` are its issues that match no stage.
    pub(super) fn update_blockers(&mut self, others: HashMap<IssueId, Issue>, now: Now) {
        self.blockers.others = others;
        let open: BTreeSet<_> = self.absent_blockers().collect();
        self.blockers.absent.retain(|id, _| open.contains(id));
        for id in open {
            let known = self.blockers.absent.get(&id);
            // A closed blocker stays closed; the others are looked up again.
            if matches!(known, Some(Absent::Closed)) {
                continue;
            }
            if self.request_lookup(&id, None, now) {
                self.blockers.absent.entry(id).or_insert(Absent::Unknown);
            } else {
                let detail =
                    "another issue is blocked by it, but no pull returns it; it is ignored as a blocker";
                self.decide(now, DecisionKind::BlockerAbsent, &id, detail.to_owned());
                self.blockers.absent.insert(id, Absent::Closed);
            }
        }
        self.update_blocked_holds(now);
    }

    /// Updates the blockers after a lookup returned another `blocked_by` than the last successful
    /// pull.
    pub(super) fn refresh_blockers(&mut self, now: Now) {
        let others = std::mem::take(&mut self.blockers.others);
        self.update_blockers(others, now);
    }

    /// Returns the blockers that are missing from the last successful pull.
    fn absent_blockers(&self) -> impl Iterator<Item = IssueId> {
        let matching = self.order.iter().filter_map(|id| self.machines.get(id));
        let direct = matching.flat_map(|machine| machine.issue().blocked_by.iter());
        let others = self
            .blockers
            .others
            .values()
            .flat_map(|issue| issue.blocked_by.iter());
        direct
            .chain(others)
            .filter(|id| id.as_str() != UNREADABLE_BLOCKER && self.pulled_issue(id).is_none())
            .cloned()
    }

    fn pulled_issue(&self, id: &IssueId) -> Option<&Issue> {
        let machine = self.machines.get(id).filter(|machine| machine.is_present());
        machine
            .map(|machine| machine.issue())
            .or_else(|| self.blockers.others.get(id))
    }

    /// Updates a blocker after its lookup.
    pub(super) fn on_blocker_lookup(&mut self, id: &IssueId, seen: &LookupResult, now: Now) {
        let Some(absent) = self.blockers.absent.get_mut(id) else {
            return;
        };
        *absent = match seen {
            LookupResult::Snapshot(issue) if self.workflow.is_terminal(&issue.state) => Absent::Closed,
            LookupResult::Snapshot(issue) => Absent::Open(Arc::clone(&issue.blocked_by)),
            LookupResult::Missing => Absent::Closed,
            // The result of an earlier lookup stays valid.
            LookupResult::Unknown => return,
        };
        self.update_blocked_holds(now);
    }

    /// Returns the blockers of an issue that is open; `None` if the issue is closed.
    fn open_blockers_of(&self, id: &IssueId) -> Option<&[IssueId]> {
        if id.as_str() == UNREADABLE_BLOCKER {
            return Some(&[]);
        }
        match self.pulled_issue(id) {
            Some(issue) if self.workflow.is_terminal(&issue.state) => None,
            Some(issue) => Some(&issue.blocked_by),
            None => match self.blockers.absent.get(id)? {
                Absent::Closed => None,
                Absent::Open(blocked_by) => Some(blocked_by),
                Absent::Unknown => Some(&[]),
            },
        }
    }

    /// Returns the issues that wait for others and all those behind them, each with its open blockers.
    fn open_blockers(&self) -> BTreeMap<IssueId, Vec<IssueId>> {
        let mut open: BTreeMap<IssueId, Vec<IssueId>> = BTreeMap::new();
        let waits = |id: &&IssueId| {
            self.open_blockers_of(id)
                .is_some_and(|blockers| !blockers.is_empty())
        };
        let mut ahead: Vec<IssueId> = self.order.iter().filter(waits).cloned().collect();
        while let Some(id) = ahead.pop() {
            if open.contains_key(&id) {
                continue;
            }
            let blockers = self.open_blockers_of(&id).unwrap_or_default();
            let mut still: Vec<_> = blockers
                .iter()
                .filter(|blocker| self.open_blockers_of(blocker).is_some())
                .cloned()
                .collect();
            still.dedup();
            ahead.extend(still.iter().cloned());
            open.insert(id, still);
        }
        open
    }

    /// Recomputes which issues are held, and returns what changed.
    pub(super) fn update_blocked_holds(&mut self, now: Now) {
        let open = self.open_blockers();
        let cycles = cycles(&open);
        let mut holds = HashMap::new();
        for id in &self.order {
            let Some(by) = open.get(id) else { continue };
            let hold = match cycles.get(id) {
                Some(issues) => Hold::Cycle {
                    issues: Arc::clone(issues),
                },
                None if by.is_empty() => continue,
                None => Hold::Blocked {
                    by: by.as_slice().into(),
                    root: None,
                },
            };
            holds.insert(id.clone(), hold);
        }
        let before = std::mem::replace(&mut self.blockers.holds, holds);
        self.record_blocked_changes(&before, now);
    }

    fn record_blocked_changes(&mut self, before: &HashMap<IssueId, Hold>, now: Now) {
        let mut changed: Vec<_> = before
            .keys()
            .chain(self.blockers.holds.keys())
            .filter(|id| before.get(*id) != self.blockers.holds.get(*id))
            .cloned()
            .collect();
        changed.sort();
        changed.dedup();
        for id in changed {
            let list = |ids: &[IssueId]| ids.iter().map(IssueId::as_str).collect::<Vec<_>>().join(", ");
            let (kind, detail) = match self.blockers.holds.get(&id) {
                Some(Hold::Cycle { issues }) => (
                    DecisionKind::Cycle,
                    format!("these issues wait for each other: {}", list(issues)),
                ),
                Some(Hold::Blocked { by, .. }) => (DecisionKind::Blocked, format!("blocked by {}", list(by))),
                _ => (DecisionKind::Unblocked, "all blockers are closed".to_owned()),
            };
            self.decide(now, kind, &id, detail);
            // The ledger needs the change when no daemon runs that can answer.
            if self.machines.contains_key(&id) {
                self.changed.insert(id);
            }
        }
    }

    /// Returns the parked issue at the root of each chain that blocks an issue. One search finds all.
    pub(super) fn root_causes(&self) -> HashMap<IssueId, RootCause> {
        let parked = |id: &IssueId| self.machines.get(id)?.parked(&self.workflow);
        let nearest = nearest(&self.open_blockers(), |id| parked(id).is_some());
        nearest
            .into_iter()
            .filter_map(|(id, root)| Some((id, parked(&root)?)))
            .collect()
    }

    /// Returns the issues that wait for this one, directly or indirectly, sorted.
    pub fn dependents(&self, id: &IssueId) -> Vec<IssueId> {
        let mut waits: HashMap<&IssueId, Vec<&IssueId>> = HashMap::new();
        for (dependent, hold) in &self.blockers.holds {
            if let Hold::Blocked { by, .. } = hold {
                for blocker in by.iter() {
                    waits.entry(blocker).or_default().push(dependent);
                }
            }
        }
        let mut found = BTreeSet::new();
        let mut ahead = vec![id];
        while let Some(blocker) = ahead.pop() {
            for dependent in waits.get(blocker).into_iter().flatten() {
                if *dependent != id && found.insert((*dependent).clone()) {
                    ahead.push(dependent);
                }
            }
        }
        found.into_iter().collect()
    }
}

/// Returns, for each issue, the nearest parked one among its blockers and theirs; of several that are as near, the one
/// with the smallest id. The search starts at the parked issues and follows dependents, level by level.
pub fn nearest(
    open: &BTreeMap<IssueId, Vec<IssueId>>,
    is_parked: impl Fn(&IssueId) -> bool,
) -> HashMap<IssueId, IssueId> {
    let mut dependents: HashMap<&IssueId, Vec<&IssueId>> = HashMap::new();
    for (dependent, blockers) in open {
        for blocker in blockers {
            dependents.entry(blocker).or_default().push(dependent);
        }
    }
    let mut found: HashMap<IssueId, IssueId> = HashMap::new();
    // Issues at the same distance from the parked issue beside them, which is sorted.
    let mut level: Vec<(&IssueId, &IssueId)> = open
        .keys()
        .filter(|id| is_parked(id))
        .map(|id| (id, id))
        .collect();
    while !level.is_empty() {
        let mut next = Vec::new();
        for (parked, blocker) in level {
            for dependent in dependents.get(blocker).into_iter().flatten() {
                if *dependent == parked || found.contains_key(*dependent) {
                    continue;
                }
                found.insert((*dependent).clone(), parked.clone());
                // Behind one that is parked itself, that one is nearer.
                if !is_parked(dependent) {
                    next.push((parked, *dependent));
                }
            }
        }
        level = next;
    }
    found
}

/// Returns the members of dependency cycles, each with its whole cycle: the strongly connected
/// components with more than one issue, and issues that wait for themselves (Tarjan, without
/// recursion, because a chain may have thousands of issues).
fn cycles(open: &BTreeMap<IssueId, Vec<IssueId>>) -> HashMap<IssueId, Arc<[IssueId]>> {
    let ids: Vec<&IssueId> = open.keys().collect();
    let number: HashMap<&IssueId, usize> = ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let edges: Vec<Vec<usize>> = open
        .values()
        .map(|to| to.iter().filter_map(|id| number.get(id).copied()).collect())
        .collect();
    let mut found = HashMap::new();
    let mut index = vec![usize::MAX; ids.len()];
    let mut low = vec![0; ids.len()];
    let mut on_stack = vec![false; ids.len()];
    let (mut stack, mut next) = (Vec::new(), 0);
    for root in 0..ids.len() {
        if index[root] != usize::MAX {
            continue;
        }
        // The current path, each node with the next edge to visit.
        let mut way = vec![(root, 0)];
        while let Some((node, edge)) = way.pop() {
            if edge == 0 {
                index[node] = next;
                low[node] = next;
                next += 1;
                stack.push(node);
                on_stack[node] = true;
            } else {
                let child = edges[node][edge - 1];
                if on_stack[child] {
                    low[node] = low[node].min(low[child]);
                }
            }
            if let Some(&child) = edges[node].get(edge) {
                way.push((node, edge + 1));
                if index[child] == usize::MAX {
                    way.push((child, 0));
                }
                continue;
            }
            if low[node] != index[node] {
                continue;
            }
            let mut members = Vec::new();
            while let Some(member) = stack.pop() {
                on_stack[member] = false;
                members.push(member);
                if member == node {
                    break;
                }
            }
            if members.len() > 1 || edges[node].contains(&node) {
                members.sort_unstable();
                let names: Arc<[IssueId]> = members.iter().map(|&member| ids[member].clone()).collect();
                for member in members {
                    found.insert(ids[member].clone(), Arc::clone(&names));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &[&str])]) -> BTreeMap<IssueId, Vec<IssueId>> {
        let ids = |names: &[&str]| names.iter().map(|name| IssueId::from(*name)).collect();
        edges
            .iter()
            .map(|(from, to)| (IssueId::from(*from), ids(to)))
            .collect()
    }

    #[test]
    fn cycles_have_all_members_and_no_dependents() {
        let found = cycles(&graph(&[
            ("a", &["b"]),
            ("b", &["c", "d"]),
            ("c", &["a"]),
            ("d", &[]),
            ("e", &["a"]),
            ("f", &["f"]),
            ("g", &["d"]),
        ]));
        let name = |id: &str| {
            let issues = found.get(&IssueId::from(id))?;
            Some(issues.iter().map(IssueId::as_str).collect::<Vec<_>>().join(""))
        };
        assert_eq!(
            ["a", "b", "c", "d", "e", "f", "g"].map(name),
            [
                Some("abc".into()),
                Some("abc".into()),
                Some("abc".into()),
                None,
                None,
                Some("f".into()),
                None
            ]
        );
    }

    #[test]
    fn nearest_parked_blocker_is_found_in_any_graph() {
        let edges = graph(&[
            ("chain", &["a"]),
            ("a", &["b"]),
            ("b", &["parked-2"]),
            ("diamond", &["left", "right"]),
            ("left", &["parked-2"]),
            ("right", &["parked-1"]),
            ("round", &["about"]),
            ("about", &["round", "c"]),
            ("c", &["parked-3"]),
            ("endless", &["endless"]),
            ("near", &["parked-3", "left"]),
            ("parked-1", &["parked-3"]),
            ("parked-2", &[]),
            ("parked-3", &[]),
        ]);
        let found = nearest(&edges, |id| id.as_str().starts_with("parked"));
        for (id, expected) in [
            ("chain", Some("parked-2")),
            ("diamond", Some("parked-1")),
            ("round", Some("parked-3")),
            ("near", Some("parked-3")),
            ("parked-1", Some("parked-3")),
            ("endless", None),
            ("alone", None),
        ] {
            assert_eq!(
                found.get(&IssueId::from(id)).map(IssueId::as_str),
                expected,
                "{id}"
            );
        }
    }

    /// The definition of [`nearest`], for one issue: follows blockers level by level.
    fn nearest_by_definition(
        start: &IssueId,
        open: &BTreeMap<IssueId, Vec<IssueId>>,
        is_parked: impl Fn(&IssueId) -> bool,
    ) -> Option<IssueId> {
        let mut seen = BTreeSet::from([start.clone()]);
        let mut level = seen.clone();
        while !level.is_empty() {
            let next: BTreeSet<_> = level.iter().flat_map(|id| open[id].clone()).collect();
            level = next.into_iter().filter(|id| seen.insert(id.clone())).collect();
            if let Some(found) = level.iter().find(|id| is_parked(id)) {
                return Some(found.clone());
            }
        }
        None
    }

    proptest::proptest! {
        #[test]
        fn nearest_of_all_issues_is_that_of_each(
            edges in proptest::collection::vec((0..12_u8, 0..12_u8), 0..30),
            parked in proptest::collection::btree_set(0..12_u8, 0..5),
        ) {
            let id = |number: u8| IssueId::new(format!("{number:02}"));
            let mut open: BTreeMap<_, Vec<_>> = (0..12).map(|number| (id(number), Vec::new())).collect();
            for (from, to) in edges {
                open.entry(id(from)).or_default().push(id(to));
            }
            let parked: BTreeSet<_> = parked.into_iter().map(id).collect();
            let is_parked = |id: &IssueId| parked.contains(id);
            let calls = std::cell::Cell::new(0);
            let counted = |id: &IssueId| {
                calls.set(calls.get() + 1);
                is_parked(id)
            };
            let (found, cycles) = (nearest(&open, counted), cycles(&open));
            proptest::prop_assert!(calls.get() <= 2 * open.len(), "each issue is visited once");
            for id in open.keys() {
                // One that waits for itself is held for its cycle, and has no root cause.
                if is_parked(id) && cycles.contains_key(id) {
                    continue;
                }
                let expected = nearest_by_definition(id, &open, is_parked);
                proptest::prop_assert_eq!(found.get(id), expected.as_ref(), "{}", id);
            }
        }
    }

    #[test]
    fn cycle_search_handles_long_chains() {
        let chain: BTreeMap<_, _> = (0..50_000)
            .map(|number: u32| {
                let id = |number: u32| IssueId::new(format!("{number:06}"));
                (id(number), vec![id(number + 1)])
            })
            .collect();
        assert!(cycles(&chain).is_empty());
    }
}
