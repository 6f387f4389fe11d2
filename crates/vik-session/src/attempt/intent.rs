//! The intent of an attempt as text for its agent.

use std::fmt::Write as _;

use serde_json::{Value, json};
use vik_core::intent::{Clause, Intent};
use vik_core::scope::Scope;
use vik_core::workflow::OnViolation;
use vik_template::Fence;

/// Returns `intent.*` of templates.
pub fn value(intent: &Intent) -> Value {
    let texts = |clauses: &[Clause]| {
        clauses
            .iter()
            .map(|clause| clause.text.clone())
            .collect::<Vec<_>>()
    };
    json!({
        "scope": intent.scope.as_ref().map(globs).unwrap_or_default(),
        "constraints": texts(&intent.constraints),
        "acceptance": texts(&intent.acceptance),
    })
}

/// Returns the globs of the first list in order. Each further list becomes one entry.
pub fn globs(scope: &Scope) -> Vec<String> {
    let mut lists = scope.globs();
    let mut entries = lists.next().map(<[String]>::to_vec).unwrap_or_default();
    entries.extend(lists.map(|list| format!("and of these only: {}", list.join(", "))));
    entries
}

/// Returns the section that Vik adds to a prompt whose template does not use the intent itself; ""
/// if there is none.
pub fn section(intent: &Intent, template: &str, fence: &Fence) -> String {
    if intent.is_empty() || vik_template::uses(template, "intent") {
        return String::new();
    }
    let mut out = "\n\n---\nVik: intent of this issue\n".to_owned();
    if let Some(scope) = &intent.scope {
        out.push_str(
            "\nChange only these paths, relative to the working directory (globs in order, the last one that takes a path \
             decides, `!` leaves out):\n",
        );
        for glob in globs(scope) {
            let _ = writeln!(out, "- `{}`", vik_core::visible::visible(&glob));
        }
        out.push_str(match intent.on_violation {
            OnViolation::Fail => "A change of anything else, by whatever means, makes the attempt fail.\n",
            OnViolation::Revert => "A change of anything else, by whatever means, is undone.\n",
        });
    }
    for (heading, clauses) in [
        ("What must hold while you work", &intent.constraints),
        ("What must hold when you are done", &intent.acceptance),
    ] {
        if !clauses.is_empty() {
            let _ = writeln!(out, "\n{heading}:");
        }
        for clause in clauses {
            let text = if clause.from_issue {
                fence.data(&clause.text)
            } else {
                clause.text.clone()
            };
            let _ = writeln!(out, "- {text}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use vik_core::intent::Clause;

    use super::*;

    fn intent() -> Intent {
        let clause = |text: &str, from_issue| Clause {
            text: text.to_owned(),
            from_issue,
        };
        let scope = |globs: &[&str]| Scope::new(globs).unwrap();
        Intent {
            scope: Some(scope(&["src/**", "!src/generated"]).and(&scope(&["src/a", "src/b"]))),
            constraints: vec![clause("keep the API", false), clause("be\u{200b} quick", true)],
            acceptance: vec![clause("the tests pass", false)],
            on_violation: OnViolation::Fail,
        }
    }

    #[test]
    fn intent_section_is_added_unless_the_prompt_names_it() {
        let fence = Fence::of(&json!({}), false);
        insta::assert_snapshot!(section(&intent(), "Do {{ issue.title }}.", &fence));
        assert_eq!(
            section(
                &intent(),
                "{% for path in intent.scope %}{{ path }}{% endfor %}",
                &fence
            ),
            ""
        );
        assert_eq!(section(&Intent::default(), "Do it.", &fence), "");
    }

    #[test]
    fn intent_clause_of_an_untrusted_issue_is_fenced() {
        let fence = Fence::of(&json!({}), true);
        let text = fence.with_explanation(section(&intent(), "", &fence));
        let fenced = text.split("<issue-text-").count() - 1;
        // Once in the explanation, and once around the clause of the issue.
        assert_eq!(fenced, 2, "{text}");
        assert!(text.contains(">be⟦U+200B⟧ quick</issue-text-"), "{text}");
        assert!(text.contains("\n- keep the API\n"));
    }
}
