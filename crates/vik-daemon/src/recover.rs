//! Recovers the logs of a daemon that was killed.

use std::path::Path;

use jiff::Timestamp;
use vik_core::attempt::AttemptResult;
use vik_core::ended::Ended;
use vik_core::event::Event;
use vik_core::limits::Spend;
use vik_core::outcome::Outcome;
use vik_session::host::millis;
use vik_session_log::SessionLog;
use vik_store::{AttemptRecord, PastAttempt, StoreError};

/// Ends the logs of attempts that started before `boot` and whose daemon died: `ended` is the last
/// line of every log. Attempts that are recovered are left out. Returns the number of ended logs.
///
/// # Errors
/// When the sessions cannot be read.
pub(super) fn end_cut_off_logs(
    sessions: &Path,
    boot: Timestamp,
    is_recovered: impl Fn(&AttemptRecord) -> bool,
) -> Result<usize, StoreError> {
    let mut count = 0;
    for attempt in vik_store::attempts_without_end(sessions)? {
        let attempt = attempt?;
        if attempt.record.started_at >= boot || is_recovered(&attempt.record) {
            continue;
        }
        match end(&attempt, boot) {
            Ok(()) => count += 1,
            Err(error) => {
                let error = vik_base::report::chain(&error);
                tracing::warn!(error, "cannot write the end of a session log");
            }
        }
    }
    Ok(count)
}

fn end(attempt: &PastAttempt, boot: Timestamp) -> Result<(), StoreError> {
    let exit = vik_proc::read_exit_record(&attempt.files.exit()).ok();
    let until = exit
        .as_ref()
        .and_then(|exit| Timestamp::from_millisecond(exit.ended_at_ms.try_into().ok()?).ok())
        .unwrap_or(boot);
    let duration = until.duration_since(attempt.record.started_at);
    let result = AttemptResult {
        reason: Some("the daemon died before the attempt ended".to_owned()),
        exit_code: exit.as_ref().and_then(|exit| exit.code),
        ..AttemptResult::new(Outcome::Lost)
    };
    let ended = Ended {
        signal: exit.as_ref().and_then(|exit| exit.signal),
        duration_ms: millis(duration.unsigned_abs()),
        ..Ended::new(result, Spend::default())
    };
    let mut log = SessionLog::reopen(&attempt.files.log())?.log;
    log.push(boot, &Event::Ended(ended))?;
    log.sync()
}
