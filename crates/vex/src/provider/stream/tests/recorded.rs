//! Recorded streams: their turns, which are the same wherever the streams are cut.

use super::*;
use crate::provider::sse::SseParser;

#[test]
fn recorded_streams_give_their_turns() {
    for protocol in Protocol::ALL {
        let mut shown = String::new();
        for (_, name, stream) in recorded().iter().filter(|(of, ..)| *of == protocol) {
            let outcome = read(protocol, [stream.as_slice()]);
            let turn = match outcome.turn {
                Ok(turn) => serde_json::to_string_pretty(&turn).unwrap(),
                Err(error) => format!("{error:?}\n{error}"),
            };
            shown += &format!("=== {name}\nshown: {:?}\n{turn}\n\n", outcome.shown);
        }
        insta::assert_snapshot!(protocol.as_str(), shown);
    }
}

/// A decoder receives only complete events: if these are the same, so is the turn.
#[test]
fn stream_cut_at_any_byte_gives_the_same_events() {
    let events = |chunks: &[&[u8]]| {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for chunk in chunks {
            parser.push(chunk);
            while let Some(event) = parser.next_event().unwrap() {
                events.push(event);
            }
        }
        events
    };
    for (_, name, stream) in recorded() {
        let whole = events(&[&stream]);
        for at in 0..=stream.len() {
            assert_eq!(
                events(&[&stream[..at], &stream[at..]]),
                whole,
                "{name} cut at {at}"
            );
        }
    }
}

/// The whole path, for all streams byte by byte, and cut at every byte for the small ones.
#[test]
fn stream_cut_at_any_byte_gives_the_same_turn() {
    for (protocol, name, stream) in recorded() {
        let whole = read(protocol, [stream.as_slice()]);
        assert_eq!(read(protocol, stream.chunks(1)), whole, "{name} byte by byte");
        let small = stream.len() < 1200;
        for at in (0..=stream.len()).step_by(if small { 1 } else { 97 }) {
            let (head, tail) = stream.split_at(at);
            assert_eq!(read(protocol, [head, tail]), whole, "{name} cut at {at}");
        }
    }
}

/// The mistake: a stream that broke off is taken for an answer.
#[test]
fn broken_stream_is_never_a_turn() {
    for (protocol, name, stream) in recorded() {
        let whole = read(protocol, [stream.as_slice()]);
        let Ok(turn) = whole.turn else { continue };
        // Nothing changes within an event: it is enough to check before and after line ends.
        let ends =
            (0..stream.len()).filter(|&end| end == 0 || stream[end - 1] == b'\n' || stream[end] == b'\n');
        for end in ends {
            let Ok(early) = read(protocol, [&stream[..end]]).turn else {
                continue;
            };
            // Only what follows the last content may be missing: the token count and the end mark.
            assert_eq!(early.blocks, turn.blocks, "{name} broken off at {end}");
            assert_eq!(early.stop, turn.stop, "{name} broken off at {end}");
            let tail = std::str::from_utf8(&stream[end..]).unwrap_or_default();
            let finished = protocol == Protocol::Chat && !tail.contains("\"finish_reason\":\"");
            // The last empty line may be cut in half.
            assert!(finished || tail.trim().is_empty(), "{name} broken off at {end}");
        }
    }
}
