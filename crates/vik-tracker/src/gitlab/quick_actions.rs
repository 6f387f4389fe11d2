//! Quick actions: lines of a text that GitLab carries out, such as `/close`.

/// Returns a text in which no line is a quick action. Markdown shows it as before, except for such
/// lines in code, which get a backslash.
pub(super) fn escaped(text: &str) -> String {
    let line = |line: &str| {
        let start = line.len() - line.trim_start().len();
        let (space, text) = line.split_at(start);
        let is_part = |c: char| c.is_alphanumeric() || ['_', '-'].contains(&c);
        let name = text.strip_prefix('/').unwrap_or_default();
        let after = name.trim_start_matches(is_part);
        let is_action =
            after.len() < name.len() && (after.is_empty() || after.starts_with(char::is_whitespace));
        format!("{space}{}{text}", if is_action { "\\" } else { "" })
    };
    // GitLab removes these before it searches for quick actions.
    let text = text.replace('\r', "");
    text.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_gitlab_would_carry_out_are_escaped() {
        for (text, expected) in [
            ("/close", "\\/close"),
            ("a\n/merge \n\n  /assign @ann", "a\n\\/merge \n\n  \\/assign @ann"),
            (
                "a\r\n/close\r\n\r/label ~x\n/me\rrge\n/\rclose",
                "a\n\\/close\n\\/label ~x\n\\/merge\n\\/close",
            ),
            ("/create_merge_request x", "\\/create_merge_request x"),
            ("/usr/bin/env", "/usr/bin/env"),
            (
                "see /close\n// note\n/\n\\/close",
                "see /close\n// note\n/\n\\/close",
            ),
            ("", ""),
        ] {
            assert_eq!(escaped(text), expected, "{text:?}");
            // It is the same when it is repeated.
            assert_eq!(escaped(expected), expected);
        }
    }
}
