//! Callers that give up while a shim is being started. Alone in its binary: it looks at all children of the process.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::ffi::OsString;
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use vik_proc::{SHIM_VERB, ShimSpec, StdoutMode, Supervisor};

fn children() -> String {
    let me = std::process::id();
    let tasks = std::fs::read_dir(format!("/proc/{me}/task")).unwrap().flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .collect()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_shim_and_no_zombie_stays() {
    let program = env!("CARGO_BIN_EXE_vik-shim-test");
    let supervisor = Supervisor::new(program, [OsString::from(SHIM_VERB)]).unwrap();
    let mut spec = ShimSpec::new(program, "/");
    spec.args = vec!["hang".into()];
    // A signal that the ladder sends to an agent which is just being made must not get lost.
    spec.graces.int = Duration::from_secs(300);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut seen = false;
    for polls in (1..40).chain([1; 10]) {
        let mut spawning = Box::pin(supervisor.spawn(&spec, None, StdoutMode::Null));
        for _ in 0..polls {
            if poll_fn(|context| Poll::Ready(spawning.as_mut().poll(context).is_ready())).await {
                break;
            }
            tokio::task::yield_now().await;
            seen |= !children().is_empty();
        }
        drop(spawning);
    }
    // The runtime must run for the tasks to see the drops; the first look may still come too early for all to start.
    while !seen || !children().is_empty() {
        assert!(
            Instant::now() < deadline,
            "left over: {} (any seen: {seen})",
            children()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
        seen |= !children().is_empty();
    }
}
