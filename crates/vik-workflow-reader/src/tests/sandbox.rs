//! `sandbox`.

use vik_core::workflow::{SandboxBackend, SandboxFiles, SandboxNetwork, SandboxPolicy};

use super::*;

fn policy(profile: &str, stage: &str) -> Option<SandboxPolicy> {
    let loaded = load(&minimal_with(&[
        ("    model:", &format!("    {profile}\n    model:")),
        ("      agent:", &format!("      {stage}\n      agent:")),
    ]));
    assert_eq!(loaded.diagnostics, [], "{}", loaded.render("workflow.yml", false));
    let workflow = loaded.workflow.unwrap();
    let stage = &workflow.issue.stages[0];
    SandboxPolicy::of(&workflow.agents[&stage.agent], stage)
}

#[test]
fn stage_overrides_the_profile_key_by_key() {
    assert_eq!(
        policy("sandbox: on", "sandbox: on"),
        Some(SandboxPolicy::default())
    );
    assert_eq!(policy("sandbox: off", "parallel: false"), None);
    assert_eq!(policy("sandbox: on", "sandbox: off"), None);
    assert_eq!(
        policy("sandbox: off", "sandbox: on"),
        Some(SandboxPolicy::default())
    );
    let both = policy(
        "sandbox: {backend: bubblewrap, network: off, pids: 9, write: [a]}",
        "sandbox: {network: [x], write: [b]}",
    );
    assert_eq!(
        both,
        Some(SandboxPolicy {
            backend: SandboxBackend::Bubblewrap,
            network: SandboxNetwork::Hosts(vec!["x".to_owned()]),
            pids: 9,
            write: vec!["b".to_owned()],
            ..SandboxPolicy::default()
        })
    );
    let read_only = policy("permission: read-only", "parallel: false").unwrap();
    assert_eq!(read_only.files, SandboxFiles::ReadOnly);
}

#[test]
fn meaningless_values_are_reported() {
    for (text, code) in [
        ("sandbox: maybe", "unknown_value"),
        ("sandbox: {network: sometimes}", "unknown_value"),
        ("sandbox: {files: none of it}", "unknown_value"),
        ("sandbox: {network: [\"https://x\"]}", "bad_host"),
        ("sandbox: {write: [../x]}", "bad_path"),
        ("sandbox: {write: [~root/x]}", "bad_path"),
        ("sandbox: {write: [$HOME/x]}", "bad_path"),
        ("sandbox: {read: ['/x/${Y}']}", "bad_path"),
        ("sandbox: {memory: much}", "bad_size"),
        ("sandbox: {pids: 0}", "out_of_range"),
    ] {
        let loaded = load(&minimal_with(&[(
            "    model:",
            &format!("    {text}\n    model:"),
        )]));
        let codes: Vec<_> = loaded.diagnostics.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [code], "{text}");
    }
}
