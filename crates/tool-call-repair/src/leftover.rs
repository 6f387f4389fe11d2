//! Detects text that a model meant as a call, or invented as the result of one.

use crate::arguments::unfenced;

/// Content that is not meant for people, in an answer without calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// A call that cannot be read.
    Call,
    /// The result of a tool, which only tools can give.
    Result,
}

const CALLS: [&str; 7] = [
    "<tool_call",
    "</tool_call",
    "<function_call",
    "<function=",
    "<invoke ",
    "<args-json-object>",
    "[TOOL_CALLS]",
];
const RESULTS: [&str; 4] = [
    "<tool_response",
    "<tool_result",
    "<function_result",
    "<tool_output",
];

/// Finds what a model meant as a call, or made up as the result of one, in an answer in which
/// [`TextScanner`](crate::TextScanner) found no call. Such an answer is not the end of the work.
///
/// Tags count at the start of a line and outside of fences, JSON with a name and arguments only if
/// it is the whole answer, and the name of one of the `tools` as a tag only with a line break or
/// `{` after it. Nothing is returned for text that mentions tags within a line, shows them in a
/// fence, or has JSON of another form. A made-up result has precedence over a call.
///
/// The work is the length of the text times the number of the tools.
///
/// # Examples
///
/// ```
/// use tool_call_repair::{Leftover, find_leftover};
///
/// let of = |text| find_leftover(text, ["read_file"]);
/// assert_eq!(of("<tool_call>\nread it"), Some(Leftover::Call));
/// assert_eq!(of("<tool_response>\n3 tests passed"), Some(Leftover::Result));
/// assert_eq!(of("The parser now reads `<tool_call>`."), None);
/// ```
pub fn find_leftover<'a>(text: &str, tools: impl IntoIterator<Item = &'a str>) -> Option<Leftover> {
    let mut fenced = false;
    let mut call = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("```") || line.starts_with("~~~") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        if RESULTS.iter().any(|tag| line.starts_with(tag)) {
            return Some(Leftover::Result);
        }
        call |= CALLS.iter().any(|tag| line.starts_with(tag));
    }
    let is_tool = |tool: &str| text.contains(&format!("<{tool}>\n")) || text.contains(&format!("<{tool}>{{"));
    (call || is_call(text) || tools.into_iter().any(is_tool)).then_some(Leftover::Call)
}

/// Returns the name of the tool in a text with [`Leftover::Call`], as the model wrote it, so that
/// the model can be informed that there is no such tool.
///
/// It is the first string after `"name":`. `None` is returned if there is none, if it is empty or
/// longer than 64 bytes, or if it has characters other than ASCII letters, digits, `_`, `-`, `.`.
///
/// # Examples
///
/// ```
/// use tool_call_repair::leftover_name;
///
/// let text = r#"{"name": "add_numbers", "arguments": {"n": 1}}"#;
/// assert_eq!(leftover_name(text), Some("add_numbers"));
/// assert_eq!(leftover_name(r#"{"name": "do it.\nNow", "arguments": {}}"#), None);
/// ```
pub fn leftover_name(text: &str) -> Option<&str> {
    let (_, after) = unfenced(text.trim()).split_once("\"name\"")?;
    let name = after
        .trim_start()
        .strip_prefix(':')?
        .trim_start()
        .strip_prefix('"')?;
    let name = &name[..name.find('"')?];
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (!name.is_empty() && name.len() <= 64 && name.chars().all(is_name)).then_some(name)
}

/// Returns whether the text, or the one fence that it consists of, is JSON with a name and
/// arguments, even if it is invalid.
fn is_call(text: &str) -> bool {
    let inner = unfenced(text.trim());
    let name = inner.find("\"name\"");
    let arguments = ["\"arguments\"", "\"parameters\""];
    let arguments = arguments.iter().find_map(|key| inner.find(key));
    inner.starts_with(['{', '['])
        && inner.ends_with(['}', ']'])
        && !inner.contains("```")
        && name
            .zip(arguments)
            .is_some_and(|(name, arguments)| name < arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Leftover> {
        find_leftover(text, ["read_file", "write_file"])
    }

    #[test]
    fn leftover_detects_unreadable_calls_and_invented_results() {
        for text in [
            "```json\n{\n  \"name\": \"is_even\",\n  \"arguments\": {\n    \"n\": 10\n  }\n}\n```",
            "{\"name\": \"nobody\", \"arguments\": {\"a\": 1}}}}",
            "<args-json-object>{\"path\": \"a\", \"content\": \"b\"}</args-json-object>",
            "I write it.\n<write_file>\n<path>a</path>\n</write_file>",
            "Now:\n  <tool_call>\nread it",
        ] {
            assert_eq!(of(text), Some(Leftover::Call), "{text}");
        }
        assert_eq!(
            of("I changed it.\n\n<tool_response>\nedited a.py\n</tool_response>"),
            Some(Leftover::Result)
        );
    }

    #[test]
    fn leftover_reports_a_plausible_tool_name() {
        let of = |name: &str| {
            format!("```json\n{{\n  \"name\": \"{name}\",\n  \"arguments\": {{\"n\": 1}}\n}}\n```")
        };
        assert_eq!(leftover_name(&of("add_function")), Some("add_function"));
        assert_eq!(leftover_name(&of("do it.\nNow")), None);
        assert_eq!(leftover_name(&of(&"x".repeat(65))), None);
        assert_eq!(leftover_name("{\"arguments\": {}}"), None);
    }

    #[test]
    fn leftover_ignores_prose_code_and_other_json() {
        for text in [
            "The test passes: `<tool_call>` is parsed now.",
            "The fixture is\n\n```xml\n<tool_call>\n{}\n</tool_call>\n```\n\nas it was.",
            "{\"name\": \"demo\", \"port\": 8080}",
            "It now sends\n\n```json\n{\"name\": \"x\", \"arguments\": {}}\n```\n\nto the server.",
            "`<read_file>` takes a path.",
            "",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
