//! Bodies of the API and lines of the control socket: nothing panics, and what was read is written and read as it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use vik_api::{ApprovalDecision, Request, Unpark, WhichIssue};

fn again<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(data: &[u8]) {
    if let Ok(body) = serde_json::from_slice::<T>(data) {
        let text = serde_json::to_vec(&body).expect("it can be written");
        assert_eq!(serde_json::from_slice::<T>(&text).expect("and read"), body);
    }
}

fuzz_target!(|data: &[u8]| {
    again::<Request>(data);
    again::<Unpark>(data);
    again::<WhichIssue>(data);
    again::<ApprovalDecision>(data);
});
