//! Logs: two daily files in the home, one with all lines and one with errors, and their retention.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io::{self, Write as _};
use std::panic::PanicHookInfo;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tracing::{Event, Level, Subscriber};
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields as _, FormattedFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Scope};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};
use vik_base::clock;
use vik_core::workflow::LogFormat;
use vik_workspace::fs as private;

/// The names of the two files, before the date.
const FILES: [&str; 2] = ["vik.log", "vik-error.log"];

/// The log output on the daemon's terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// Lines of this level or more severe go to stderr.
    From(Level),
    /// No log lines go to stderr.
    Off,
}

/// Installs the log files, the console output and the panic hook.
///
/// # Errors
/// If the log files cannot be created.
pub fn init(dir: &Path, console: Console, format: LogFormat) -> io::Result<()> {
    let file = |name: &str| {
        RollingFileAppender::builder()
            .rotation(Rotation::DAILY)
            .filename_prefix(name)
            .build(dir)
            .map_err(io::Error::other)
    };
    let [all, errors] = FILES;
    let level = match console {
        Console::From(level) => LevelFilter::from_level(level),
        Console::Off => LevelFilter::OFF,
    };
    let sinks = vec![
        sink(format, false, file(all)?, LevelFilter::INFO),
        sink(format, false, file(errors)?, LevelFilter::ERROR),
        sink(
            format,
            vik_base::report::colored(&io::stderr()),
            io::stderr,
            level,
        ),
    ];
    let installed = tracing_subscriber::registry().with(sinks).try_init();
    installed.map_err(io::Error::other)?;
    std::panic::set_hook(Box::new(move |panic| on_panic(panic, console)));
    Ok(())
}

/// Logs a panic like any other error. Its message can contain anything, so it is masked like every
/// line.
fn on_panic(panic: &PanicHookInfo<'_>, console: Console) {
    let trace = Backtrace::capture();
    let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
    tracing::error!(backtrace = trace, "{panic}");
    if console == Console::Off {
        // Without console output, the person must still see why the process ended.
        let text = panic.to_string();
        let _ = writeln!(io::stderr(), "{}", vik_mask::mask(&text));
    }
}

/// Returns the filter of a destination. Below `debug`, the SDK of Temporal logs only errors: it warns of
/// what is usual when hubs and workers come and go.
fn filter(level: LevelFilter) -> Targets {
    let targets = Targets::new().with_default(level);
    match level >= LevelFilter::DEBUG {
        true => targets,
        false => targets.with_target("temporalio", level.min(LevelFilter::ERROR)),
    }
}

/// Returns a layer that writes lines to one destination.
fn sink<W>(
    format: LogFormat,
    ansi: bool,
    writer: W,
    level: LevelFilter,
) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_writer(Masked(writer));
    match format {
        LogFormat::Text => layer.with_ansi(ansi).with_filter(filter(level)).boxed(),
        // Log collectors expect flat objects: fields are beside the message.
        LogFormat::Json => layer
            .fmt_fields(JsonFields::new())
            .event_format(FlatJson)
            .with_filter(filter(level))
            .boxed(),
    }
}

/// Formats an event as one flat JSON object, as log collectors expect it: the fields of its spans
/// and its own beside the message.
struct FlatJson;

impl<S> FormatEvent<S, JsonFields> for FlatJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = serde_json::Map::new();
        line.insert("timestamp".to_owned(), clock::now().to_string().into());
        line.insert("level".to_owned(), event.metadata().level().as_str().into());
        let mut add = |fields: &str| {
            let fields: serde_json::Map<_, _> = serde_json::from_str(fields).map_err(|_| fmt::Error)?;
            line.extend(fields);
            Ok(())
        };
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(fields) = span.extensions().get::<FormattedFields<JsonFields>>() {
                add(fields)?;
            }
        }
        let mut own = String::new();
        context.format_fields(Writer::new(&mut own), event)?;
        add(&own)?;
        writeln!(writer, "{}", serde_json::Value::Object(line))
    }
}

/// A writer that masks secrets. Each write must contain a whole line.
struct Masked<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Masked<W> {
    type Writer = Masked<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Masked(self.0.make_writer())
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> Self::Writer {
        Masked(self.0.make_writer_for(meta))
    }
}

impl<W: io::Write> io::Write for Masked<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(vik_mask::mask_json(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Removes daily logs older than `days` days. Returns the number of removed files.
///
/// # Errors
/// If the folder cannot be read.
pub fn retain(dir: &Path, days: u32) -> io::Result<usize> {
    let age = Duration::from_secs(u64::from(days) * 86_400);
    let Some(oldest) = SystemTime::now().checked_sub(age) else {
        return Ok(0);
    };
    let mut removed = 0;
    for entry in private::list_folder(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_log = FILES
            .iter()
            .any(|file| name.to_string_lossy().starts_with(&format!("{file}.")));
        if is_log && entry.metadata()?.modified()? < oldest {
            std::fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A writer that keeps the output in memory.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(format: LogFormat, action: impl FnOnce()) -> String {
        let memory = Memory::default();
        let writer = memory.clone();
        let sink = sink(format, false, move || writer.clone(), LevelFilter::INFO);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(vec![sink]), action);
        String::from_utf8(memory.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn json_lines_are_valid_objects_for_any_text() {
        let hostile = "two\nlines \"and\" a \u{1b}[31mcolour";
        let text = written(LogFormat::Json, || {
            tracing::error!(error = hostile, count = 3, "it {}", "failed");
            tracing::debug!("not logged");
        });
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["level"], "ERROR");
        assert_eq!(lines[0]["message"], "it failed");
        assert_eq!(
            (&lines[0]["error"], &lines[0]["count"]),
            (&hostile.into(), &3.into())
        );
        lines[0]["timestamp"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap();
    }

    #[test]
    fn log_lines_mask_secrets() {
        let secret = "log \"line\" secret 12345";
        vik_mask::learn([(vik_mask::Label::Secret("LINE".to_owned()), secret.to_owned())]);
        for format in [LogFormat::Text, LogFormat::Json] {
            let text = written(format, || {
                tracing::error!(error = secret, hex = %"6c6f6720226c696e6522207365637265742031323334350a", "it says {secret}");
            });
            assert_eq!(text.matches("[secret LINE]").count(), 3, "{text}");
            assert!(!text.contains("12345"), "{text}");
        }
    }

    #[test]
    fn panic_is_logged_with_masked_secrets() {
        let secret = "panicked secret 98765";
        vik_mask::learn([(vik_mask::Label::Secret("PANIC".to_owned()), secret.to_owned())]);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(|panic| on_panic(panic, Console::From(Level::ERROR))));
        let text = written(LogFormat::Json, || {
            let panicked = std::panic::catch_unwind(|| panic!("it has {secret}"));
            assert!(panicked.is_err());
        });
        std::panic::set_hook(before);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        let message = line["message"].as_str().unwrap();
        assert!(message.contains("it has [secret PANIC]"), "{text}");
        assert!(message.contains("crates/vik-daemon/src/logging/mod.rs"), "{text}");
    }

    #[test]
    fn text_line_shows_level_message_and_fields() {
        let text = written(LogFormat::Text, || tracing::info!(count = 3, "done"));
        assert!(text.ends_with(" INFO done count=3\n"), "{text}");
    }

    #[test]
    fn lines_within_an_attempt_carry_its_fields() {
        let log = || {
            let attempt = tracing::error_span!("attempt", issue = "7 \"x\"", stage = "review", attempt = 2);
            tracing::error!(parent: &attempt, file = "a", "cannot write");
        };
        let text = written(LogFormat::Text, log);
        let expected =
            "ERROR attempt{issue=\"7 \\\"x\\\"\" stage=\"review\" attempt=2}: cannot write file=\"a\"\n";
        assert!(text.ends_with(expected), "{text}");

        let line: serde_json::Value = serde_json::from_str(&written(LogFormat::Json, log)).unwrap();
        let mut line = line.as_object().unwrap().clone();
        line.remove("timestamp").unwrap();
        let expected = serde_json::json!({
            "level": "ERROR", "message": "cannot write", "file": "a",
            "issue": "7 \"x\"", "stage": "review", "attempt": 2,
        });
        assert_eq!(serde_json::Value::Object(line), expected);
    }

    #[test]
    fn retention_removes_only_old_vik_logs() {
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
