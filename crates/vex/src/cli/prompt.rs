//! The prompt: an argument, or all of stdin.

use std::io::{IsTerminal, Read};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::agent::Ending;
use crate::events::ExitReason;
use crate::interrupt::Interrupt;

/// The largest prompt, in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// How long stdin may stay silent before its first byte: who forgets to close it is told so.
const FIRST_BYTE: Duration = Duration::from_secs(60);

/// What the thread that reads tells.
enum Told {
    /// The first bytes came.
    Begun,
    /// All that came.
    All(std::io::Result<Vec<u8>>),
    /// A signal came.
    Interrupted,
}

/// The prompt. Nothing is read from stdin where the argument is one.
pub(super) fn read(argument: Option<&str>, interrupt: &Interrupt) -> Result<String, Ending> {
    const NONE: &str = "no prompt: give it as an argument, or `-` to read it from stdin";
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
    patience: Duration,
    interrupt: &Interrupt,
) -> Result<String, Ending> {
    // A thread of its own, so that a stdin that nobody closes can be left.
    let (tell, told) = sync_channel(3);
    let interrupted = tell.clone();
    let _listening = interrupt.listen(move || drop(interrupted.try_send(Told::Interrupted)));
    std::thread::spawn(move || take(source, &tell));
    let mut next = told.recv_timeout(patience);
    if matches!(next, Ok(Told::Begun)) {
        next = told.recv().map_err(|_| RecvTimeoutError::Disconnected);
    }
    let bytes = match next {
        Ok(Told::All(Ok(bytes))) => bytes,
        Ok(Told::All(Err(error))) => {
            return Err(usage(format!("cannot read the prompt from stdin: {error}")));
        }
        Ok(Told::Interrupted) => {
            return Err(Ending::failed(ExitReason::Interrupted, "interrupted by a signal"));
        }
        Ok(Told::Begun) | Err(_) => {
            return Err(usage(format!(
                "no prompt came on stdin for {} s, and it is still open: write to it and close it, or give the prompt as an \
                 argument",
                patience.as_secs()
            )));
        }
    };
    if bytes.len() as u64 > MAX_BYTES {
        return Err(usage("the prompt is longer than 16 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| usage("the prompt is not UTF-8 text"))
}

fn take(source: impl Read, tell: &SyncSender<Told>) {
    let mut source = source.take(MAX_BYTES + 1);
    let mut bytes = vec![0; 64 * 1024];
    let begun = source.read(&mut bytes).and_then(|count| {
        bytes.truncate(count);
        // Nobody may listen any more.
        let _ = tell.send(Told::Begun);
        source.read_to_end(&mut bytes)
    });
    let _ = tell.send(Told::All(begun.map(|_| bytes)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(source: impl Read + Send + 'static) -> Result<String, String> {
        told_within(Duration::from_secs(600), source)
    }

    fn told_within(patience: Duration, source: impl Read + Send + 'static) -> Result<String, String> {
        let read = from(source, patience, &Interrupt::new());
        read.map_err(|ending| format!("{} {}", ending.reason.as_str(), ending.message.unwrap()))
    }

    #[test]
    fn all_of_a_source_is_the_prompt() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::thread::spawn(move || {
            use std::io::Write;
            writer.write_all(b"first ").unwrap();
            writer.write_all("sécond".as_bytes()).unwrap();
        });
        assert_eq!(told(reader).unwrap(), "first sécond");
        assert_eq!(told(std::io::empty()).unwrap(), "");
        assert!(told(&b"\xff\xfe"[..]).unwrap_err().contains("not UTF-8"));
        assert!(
            told(std::io::repeat(b'x'))
                .unwrap_err()
                .contains("longer than 16 MiB")
        );
    }

    #[test]
    fn a_source_that_stays_open_and_silent_is_left() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let told = told_within(Duration::from_millis(50), reader).unwrap_err();
        assert!(told.starts_with("usage no prompt came"), "{told}");
        let (reader, _writer) = std::io::pipe().unwrap();
        let interrupt = Interrupt::new();
        interrupt.set();
        let ending = from(reader, Duration::from_secs(600), &interrupt).unwrap_err();
        assert_eq!(ending.reason, ExitReason::Interrupted);
    }

    #[test]
    fn an_argument_leaves_stdin_alone() {
        let interrupt = Interrupt::new();
        assert_eq!(read(Some("go"), &interrupt).unwrap(), "go");
        assert_eq!(
            read(Some(" \n"), &interrupt).unwrap_err().reason,
            ExitReason::Usage
        );
    }
}
