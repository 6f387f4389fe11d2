//! `workspace.durable`.

use vik_core::workflow::DurableWorkspace;

use super::*;

const HOOK: &str = "issue:\n  hooks: {after_create: git clone x .}\n";

/// Reads the minimal workflow with a value of `workspace.durable`.
fn durable(value: &str) -> Loaded {
    let workspace = format!("workspace: {{durable: {value}}}\nagents:\n");
    load(&minimal_with(&[("agents:\n", &workspace), ("issue:\n", HOOK)]))
}

#[test]
fn durable_is_a_boolean_or_a_map_with_the_remote() {
    let remote = |remote: Option<&str>| {
        let remote = remote.map(str::to_owned);
        Some(DurableWorkspace { remote })
    };
    for (value, expected) in [
        ("true", remote(None)),
        ("{}", remote(None)),
        ("{remote: upstream}", remote(Some("upstream"))),
        ("false", None),
        ("null", None),
    ] {
        let loaded = durable(value);
        assert_eq!(loaded.diagnostics, [], "{value}");
        assert_eq!(loaded.workflow.unwrap().workspace_durable, expected, "{value}");
    }
    for (value, code) in [
        ("yes", "wrong_type"),
        ("3", "wrong_type"),
        ("{remte: x}", "unknown_key"),
    ] {
        let loaded = durable(value);
        assert_eq!(loaded.diagnostics[0].code, code, "{value}");
        assert!(loaded.workflow.is_none(), "{value}");
    }
}

#[test]
fn durable_needs_a_hook_that_creates_workspaces() {
    let finding = top("workspace: {^durable: true}", "durable_workspace");
    assert_eq!(finding.severity, Severity::Error);
    assert_eq!(
        finding.hint.as_deref(),
        Some("clone one in `issue.hooks.after_create`")
    );
}
