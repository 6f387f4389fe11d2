//! Formats the report of `doctor` for people and for scripts.

use std::fmt::Write as _;

use serde_json::{Value, json};
use vik_base::report::{Exit, clean, count, paint};
use vik_workflow_reader::{Severity, render};

use super::check::{Check, Examination, PROBE, Status, WORKFLOW};
use crate::cli::with_workflow;

/// How a report is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextOptions {
    /// Whether warnings count as errors.
    pub strict: bool,
    /// Whether passed checks are listed.
    pub verbose: bool,
    pub color: bool,
}

/// Formats the problems as text for people, and then the number of passed checks and the verdict.
pub fn text(examination: &Examination, options: TextOptions) -> String {
    let color = options.color;
    let mut out = String::new();
    for file in &examination.files {
        out.push_str(&render(
            &file.findings,
            &file.file.to_string_lossy(),
            &file.text,
            color,
        ));
        if !file.findings.is_empty() {
            out.push('\n');
        }
    }
    // The findings are above.
    let is_repeated = |check: &Check| check.check == WORKFLOW && examination.findings().next().is_some();
    let is_listed = |check: &&Check| match check.status {
        // A person paid for these.
        Status::Ok => options.verbose || check.check.split('.').next() == Some(PROBE),
        _ => !is_repeated(check),
    };
    let mut checks: Vec<&Check> = examination.checks.iter().filter(is_listed).collect();
    checks.sort_by_key(|check| check.group);
    let mut group = None;
    for check in checks {
        if group != Some(check.group) {
            if group.is_some() {
                out.push('\n');
            }
            group = Some(check.group);
            let _ = writeln!(out, "{}", paint(color, "1", check.group.heading()));
        }
        write_check(&mut out, check, color);
    }
    if group.is_some() {
        out.push('\n');
    }
    let checks = examination.checks.iter();
    let passed = checks.filter(|check| check.status == Status::Ok).count();
    let _ = writeln!(out, "{} passed", count(passed, "check"));
    let _ = writeln!(out, "{}", summary(examination, options.strict, color));
    out
}

fn write_check(out: &mut String, check: &Check, color: bool) {
    let mark = match check.status {
        Status::Ok => paint(color, "32", "✓"),
        Status::Warning => paint(color, "1;33", "!"),
        Status::Error => paint(color, "1;31", "✗"),
    };
    let message = clean(&check.message);
    let mut lines = message.lines();
    let first = lines.next().unwrap_or_default();
    let code = check
        .code
        .as_deref()
        .map(|code| paint(color, "2", &format!(" [{code}]")))
        .unwrap_or_default();
    let _ = writeln!(out, "  {mark} {}: {first}{code}", clean(&check.check));
    for line in lines {
        let _ = writeln!(out, "      {line}");
    }
    if let Some(hint) = &check.hint {
        let _ = writeln!(out, "      {} {}", paint(color, "1;36", "hint:"), clean(hint));
    }
}

/// Returns the line with the next step: what solves the first problem, or else the next command.
pub fn next_step(examination: &Examination, strict: bool) -> String {
    let path = &examination.workflow_path;
    if examination.exit(strict) == Exit::Done {
        let verb = if examination.offline {
            "vik doctor"
        } else {
            "vik run --dry-run"
        };
        return format!("next: {}\n", with_workflow(verb, path));
    }
    let files = examination.files.iter();
    let mut findings = files.flat_map(|file| file.findings.iter().map(move |finding| (file, finding)));
    if let Some((file, finding)) = findings.find(|(_, finding)| strict || finding.severity == Severity::Error)
    {
        let file = file.file.display();
        let (line, column) = (finding.line, finding.column);
        return format!("next: correct {file}:{line}:{column}, then run `vik doctor` again\n");
    }
    let of = |status: Status| {
        examination
            .checks
            .iter()
            .find(move |check| check.status == status)
    };
    let check = of(Status::Error).or_else(|| of(Status::Warning));
    let step = match check.map(|check| (&check.hint, &check.check)) {
        Some((Some(hint), _)) => clean(hint).into_owned(),
        Some((None, name)) => format!("solve {}, then run `vik doctor` again", clean(name)),
        None => with_workflow("vik doctor", path),
    };
    format!("next: {step}\n")
}

fn summary(examination: &Examination, strict: bool, color: bool) -> String {
    let (errors, warnings) = examination.counts();
    let exit = examination.exit(strict);
    if exit == Exit::Done {
        let warnings_suffix = if warnings == 0 {
            String::new()
        } else {
            format!(", with {}", count(warnings, "warning"))
        };
        let verdict = if examination.offline {
            "no problems found; commands were not run (--offline)"
        } else {
            "ready to run"
        };
        return paint(color, "1;32", &format!("{verdict}{warnings_suffix}"));
    }
    let counts = match (errors, warnings) {
        (0, _) => format!("{} (--strict)", count(warnings, "warning")),
        (_, 0) => count(errors, "error"),
        _ => format!("{}, {}", count(errors, "error"), count(warnings, "warning")),
    };
    let meaning = match exit {
        Exit::Workflow => "invalid workflow",
        Exit::NotFound => "cannot pull issues",
        _ => "not ready to run",
    };
    paint(color, "1;31", &format!("{meaning}: {counts}"))
}

/// Formats the report as JSON for scripts.
pub fn json(examination: &Examination, strict: bool) -> Value {
    let findings: Vec<Value> = examination
        .files
        .iter()
        .flat_map(|file| file.findings.iter().map(move |finding| (file, finding)))
        .map(|(file, finding)| {
            let mut value = json!(finding);
            if let Some(fields) = value.as_object_mut() {
                fields.insert("file".to_owned(), file.file.to_string_lossy().into());
            }
            value
        })
        .collect();
    json!({
        "schema": vik_api::SCHEMA,
        "ok": examination.exit(strict) == Exit::Done,
        "offline": examination.offline,
        "workflow_path": examination.workflow_path.to_string_lossy(),
        "checks": examination.checks,
        "diagnostics": findings,
    })
}
