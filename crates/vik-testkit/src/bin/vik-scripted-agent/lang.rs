//! The script language: splitting a script into steps and a step into arguments.

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// Everything after the name, trimmed, with its quotes.
    pub(crate) args_text: String,
}

/// Splits a script into steps at newlines and `;`, except in quotes or after a backslash.
///
/// A double quote opens a string anywhere; a single quote only at the start of a token, so that an
/// apostrophe in plain text does not. `#` at the start of a step makes it a comment that ends with
/// the line.
pub(crate) fn parse(script: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut current = String::new();
    let mut quote: Option<char> = None;
    let mut at_token_start = true;
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '#') if current.trim().is_empty() => {
                while chars.peek().is_some_and(|&next| next != '\n') {
                    chars.next();
                }
            }
            (None, '\n' | ';') => {
                push(&mut steps, &current);
                current.clear();
                at_token_start = true;
                continue;
            }
            (_, '\\') => match (quote, chars.next()) {
                // The only escape that is resolved here; the others belong to the arguments.
                (None, Some(';')) => current.push(';'),
                (_, Some(next)) => {
                    current.push('\\');
                    current.push(next);
                }
                (_, None) => current.push('\\'),
            },
            (None, '"') => {
                quote = Some('"');
                current.push(c);
            }
            (None, '\'') if at_token_start => {
                quote = Some('\'');
                current.push(c);
            }
            (Some(open), close) if open == close => {
                quote = None;
                current.push(c);
            }
            _ => current.push(c),
        }
        at_token_start = quote.is_none() && c.is_whitespace();
    }
    if quote.is_some() {
        return Err(format!(
            "a quote is not closed in step {}: {}",
            steps.len() + 1,
            current.trim()
        ));
    }
    push(&mut steps, &current);
    Ok(steps)
}

fn push(steps: &mut Vec<Step>, text: &str) {
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    let (name, remaining) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    steps.push(Step {
        name: name.to_owned(),
        args_text: remaining.trim().to_owned(),
    });
}

impl Step {
    /// Returns the arguments. `"…"` supports `
    ///  \t \" \\`, `'…'` only `\'`.
    pub(crate) fn args(&self) -> Vec<String> {
        self.split(usize::MAX).0
    }

    /// Returns the arguments as one text: without quotes if it is one quoted string, otherwise
    /// verbatim.
    pub(crate) fn text(&self) -> String {
        text_of(&self.args_text)
    }

    /// Returns the first `count` arguments, and the remaining text.
    pub(crate) fn split(&self, count: usize) -> (Vec<String>, String) {
        let mut args = Vec::new();
        let mut remaining = self.args_text.as_str();
        while args.len() < count {
            let Some((token, tail)) = next_token(remaining) else {
                break;
            };
            args.push(token);
            remaining = tail;
        }
        (args, text_of(remaining))
    }
}

fn text_of(remaining: &str) -> String {
    let remaining = remaining.trim();
    if remaining.starts_with(['"', '\''])
        && let Some((token, tail)) = next_token(remaining)
        && tail.trim().is_empty()
    {
        return token;
    }
    remaining.to_owned()
}

fn next_token(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let mut chars = text.char_indices();
    let (_, first) = chars.next()?;
    if first != '"' && first != '\'' {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    }
    let mut token = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, 'n')) if first == '"' => token.push('\n'),
                Some((_, 't')) if first == '"' => token.push('\t'),
                Some((_, next)) if next == first || (next == '\\' && first == '"') => token.push(next),
                Some((_, next)) => {
                    token.push('\\');
                    token.push(next);
                }
                None => token.push('\\'),
            },
            c if c == first => return Some((token, &text[at + 1..])),
            c => token.push(c),
        }
    }
    Some((token, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_and_texts(script: &str) -> Vec<(String, String)> {
        parse(script)
            .unwrap()
            .into_iter()
            .map(|s| (s.name.clone(), s.text()))
            .collect()
    }

    #[test]
    fn parse_ends_steps_at_unquoted_newlines_and_semicolons() {
        let steps = names_and_texts(
            "line a b; # a comment; still\nrun 'echo 1; echo 2' ;line {\"a\":\"b;c\"}\nline it's 1\\;2",
        );
        let expected = [
            ("line", "a b"),
            ("run", "echo 1; echo 2"),
            ("line", "{\"a\":\"b;c\"}"),
            ("line", "it's 1;2"),
        ];
        assert_eq!(steps, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }

    #[test]
    fn args_of_a_step_are_unquoted() {
        let step = &parse(r#"write "a b" "x\n\"y\"" 'c \'d' e"#).unwrap()[0];
        assert_eq!(step.args(), ["a b", "x\n\"y\"", "c 'd", "e"]);
        assert_eq!(
            step.split(2),
            (
                vec!["a b".to_owned(), "x\n\"y\"".to_owned()],
                "'c \\'d' e".to_owned()
            )
        );
    }

    #[test]
    fn split_keeps_nested_scripts() {
        let step = &parse(r#"spawn setsid "ignore INT; line \"a;b\"; hang""#).unwrap()[0];
        let (args, script) = step.split(1);
        assert_eq!(args, ["setsid"]);
        assert_eq!(parse(&script).unwrap().len(), 3);
    }

    #[test]
    fn parse_refuses_an_open_quote() {
        assert!(parse("line \"abc").unwrap_err().contains("not closed"));
    }
}
