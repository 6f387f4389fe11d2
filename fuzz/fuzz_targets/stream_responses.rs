//! Checks answers of the responses protocol.
#![no_main]

#[path = "stream.rs"]
mod stream;

use vex::provider::protocol::Protocol;

libfuzzer_sys::fuzz_target!(|data: &[u8]| stream::check(Protocol::Responses, data));
