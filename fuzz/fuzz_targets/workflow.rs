//! Any text: loading a workflow file never panics, keeps its bounds, and shows nothing that commands a terminal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vik_core::workflow::{MAX_DIAGNOSTICS, Severity, load};

fuzz_target!(|text: &str| {
    let loaded = load(text);
    let has_errors = loaded.diagnostics.iter().any(|finding| finding.severity == Severity::Error);
    assert_eq!(loaded.workflow.is_some(), !has_errors);
    assert!(loaded.diagnostics.len() <= MAX_DIAGNOSTICS + 1);
    let shown = loaded.render("workflow.yml", false);
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'));
    for finding in &loaded.diagnostics {
        // What a template engine would add afterwards.
        let _ = loaded.position(&finding.path);
        let _ = loaded.block_line(&finding.path, finding.line);
    }
});
