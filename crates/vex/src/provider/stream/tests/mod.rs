//! Answers of all three protocols through the real parser: recorded ones, in tests/streams, and
//! generated ones.

mod chunks;
mod mistakes;
mod recorded;

use super::*;
use crate::conversation::{Block, Message, StopReason, ToolCall, Turn};
use crate::provider::protocol::Protocol;
use crate::provider::{Progress, Request};

/// The result of a stream.
#[derive(Debug, PartialEq)]
struct Outcome {
    turn: Result<Turn, StreamError>,
    /// The reported progress, thinking in brackets.
    shown: String,
}

/// Reads a stream in these chunks, as the answer to a request after these messages.
fn answer<'a>(
    protocol: Protocol,
    messages: &[Message],
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Outcome {
    let request = Request {
        messages,
        ..Request::default()
    };
    let mut shown = Vec::new();
    let mut show = |progress: Progress<'_>| match (progress, shown.last_mut()) {
        (Progress::Text { text, .. }, Some((false, part_text)))
        | (Progress::Thinking { text, .. }, Some((true, part_text))) => {
            *part_text += text;
        }
        (Progress::Text { text, .. }, _) => shown.push((false, text.to_owned())),
        (Progress::Thinking { text, .. }, _) => shown.push((true, text.to_owned())),
        _ => {}
    };
    let mut reader = AnswerReader::new(protocol, &request, 400);
    let pushed = chunks
        .into_iter()
        .try_for_each(|chunk| reader.push(chunk, &mut show));
    let turn = pushed.and_then(|()| reader.finish(&mut show));
    let shown = shown.into_iter().map(|(thought, part_text)| {
        if thought {
            format!("[{part_text}]")
        } else {
            part_text
        }
    });
    Outcome {
        turn,
        shown: shown.collect(),
    }
}

fn read<'a>(protocol: Protocol, chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    answer(protocol, &[], chunks)
}

/// Returns the turn of a complete stream.
fn turn(protocol: Protocol, stream: &str) -> Turn {
    read(protocol, [stream.as_bytes()]).turn.unwrap()
}

fn calls(turn: &Turn) -> Vec<&ToolCall> {
    turn.tool_calls().collect()
}

/// Returns the recorded streams: protocol, name, bytes.
fn recorded() -> Vec<(Protocol, String, Vec<u8>)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams");
    let mut streams = Vec::new();
    for protocol in Protocol::ALL {
        for entry in std::fs::read_dir(root.join(protocol.as_str())).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            streams.push((protocol, name, std::fs::read(path).unwrap()));
        }
    }
    streams.sort_by(|(_, a, _), (_, b, _)| a.cmp(b));
    assert!(streams.len() > 25, "the recorded streams are missing");
    streams
}

fn named(protocol: Protocol, name: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams");
    let path = root.join(protocol.as_str()).join(format!("{name}.sse"));
    std::fs::read_to_string(path).unwrap()
}
