//! Checks that reading arguments from any text never panics, leaves valid JSON unchanged, and never
//! completes truncated text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tool_call_repair::repair_arguments;

fuzz_target!(|text: &str| {
    match (repair_arguments(text), serde_json::from_str::<Value>(text)) {
        (Err(broken), _) => {
            assert_eq!(broken.raw, text);
            assert!(!broken.reason.is_empty());
        }
        // A JSON string that contains JSON is unwrapped; any other JSON is unchanged.
        (Ok(read), Ok(value)) => assert!(value.is_string() || read == value),
        // Repaired text is a JSON object or array, and its closing bracket comes from the input.
        (Ok(read), Err(_)) => {
            let close = if read.is_array() { ']' } else { '}' };
            assert!(text.contains(close));
        }
    }
});
