//! The outputs of a stage as text for its agent.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use vik_base::report::one_line;
use vik_core::outputs::{OutputKind, OutputNote, OutputPolicy, json_schema_of};
use vik_core::visible::visible;
use vik_template::Fence;

use super::FILE;

/// The maximum length of the summary of an output that was already applied.
const SHOWN: usize = 120;

/// Returns `outputs.*` of templates; empty if the stage has no outputs. `state` is the one that the
/// agent asked for, or "".
pub fn value(policy: Option<&OutputPolicy>, file: &Path, state: &str) -> Value {
    let Some(policy) = policy else {
        return json!({"file": "", "schema": "", "kinds": [], "state": ""});
    };
    let kinds: Vec<_> = policy
        .rules
        .iter()
        .map(|(kind, rule)| {
            let allow = rule.allow.as_ref().map(|allow| allow.globs()).unwrap_or_default();
            json!({"kind": kind, "max": rule.max, "allow": allow})
        })
        .collect();
    json!({
        "file": file.to_string_lossy(),
        "schema": json_schema_of(policy).to_string(),
        "kinds": kinds,
        "state": state,
    })
}

/// Returns the section that Vik adds to a prompt whose template does not use the outputs itself; ""
/// if there are none. `done` are the outputs that were applied for earlier attempts of the run.
pub fn section(
    policy: Option<&OutputPolicy>,
    file: &Path,
    done: &[OutputNote],
    template: &str,
    fence: &Fence,
) -> String {
    let Some(policy) = policy else {
        return String::new();
    };
    if vik_template::uses(template, "outputs") {
        return String::new();
    }
    let mut out = "\n\n---\nVik: what you may ask for\n".to_owned();
    if policy.rules.is_empty() {
        out.push_str(
            "\nYou have no credential of the tracker or of a git remote, and need none: Vik does that.\n",
        );
        return out;
    }
    let _ = writeln!(
        out,
        "\nYou have no credential of the tracker or of a git remote. What is to happen there you ask for: append it to the file \
         `{}`, which the variable {FILE} names, as JSON, one object on a line. When you are done, Vik checks all of them, and \
         does all of them or none.\n",
        visible(&file.to_string_lossy())
    );
    for (kind, rule) in &policy.rules {
        let (example, description) = match kind {
            OutputKind::Comment => (r#"{"kind":"comment","body":"…"}"#, "a comment on the issue"),
            OutputKind::Label => (r#"{"kind":"label","label":"…"}"#, "a label for the issue"),
            OutputKind::PullRequest => (
                r#"{"kind":"pull_request","title":"…","body":"…"}"#,
                "a pull request with what you have committed",
            ),
            OutputKind::Issue => (r#"{"kind":"issue","title":"…","body":"…"}"#, "a new issue"),
            OutputKind::State => (r#"{"kind":"state","state":"…"}"#, "another state for the issue"),
        };
        let _ = write!(out, "- `{example}`: {description}; {} at most", rule.max);
        if let Some(allow) = &rule.allow {
            let separator = match kind {
                OutputKind::PullRequest => "; with a `base`, it is",
                _ => ",",
            };
            let _ = write!(out, "{separator} one of: {}", visible(&allow.globs().join(", ")));
        }
        out.push('\n');
    }
    if !done.is_empty() {
        out.push_str("\nEarlier attempts have had this done already; do not ask for it again:\n");
        for note in done {
            let summary = one_line(&note.summary, SHOWN);
            let _ = writeln!(out, "- {}: {}", note.kind, fence.data(&summary));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vik_core::ids::AttemptId;
    use vik_core::outputs::{AllowList, OutputRule, Progress};

    use super::*;

    fn policy() -> OutputPolicy {
        let rule = |max: u32, allow: &[&str]| OutputRule {
            max,
            allow: AllowList::new(allow.iter().map(|&glob| glob.to_owned()).collect()).ok(),
            push: None,
            run: "true".to_owned(),
            check: None,
            is_keyed: false,
            approve: false,
        };
        OutputPolicy {
            rules: BTreeMap::from([
                (OutputKind::Comment, rule(1, &[])),
                (OutputKind::Label, rule(3, &["needs-review", "area/*"])),
                (OutputKind::PullRequest, rule(1, &["main"])),
            ]),
            secrets: Vec::new(),
        }
    }

    #[test]
    fn outputs_section_is_added_unless_the_prompt_names_it() {
        let fence = Fence::of(&json!({}), false);
        let file = Path::new("/s/outputs.jsonl");
        let done = [OutputNote {
            at: jiff::Timestamp::UNIX_EPOCH,
            attempt_id: AttemptId(uuid::Uuid::nil()),
            key: serde_json::from_value(json!("0123456789abcdef0123456789abcdef")).unwrap(),
            kind: OutputKind::Comment,
            summary: "First\u{200b} line".to_owned(),
            progress: Progress::Applied,
            is_keyed: false,
            detail: None,
        }];
        let section =
            |template: &str, policy: Option<&OutputPolicy>| section(policy, file, &done, template, &fence);
        insta::assert_snapshot!(section("Do {{ issue.title }}.", Some(&policy())));
        assert_eq!(section("Ask by {{ outputs.file }}.", Some(&policy())), "");
        assert_eq!(section("", None), "");
    }

    #[test]
    fn template_value_lists_kinds_and_schema() {
        let value = value(Some(&policy()), Path::new("/f"), "review");
        assert_eq!(value["state"], "review");
        assert_eq!(
            value["kinds"][1],
            json!({"kind": "label", "max": 3, "allow": ["needs-review", "area/*"]})
        );
        let schema: Value = serde_json::from_str(value["schema"].as_str().unwrap()).unwrap();
        assert_eq!(schema["oneOf"].as_array().unwrap().len(), 3);
    }
}
