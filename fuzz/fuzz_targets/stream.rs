//! The check that the stream targets share, each with its protocol: any bytes, in any chunks, never
//! panic, and give the same turn, the same streamed text and the same error as in one chunk.

use vex::conversation::Turn;
use vex::provider::protocol::Protocol;
use vex::provider::stream::{AnswerReader, StreamError};
use vex::provider::{Progress, Request};
use vex::tools::{Need, ToolDefinition};

fn read<'a>(protocol: Protocol, chunks: impl Iterator<Item = &'a [u8]>) -> (Result<Turn, StreamError>, String) {
    // The request has a tool, so that the reader also searches text for calls.
    let tools = [ToolDefinition {
        name: "run_command".into(),
        description: "".into(),
        input_schema: serde_json::json!({"type": "object", "properties": {"command": {"type": "string"}}}),
        need: Need::Execute,
        aliases: &["bash"],
        arguments: &[],
    }];
    let request = Request { tools: &tools, ..Request::default() };
    let mut shown = String::new();
    let mut show = |progress: Progress<'_>| {
        if let Progress::Text { text, .. } | Progress::Thinking { text, .. } = progress {
            shown.push_str(text);
        }
    };
    let mut reader = AnswerReader::new(protocol, &request, 0);
    for chunk in chunks {
        if let Err(error) = reader.push(chunk, &mut show) {
            return (Err(error), shown);
        }
    }
    let turn = reader.finish(&mut show);
    (turn, shown)
}

/// Checks one input. Its first byte sets the length of the chunks.
pub fn check(protocol: Protocol, data: &[u8]) {
    let Some((&length, bytes)) = data.split_first() else { return };
    let whole = read(protocol, std::iter::once(bytes));
    let cut = read(protocol, bytes.chunks(usize::from(length).max(1)));
    assert_eq!(cut, whole);
    if let (Ok(turn), _) = &whole {
        let mut ids: Vec<&str> = turn.tool_calls().map(|call| call.call_id.as_str()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "ids are unique");
        assert!(ids.iter().all(|id| !id.is_empty()));
    }
}
