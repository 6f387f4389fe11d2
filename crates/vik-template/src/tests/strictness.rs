//! Missing names, limits and other errors.

use serde_json::{Value, json};

use crate::{TemplateError, prompt, script};

fn context() -> Value {
    json!({
        "issue": {"id": "E-1", "title": "T", "description": ""},
        "attempt": {"number": 1, "feedback": ""},
        "env": {"HOME": "/h"},
    })
}

fn undefined(source: &str) -> (usize, String, Option<String>) {
    let in_prompt = prompt(source, &context()).map(drop);
    let in_script = script(&format!("echo {source}"), &context());
    let Err(TemplateError::Undefined {
        line,
        name,
        suggestion,
        ..
    }) = in_prompt
    else {
        panic!("{source}: {in_prompt:?}")
    };
    let Err(TemplateError::Undefined {
        line: other_line,
        name: other_name,
        ..
    }) = in_script
    else {
        panic!("{source}: {in_script:?}")
    };
    assert_eq!((line, &name), (other_line, &other_name));
    (line, name, suggestion)
}

#[test]
fn undefined_name_is_an_error_with_line_and_suggestion() {
    assert_eq!(
        undefined("{{ isue.id }}"),
        (1, "isue".to_owned(), Some("issue".to_owned()))
    );
    assert_eq!(
        undefined("\n\n{{ issue.titel }}"),
        (3, "issue.titel".to_owned(), Some("issue.title".to_owned()))
    );
    assert_eq!(undefined("\n{{ env.NOPE }}"), (2, "env.NOPE".to_owned(), None));
    assert_eq!(undefined("{{ session.outcome }}").1, "session");
    assert_eq!(undefined("{% if issue.nope %}{% endif %}").1, "issue.nope");
    assert_eq!(undefined("{{ issue.a.b.c }}").1, "issue.a");
    assert_eq!(undefined("{{ issue.titel | upper }}").1, "issue.titel");
    assert_eq!(
        undefined("{% for x in issue.labels %}{% endfor %}").1,
        "issue.labels"
    );
}

#[test]
fn default_and_defined_test_allow_missing_names() {
    let source = "echo {{ issue.url | default('none') }}{% if issue.url is defined %}x{% endif %}";
    assert_eq!(prompt(source, &context()).unwrap().join::<&str>([]), "echo none");
    assert_eq!(script(source, &context()).unwrap(), "echo 'none'");
}

#[test]
fn broken_templates_name_their_line() {
    for source in [
        "\necho {{ issue.id",
        "\n{% if %}",
        "\n{% nope %}",
        "\necho {{ 1 | nope }}",
        "\necho {{ nope() }}",
        "\necho {{ 1 / 0 }}",
        "\necho {{ issue.id.x() }}",
    ] {
        for error in [
            prompt(source, &context()).map(drop),
            script(source, &context()).map(drop),
        ] {
            let error = error.unwrap_err();
            assert_eq!(error.line(), Some(2), "{source}: {error}");
            assert!(!error.to_string().contains("vik_"), "{error}");
            assert_eq!(format!("line 2: {}", error.message()), error.to_string());
        }
    }
}

#[test]
fn endless_and_huge_templates_end() {
    let body = "0123456789".repeat(20);
    let huge = format!("{{% for a in range(90000) %}}{body}{{% endfor %}}");
    assert!(matches!(
        prompt(&huge, &context()),
        Err(TemplateError::TooLong { .. })
    ));
    let endless = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}";
    assert!(matches!(
        prompt(endless, &context()),
        Err(TemplateError::Failed { .. })
    ));
    let deep = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
    assert!(matches!(
        prompt(deep, &context()),
        Err(TemplateError::Failed { .. })
    ));
}

#[test]
fn text_is_kept_as_it_is() {
    assert_eq!(
        prompt("<b> & \"{{ issue.title }}\"\n\n", &context())
            .unwrap()
            .join::<&str>([]),
        "<b> & \"T\"\n\n"
    );
    assert_eq!(script("echo a\n", &context()).unwrap(), "echo a\n");
    assert_eq!(script("", &context()).unwrap(), "");
}
