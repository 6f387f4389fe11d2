//! The processes that an audit finds on the host, and their owners.

use nix::sys::signal::Signal;
use vik_proc::{Audited, Mark, audit, identity::boot_id, recover};

use crate::support::*;

#[tokio::test]
async fn audit_finds_processes_that_lost_their_shim() {
    let scene = Scene::new();
    let spec = scene.spec_with_grace(
        "also scdn 3 ready @far hang also sd 3 ready @tool hang ready @up hang",
        LONG,
    );
    let mut daemon = scene.daemon("daemon", &spec).await;
    let (tool, far) = (scene.ready("tool").await, scene.ready("far").await);
    let agent = scene.ready("up").await;
    until("the census is true", || scene.census().members.contains(&far)).await;
    let find = || -> Vec<Audited> {
        audit(&[&scene.mark.name], &[scene.path("census")])
            .into_iter()
            // Other tests also have processes with this variable.
            .filter(|one| one.census.is_some() || one.marks.contains(&scene.mark))
            .collect()
    };
    let expected = |process, marks: &[Mark], shim| {
        let mut one = find().into_iter().find(|one| one.process == process).unwrap();
        assert_eq!(one.census.take(), Some(scene.path("census")));
        assert_eq!((one.marks.as_slice(), one.shim), (marks, shim), "{}", one.command);
    };
    let mark = [scene.mark.clone()];
    let shim = daemon.shim;
    assert_eq!(find().len(), 4);
    for (process, marks) in [(shim, &[][..]), (agent, &mark), (tool, &mark), (far, &[])] {
        expected(process, marks, Some(shim));
    }
    daemon.die();
    send(shim, Signal::SIGKILL);
    wait_for_exit(shim).await;
    wait_for_exit(agent).await;
    assert_eq!(find().len(), 2);
    expected(tool, &mark, None);
    expected(far, &[], None);
    let lost = recover(&spec, shim, None, &boot_id()).await.unwrap_err();
    assert!(
        lost.found.contains(&tool) && lost.found.contains(&far),
        "{lost:?}"
    );
    assert_eq!(find(), []);
}

/// A shim hides its environment from other processes of its user, but its mark is found.
#[tokio::test]
async fn shim_mark_is_found_without_privileges() {
    let scene = Scene::new();
    let mark: Mark = scene.shim_mark();
    let supervisor = scene.supervisor.clone().mark_shims(&mark);
    let spec = scene.spec("ready @up hang");
    let supervised = within(supervisor.spawn(&spec, None, vik_proc::StdoutMode::Null))
        .await
        .unwrap();
    scene.ready("up").await;
    assert_eq!(vik_proc::sweep(&mark.name, &mark.value, &[]), [supervised.shim()]);
    let arguments = std::fs::read(format!("/proc/{}/cmdline", supervised.shim().pid)).unwrap();
    let entry = format!("{}={}", mark.name, mark.value);
    assert!(
        arguments
            .split(|&byte| byte == 0)
            .any(|arg| arg == entry.as_bytes())
    );
    assert!(supervised.shim().terminate());
    assert_eq!(scene.end(&supervised).await.cause, vik_proc::Cause::Stopped);
    assert!(!supervised.shim().terminate());
}
