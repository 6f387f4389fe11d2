//! YAML on one line, as the tracker writes it.

/// Returns a text as a scalar on one line that parses as that text, and not as a number or another
/// type.
pub(super) fn scalar(text: &str) -> String {
    let plain = text.chars().enumerate().all(|(index, c)| {
        c.is_alphanumeric() || (index > 0 && (c == ' ' || "._-/()+=@~$^;<>".contains(c)))
    }) && !text.ends_with(' ')
        // Not a truth value, a number or a date, for older parsers, too.
        && text.starts_with(char::is_alphabetic)
        && !["null", "true", "false", "y", "n", "yes", "no", "on", "off"]
            .contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { quoted(text) }
}

/// Returns a number without quotes, if the text is its shortest form.
pub(super) fn plain_number(text: &str) -> Option<String> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then(|| text.to_owned())
}

/// Returns a text in double quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') =>
            {
                out.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns a list on one line.
pub(super) fn list(items: &[String]) -> String {
    let items: Vec<String> = items
        .iter()
        .map(|item| {
            let short = scalar(item);
            if short.starts_with('"') {
                plain_number(item).unwrap_or(short)
            } else {
                short
            }
        })
        .collect();
    format!("[{}]", items.join(", "))
}
