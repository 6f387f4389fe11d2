//! Checks any output of a pull command: no id occurs twice, and each issue survives a round trip
//! through JSON.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use vik_core::issue::Pull;

fuzz_target!(|data: &[u8]| {
    let Ok(pull) = Pull::parse(data) else { return };
    assert!(pull.count >= pull.issues.len());
    let mut ids = HashSet::new();
    for issue in &pull.issues {
        assert!(ids.insert(issue.id.clone()), "{}", issue.id);
        assert_eq!(issue.text_fingerprint(), issue.clone().text_fingerprint());
        let _ = (issue.fingerprint(), issue.description(), issue.labels(), issue.url(), issue.origin());
        let serialized = serde_json::to_string(issue).expect("an issue can be kept");
        let parsed: vik_core::issue::Issue = serde_json::from_str(&serialized).expect("and read again");
        assert_eq!(parsed.text_fingerprint(), issue.text_fingerprint());
    }
});
