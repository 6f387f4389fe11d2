//! Reading an answer is linear work. Time is unreliable on a busy machine, so the allocated bytes
//! are counted: code that copies, joins or parses the same text again allocates more.
#![allow(unsafe_code, reason = "an allocator that counts cannot be written without it")]
#![allow(clippy::unwrap_used, reason = "a test helper may panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use vex::provider::Request;
use vex::provider::protocol::Protocol;
use vex::provider::stream::AnswerReader;

struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // A reallocation counts as a whole, though the system may be able to grow in place.
        ALLOCATED.fetch_add(size, Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Events of an answer with this many bytes of text and as many of arguments, in chunks of five.
fn events(protocol: Protocol, bytes: usize) -> Vec<String> {
    let piece = "word ";
    let count = bytes / piece.len();
    let mut events = Vec::new();
    let mut push = |event: Value| events.push(format!("data: {event}\n\n"));
    match protocol {
        Protocol::Messages => {
            let delta = |index: u8, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
            push(
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            );
            (0..count).for_each(|_| push(delta(0, json!({"type": "text_delta", "text": piece}))));
            let block = json!({"type": "tool_use", "id": "a", "name": "t", "input": {}});
            push(json!({"type": "content_block_start", "index": 1, "content_block": block}));
            let more = |json: &str| delta(1, json!({"type": "input_json_delta", "partial_json": json}));
            push(more("{\"x\":\""));
            (0..count).for_each(|_| push(more(piece)));
            push(more("\"}"));
            push(json!({"type": "content_block_stop", "index": 1}));
            push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
            push(json!({"type": "message_stop"}));
        }
        Protocol::Chat => {
            let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
            (0..count).for_each(|_| push(chunk(json!({"content": piece}))));
            let more = |json: &str| {
                let function = json!({"name": "t", "arguments": json});
                chunk(json!({"tool_calls": [{"index": 0, "id": "a", "function": function}]}))
            };
            push(more("{\"x\":\""));
            (0..count).for_each(|_| push(more(piece)));
            push(more("\"}"));
            push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}));
        }
        Protocol::Responses => {
            let text = json!({"type": "response.output_text.delta", "output_index": 0, "delta": piece});
            (0..count).for_each(|_| push(text.clone()));
            let item =
                json!({"type": "function_call", "id": "f", "call_id": "a", "name": "t", "arguments": ""});
            push(json!({"type": "response.output_item.added", "output_index": 1, "item": item}));
            let more = |json: &str| json!({"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "f", "delta": json});
            push(more("{\"x\":\""));
            (0..count).for_each(|_| push(more(piece)));
            push(more("\"}"));
            push(json!({"type": "response.output_item.done", "output_index": 1, "item": item}));
            push(json!({"type": "response.completed", "response": {"output": []}}));
        }
    }
    events
}

/// Returns the bytes allocated while such an answer was read.
fn work(protocol: Protocol, bytes: usize) -> usize {
    let events = events(protocol, bytes);
    let request = Request::default();
    let mut shown = 0;
    let before = ALLOCATED.load(Ordering::Relaxed);
    let mut reader = AnswerReader::new(protocol, &request, 0);
    for event in &events {
        reader.push(event.as_bytes(), &mut |_| shown += 1).unwrap();
    }
    let turn = reader.finish(&mut |_| shown += 1).unwrap();
    let work = ALLOCATED.load(Ordering::Relaxed) - before;
    assert_eq!(turn.text().len(), bytes);
    assert_eq!(
        turn.tool_calls().next().unwrap().input.json().unwrap()["x"]
            .as_str()
            .unwrap()
            .len(),
        bytes
    );
    assert_eq!(shown, bytes / 5);
    work
}

/// The mistake: 200 KB in small chunks took seconds. An answer of twice the length may cost twice
/// as much, and not more.
#[test]
fn reading_an_answer_allocates_linearly() {
    for protocol in Protocol::ALL {
        let (half, whole) = (work(protocol, 20_000), work(protocol, 40_000));
        assert!(
            whole * 10 < half * 23,
            "{}: {half} bytes for 20 KB, {whole} for 40 KB",
            protocol.as_str()
        );
    }
}
