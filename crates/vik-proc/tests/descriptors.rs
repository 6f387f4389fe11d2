//! Repeated adoption leaves no descriptor open, and starts that wait have none. The test has its own binary, as it counts the open
//! files of the process.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::ffi::OsString;
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use vik_proc::{Cause, Mark, ProcessId, SHIM_VERB, ShimSpec, StdoutMode, Supervisor};

const PROGRAM: &str = env!("CARGO_BIN_EXE_vik-shim-test");
const DEADLINE: Duration = Duration::from_secs(60);

fn open_files(of: ProcessId) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", of.pid)).unwrap().count()
}

/// Four shims start at the same time, each with at most eight files.
#[cfg(target_os = "linux")]
async fn waiting_starts_open_no_files(supervisor: &Supervisor, spec: &ShimSpec) {
    let before = open_files(ProcessId::current());
    let mut starts: Vec<_> = (0..40)
        .map(|_| Box::pin(supervisor.spawn(spec, None, StdoutMode::Null)))
        .collect();
    for start in &mut starts {
        poll_fn(|context| Poll::Ready(start.as_mut().poll(context).is_ready())).await;
    }
    let opened = open_files(ProcessId::current()) - before;
    assert!((8..=4 * 8).contains(&opened), "{opened}");
    for start in starts {
        let started = start.await.unwrap();
        started.kill();
        // Its files are closed then.
        let _ = tokio::time::timeout(DEADLINE, started.wait()).await.unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn descriptors_do_not_leak_over_a_hundred_daemons() {
    let folder = tempfile::tempdir().unwrap();
    let supervisor = Supervisor::new(PROGRAM, [OsString::from(SHIM_VERB)]).unwrap();
    let mut spec = ShimSpec::new(PROGRAM, folder.path());
    spec.args = vec!["hang".into()];
    waiting_starts_open_no_files(&supervisor, &spec).await;
    spec.mark = Some(Mark::new("VIK_PROC_TEST", std::process::id().to_string()));
    spec.orphan_grace = Duration::from_secs(300);
    spec.control = Some(folder.path().join("control"));
    spec.census = Some(folder.path().join("census"));
    spec.exit_record = Some(folder.path().join("exit.json"));
    let mut current = supervisor.spawn(&spec, None, StdoutMode::Null).await.unwrap();
    let shim = current.shim();
    let mut first = None;
    for _ in 0..100 {
        current.handle().detach();
        let lost = tokio::time::timeout(DEADLINE, current.wait()).await.unwrap();
        assert!(lost.unwrap_err().detached);
        current = supervisor.adopt(&spec, shim, None).await.unwrap();
        let first = *first.get_or_insert(open_files(ProcessId::current()));
        assert_eq!(open_files(ProcessId::current()), first);
    }
    current.stop();
    let record = tokio::time::timeout(DEADLINE, current.wait()).await.unwrap();
    assert_eq!(record.unwrap().cause, Cause::Stopped);
}
