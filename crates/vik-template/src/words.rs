//! The words of a shell command, as far as they decide whether a value may be among them: a value
//! may be an argument, but it may not name the command, nor be an argument that the command reads
//! as code.
//!
//! Quoting alone keeps a value one word. The lists here contain the well-known commands that would
//! read that word as code nevertheless. They cannot be complete: a program of the author that
//! evaluates its arguments is unknown.

mod programs;

use std::collections::HashSet;

use minijinja::machinery::ast::{CallArg, Expr};

use self::programs::{
    CODE, NAMES, PROGRAMS, SCRIPT_SHELLS, SHELLS, base, code_comes_next, command_start, is_interpreter,
    program,
};
use super::error::Place;
use super::plan::Site;

/// Whether a piece of text is in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    Bare,
    Quoted,
}

/// The meaning of the end of a word for the reader.
pub(super) enum WordEnd {
    Plain,
    /// It was the reserved word `case`.
    Case,
    /// It was the command `alias`, after which words may have another meaning.
    Alias,
}

#[derive(Default)]
struct Word {
    text: String,
    quoted: bool,
    /// Whether its unquoted text up to here is `NAME=` or `NAME+=`.
    assignment: bool,
    /// The first value in it that is not the author's own.
    value: Option<Site>,
    /// Whether it starts with a value, of whatever origin.
    value_first: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Subject,
    In,
    Pattern,
    Body,
}

/// A list of commands that is being read.
#[derive(Default)]
pub(super) struct Command {
    words: Vec<String>,
    word: Option<Word>,
    /// Whether the next word is the target of a redirection.
    redirect: bool,
    cases: Vec<Case>,
    /// Whether this is inside `[[ … ]]`.
    condition: bool,
    parens: usize,
    /// The first value in any of the words that is not the author's own.
    tainted: Option<Site>,
}

/// Commands that run the command in their arguments.
const PREFIXES: &[&str] = &[
    "exec", "command", "builtin", "nohup", "sudo", "doas", "env", "nice", "time", "timeout", "xargs",
    "setsid", "stdbuf", "ionice", "chroot", "unshare", "strace", "parallel", "gtimeout",
];
const RESERVED: &[&str] = &[
    "if", "then", "else", "elif", "fi", "while", "until", "do", "done", "{", "}", "!", "esac",
];

impl Command {
    pub(super) fn in_word(&self) -> bool {
        self.word.is_some()
    }

    /// Returns whether no word of a command has been read.
    pub(super) fn at_start(&self) -> bool {
        self.words.is_empty()
    }

    pub(super) fn push(&mut self, text: &str, open: Quoting) {
        let word = self.word.get_or_insert_default();
        if open == Quoting::Quoted {
            word.quoted = true;
        } else if text == "=" && !word.quoted && !word.value_first && !word.assignment && word.value.is_none()
        {
            word.assignment = is_name(word.text.strip_suffix('+').unwrap_or(&word.text));
        }
        word.text.push_str(text);
    }

    pub(super) fn push_value(&mut self, site: &Site) {
        let word = self.word.get_or_insert_default();
        if word.text.is_empty() {
            word.value_first = true;
        }
        word.quoted = true;
        if !site.is_trusted {
            self.tainted.get_or_insert_with(|| site.clone());
            word.value.get_or_insert_with(|| site.clone());
        }
        // This character makes it different from every name.
        word.text.push('\u{1}');
    }

    /// Marks the current word: the output of a `$(…)` in it depends on this value.
    pub(super) fn taint(&mut self, site: Site) {
        self.word.get_or_insert_default().value.get_or_insert(site);
    }

    /// Removes and returns the first value in these commands that is not the author's own.
    pub(super) fn tainted(&mut self) -> Option<Site> {
        self.tainted.take()
    }

    /// Drops the descriptor of a redirection: `2` in `2>` is no word.
    pub(super) fn drop_descriptor(&mut self) {
        if self
            .word
            .as_ref()
            .is_some_and(|word| !word.quoted && word.text.bytes().all(|c| c.is_ascii_digit()))
        {
            self.word = None;
        }
    }

    pub(super) fn redirect(&mut self) {
        self.redirect = true;
    }

    pub(super) fn end_command(&mut self, case_end: bool) {
        self.redirect = false;
        if self.condition {
            return;
        }
        self.words.clear();
        if case_end && let Some(case) = self.cases.last_mut() {
            *case = Case::Pattern;
        }
    }

    pub(super) fn open_paren(&mut self) {
        if self.cases.last() == Some(&Case::Pattern) {
            return;
        }
        self.parens += 1;
        if !self.condition {
            self.words.clear();
        }
    }

    /// Closes a parenthesis. Returns whether it belongs to this list of commands.
    pub(super) fn close_paren(&mut self) -> bool {
        if !self.condition {
            self.words.clear();
        }
        self.redirect = false;
        if let Some(case @ Case::Pattern) = self.cases.last_mut() {
            *case = Case::Body;
            return true;
        }
        if self.parens > 0 {
            self.parens -= 1;
            return true;
        }
        false
    }

    /// Ends the current word, if there is one.
    pub(super) fn end_word(&mut self) -> Result<WordEnd, (Site, Place)> {
        let Some(word) = self.word.take() else {
            return Ok(WordEnd::Plain);
        };
        if std::mem::take(&mut self.redirect) {
            return Ok(WordEnd::Plain);
        }
        let plain = (!word.quoted).then_some(word.text.as_str());
        match self.cases.last_mut() {
            Some(case @ Case::Subject) => {
                *case = Case::In;
                return Ok(WordEnd::Plain);
            }
            Some(case @ Case::In) => {
                if plain == Some("in") {
                    *case = Case::Pattern;
                }
                return Ok(WordEnd::Plain);
            }
            Some(Case::Pattern) => {
                if plain == Some("esac") {
                    self.cases.pop();
                }
                return Ok(WordEnd::Plain);
            }
            Some(Case::Body) | None => {}
        }
        if self.condition {
            if plain == Some("]]") {
                self.condition = false;
            }
            return match word.value {
                Some(site) => Err((site, Place::Condition)),
                None => Ok(WordEnd::Plain),
            };
        }
        if self.words.is_empty() {
            self.first(word)
        } else {
            self.argument(word)
        }
    }

    fn first(&mut self, word: Word) -> Result<WordEnd, (Site, Place)> {
        if word.assignment {
            return Ok(WordEnd::Plain);
        }
        let plain = (!word.quoted).then_some(word.text.as_str());
        match plain {
            Some("case") => {
                self.cases.push(Case::Subject);
                return Ok(WordEnd::Case);
            }
            Some("esac") => {
                self.cases.pop();
                return Ok(WordEnd::Plain);
            }
            Some("[[") => {
                self.condition = true;
                return Ok(WordEnd::Plain);
            }
            Some(reserved) if RESERVED.contains(&reserved) => return Ok(WordEnd::Plain),
            _ => {}
        }
        if let Some(site) = word.value {
            return Err((site, Place::CommandName));
        }
        let alias = word.text == "alias";
        self.words.push(word.text);
        Ok(if alias { WordEnd::Alias } else { WordEnd::Plain })
    }

    fn argument(&mut self, word: Word) -> Result<WordEnd, (Site, Place)> {
        if let Some(site) = &word.value
            && let Some(place) = self.place_of(&word)
        {
            return Err((site.clone(), place));
        }
        let plain = !word.quoted;
        self.words.push(word.text);
        // `for x do …` and `function f { …`: a list of commands starts without a separator.
        if plain
            && matches!(
                self.words.iter().map(String::as_str).collect::<Vec<_>>()[..],
                ["for" | "select", _, "do"] | ["function", _, "{"]
            )
        {
            self.words.clear();
        }
        Ok(WordEnd::Plain)
    }

    /// Returns the place if the command refuses a value in the next word.
    fn place_of(&self, word: &Word) -> Option<Place> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let Some(start) = command_start(&words) else {
            return (!word.assignment).then_some(Place::CommandName);
        };
        let (name, arguments) = (base(words[start]), &words[start + 1..]);
        if CODE.contains(&name) {
            return Some(Place::Code(name.to_owned()));
        }
        if NAMES.contains(&name) {
            let flags = arguments.iter().any(|argument| argument.starts_with('-'));
            let typed = matches!(name, "declare" | "typeset" | "local") && flags;
            if word.value_first || !word.assignment || typed {
                return Some(Place::VariableName(name.to_owned()));
            }
        }
        if matches!(name, "[" | "test" | "printf")
            && arguments.last().is_some_and(|last| matches!(*last, "-v" | "-R"))
        {
            return Some(Place::VariableName(name.to_owned()));
        }
        if PROGRAMS.contains(&name) {
            return program(name, arguments, word);
        }
        let last = words.last().copied().unwrap_or_default();
        if matches!(last, "-exec" | "-execdir" | "-ok" | "-okdir") {
            return Some(Place::CommandName);
        }
        let options_only = arguments.iter().all(|argument| argument.starts_with('-'));
        let reads_script = SCRIPT_SHELLS.contains(&name) || is_interpreter(name);
        if (reads_script && options_only && !arguments.contains(&"-s"))
            || (name == "git" && last == "-c" && word.value_first)
            || (name == "set" && !arguments.contains(&"--"))
        {
            return Some(Place::Code(name.to_owned()));
        }
        // `find … -exec sh -c`, `git submodule foreach`, and so on: any earlier word may be the
        // interpreter.
        for (index, earlier) in words.iter().enumerate().rev() {
            let name = base(earlier);
            let letters: &[char] = if SHELLS.contains(&name) {
                &['c']
            } else if is_interpreter(name) {
                &['c', 'e', 'E', 'r', 'p']
            } else {
                continue;
            };
            if code_comes_next(&words[index + 1..], letters)
                || ["--command=", "--eval=", "--print=", "-c\u{1}", "-e\u{1}"]
                    .iter()
                    .any(|flag| word.text.starts_with(flag))
            {
                return Some(Place::Code(name.to_owned()));
            }
        }
        None
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && text.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
}

/// Returns whether an expression contains only values of the author and of Vik: paths of the
/// workflow, the daemon's environment, constants.
pub(super) fn is_trusted_expr(expr: &Expr<'_>, assigned: &HashSet<String>) -> bool {
    let own = |inner: &Expr<'_>| is_trusted_expr(inner, assigned);
    let own_opt = |inner: &Option<Expr<'_>>| inner.as_ref().is_none_or(own);
    let own_args = |args: &[CallArg<'_>]| {
        args.iter().all(|arg| match arg {
            CallArg::Pos(inner)
            | CallArg::Kwarg(_, inner)
            | CallArg::PosSplat(inner)
            | CallArg::KwargSplat(inner) => own(inner),
        })
    };
    match expr {
        Expr::Const(_) => true,
        Expr::Var(var) => {
            ["workflow_path", "workflow_dir", "workspace_root", "env"].contains(&var.id)
                && !assigned.contains(var.id)
        }
        Expr::GetAttr(get) => match &get.expr {
            Expr::Var(var) if !assigned.contains(var.id) => {
                matches!((var.id, get.name), ("issue", "workdir") | ("attempt", "number")) || own(&get.expr)
            }
            inner => own(inner),
        },
        Expr::GetItem(get) => own(&get.expr) && own(&get.subscript_expr),
        Expr::Slice(slice) => {
            own(&slice.expr) && own_opt(&slice.start) && own_opt(&slice.stop) && own_opt(&slice.step)
        }
        Expr::UnaryOp(op) => own(&op.expr),
        Expr::BinOp(op) => own(&op.left) && own(&op.right),
        Expr::Compare(compare) => own(&compare.expr) && compare.ops.iter().all(|op| own(&op.expr)),
        Expr::IfExpr(inner) => own(&inner.test_expr) && own(&inner.true_expr) && own_opt(&inner.false_expr),
        Expr::Filter(filter) => own_opt(&filter.expr) && own_args(&filter.args),
        Expr::Test(test) => own(&test.expr) && own_args(&test.args),
        Expr::List(list) => list.items.iter().all(own),
        Expr::Tuple(tuple) => tuple.items.iter().all(own),
        Expr::Map(map) => map.keys.iter().all(own) && map.values.iter().all(own),
        Expr::Call(_) => false,
    }
}
