//! Checks that parsing any body of the API never panics, and that
//! a parsed value survives a round trip through JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use vik_api::{ApprovalDecision, Retry, SendMessage, WhichIssue};

fn round_trip<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(data: &[u8]) {
    if let Ok(body) = serde_json::from_slice::<T>(data) {
        let text = serde_json::to_vec(&body).expect("it can be written");
        assert_eq!(serde_json::from_slice::<T>(&text).expect("and read"), body);
    }
}

fuzz_target!(|data: &[u8]| {
    round_trip::<Retry>(data);
    round_trip::<WhichIssue>(data);
    round_trip::<ApprovalDecision>(data);
    round_trip::<SendMessage>(data);
});
