//! The prompt: an argument, or all of stdin.

use std::io::{IsTerminal, Read};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::agent::Ending;
use crate::events::ExitReason;
use crate::interrupt::Interrupt;

/// The maximum size of a prompt, in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// How long stdin may be silent before its first byte. After that, an error reports a stdin that is
/// not closed.
const FIRST_BYTE: Duration = Duration::from_secs(60);

/// An event of the thread that reads.
enum InputEvent {
    Started,
    /// All bytes of the source.
    Complete(std::io::Result<Vec<u8>>),
    Interrupted,
}

/// Returns the prompt. Does not read stdin if the argument is the prompt.
pub(super) fn read(argument: Option<&str>, interrupt: &Interrupt) -> Result<String, Ending> {
    const NONE: &str = "no prompt: pass it as an argument, or `-` to read it from stdin";
    let text = match argument {
        Some("-") => from(std::io::stdin(), FIRST_BYTE, interrupt)?,
        Some(text) => text.to_owned(),
        None if std::io::stdin().is_terminal() => return Err(usage(NONE)),
        None => {
            let text = from(std::io::stdin(), FIRST_BYTE, interrupt)?;
            if text.is_empty() {
                return Err(usage(NONE));
            }
            text
        }
    };
    if text.trim().is_empty() {
        return Err(usage("the prompt is empty"));
    }
    Ok(text)
}

fn usage(message: impl Into<String>) -> Ending {
    Ending::failed(ExitReason::Usage, message)
}

fn from(
    source: impl Read + Send + 'static,
    timeout: Duration,
    interrupt: &Interrupt,
) -> Result<String, Ending> {
    // A separate thread, so that a stdin that is never closed can be abandoned.
    let (sender, receiver) = sync_channel(3);
    let interrupted = sender.clone();
    let _listening = interrupt.listen(move || drop(interrupted.try_send(InputEvent::Interrupted)));
    std::thread::spawn(move || read_source(source, &sender));
    let mut next = receiver.recv_timeout(timeout);
    if matches!(next, Ok(InputEvent::Started)) {
        next = receiver.recv().map_err(|_| RecvTimeoutError::Disconnected);
    }
    let bytes = match next {
        Ok(InputEvent::Complete(Ok(bytes))) => bytes,
        Ok(InputEvent::Complete(Err(error))) => {
            return Err(usage(format!("cannot read the prompt from stdin: {error}")));
        }
        Ok(InputEvent::Interrupted) => {
            return Err(Ending::failed(ExitReason::Interrupted, "interrupted by a signal"));
        }
        Ok(InputEvent::Started) | Err(_) => {
            return Err(usage(format!(
                "no prompt on stdin within {} s, and it is still open: write to it and close it, or pass the prompt as an \
                 argument",
                timeout.as_secs()
            )));
        }
    };
    if bytes.len() as u64 > MAX_BYTES {
        return Err(usage("the prompt is longer than 16 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| usage("the prompt is not UTF-8 text"))
}

fn read_source(source: impl Read, sender: &SyncSender<InputEvent>) {
    let mut source = source.take(MAX_BYTES + 1);
    let mut bytes = vec![0; 64 * 1024];
    let first_read = source.read(&mut bytes).and_then(|count| {
        bytes.truncate(count);
        // The receiver may have been dropped.
        let _ = sender.send(InputEvent::Started);
        source.read_to_end(&mut bytes)
    });
    let _ = sender.send(InputEvent::Complete(first_read.map(|_| bytes)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(source: impl Read + Send + 'static) -> Result<String, String> {
        read_within(Duration::from_secs(600), source)
    }

    fn read_within(timeout: Duration, source: impl Read + Send + 'static) -> Result<String, String> {
        let read = from(source, timeout, &Interrupt::new());
        read.map_err(|ending| format!("{} {}", ending.reason.as_str(), ending.message.unwrap()))
    }

    #[test]
    fn prompt_is_the_whole_source() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::thread::spawn(move || {
            use std::io::Write;
            writer.write_all(b"first ").unwrap();
            writer.write_all("sécond".as_bytes()).unwrap();
        });
        assert_eq!(read_from(reader).unwrap(), "first sécond");
        assert_eq!(read_from(std::io::empty()).unwrap(), "");
        assert!(read_from(&b"\xff\xfe"[..]).unwrap_err().contains("not UTF-8"));
        assert!(
            read_from(std::io::repeat(b'x'))
                .unwrap_err()
                .contains("longer than 16 MiB")
        );
    }

    #[test]
    fn silent_open_source_times_out() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let error = read_within(Duration::from_millis(50), reader).unwrap_err();
        assert!(error.starts_with("usage no prompt on stdin"), "{error}");
        let (reader, _writer) = std::io::pipe().unwrap();
        let interrupt = Interrupt::new();
        interrupt.set();
        let ending = from(reader, Duration::from_secs(600), &interrupt).unwrap_err();
        assert_eq!(ending.reason, ExitReason::Interrupted);
    }

    #[test]
    fn prompt_argument_leaves_stdin_unread() {
        let interrupt = Interrupt::new();
        assert_eq!(read(Some("go"), &interrupt).unwrap(), "go");
        assert_eq!(
            read(Some(" \n"), &interrupt).unwrap_err().reason,
            ExitReason::Usage
        );
    }
}
