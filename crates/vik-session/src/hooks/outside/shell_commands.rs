//! Splits a shell script into its simple commands, to inspect what they run.

/// A part of a script.
#[derive(Debug, PartialEq, Eq)]
pub enum ScriptPart {
    Open,
    Close,
    /// A command: its line, and its words without quotes. Template expressions are written without
    /// spaces.
    Words(usize, Vec<String>),
}

/// Returns the commands of a script in order. Statements and comments of templates are left out.
pub fn commands(script: &str) -> Vec<ScriptPart> {
    let mut reader = Reader {
        letters: script.chars().collect(),
        at: 0,
        line: 1,
        parts: Vec::new(),
        words: Vec::new(),
        word: None,
        line_of_words: 1,
    };
    reader.read();
    reader.parts
}

struct Reader {
    letters: Vec<char>,
    at: usize,
    line: usize,
    parts: Vec<ScriptPart>,
    words: Vec<String>,
    word: Option<String>,
    line_of_words: usize,
}

impl Reader {
    fn read(&mut self) {
        // A substitution is a command of its own; the word around it continues afterwards.
        let mut open: Vec<(char, Vec<String>, String)> = Vec::new();
        let mut in_double = false;
        while let Some(letter) = self.letters.get(self.at).copied() {
            let next = self.letters.get(self.at + 1).copied().unwrap_or('\0');
            match letter {
                '{' if matches!(next, '%' | '#') => self.skip_template(next),
                '{' if next == '{' => self.expression(),
                '\\' => {
                    if next == '\n' {
                        self.line += 1;
                    } else {
                        self.push(next);
                    }
                    self.at += 2;
                }
                '"' => {
                    in_double = !in_double;
                    self.word.get_or_insert_default();
                    self.at += 1;
                }
                '\'' if !in_double => self.single_quoted(),
                '$' if next == '(' => {
                    self.at += 2;
                    open.push((
                        if in_double { '"' } else { ')' },
                        std::mem::take(&mut self.words),
                        self.word.take().unwrap_or_default(),
                    ));
                    in_double = false;
                    self.parts.push(ScriptPart::Open);
                }
                '`' => {
                    self.at += 1;
                    if open.last().is_some_and(|(mark, ..)| matches!(mark, '`' | 'q')) {
                        in_double = self.end_substitution(open.pop());
                    } else {
                        let mark = if in_double { 'q' } else { '`' };
                        let word = self.word.take().unwrap_or_default();
                        open.push((mark, std::mem::take(&mut self.words), word));
                        in_double = false;
                        self.parts.push(ScriptPart::Open);
                    }
                }
                _ if in_double => {
                    self.line += usize::from(letter == '\n');
                    self.push(letter);
                    self.at += 1;
                }
                ')' if open.last().is_some_and(|(mark, ..)| matches!(mark, ')' | '"')) => {
                    self.at += 1;
                    in_double = self.end_substitution(open.pop());
                }
                '(' => {
                    self.end_command();
                    self.parts.push(ScriptPart::Open);
                    self.at += 1;
                }
                ')' => {
                    self.end_command();
                    self.parts.push(ScriptPart::Close);
                    self.at += 1;
                }
                '#' if self.word.is_none() => {
                    while self.letters.get(self.at).is_some_and(|letter| *letter != '\n') {
                        self.at += 1;
                    }
                }
                '\n' | ';' | '&' | '|' => {
                    self.end_command();
                    self.line += usize::from(letter == '\n');
                    self.at += 1;
                }
                '<' | '>' => {
                    self.end_word();
                    self.at += 1;
                }
                ' ' | '\t' | '\r' => {
                    self.end_word();
                    self.at += 1;
                }
                letter => {
                    self.push(letter);
                    self.at += 1;
                }
            }
        }
        self.end_command();
    }

    /// Ends a substitution. Returns whether the word around it is in double quotes.
    fn end_substitution(&mut self, outer: Option<(char, Vec<String>, String)>) -> bool {
        self.end_command();
        self.parts.push(ScriptPart::Close);
        let Some((mark, words, mut word)) = outer else {
            return false;
        };
        // The output of the substitution is not known.
        word.push_str("$()");
        self.words = words;
        self.word = Some(word);
        matches!(mark, '"' | 'q')
    }

    fn push(&mut self, letter: char) {
        if self.words.is_empty() && self.word.is_none() {
            self.line_of_words = self.line;
        }
        self.word.get_or_insert_default().push(letter);
    }

    fn single_quoted(&mut self) {
        self.at += 1;
        self.word.get_or_insert_default();
        while let Some(letter) = self.letters.get(self.at).copied() {
            self.at += 1;
            if letter == '\'' {
                return;
            }
            self.push(letter);
            self.line += usize::from(letter == '\n');
        }
    }

    fn skip_template(&mut self, mark: char) {
        while let Some(letter) = self.letters.get(self.at).copied() {
            self.at += 1;
            self.line += usize::from(letter == '\n');
            if letter == mark && self.letters.get(self.at) == Some(&'}') && self.at > 1 {
                self.at += 1;
                break;
            }
        }
        self.end_command();
    }

    fn expression(&mut self) {
        while let Some(letter) = self.letters.get(self.at).copied() {
            self.at += 1;
            if !letter.is_whitespace() {
                self.push(letter);
            }
            if letter == '}' && self.letters.get(self.at) == Some(&'}') {
                self.at += 1;
                self.push('}');
                return;
            }
        }
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn end_command(&mut self) {
        self.end_word();
        if !self.words.is_empty() {
            let words = std::mem::take(&mut self.words);
            self.parts.push(ScriptPart::Words(self.line_of_words, words));
        }
    }
}
