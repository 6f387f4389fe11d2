use std::collections::HashMap;

use vik_daemon::InstanceInfo;
use vik_proc::{Audited, Mark, ProcessId};
use vik_session::host::{ATTEMPT_MARK, INSTANCE_MARK, SHIM_MARK};

use super::super::orphans::{KnownInstance, OwnedProcess, Owner, find_owner, text};

const ATTEMPT: &str = "0195fbe3-0000-7000-8000-000000000001";

fn process(pid: i32) -> ProcessId {
    ProcessId { pid, start_time: 9 }
}

fn known(runs: bool) -> HashMap<String, KnownInstance> {
    let info = InstanceInfo {
        schema: 1,
        process: process(10),
        boot_id: String::new(),
        started_at: jiff::Timestamp::UNIX_EPOCH,
        version: String::new(),
        workflow_path: "/home/u/project/workflow.yml".into(),
        root: "/home/u/project/.vik/workflows/x".into(),
        socket: "/run/vik.sock".into(),
        options: Vec::new(),
        ended_at: None,
    };
    HashMap::from([("inst".to_owned(), KnownInstance { info, runs })])
}

fn shim() -> Audited {
    Audited {
        process: process(20),
        command: "vik-shim".to_owned(),
        marks: vec![Mark::new(SHIM_MARK, "inst")],
        census: None,
        shim: Some(process(20)),
    }
}

fn agent(shim: Option<ProcessId>) -> Audited {
    Audited {
        process: process(21),
        command: "codex".to_owned(),
        marks: vec![Mark::new(INSTANCE_MARK, "inst"), Mark::new(ATTEMPT_MARK, ATTEMPT)],
        census: None,
        shim,
    }
}

/// Returns a process that lost its marks and its parents but is in a census.
fn hidden() -> Audited {
    Audited {
        process: process(22),
        command: "node".to_owned(),
        marks: Vec::new(),
        census: Some(format!("/home/u/project/.vik/workflows/x/sessions/1/plan-{ATTEMPT}.census").into()),
        shim: None,
    }
}

fn stranger() -> Audited {
    Audited {
        process: process(23),
        command: "sleep\u{1b}[31m".to_owned(),
        marks: vec![Mark::new(INSTANCE_MARK, "gone")],
        census: None,
        shim: None,
    }
}

fn owners(all: &[Audited], known: &HashMap<String, KnownInstance>) -> Vec<OwnedProcess> {
    all.iter()
        .map(|audited| find_owner(audited, all, known, |_| vec![process(1)]))
        .collect()
}

#[test]
fn processes_of_a_daemon_or_its_shims_are_not_orphans() {
    let all = [shim(), agent(Some(process(20)))];
    let owners_with =
        |known| -> Vec<_> { owners(&all, &known).iter().map(|process| process.owner).collect() };
    assert_eq!(owners_with(known(true)), [Owner::Daemon, Owner::Daemon]);
    assert_eq!(owners_with(known(false)), [Owner::Shim, Owner::Shim]);
    assert_eq!(owners_with(HashMap::new()), [Owner::Shim, Owner::Shim]);
}

#[test]
fn unowned_processes_are_orphans_even_beside_a_daemon() {
    let all = [agent(None), hidden(), stranger()];
    for runs in [true, false] {
        let found = owners(&all, &known(runs));
        assert!(
            found.iter().all(|process| process.owner == Owner::Unowned),
            "{found:?}"
        );
        let json = serde_json::to_value(&found[1]).unwrap();
        assert_eq!(
            (&json["attempt_id"], &json["workflow_path"], &json["owner"]),
            (
                &ATTEMPT.into(),
                &"/home/u/project/workflow.yml".into(),
                &"nobody".into()
            )
        );
    }
}

#[test]
fn descendants_of_a_daemon_are_owned_by_it() {
    let all = [agent(None)];
    let of_daemon = find_owner(&all[0], &all, &known(true), |_| vec![process(10), process(1)]);
    assert_eq!(of_daemon.owner, Owner::Daemon);
    // The same pid of another process.
    let other = ProcessId {
        start_time: 1,
        ..process(10)
    };
    let of_other = find_owner(&all[0], &all, &known(true), |_| vec![other]);
    assert_eq!(of_other.owner, Owner::Unowned);
}

#[test]
fn orphan_list_shows_the_owner_of_processes() {
    let all = [shim(), agent(Some(process(20))), hidden(), stranger()];
    insta::assert_snapshot!("orphans", text(&owners(&all, &known(false)), true, 100));
    insta::assert_snapshot!("owned", text(&owners(&all[..2], &known(true)), false, 100));
    assert!(text(&[], true, 100).starts_with("no Vik processes"));
    assert!(text(&[], false, 100).starts_with("no processes of this workflow"));
}
