//! The names in templates: which ones exist, and which one an unknown name was meant to be.

use std::collections::HashSet;

use minijinja::Environment;
use minijinja::machinery::Token;
use serde_json::Value;

use super::error::TemplateError;
use crate::plan;

const IN_ATTEMPT: [&str; 10] = [
    "issue",
    "workflow_path",
    "workflow_dir",
    "workspace_root",
    "env",
    "attempt",
    "approval",
    "intent",
    "outputs",
    "activity",
];

const fn in_attempt_and(name: &'static str) -> [&'static str; 11] {
    let [a, b, c, d, e, f, g, h, i, j] = IN_ATTEMPT;
    [a, b, c, d, e, f, g, h, i, j, name]
}

/// The names in prompts, `before_run` and `verify`.
pub const NAMES: &[&str] = &IN_ATTEMPT;

/// The names in the commands of outputs.
pub const OUTPUT_NAMES: &[&str] = &in_attempt_and("output");

/// The names in `after_run`.
pub const AFTER_RUN_NAMES: &[&str] = &in_attempt_and("session");

/// The names in `after_create`, which runs before there is an attempt.
pub const AFTER_CREATE_NAMES: &[&str] = &["issue", "workflow_path", "workflow_dir", "workspace_root", "env"];

/// The names in `issues.show.command`: nothing else is known of an issue that is in no pull.
pub const SHOW_NAMES: &[&str] = &["issue.id"];

/// The names of the engine itself.
const BUILT_IN: &[&str] = &["range", "dict", "debug", "namespace", "loop", "self"];

/// Returns an error for each name in `source` that is neither in `names`, nor built in, nor set by
/// the template. If `names` has a path such as `issue.id`, only that path is known.
pub(super) fn undeclared(source: &str, names: &[&str]) -> Vec<TemplateError> {
    let has_paths = names.iter().any(|name| name.contains('.'));
    let mut errors: Vec<TemplateError> = variables(source, has_paths)
        .into_iter()
        .filter(|name| !names.contains(&name.as_str()) && !BUILT_IN.contains(&name.as_str()))
        .map(|name| TemplateError::Undefined {
            line: line_of(source, &name),
            suggestion: closest(&name, names.iter().copied()),
            known: names.iter().map(|&name| name.to_owned()).collect(),
            name,
        })
        .collect();
    errors.sort_by_key(TemplateError::line);
    errors
}

/// Returns whether a template uses a name that it does not set itself.
pub(super) fn uses(source: &str, name: &str) -> bool {
    variables(source, false).contains(name)
}

/// Returns the names, or the paths, that a template reads and does not set; none of an invalid one.
fn variables(source: &str, paths: bool) -> HashSet<String> {
    let mut environment = Environment::new();
    environment.set_syntax(plan::syntax());
    let template = environment.template_from_str(source);
    template
        .map(|template| template.undeclared_variables(paths))
        .unwrap_or_default()
}

/// Returns the line of the first use of a name or of a dotted path.
fn line_of(source: &str, name: &str) -> usize {
    let mut path = String::new();
    let mut after_dot = false;
    for token in minijinja::machinery::tokenize(source, false, plan::syntax()) {
        let Ok((token, span)) = token else { break };
        after_dot = match token {
            Token::Ident(part) => {
                if !after_dot {
                    path.clear();
                }
                path.push_str(part);
                if path == name {
                    return usize::from(span.start_line);
                }
                false
            }
            Token::Dot => {
                path.push('.');
                true
            }
            _ => {
                path.clear();
                false
            }
        };
    }
    1
}

/// Returns the error for an undefined value; `detail` is the message of the engine, which has the
/// name in backticks.
pub(super) fn undefined(line: usize, detail: &str, context: &Value) -> TemplateError {
    let name = detail.split('`').nth(1).unwrap_or("a value").to_owned();
    let mut path: Vec<&str> = name.split('.').collect();
    let mut place = context;
    let mut prefix = String::new();
    // Follow the path as far as it exists: the first part that does not exist is the misspelled
    // one.
    while path.len() > 1 {
        let Some(inner) = place.get(path[0]) else { break };
        place = inner;
        prefix.push_str(path.remove(0));
        prefix.push('.');
    }
    let known: Vec<&str> = place
        .as_object()
        .map(|map| map.keys().map(String::as_str).collect())
        .unwrap_or_default();
    let suggestion = closest(path[0], known.iter().copied()).map(|found| format!("{prefix}{found}"));
    let known = known
        .into_iter()
        .take(30)
        .map(|found| format!("{prefix}{found}"))
        .collect();
    TemplateError::Undefined {
        line,
        name,
        suggestion,
        known,
    }
}

fn closest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len().min(name.len()) / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}
