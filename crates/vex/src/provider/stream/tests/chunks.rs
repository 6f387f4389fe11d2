//! Any chunks and any order of parallel calls give the same turn.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Splits a text at these places, which need not be sorted.
fn pieces(text: &str, cuts: &[usize]) -> Vec<String> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.retain(|&at| text.is_char_boundary(at));
    cuts.windows(2)
        .map(|ends| text[ends[0]..ends[1]].to_owned())
        .collect()
}

#[derive(Clone, Debug)]
struct Made {
    text: String,
    calls: Vec<(String, Value)>,
    cuts: Vec<usize>,
    /// The order of the chunks.
    order: Vec<usize>,
}

fn made() -> impl Strategy<Value = Made> {
    let call = ("[a-z_]{1,12}", "\\PC{0,20}", any::<i32>())
        .prop_map(|(name, text, number)| (name, json!({"text": text, "number": number, "list": [text]})));
    (
        "\\PC{1,40}",
        prop::collection::vec(call, 0..5),
        prop::collection::vec(any::<usize>(), 0..6),
        prop::collection::vec(any::<usize>(), 0..40),
    )
        .prop_map(|(text, calls, cuts, order)| Made {
            text: format!("{text}."),
            calls,
            cuts,
            order,
        })
}

impl Made {
    /// Returns the chunks of all calls, interleaved; each call's own chunks stay in order.
    fn interleaved(&self) -> Vec<(usize, String)> {
        let mut queues: Vec<_> = self
            .calls
            .iter()
            .map(|(_, input)| pieces(&input.to_string(), &self.cuts).into_iter())
            .collect();
        let mut order = Vec::new();
        let calls = queues.len();
        for &turn in self.order.iter().filter(|_| calls > 0) {
            let at = turn % calls;
            order.extend(queues[at].next().map(|piece| (at, piece)));
        }
        for (at, queue) in queues.into_iter().enumerate() {
            order.extend(queue.map(|piece| (at, piece)));
        }
        order
    }

    fn stream(&self, protocol: Protocol) -> String {
        let mut events = Vec::new();
        let texts = pieces(&self.text, &self.cuts);
        match protocol {
            Protocol::Messages => {
                events.push(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}));
                events.extend(texts.iter().map(
                    |text| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
                ));
                for (at, (name, _)) in self.calls.iter().enumerate() {
                    let block =
                        json!({"type": "tool_use", "id": format!("id{at}"), "name": name, "input": {}});
                    events.push(
                        json!({"type": "content_block_start", "index": at + 1, "content_block": block}),
                    );
                }
                events.extend(self.interleaved().iter().map(|(at, piece)| {
                    let delta = json!({"type": "input_json_delta", "partial_json": piece});
                    json!({"type": "content_block_delta", "index": at + 1, "delta": delta})
                }));
                events.extend(
                    (0..=self.calls.len()).map(|at| json!({"type": "content_block_stop", "index": at})),
                );
                events.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}));
                events.push(json!({"type": "message_stop"}));
            }
            Protocol::Chat => {
                let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
                events.extend(texts.iter().map(|text| chunk(json!({"content": text}))));
                for (at, (name, _)) in self.calls.iter().enumerate() {
                    let function = json!({"name": name, "arguments": ""});
                    events.push(chunk(
                        json!({"tool_calls": [{"index": at, "id": format!("id{at}"), "function": function}]}),
                    ));
                }
                events.extend(self.interleaved().iter().map(|(at, piece)| {
                    chunk(json!({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}))
                }));
                events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
            }
            Protocol::Responses => {
                events.extend(texts.iter().map(
                    |text| json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": text}),
                ));
                let item = |at: usize, arguments: &str| {
                    json!({"type": "function_call", "id": format!("fc{at}"), "call_id": format!("id{at}"),
                        "name": self.calls[at].0, "arguments": arguments})
                };
                events.extend((0..self.calls.len()).map(
                    |at| json!({"type": "response.output_item.added", "output_index": at + 1, "item": item(at, "")}),
                ));
                events.extend(self.interleaved().iter().map(|(at, piece)| {
                    json!({"type": "response.function_call_arguments.delta", "output_index": at + 1,
                        "item_id": format!("fc{at}"), "delta": piece})
                }));
                events.extend((0..self.calls.len()).map(|at| {
                    let item = item(at, &self.calls[at].1.to_string());
                    json!({"type": "response.output_item.done", "output_index": at + 1, "item": item})
                }));
                events.push(json!({"type": "response.completed", "response": {"output": []}}));
            }
        }
        let events = events.into_iter().map(|event| format!("data: {event}\n\n"));
        events.collect()
    }
}

/// Cuts bytes into chunks of these lengths, repeatedly.
fn chunks<'a>(mut bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    let mut lengths = lengths.iter().cycle();
    while !bytes.is_empty() {
        let length = lengths
            .next()
            .map_or(bytes.len(), |length| length.clamp(&1, &bytes.len()).to_owned());
        let (chunk, tail) = bytes.split_at(length);
        chunks.push(chunk);
        bytes = tail;
    }
    chunks
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn turn_is_the_same_for_any_order_and_chunks(
        made in made(),
        lengths in prop::collection::vec(1usize..60, 0..8),
    ) {
        for protocol in Protocol::ALL {
            let stream = made.stream(protocol);
            let outcome = read(protocol, chunks(stream.as_bytes(), &lengths));
            prop_assert_eq!(&outcome.shown, &made.text);
            let turn = outcome.turn.unwrap();
            prop_assert_eq!(turn.text(), made.text.as_str());
            let got: Vec<(String, Value)> = turn
                .tool_calls()
                .map(|call| (call.tool.clone(), call.input.json().cloned().unwrap_or_default()))
                .collect();
            prop_assert_eq!(&got, &made.calls);
            prop_assert!(turn.tool_calls().all(|call| !call.repaired));
        }
    }

    #[test]
    fn turn_from_noise_is_the_same_in_any_chunks(
        noise in prop::collection::vec(any::<u8>(), 0..40),
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        lengths in prop::collection::vec(1usize..40, 0..8),
    ) {
        // A recorded stream with a part removed and noise inserted.
        let streams = recorded();
        let (protocol, _, stream) = &streams[which.index(streams.len())];
        let at = at.index(stream.len());
        let end = at + cut.index(stream.len() - at).min(50);
        let bytes = [&stream[..at], &noise, &stream[end..]].concat();
        let whole = read(*protocol, [bytes.as_slice()]);
        prop_assert_eq!(read(*protocol, chunks(&bytes, &lengths)), whole);
    }
}
