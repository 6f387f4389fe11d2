//! Logs: daily files in the home, one for all and one for errors, and their retention.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tracing::Level;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The two files' names, before the date.
const FILES: [&str; 2] = ["vik.log", "vik-error.log"];

/// Where a person in front of the daemon wants to see logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// On stderr from this level on.
    From(Level),
    /// Not at all.
    Off,
}

/// Installs the sinks.
///
/// # Errors
/// When the log files cannot be made.
pub fn init(dir: &Path, console: Console) -> io::Result<()> {
    let file = |name: &str| {
        RollingFileAppender::builder()
            .rotation(Rotation::DAILY)
            .filename_prefix(name)
            .build(dir)
            .map_err(io::Error::other)
    };
    let all = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(false);
    let [all_name, error_name] = FILES;
    let all = all.with_writer(file(all_name)?).with_filter(LevelFilter::INFO);
    let errors = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(false);
    let errors = errors
        .with_writer(file(error_name)?)
        .with_filter(LevelFilter::ERROR);
    let level = match console {
        Console::From(level) => LevelFilter::from_level(level),
        Console::Off => LevelFilter::OFF,
    };
    let stderr = tracing_subscriber::fmt::layer()
        .with_ansi(crate::cli::colored(&io::stderr()))
        .with_target(false)
        .with_writer(io::stderr)
        .with_filter(level);
    let installed = tracing_subscriber::registry()
        .with(all)
        .with(errors)
        .with(stderr)
        .try_init();
    installed.map_err(io::Error::other)
}

/// Removes daily logs older than this many days; returns how many.
///
/// # Errors
/// When the folder cannot be read.
pub fn retain(dir: &Path, days: u32) -> io::Result<usize> {
    let age = Duration::from_secs(u64::from(days) * 86_400);
    let Some(oldest) = SystemTime::now().checked_sub(age) else {
        return Ok(0);
    };
    let mut removed = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let ours = FILES
            .iter()
            .any(|file| name.to_string_lossy().starts_with(&format!("{file}.")));
        if ours && entry.metadata()?.modified()? < oldest {
            std::fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_logs_of_ours_go() {
        let dir = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - Duration::from_secs(8 * 86_400);
        for (name, is_old) in [
            ("vik.log.2020-01-01", true),
            ("vik-error.log.2020-01-01", true),
            ("vik.log.2020-01-09", false),
            ("notes.txt", true),
        ] {
            let file = std::fs::File::create(dir.path().join(name)).unwrap();
            if is_old {
                file.set_modified(old).unwrap();
            }
        }
        assert_eq!(retain(dir.path(), 7).unwrap(), 2);
        let mut left: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["notes.txt", "vik.log.2020-01-09"]);
    }
}
