//! What a pull command prints, whatever it is: no id comes twice, and each issue can be told of again.
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
        let kept = serde_json::to_string(issue).expect("an issue can be kept");
        let again: vik_core::issue::Issue = serde_json::from_str(&kept).expect("and read again");
        assert_eq!(again.text_fingerprint(), issue.text_fingerprint());
    }
});
