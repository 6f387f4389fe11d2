//! What others have said about the issue, for the prompt: comments and checks that the conversation
//! of the agent does not have yet.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use vik_core::attempt::Start;
use vik_core::issue::{Check, CheckState, Comment};
use vik_template::{Fence, Sources};

/// The largest size of the section in bytes, without its headings. Older comments are left out.
const MAX_SECTION_BYTES: usize = 8 * 1024;

/// The largest size of the failed checks in the section, in bytes.
const MAX_CHECKS_BYTES: usize = 4 * 1024;

/// The largest part of a name, a summary, a path or an address in bytes.
const MAX_LABEL_BYTES: usize = 512;

/// The largest part of one comment in bytes.
const MAX_COMMENT_BYTES: usize = 3 * 1024;

/// Returns `activity.*`: the new comments and checks.
pub(super) fn value(start: &Start) -> Value {
    let comments: Vec<_> = comments(start)
        .map(|comment| comment_value(start, comment))
        .collect();
    let checks: Vec<_> = checks(start).map(check_value).collect();
    json!({ "comments": comments, "checks": checks })
}

/// Returns the fence of a prompt with this context. Comments are trusted or not by their own
/// authors, whoever wrote the issue; what a check says has no author.
pub fn fence(start: &Start, context: &Value) -> Fence {
    let comments = &start.issue.activity().comments;
    let trusted = start.activity.trust.as_ref().map(|trust| {
        let trusted = comments
            .iter()
            .filter(|comment| trust.knows(comment.author.as_deref()));
        trusted.flat_map(|comment| comment.fields.values()).collect()
    });
    Fence::of_sources(
        context,
        &Sources {
            fenced: start.fenced,
            trusted_comments: trusted,
        },
    )
}

fn is_trusted(start: &Start, comment: &Comment) -> bool {
    let trust = start.activity.trust.as_ref();
    trust.is_none_or(|trust| trust.knows(comment.author.as_deref()))
}

fn comments(start: &Start) -> impl Iterator<Item = &Comment> {
    let all = &start.issue.activity().comments;
    start.activity.comments.iter().filter_map(|at| all.get(*at))
}

fn checks(start: &Start) -> impl Iterator<Item = &Check> {
    let all = &start.issue.activity().checks;
    start.activity.checks.iter().filter_map(|at| all.get(*at))
}

/// Returns the first of these fields that is a text; else "".
fn text(fields: &Map<String, Value>, keys: &[&str]) -> String {
    let mut texts = keys.iter().filter_map(|key| fields.get(*key)?.as_str());
    texts.next().unwrap_or_default().to_owned()
}

fn comment_value(start: &Start, comment: &Comment) -> Value {
    let mut fields = comment.fields.clone();
    for (key, value) in [
        ("author", comment.author.as_deref().unwrap_or_default().to_owned()),
        (
            "created_at",
            text(&comment.fields, &["created_at", "createdAt", "submittedAt"]),
        ),
        ("url", text(&comment.fields, &["url", "html_url", "web_url"])),
        ("path", text(&comment.fields, &["path"])),
    ] {
        fields.insert(key.to_owned(), value.into());
    }
    fields.insert("trusted".to_owned(), is_trusted(start, comment).into());
    fields.into()
}

fn check_value(check: &Check) -> Value {
    let mut fields = check.fields.clone();
    for (key, value) in [
        ("name", check.name.clone()),
        ("state", check.state.as_str().to_owned()),
        ("url", check.url.clone().unwrap_or_default()),
        ("summary", text(&check.fields, &["summary", "description"])),
    ] {
        fields.insert(key.to_owned(), value.into());
    }
    fields.into()
}

/// Returns the section of the prompt with what is new since the last prompt of the stage, unless
/// the template itself says it; "" if there is nothing.
pub fn section(start: &Start, template: &str, fence: &Fence) -> String {
    if !start.activity.is_follow_up || vik_template::uses(template, "activity") {
        return String::new();
    }
    let mut out = String::new();
    let mut left_out = 0;
    for check in checks(start).filter(|check| check.state == CheckState::Failed) {
        let line = check_text(check, fence);
        match out.len() + line.len() <= MAX_CHECKS_BYTES {
            true => out.push_str(&line),
            false => left_out += 1,
        }
    }
    if left_out > 0 {
        let _ = writeln!(out, "\n({left_out} more failed checks are left out.)");
    }
    // The newest ones come last, and are the last ones to be left out.
    let mut kept = Vec::new();
    let mut size = out.len();
    let mut left_out = 0;
    for comment in comments(start).collect::<Vec<_>>().into_iter().rev() {
        let text = comment_text(comment, fence);
        if left_out > 0 || (size + text.len() > MAX_SECTION_BYTES && !kept.is_empty()) {
            left_out += 1;
            continue;
        }
        size += text.len();
        kept.push(text);
    }
    if left_out > 0 {
        let _ = write!(out, "\n({left_out} older comments are left out.)\n");
    }
    out.extend(kept.into_iter().rev());
    match out.is_empty() {
        true => out,
        false => format!("\n\n---\nVik: new on this issue since your last prompt\n{out}"),
    }
}

fn check_text(check: &Check, fence: &Fence) -> String {
    let summary = text(&check.fields, &["summary", "description"]);
    let url = check.url.clone().unwrap_or_default();
    let parts = [&check.name, &summary, &url]
        .into_iter()
        .filter(|part| !part.is_empty());
    let parts: Vec<_> = parts
        .map(|part| fence.part(part, start_of(part, MAX_LABEL_BYTES)))
        .collect();
    format!("\nFailed: {}\n", parts.join(" · "))
}

fn comment_text(comment: &Comment, fence: &Fence) -> String {
    let label = |text: &str| fence.part(text, start_of(text, MAX_LABEL_BYTES));
    let author = comment
        .author
        .as_deref()
        .map_or("an unknown author".to_owned(), label);
    let place = match text(&comment.fields, &["path"]) {
        path if path.is_empty() => String::new(),
        path => format!(" on {}", label(&path)),
    };
    let body = comment.body.trim_end();
    let part = start_of(body, MAX_COMMENT_BYTES);
    let more = match part.len() < body.len() {
        true => " …",
        false => "",
    };
    format!(
        "\n{author}{place} wrote:\n{}{more}\n",
        fence.part(&comment.body, part)
    )
}

/// Returns the longest start of a text with at most this many bytes.
fn start_of(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}
