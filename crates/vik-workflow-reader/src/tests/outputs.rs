//! `outputs`: what is refused, and what arrives.

use vik_core::outputs::{OutputKind, OutputPolicy};

use super::*;

/// Returns the minimal workflow with these outputs, and more in its profile and its stage.
fn with(outputs: &str, profile: &str, stage: &str) -> Loaded {
    let profile = format!("    {profile}\n    model:");
    let stage = format!("      outputs: {outputs}\n      {stage}\n      agent:");
    load(&minimal_with(&[
        ("    model:", &profile),
        ("      agent:", &stage),
    ]))
}

const COMMENT: &str = "{comment: {run: ./comment}}";

#[track_caller]
fn one(loaded: &Loaded, code: &str, path: &str) -> Diagnostic {
    let text = loaded.render("workflow.yml", false);
    assert_eq!(loaded.diagnostics.len(), 1, "{text}");
    let finding = &loaded.diagnostics[0];
    assert_eq!((finding.code, finding.path.as_str()), (code, path), "{text}");
    finding.clone()
}

fn policy(outputs: &str) -> Option<OutputPolicy> {
    let loaded = with(outputs, "args: {}", "parallel: false");
    assert_eq!(loaded.diagnostics, [], "{}", loaded.render("workflow.yml", false));
    loaded.workflow.unwrap().issue.stages[0].outputs.clone()
}

#[test]
fn output_rules_allow_one_of_each_kind_by_default() {
    let policy =
        policy("{comment: {run: a}, label: {allow: [x], run: b}, pull_request: {run: c, check: d}}").unwrap();
    let kinds: Vec<_> = policy.rules.keys().copied().collect();
    assert_eq!(
        kinds,
        [OutputKind::Comment, OutputKind::Label, OutputKind::PullRequest]
    );
    assert!(policy.rules.values().all(|rule| rule.max == 1 && !rule.approve));
    assert_eq!(
        policy.rules[&OutputKind::Label].allow.as_ref().unwrap().globs(),
        ["x"]
    );
    assert_eq!(self::policy("{}"), Some(OutputPolicy::default()));
    assert_eq!(self::policy(""), None);
}

#[test]
fn outputs_errors_have_positions() {
    let plain = |outputs: &str| with(outputs, "args: {}", "parallel: false");
    let at = |key: &str| format!("issue.stages.plan.outputs.{key}");
    for (outputs, code, key) in [
        ("{comment: {max: 2}}", "missing_key", "comment.run"),
        ("{label: {run: a}}", "missing_key", "label.allow"),
        ("{state: {run: a}}", "missing_key", "state.allow"),
        ("{state: {run: a, allow: []}}", "empty_value", "state.allow"),
        ("{state: {run: a, allow: [\"[a\"]}}", "bad_glob", "state.allow"),
        ("{comment: {run: a, max: 0}}", "out_of_range", "comment.max"),
        ("{pr: {run: a}, comment: {run: a}}", "unknown_key", "pr"),
        (
            "{comment: {run: a}, secrets: [NO_SUCH]}",
            "unknown_secret",
            "secrets.0",
        ),
    ] {
        one(&plain(outputs), code, &at(key));
    }
    let listed = plain("{comment: {run: a, allow: [x]}}");
    assert_eq!(
        one(&listed, "unknown_key", &at("comment.allow")).hint.as_deref(),
        Some("this kind of output has no list of allowed values")
    );
}

#[test]
fn outputs_need_a_sandbox() {
    let path = "issue.stages.plan.outputs";
    for (profile, stage) in [
        ("sandbox: off", "parallel: false"),
        ("args: {}", "sandbox: off"),
        ("sandbox: {unix_sockets: true}", "parallel: false"),
    ] {
        one(&with(COMMENT, profile, stage), "output_sandbox", path);
    }
    for (profile, stage) in [
        ("sandbox: off", "sandbox: on"),
        ("sandbox: {unix_sockets: true}", "sandbox: {unix_sockets: false}"),
    ] {
        assert_eq!(with(COMMENT, profile, stage).diagnostics, []);
    }
}

#[test]
fn read_only_agent_with_outputs_is_reported() {
    let read_only = |runtime: &str| {
        let text = with(COMMENT, "permission: read-only", "parallel: false")
            .document()
            .text()
            .to_owned();
        load(&text.replace("runtime: codex", &format!("runtime: {runtime}")))
    };
    for runtime in ["claude_code", "vex"] {
        let path = "issue.stages.plan.outputs";
        let finding = one(&read_only(runtime), "output_permission", path);
        assert_eq!(finding.severity, Severity::Warning);
    }
    assert_eq!(read_only("codex").diagnostics, []);
}

#[test]
fn server_with_a_credential_has_a_sandbox_of_its_own() {
    let server = |sandbox: &str| {
        let text = with(COMMENT, "mcp: [hub]", "parallel: false")
            .document()
            .text()
            .to_owned();
        load(&format!(
            "{text}secrets: {{S: {{env: GH_TOKEN}}}}\nmcp: {{hub: {{command: [a], secrets: [S], tools: [a], sandbox: {sandbox}}}}}\n"
        ))
    };
    one(&server("agent"), "output_credential", "mcp.hub.secrets.0");
    let own = server("own");
    assert_eq!(own.diagnostics, [], "{}", own.render("workflow.yml", false));
}

#[test]
fn agent_with_outputs_gets_no_credential() {
    for (profile, path) in [
        ("env: {GITHUB_TOKEN: x}", "agents.codex.env.GITHUB_TOKEN"),
        ("env_pass: [A, SSH_AUTH_SOCK]", "agents.codex.env_pass.1"),
        ("env_pass: [jira_anything]", "agents.codex.env_pass.0"),
    ] {
        one(
            &with(COMMENT, profile, "parallel: false"),
            "output_credential",
            path,
        );
    }
    let secrets = |text: &str, outputs: &str, of_agent: &str| {
        let loaded = with(
            outputs,
            &format!("secrets: [{of_agent}]"),
            "hooks: {secrets: [S, T]}",
        );
        load(&format!("{}secrets: {text}\n", loaded.document().text()))
    };
    let both = "{S: {env: GH_TOKEN}, T: {file: t}}";
    let path = "agents.codex.secrets.0";
    one(&secrets(both, COMMENT, "S"), "output_credential", path);
    let with_secret = "{comment: {run: a}, secrets: [T]}";
    let finding = one(&secrets(both, with_secret, "T"), "output_credential", path);
    assert!(
        finding.message.ends_with("it gives access to the tracker"),
        "{finding:?}"
    );
    assert_eq!(secrets(both, COMMENT, "T").diagnostics, []);
    assert_eq!(
        with("", "env_pass: [GITHUB_TOKEN]", "parallel: false").diagnostics,
        []
    );
}
