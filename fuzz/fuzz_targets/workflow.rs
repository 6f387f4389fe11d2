//! Checks that loading any text as a workflow file never panics, reports a bounded number of
//! diagnostics, and shows nothing that a terminal would interpret as a command.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vik_workflow_reader::{MAX_DIAGNOSTICS, Severity, load};

fuzz_target!(|text: &str| {
    let loaded = load(text);
    let has_errors = loaded.diagnostics.iter().any(|finding| finding.severity == Severity::Error);
    assert_eq!(loaded.workflow.is_some(), !has_errors);
    assert!(loaded.diagnostics.len() <= MAX_DIAGNOSTICS + 1);
    let shown = loaded.render("workflow.yml", false);
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'));
    for finding in &loaded.diagnostics {
        // Calls what a template engine calls afterwards: it must not panic.
        let _ = loaded.document().position(&finding.path);
        let _ = loaded.document().block_line(&finding.path, finding.line);
    }
});
