use std::ffi::OsStr;
use std::time::Duration;

use serde_json::json;
use vik_tracker::protocol::{CallError, ProgramTracker, Protocol, Request};

use crate::calls::{comment, show};
use crate::{alone, script};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn program_gets_arguments_and_input_and_prints_json() {
    let _alone = alone();
    let tracker = script(
        r#"printf '["%s", "%s", "%s", %s]' "$1" "$2" "$#" "$(cat)""#,
        MINUTE,
    );
    assert_eq!(
        tracker.call(&comment("$(id)", "k", "`it` \"$x\"")),
        Ok(json!(["comment", "$(id)", "4", {"body": "`it` \"$x\""}]))
    );
}

#[test]
fn program_need_not_read_its_input() {
    let _alone = alone();
    let tracker = script("echo '{\"created\": true}'", MINUTE);
    let answer = tracker.call(&comment("$(id)", "k", &"x".repeat(1024 * 1024)));
    assert_eq!(answer, Ok(json!({"created": true})));
}

#[test]
fn exit_codes_and_stderr_become_errors() {
    let _alone = alone();
    let list = Request::List { all: false };
    let tracker = script("echo busy >&2; echo 'retry-after: 30' >&2; exit 75", MINUTE);
    let error = tracker.call(&list).unwrap_err();
    let CallError::Later { reason, wait } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(*wait, Duration::from_secs(30));
    assert!(reason.contains("busy"), "{reason}");
    let tracker = script("exit 66", MINUTE);
    assert!(matches!(tracker.call(&list), Err(CallError::NotFound(_))));
    let missing = ProgramTracker::new(OsStr::new("no-such-tracker"), &[], MINUTE).unwrap_err();
    assert_eq!(missing.to_string(), "there is no program `no-such-tracker`");
}

#[test]
fn invalid_request_starts_no_program() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let tracker = script(&format!("touch {}", mark.display()), MINUTE);
    assert!(matches!(tracker.call(&show("--all")), Err(CallError::Usage(_))));
    assert!(!mark.exists());
}

#[test]
fn program_beyond_its_limits_is_ended_with_its_children() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let list = Request::List { all: false };
    let start = format!(
        "echo $$ >>{0}; sleep 600 & echo $! >>{0}; setsid sleep 600 & echo $! >>{0};",
        pids.display()
    );
    // The time is up.
    let tracker = script(&format!("{start} wait"), Duration::from_millis(300));
    assert!(matches!(tracker.call(&list), Err(CallError::Later { .. })));
    // The output is too long.
    let tracker = script(&format!("{start} yes"), MINUTE).max_answer(1024);
    assert!(matches!(tracker.call(&list), Err(CallError::Failed(_))));
    // The program has ended, but not its children, which hold the pipes.
    let tracker = script(&format!("{start} echo '[]'"), MINUTE);
    assert_eq!(tracker.call(&list), Ok(json!([])));
    let pids = std::fs::read_to_string(pids).unwrap();
    assert_eq!(pids.lines().count(), 9);
    for pid in pids.lines() {
        let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
        assert_eq!(
            nix::sys::signal::kill(pid, None),
            Err(nix::errno::Errno::ESRCH),
            "{pid}"
        );
    }
}
