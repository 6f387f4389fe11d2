//! Prints one file as it grows, in bounded memory whatever the length of its lines.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use vik_base::report::clean;
use vik_core::event::LogLine;
use vik_core::visible;
use vik_session::secrets;
use vik_store::{LONGEST_EVENT, PastAttempt, read_line};
use vik_workspace::fs as private;

use super::parts::Parts;
use super::raw;
use super::scripts::{self, ScriptOutputs, ScriptRun};
use super::transcript::Transcript;
use crate::cli::args::LogsArgs;

/// The number of bytes of a long line that are printed at once.
const PART_BYTES: u64 = 1024 * 1024;

/// The number of bytes that are shown of an event above the maximum length.
const LONG_EVENT_BYTES: usize = 64 * 1024;

/// The state of one log.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// The offset up to which the log is printed.
    printed: u64,
    /// The same offset in raw output without the parts of answers.
    kept: u64,
    /// The file that was read last: raw output without the parts is another one.
    inode: u64,
    /// The size of the file when it was last read.
    size: u64,
    /// Whether `printed` is within a line that is too long for memory.
    is_within_line: bool,
    done: bool,
    /// The number of lines to print of what is already there; all if it is absent.
    last: Option<usize>,
    /// The time from which events are printed.
    since: Option<Timestamp>,
    /// Whether scripts before the first printed event are left out.
    skips_scripts: bool,
    /// The time of the last read event.
    at: Option<Timestamp>,
    /// The size of the journal when its scripts were last read.
    journal_size: u64,
    /// Scripts that have ended and are not printed yet.
    scripts: Vec<ScriptRun>,
    /// The end of the last script that was printed or left out.
    scripts_until: Option<Timestamp>,
}

impl Tail {
    /// Returns a tail that prints nothing.
    pub(super) fn done() -> Self {
        Self {
            done: true,
            ..Self::default()
        }
    }

    /// Returns a tail that prints the last lines of what is already there, and events only from a
    /// time on.
    pub(super) fn new(last: Option<usize>, since: Option<Timestamp>) -> Self {
        Self {
            last,
            since,
            skips_scripts: last.is_some(),
            ..Self::default()
        }
    }

    /// Prints new content. If `is_terminal` is set, `out` gets no character that a terminal would
    /// interpret.
    pub(super) fn print(
        &mut self,
        path: &Path,
        attempt: &PastAttempt,
        args: &LogsArgs,
        (transcript, outputs): (&mut Transcript, &ScriptOutputs<'_>),
        (out, is_terminal): (&mut impl Write, bool),
    ) -> io::Result<()> {
        if self.done {
            return Ok(());
        }
        let journal = attempt.files.journal().metadata().map_or(0, |file| file.len());
        if !args.raw && !args.json && std::mem::replace(&mut self.journal_size, journal) != journal {
            // The log contains what came before a script that has ended: it is read afterwards.
            self.scripts = scripts::ended(&attempt.files);
            self.scripts.retain(|script| {
                Some(script.ended_at) > self.scripts_until
                    && self.since.is_none_or(|at| script.ended_at >= at)
            });
        }
        self.print_log(path, attempt, args, (transcript, outputs), (out, is_terminal))?;
        if !self.skips_scripts {
            self.print_scripts(None, attempt, transcript, outputs, out)?;
        }
        out.flush()
    }

    /// Prints the scripts that started before a time.
    fn print_scripts(
        &mut self,
        before: Option<Timestamp>,
        attempt: &PastAttempt,
        transcript: &mut Transcript,
        outputs: &ScriptOutputs<'_>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let is_due = |script: &ScriptRun| before.is_none_or(|at| script.started_at <= at);
        let count = self.scripts.iter().take_while(|script| is_due(script)).count();
        for script in self.scripts.drain(..count) {
            self.scripts_until = Some(script.ended_at);
            if !self.skips_scripts {
                let output = outputs.read(&attempt.files, &script.name);
                out.write_all(transcript.script(&attempt.record, &script, &output).as_bytes())?;
            }
        }
        Ok(())
    }

    fn print_log(
        &mut self,
        path: &Path,
        attempt: &PastAttempt,
        args: &LogsArgs,
        (transcript, outputs): (&mut Transcript, &ScriptOutputs<'_>),
        (out, is_terminal): (&mut impl Write, bool),
    ) -> io::Result<()> {
        let mut file = match private::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        let has_ended = attempt.ended.is_some();
        let metadata = file.metadata()?;
        let size = metadata.len();
        let is_replaced = std::mem::replace(&mut self.inode, metadata.ino()) != metadata.ino();
        if size == self.size && !is_replaced && !has_ended {
            return Ok(());
        }
        self.size = size;
        let parts = Parts::of(attempt);
        if let Some(last) = self.last.take() {
            self.printed = start_of_last(&mut file, size, last)?;
            if args.raw {
                self.kept = parts.count_kept(&mut file, self.printed)?;
            }
        } else if is_replaced && args.raw {
            self.printed = self.kept;
        }
        let output = Output {
            is_terminal,
            is_masked: !args.unmasked,
        };
        let mut line = Vec::new();
        while self.printed < size {
            if self.is_within_line {
                self.print_parts(&mut file, size, output, out)?;
                continue;
            }
            file.seek(SeekFrom::Start(self.printed))?;
            let mut reader = BufReader::with_capacity(64 * 1024, (&mut file).take(size - self.printed));
            loop {
                let read = read_line(&mut reader, LONGEST_EVENT, &mut line)?;
                let is_long = read.bytes > line.len() as u64;
                if is_long && args.raw {
                    self.is_within_line = true;
                    break;
                }
                // The start of a line may be the start of a secret: it is printed only when the
                // line cannot continue.
                if read.bytes == 0 || !(read.is_whole || args.raw && (has_ended || args.unmasked)) {
                    return out.flush();
                }
                self.printed += read.bytes;
                if args.raw {
                    let is_part = parts.is_part(&line);
                    if !is_part {
                        self.kept += read.bytes;
                    }
                    if !(is_part && output.is_masked) {
                        out.write_all(&output.raw(&line))?;
                    }
                    continue;
                }
                if self.since.is_some() || !self.scripts.is_empty() {
                    self.at = time_of(&line).or(self.at);
                    if self
                        .since
                        .is_some_and(|since| self.at.is_some_and(|at| at < since))
                    {
                        continue;
                    }
                    if self.at.is_some() {
                        self.print_scripts(self.at, attempt, transcript, outputs, out)?;
                    }
                }
                self.skips_scripts = false;
                if args.json {
                    out.write_all(&output.event(&line, is_long.then_some(read.bytes)))?;
                } else if let line = raw::masked(&line).trim_ascii_end()
                    && !line.is_empty()
                {
                    out.write_all(transcript.line(&attempt.record, line).as_bytes())?;
                }
            }
        }
        out.flush()
    }

    /// Prints a long line in parts, up to its end or the end of the file.
    fn print_parts(
        &mut self,
        file: &mut File,
        size: u64,
        output: Output,
        out: &mut impl Write,
    ) -> io::Result<()> {
        while self.is_within_line && self.printed < size {
            file.seek(SeekFrom::Start(self.printed))?;
            let mut part = Vec::new();
            let mut remaining = (&mut *file).take(PART_BYTES.min(size - self.printed));
            remaining.read_to_end(&mut part)?;
            if part.is_empty() {
                return Ok(());
            }
            if let Some(end) = memchr::memchr(b'\n', &part) {
                part.truncate(end + 1);
                self.is_within_line = false;
            } else {
                // A character must not be split.
                let is_inside = |at: &usize| part[*at] & 0xc0 == 0x80;
                let last = part.len() - 1;
                let cut = (last.saturating_sub(2)..=last).rev().find(|at| !is_inside(at));
                if let Some(cut) = cut.filter(|cut| *cut > 0 && part[*cut] >= 0xc0) {
                    part.truncate(cut);
                }
            }
            let range = self.printed..self.printed + part.len() as u64;
            self.printed = range.end;
            self.kept += part.len() as u64;
            let plain = String::from_utf8_lossy(&part);
            let masked = if output.is_masked {
                secrets::masked::read(file, range)?
            } else {
                plain.clone().into_owned()
            };
            if plain == masked && !output.is_terminal {
                out.write_all(&part)?;
            } else {
                out.write_all(output.shown(&masked).as_bytes())?;
            }
        }
        Ok(())
    }
}

/// Returns the time of a line of a log.
fn time_of(line: &[u8]) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Timed {
        at: Timestamp,
    }
    let timed: Timed = serde_json::from_slice(line).ok()?;
    Some(timed.at)
}

/// Returns the offset at which the last lines of a file start. It reads only these lines.
fn start_of_last(file: &mut File, size: u64, lines: usize) -> io::Result<u64> {
    let (mut end, mut found) = (size, 0);
    while end > 0 && lines > 0 {
        let start = end.saturating_sub(64 * 1024);
        file.seek(SeekFrom::Start(start))?;
        let mut part = Vec::new();
        (&mut *file).take(end - start).read_to_end(&mut part)?;
        for at in memchr::memrchr_iter(b'\n', &part) {
            let next = start + at as u64 + 1;
            // The newline at the end of the file belongs to the last line.
            if next < size {
                found += 1;
                if found == lines {
                    return Ok(next);
                }
            }
        }
        end = start;
    }
    Ok(if lines == 0 { size } else { 0 })
}

/// The options for printing text.
#[derive(Clone, Copy, Debug)]
struct Output {
    is_terminal: bool,
    is_masked: bool,
}

impl Output {
    /// Returns a line as the agent printed it.
    fn raw(self, line: &[u8]) -> Cow<'_, [u8]> {
        let line = if self.is_masked {
            raw::masked(line)
        } else {
            Cow::Borrowed(line)
        };
        if !self.is_terminal {
            return line;
        }
        let text = String::from_utf8_lossy(&line);
        Cow::Owned(self.shown(&text).into_owned().into_bytes())
    }

    fn shown(self, text: &str) -> Cow<'_, str> {
        if self.is_terminal {
            clean(text)
        } else {
            Cow::Borrowed(text)
        }
    }

    /// Returns an event as JSON, or only its start if it is too long.
    fn event(self, line: &[u8], length: Option<u64>) -> Vec<u8> {
        let mut line = raw::masked(line).into_owned();
        if let Some(bytes) = length {
            let start = String::from_utf8_lossy(&line[..line.len().min(LONG_EVENT_BYTES)]);
            let malformed = LogLine::malformed(None, start.into_owned(), Some(bytes));
            line = serde_json::to_vec(&malformed).unwrap_or_default();
            line.push(b'\n');
        }
        if !self.is_terminal {
            return line;
        }
        let text = String::from_utf8_lossy(&line);
        visible::escaped(&text).into_owned().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "\u{1b}]52;c;aGk=\u{7}\u{9b}2J\u{202e}\u{e0041}\r\n";

    fn output(is_terminal: bool) -> Output {
        Output {
            is_terminal,
            is_masked: true,
        }
    }

    #[test]
    fn raw_output_is_exact_in_a_pipe_and_escaped_on_a_terminal() {
        let mut bytes = HOSTILE.as_bytes().to_vec();
        bytes.insert(0, 0xff);
        assert_eq!(&*output(false).raw(&bytes), bytes);
        let shown = String::from_utf8(output(true).raw(&bytes).into_owned()).unwrap();
        assert_eq!(
            shown,
            "\u{fffd}⟦U+001B⟧]52;c;aGk=⟦U+0007⟧⟦U+009B⟧2J⟦U+202E⟧⟦U+E0041⟧\n"
        );
    }

    #[test]
    fn json_on_a_terminal_is_escaped_but_equal() {
        let event = serde_json::json!({ "kind": "message", "text": HOSTILE });
        let line = format!("{event}\n");
        assert_eq!(output(false).event(line.as_bytes(), None), line.as_bytes());
        let shown = String::from_utf8(output(true).event(line.as_bytes(), None)).unwrap();
        assert!(visible::is_visible(&shown), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), event);
    }

    #[test]
    fn overlong_event_is_still_valid_json() {
        let shown = output(false).event(b"{\"kind\":\"message\",\"text\":\"aaa", Some(99));
        let shown: serde_json::Value = serde_json::from_slice(&shown).unwrap();
        assert_eq!(
            (&shown["kind"], &shown["bytes"]),
            (&"malformed".into(), &99.into())
        );
    }

    #[test]
    fn last_lines_are_found_from_the_end() {
        let start = |text: &str, lines| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let at = start_of_last(&mut file, text.len() as u64, lines).unwrap();
            text[usize::try_from(at).unwrap()..].to_owned()
        };
        assert_eq!(start("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(start("a\nb\nc", 2), "b\nc");
        assert_eq!(start("a\nb\n", 9), "a\nb\n");
        assert_eq!(start("a\nb\n", 0), "");
        assert_eq!(start("", 1), "");
        let long = "x".repeat(200_000);
        assert_eq!(start(&format!("a\n{long}\nb\n"), 2), format!("{long}\nb\n"));
    }

    #[test]
    fn line_printed_in_parts_keeps_all_bytes() {
        let mut file = tempfile::tempfile().unwrap();
        let part = usize::try_from(PART_BYTES).unwrap();
        let mut text = "ä".repeat(part).into_bytes();
        text.extend([0xff, 0xfe, b'x']);
        text.extend("日".repeat(part / 2).bytes());
        file.write_all(&text).unwrap();
        file.write_all(b"\nnext\n").unwrap();
        let mut tail = Tail {
            is_within_line: true,
            ..Tail::default()
        };
        let size = file.metadata().unwrap().len();
        let mut out = Vec::new();
        tail.print_parts(&mut file, size, output(false), &mut out)
            .unwrap();
        text.push(b'\n');
        assert!(out == text, "{} of {} bytes", out.len(), text.len());
        assert!(!tail.is_within_line && tail.printed == text.len() as u64);
    }
}
