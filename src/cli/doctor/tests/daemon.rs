use vik_daemon::{InstanceInfo, Presence};
use vik_proc::ProcessId;

use super::super::Status;
use super::super::environment_checks::daemon;

fn running(version: &str) -> Presence {
    Presence::Running(InstanceInfo {
        schema: 1,
        process: ProcessId {
            pid: 10,
            start_time: 9,
        },
        boot_id: String::new(),
        started_at: jiff::Timestamp::UNIX_EPOCH,
        version: version.to_owned(),
        workflow_path: "/home/u/project/workflow.yml".into(),
        root: "/home/u/project/.vik/workflows/x".into(),
        socket: "/run/vik.sock".into(),
        options: Vec::new(),
        ended_at: None,
    })
}

#[test]
fn daemon_of_another_version_is_a_warning_with_the_command_that_replaces_it() {
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(daemon(&running(own)).status, Status::Ok);

    let check = daemon(&running("0.0.1"));
    assert_eq!(check.status, Status::Warning);
    assert_eq!(check.code.as_deref(), Some("daemon_version"));
    let message = format!("the running daemon (pid 10) has version 0.0.1; this is {own}");
    assert_eq!(check.message, message);
    assert!(check.hint.unwrap().contains("`vik restart --keep-sessions`"));
}
