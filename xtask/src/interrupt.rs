//! Ctrl-C for tasks that start daemons: they end what they started, and then themselves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use crate::repo::TaskResult;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The interval of checking for a signal.
const INTERVAL: Duration = Duration::from_millis(100);

/// Makes [`check`] and [`pause`] fail after Ctrl-C, SIGTERM or SIGHUP, which no longer end this
/// process themselves.
pub fn watch() -> TaskResult {
    let context = |error: std::io::Error| format!("cannot handle signals: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(context)?;
    let (mut interrupt, mut terminate, mut hangup) = {
        let _guard = runtime.enter();
        let listen = |kind| signal(kind).map_err(context);
        (
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        )
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            eprintln!("interrupted: ending all processes");
            INTERRUPTED.store(true, Ordering::Relaxed);
        });
    });
    Ok(())
}

/// Returns an error if the task is to end.
pub fn check() -> TaskResult {
    if INTERRUPTED.load(Ordering::Relaxed) {
        return Err("interrupted".to_owned());
    }
    Ok(())
}

/// Sleeps for this time, or until the task is to end.
pub fn pause(duration: Duration) -> TaskResult {
    let until = Instant::now() + duration;
    loop {
        check()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        sleep(left.min(INTERVAL));
    }
}
