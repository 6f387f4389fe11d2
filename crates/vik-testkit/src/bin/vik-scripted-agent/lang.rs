//! The script language: how a script is cut into steps and a step into words.

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The first word.
    pub(crate) name: String,
    /// Everything after it, trimmed, quotes still in place.
    pub(crate) rest: String,
}

/// Cuts a script into steps at newlines and `;`, except inside quotes or after a backslash.
///
/// A double quote opens a string anywhere; a single quote only at the start of a word, so that an apostrophe in plain
/// text does not. `#` at the start of a step makes it a comment that ends with the line.
pub(crate) fn parse(script: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut current = String::new();
    let mut quote: Option<char> = None;
    let mut at_word_start = true;
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
                at_word_start = true;
                continue;
            }
            (_, '\\') => match (quote, chars.next()) {
                // The only escape that is undone here; the others belong to the words.
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
            (None, '\'') if at_word_start => {
                quote = Some('\'');
                current.push(c);
            }
            (Some(open), close) if open == close => {
                quote = None;
                current.push(c);
            }
            _ => current.push(c),
        }
        at_word_start = quote.is_none() && c.is_whitespace();
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
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    steps.push(Step {
        name: name.to_owned(),
        rest: rest.trim().to_owned(),
    });
}

impl Step {
    /// The arguments as words. `"…"` knows `\n \t \" \\`, `'…'` knows only `\'`.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut rest = self.rest.as_str();
        while let Some((word, tail)) = next_word(rest) {
            words.push(word);
            rest = tail;
        }
        words
    }

    /// The arguments as one text: without its quotes where it is one quoted string, else as it stands.
    pub(crate) fn text(&self) -> String {
        text_of(&self.rest)
    }

    /// The first `count` words, and what comes after them as one text.
    pub(crate) fn split(&self, count: usize) -> (Vec<String>, String) {
        let mut words = Vec::new();
        let mut rest = self.rest.as_str();
        while words.len() < count {
            let Some((word, tail)) = next_word(rest) else {
                break;
            };
            words.push(word);
            rest = tail;
        }
        (words, text_of(rest))
    }
}

fn text_of(rest: &str) -> String {
    let rest = rest.trim();
    if rest.starts_with(['"', '\''])
        && let Some((word, tail)) = next_word(rest)
        && tail.trim().is_empty()
    {
        return word;
    }
    rest.to_owned()
}

fn next_word(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let mut chars = text.char_indices();
    let (_, first) = chars.next()?;
    if first != '"' && first != '\'' {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    }
    let mut word = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, 'n')) if first == '"' => word.push('\n'),
                Some((_, 't')) if first == '"' => word.push('\t'),
                Some((_, next)) if next == first || (next == '\\' && first == '"') => word.push(next),
                Some((_, next)) => {
                    word.push('\\');
                    word.push(next);
                }
                None => word.push('\\'),
            },
            c if c == first => return Some((word, &text[at + 1..])),
            c => word.push(c),
        }
    }
    Some((word, ""))
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
    fn steps_end_at_newlines_and_semicolons_outside_of_quotes() {
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
    fn words_undo_their_quotes() {
        let step = &parse(r#"write "a b" "x\n\"y\"" 'c \'d' e"#).unwrap()[0];
        assert_eq!(step.words(), ["a b", "x\n\"y\"", "c 'd", "e"]);
        assert_eq!(
            step.split(2),
            (
                vec!["a b".to_owned(), "x\n\"y\"".to_owned()],
                "'c \\'d' e".to_owned()
            )
        );
    }

    #[test]
    fn nested_scripts_survive_one_quoting() {
        let step = &parse(r#"spawn setsid "ignore INT; line \"a;b\"; hang""#).unwrap()[0];
        let (words, script) = step.split(1);
        assert_eq!(words, ["setsid"]);
        assert_eq!(parse(&script).unwrap().len(), 3);
    }

    #[test]
    fn an_open_quote_is_an_error() {
        assert!(parse("line \"abc").unwrap_err().contains("not closed"));
    }
}
