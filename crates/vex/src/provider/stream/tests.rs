//! Answers of all three protocols through the real parser.

use super::*;
use crate::conversation::{Block, Message, Turn};
use crate::provider::protocol::Protocol;
use crate::provider::{Progress, Request};

/// What came of a stream in these chunks: the turn, and all that was shown.
fn read<'a>(
    protocol: Protocol,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Turn, StreamError>, String) {
    let messages = [Message::User {
        text: "Do it.".to_owned(),
    }];
    let request = Request {
        system: "",
        messages: &messages,
        tools: &[],
        output_schema: None,
    };
    let mut shown = String::new();
    let mut show = |progress: Progress<'_>| {
        if let Progress::Text(text) | Progress::Thinking(text) = progress {
            shown.push_str(text);
        }
    };
    let mut reader = Reader::new(protocol, &request, 400);
    for chunk in chunks {
        if let Err(error) = reader.push(chunk, &mut show) {
            return (Err(error), shown);
        }
    }
    let turn = reader.finish(&mut show);
    (turn, shown)
}

#[test]
fn a_plain_answer() {
    let chat = "data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hel\"}}]}\n\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let (turn, shown) = read(Protocol::Chat, [chat.as_bytes()]);
    let blocks = vec![Block::Text {
        text: "Hello".to_owned(),
    }];
    assert_eq!(turn.unwrap().blocks, blocks);
    assert_eq!(shown, "Hello");
}
