//! Identifiers and doc comments of Rust files, as docs/style.md asks for them.

use syn::visit::{self, Visit};

/// Stems that name nothing in particular, and what to write instead.
const BANNED: &[(&[&str], &str)] = &[
    (
        &["told", "tell", "tells", "telling"],
        "`notify`, `report`, `print` or `send`",
    ),
    (
        &["say", "says", "said"],
        "`report`, `print`, `message` or `output`",
    ),
    (&["hear", "heard", "hears"], "`on_…`, `receive` or `read`"),
    (
        &["look", "looks", "looked", "looking"],
        "`check`, `scan`, `poll` or `inspect`",
    ),
    (&["word", "words"], "`arg`, `token` or `message`"),
    (&["news"], "`update` or `event`"),
    (&["what"], "the noun: `kind`, `path`, `subject`"),
    (&["whose"], "the noun"),
    (&["rest"], "`remaining`, `tail` or `suffix`"),
    (&["begin", "begins", "began", "begun"], "`start`"),
    (&["gone"], "`removed`, `missing` or `has_exited`"),
    (&["nobody", "somebody", "anew"], "the actor or the action"),
];

/// Where a banned stem is the right term: files, stem, reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "crates/vex/src/tools/patch",
        "begin",
        "`*** Begin Patch` is the name of the format's first line",
    ),
    (
        "crates/vex",
        "look",
        "`second_look` is a key of the configuration",
    ),
    ("crates/vex", "word", "words of a shell command or of a text"),
    ("crates/vik-core", "word", "words of a text"),
    ("crates/vik-mask", "word", "words of a text"),
    ("crates/vik-proc", "nobody", "the user `nobody`"),
    ("crates/vik-proc/src/tcp_peer", "word", "words of 32 bits"),
    ("crates/vik-tui", "word", "words of a text"),
    ("crates/vik-text", "word", "words of a text"),
    (
        "crates/vik-session/src/hooks/outside",
        "word",
        "words of a shell command",
    ),
    ("crates/vik-base/src/report", "word", "words of a text"),
    ("crates/vik-template", "word", "words of a shell command"),
    ("tests/it/templates.rs", "word", "words of a shell command"),
    ("tests/it/predecessor.rs", "word", "words of a shell command"),
    ("xtask/src/tidy", "word", "words of a text"),
];

/// Returns the findings of one Rust file: the line and a description of each.
///
/// # Errors
///
/// Returns an error if the file cannot be parsed.
pub fn check(path: &str, text: &str) -> Result<Vec<(usize, String)>, syn::Error> {
    let file = syn::parse_file(text)?;
    let mut checker = Checker {
        path,
        findings: Vec::new(),
        docs_are_output: false,
    };
    checker.visit_file(&file);
    Ok(checker.findings)
}

struct Checker<'a> {
    path: &'a str,
    findings: Vec<(usize, String)>,
    /// Inside a type whose doc comments become help texts or schemas.
    docs_are_output: bool,
}

impl Checker<'_> {
    fn check_name(&mut self, ident: &syn::Ident) {
        let name = ident.to_string();
        let parts = parts(&name);
        for (index, part) in parts.iter().enumerate() {
            // "look up" is a term of the field.
            let is_term = parts.get(index + 1).is_some_and(|next| next == "up");
            // A sentence may contain "what"; a name may not be it.
            let is_sentence = part == "what" && index > 0 && index + 1 < parts.len();
            if is_term || is_sentence {
                continue;
            }
            let Some((stems, instead)) = BANNED.iter().find(|(stems, _)| stems.contains(&part.as_str()))
            else {
                continue;
            };
            let is_allowed = |(folder, stem, _): &&(&str, &str, &str)| {
                self.path.starts_with(folder) && stems.contains(stem)
            };
            if !ALLOWED.iter().any(|allowed| is_allowed(&allowed)) {
                let line = ident.span().start().line;
                self.findings
                    .push((line, format!("`{name}` has the stem `{part}`: write {instead}")));
            }
        }
    }

    fn check_docs(&mut self, attrs: &[syn::Attribute]) {
        if self.docs_are_output {
            return;
        }
        let mut lines = attrs.iter().filter(|attr| attr.path().is_ident("doc"));
        let (Some(first), None) = (lines.next(), lines.next()) else {
            return;
        };
        let syn::Meta::NameValue(meta) = &first.meta else {
            return;
        };
        let syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(text),
            ..
        }) = &meta.value
        else {
            return;
        };
        let text = text.value();
        if text.split_whitespace().count() <= MAX_EMPTY_DOC_WORDS {
            let line = meta.path.segments[0].ident.span().start().line;
            self.findings.push((
                line,
                format!("the doc comment `{}` repeats the name: delete it", text.trim()),
            ));
        }
    }
}

/// A doc comment of at most this many words only repeats the name.
const MAX_EMPTY_DOC_WORDS: usize = 3;

/// Derived traits that turn doc comments into help texts or schemas.
const DOC_READERS: &[&str] = &["Parser", "Args", "Subcommand", "ValueEnum", "JsonSchema"];

fn reads_docs(attrs: &[syn::Attribute]) -> bool {
    attrs
        .iter()
        .filter(|attr| attr.path().is_ident("derive"))
        .any(|attr| {
            let mut found = false;
            let _ = attr.parse_nested_meta(|meta| {
                found |= meta
                    .path
                    .segments
                    .last()
                    .is_some_and(|last| DOC_READERS.iter().any(|name| last.ident == name));
                Ok(())
            });
            found
        })
}

/// Returns the words of an identifier in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = '_';
    for c in name.chars() {
        let starts = c == '_' || (c.is_uppercase() && !before.is_uppercase());
        if starts && parts.last().is_some_and(|part| !part.is_empty()) {
            parts.push(String::new());
        }
        if let (true, Some(part)) = (c != '_', parts.last_mut()) {
            part.extend(c.to_lowercase());
        }
        before = c;
    }
    parts
}

impl<'ast> Visit<'ast> for Checker<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (ident, attrs): (_, &[syn::Attribute]) = match item {
            syn::Item::Const(item) => (Some(&item.ident), &item.attrs),
            syn::Item::Enum(item) => (Some(&item.ident), &item.attrs),
            // `visit_signature` checks the name of a function.
            syn::Item::Fn(item) => (None, &item.attrs),
            syn::Item::Mod(item) => (Some(&item.ident), &[]),
            syn::Item::Static(item) => (Some(&item.ident), &item.attrs),
            syn::Item::Struct(item) => (Some(&item.ident), &item.attrs),
            syn::Item::Trait(item) => (Some(&item.ident), &item.attrs),
            syn::Item::Type(item) => (Some(&item.ident), &item.attrs),
            _ => (None, &[]),
        };
        let outer = self.docs_are_output;
        if matches!(item, syn::Item::Enum(_) | syn::Item::Struct(_)) {
            self.docs_are_output = reads_docs(attrs);
        }
        if let Some(ident) = ident {
            self.check_name(ident);
        }
        self.check_docs(attrs);
        visit::visit_item(self, item);
        self.docs_are_output = outer;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check_docs(&item.attrs);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.check_docs(&item.attrs);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.check_name(&signature.ident);
        visit::visit_signature(self, signature);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.check_name(&variant.ident);
        self.check_docs(&variant.attrs);
        visit::visit_variant(self, variant);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(ident) = &field.ident {
            self.check_name(ident);
        }
        self.check_docs(&field.attrs);
        visit::visit_field(self, field);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.check_name(&pattern.ident);
        visit::visit_pat_ident(self, pattern);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        check(path, text).unwrap()
    }

    #[test]
    fn banned_stem_is_found_in_every_kind_of_name() {
        let text = "struct Told { rest: u8 }\nenum E { News }\nfn tell(words: u8) {\n    let what = words;\n}\nmod gone {}\n";
        let lines: Vec<usize> = found("src/a.rs", text)
            .into_iter()
            .map(|(line, _)| line)
            .collect();
        assert_eq!(lines, [1, 1, 2, 3, 3, 4, 6]);
    }

    #[test]
    fn stem_is_a_whole_part_of_a_name() {
        assert_eq!(
            found(
                "src/a.rs",
                "fn restart(lookup: u8, password: u8) {}\nstruct Forest;\n"
            ),
            []
        );
        assert_eq!(parts("HTTPServer2_x"), ["httpserver2", "x"]);
    }

    #[test]
    fn allowed_stem_is_allowed_in_its_folder_only() {
        assert_eq!(found("crates/vik-template/src/words.rs", "fn word() {}\n"), []);
        assert_eq!(
            found("crates/vik-orchestrator/src/intake/mod.rs", "fn word() {}\n").len(),
            1
        );
    }

    #[test]
    fn short_doc_comment_is_found_but_in_help_texts() {
        assert_eq!(found("src/a.rs", "/// The issue.\nstruct A;\n").len(), 1);
        assert_eq!(
            found("src/a.rs", "/// The time limit in seconds.\nstruct A;\n"),
            []
        );
        assert_eq!(found("src/a.rs", "/// A\n/// b.\nstruct A;\n"), []);
        assert_eq!(
            found(
                "src/a.rs",
                "#[derive(clap::Args)]\nstruct A {\n    /// The issue\n    b: u8,\n}\n"
            ),
            []
        );
    }
}
