//! Any text: reading arguments never panics; JSON stays what it is, and what is cut off is never completed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use vex::conversation::Arguments;
use vex::repair::arguments;

fuzz_target!(|text: &str| {
    match (arguments(text), serde_json::from_str::<Value>(text)) {
        (Arguments::Broken { raw, reason }, _) => {
            assert_eq!(raw, text);
            assert!(!reason.is_empty());
        }
        // JSON in a JSON text is unwrapped; everything else is taken as it is.
        (Arguments::Json(read), Ok(value)) => assert!(value.is_string() || read == value),
        // What was mended is a JSON object or array, and was closed by the one who wrote it.
        (Arguments::Json(read), Err(_)) => {
            let close = if read.is_array() { ']' } else { '}' };
            assert!(text.contains(close));
        }
    }
});
