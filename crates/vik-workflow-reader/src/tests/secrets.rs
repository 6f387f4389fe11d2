use vik_core::workflow::edits;

use super::*;

const WITH: &str = "agents:\n  codex:\n    secrets: [KEY]\n";

fn with(secrets: &str) -> Vec<(&'static str, String)> {
    let text = minimal_with(&[(
        "agents:\n  codex:\n",
        &format!("secrets:\n  KEY: {secrets}\n{WITH}"),
    )]);
    let found = load(&text).diagnostics;
    found.into_iter().map(|one| (one.code, one.path)).collect()
}

#[test]
fn secret_has_one_source() {
    assert_eq!(with("{env: V}"), []);
    assert_eq!(with("{file: ../k}"), []);
    assert_eq!(with("{command: pass show k}"), []);
    for wrong in ["{env: V, file: k}", "{}", "{file: k, command: c}"] {
        assert_eq!(with(wrong), [("bad_secret", "secrets.KEY".to_owned())], "{wrong}");
    }
    let found: Vec<_> = with("{value: hunter2hunter2}")
        .into_iter()
        .map(|(code, _)| code)
        .collect();
    assert_eq!(found, ["bad_secret", "unknown_key"]);
}

#[test]
fn secret_name_is_that_of_a_variable() {
    for name in ["my-key", "1KEY", "PATH", "VIK_HOME"] {
        let text = minimal_with(&[(
            "agents:\n  codex:\n",
            &format!("secrets:\n  {name}: {{env: V}}\nagents:\n  codex:\n    secrets: [{name}]\n"),
        )]);
        let found: Vec<_> = load(&text).diagnostics.iter().map(|one| one.code).collect();
        assert_eq!(found, ["bad_secret"], "{name}");
    }
}

#[test]
fn listed_secret_must_exist() {
    let listed =
        "secrets:\n  DEPLOY_KEY: {env: V}\nagents:\n  codex:\n    secrets: [DEPLOY_KEY, ^DEPOY_KEY]\n";
    let finding = one(&[("agents:\n  codex:\n", listed)], "unknown_secret");
    assert_eq!(finding.hint.as_deref(), Some("did you mean `DEPLOY_KEY`?"));
    assert_eq!(finding.path, "agents.codex.secrets.1");
    let pull = "    command: ./issues-json\n    secrets: [^A]\n";
    let finding = one(&[("    command: ./issues-json\n", pull)], "unknown_secret");
    assert_eq!(finding.hint.as_deref(), Some("define secrets in `secrets`"));
}

#[test]
fn unlisted_secret_is_reported() {
    let finding = top("secrets:\n  ^A: {env: V}", "unused_secret");
    assert_eq!(finding.severity, Severity::Warning);
}

#[test]
fn edit_shows_the_source_of_a_secret_and_not_the_command() {
    let load_with = |source: &str| {
        let text = minimal_with(&[(
            "agents:\n  codex:\n",
            &format!("secrets:\n  KEY: {source}\n{WITH}"),
        )]);
        load(&text).workflow.unwrap()
    };
    let edited = |from: &str, to: &str| -> Vec<String> {
        edits(&load_with(from), &load_with(to))
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(edited("{env: A}", "{env: B}"), ["secrets.KEY.env: `A` -> `B`"]);
    assert_eq!(
        edited("{command: echo one}", "{command: echo two}"),
        ["secrets.KEY.command: changed (1 -> 1 line)"]
    );
}
