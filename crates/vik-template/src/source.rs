//! Reads a template before any of its values is known. Determines what is refused, which
//! expressions are in shell text, and where the commands of a prompt start and end.
//!
//! The source is rewritten: each expression in shell text goes through a filter that stores its
//! value and leaves a placeholder, and each command is put between two marks. Placeholders and
//! marks contain a random number, so no value can imitate them.

use std::collections::HashSet;
use std::ops::Range;

use minijinja::machinery::ast::{Expr, Stmt};
use minijinja::machinery::{self, Token};

use super::error::{Place, TemplateError};
use super::plan::{Plan, Rendered, Site, filter_name, placeholder, syntax};
use super::{shell, words};

/// An edit of the source: the replaced range and the new text.
type Edit = (Range<usize>, String);

impl Plan {
    pub(super) fn prompt(source: &str) -> Result<Self, TemplateError> {
        Self::read(source, false)
    }

    pub(super) fn script(source: &str) -> Result<Self, TemplateError> {
        Self::read(source, true)
    }

    fn read(source: &str, whole_is_script: bool) -> Result<Self, TemplateError> {
        let template = parse(source)?;
        let mut walk = Walk {
            source,
            nonce: nonce(),
            assigned: HashSet::new(),
            in_shell: Vec::new(),
            edits: Vec::new(),
            commands: Vec::new(),
        };
        if let Stmt::Template(template) = &template {
            assigned(&template.children, &mut walk.assigned);
            if whole_is_script {
                walk.script(&template.children)?;
            } else {
                walk.text(&template.children, None)?;
            }
        }
        let Walk {
            nonce,
            in_shell,
            mut edits,
            commands,
            ..
        } = walk;
        let sites = wrap(source, &nonce, in_shell, &mut edits)?;
        let rewritten = apply(source, edits);
        Ok(Self {
            rewritten,
            nonce,
            sites,
            commands,
            whole_is_script,
        })
    }

    /// Checks the shell text without values, with every condition equal to `cond`.
    pub(super) fn check_shell_text(&self, cond: bool) -> Result<(), TemplateError> {
        let template = parse(&self.rewritten)?;
        let mut text = String::new();
        let mut site = 0;
        if let Stmt::Template(template) = &template {
            sketch(&template.children, cond, &self.nonce, &mut site, &mut text);
        }
        let values = self
            .sites
            .iter()
            .enumerate()
            .map(|(site, _)| (site, "x".to_owned()))
            .collect();
        let rendered = Rendered { text, values };
        if self.whole_is_script {
            shell::quote(self, &rendered).map(drop)
        } else {
            super::render::split(self, rendered).map(drop)
        }
    }
}

fn nonce() -> String {
    let (a, b) = (uuid::Uuid::now_v7(), uuid::Uuid::now_v7());
    format!("{}{}", a.simple(), b.simple())
}

fn parse(source: &str) -> Result<Stmt<'_>, TemplateError> {
    machinery::parse(source, "template", syntax()).map_err(|error| TemplateError::Syntax {
        line: error.line().unwrap_or(1),
        detail: error
            .detail()
            .map_or_else(|| error.kind().to_string(), str::to_owned),
    })
}

struct Walk<'a> {
    source: &'a str,
    nonce: String,
    /// Names that the template itself sets.
    assigned: HashSet<String>,
    /// For each `{{ … }}` in source order: `Some` if it is in shell text.
    in_shell: Vec<Option<Site>>,
    edits: Vec<Edit>,
    commands: Vec<usize>,
}

impl<'a> Walk<'a> {
    /// Reads shell text: collects every value, and refuses each tag that captures text.
    fn script(&mut self, list: &[Stmt<'a>]) -> Result<(), TemplateError> {
        list.iter().try_for_each(|stmt| self.script_stmt(stmt))
    }

    fn script_stmt(&mut self, stmt: &Stmt<'a>) -> Result<(), TemplateError> {
        match stmt {
            Stmt::Template(inner) => self.script(&inner.children),
            Stmt::EmitExpr(emit) => {
                let own = words::is_trusted_expr(&emit.expr, &self.assigned);
                let line = usize::from(emit.span().start_line);
                self.in_shell.push(Some(Site {
                    line,
                    text: String::new(),
                    is_trusted: own,
                }));
                Ok(())
            }
            Stmt::EmitRaw(_) | Stmt::Set(_) | Stmt::Do(_) => Ok(()),
            Stmt::ForLoop(inner) if inner.recursive => {
                Err(captured(inner.span().start_line, "for … recursive"))
            }
            Stmt::ForLoop(inner) => {
                self.script(&inner.body)?;
                self.script(&inner.else_body)
            }
            Stmt::IfCond(inner) => {
                self.script(&inner.true_body)?;
                self.script(&inner.false_body)
            }
            Stmt::WithBlock(inner) => self.script(&inner.body),
            Stmt::AutoEscape(inner) => self.script(&inner.body),
            Stmt::SetBlock(inner) => Err(captured(inner.span().start_line, "set")),
            Stmt::FilterBlock(inner) => Err(captured(inner.span().start_line, "filter")),
            Stmt::Macro(inner) => Err(captured(inner.span().start_line, "macro")),
            Stmt::CallBlock(inner) => Err(captured(inner.span().start_line, "call")),
            other => Err(other_templates(other)),
        }
    }

    /// Reads prompt text; `capture` is the tag that stores this text for use elsewhere.
    fn text(&mut self, list: &[Stmt<'a>], capture: Option<&'static str>) -> Result<(), TemplateError> {
        // The start of the command that is open in this list.
        let mut open: Option<usize> = None;
        for stmt in list {
            let Stmt::EmitRaw(raw) = stmt else {
                if open.is_some() {
                    self.script_stmt(stmt)?;
                } else {
                    self.text_stmt(stmt, capture)?;
                }
                continue;
            };
            let base = raw.raw.as_ptr().addr() - self.source.as_ptr().addr();
            let mut at = 0;
            loop {
                let remaining = &raw.raw[at..];
                if open.is_some() {
                    let Some(found) = remaining.find(")`") else { break };
                    let from = base + at + found;
                    self.edits.push((from..from + 2, format!("\u{1}{}]", self.nonce)));
                    open = None;
                    at += found + 2;
                } else {
                    let Some(found) = remaining.find("`exec(") else {
                        break;
                    };
                    let from = base + at + found;
                    if let Some(tag) = capture {
                        return Err(TemplateError::Refused {
                            line: self.line(from),
                            text: "a prompt command".to_owned(),
                            place: Place::Captured(tag),
                        });
                    }
                    let bang = usize::from(remaining[..found].ends_with('!'));
                    self.edits.push((
                        from - bang..from + 6,
                        format!("\u{1}{}[{};", self.nonce, self.commands.len()),
                    ));
                    self.commands.push(self.line(from));
                    open = Some(from);
                    at += found + 6;
                }
            }
        }
        match open {
            None => Ok(()),
            Some(from) => Err(TemplateError::Refused {
                line: self.line(from),
                text: "the prompt command `exec(".to_owned() + "`",
                place: Place::Unclosed,
            }),
        }
    }

    fn text_stmt(&mut self, stmt: &Stmt<'a>, capture: Option<&'static str>) -> Result<(), TemplateError> {
        match stmt {
            Stmt::Template(inner) => self.text(&inner.children, capture),
            Stmt::EmitExpr(_) => {
                self.in_shell.push(None);
                Ok(())
            }
            Stmt::EmitRaw(_) | Stmt::Set(_) | Stmt::Do(_) => Ok(()),
            Stmt::ForLoop(inner) => {
                let capture = if inner.recursive {
                    Some("for … recursive")
                } else {
                    capture
                };
                self.text(&inner.body, capture)?;
                self.text(&inner.else_body, capture)
            }
            Stmt::IfCond(inner) => {
                self.text(&inner.true_body, capture)?;
                self.text(&inner.false_body, capture)
            }
            Stmt::WithBlock(inner) => self.text(&inner.body, capture),
            Stmt::AutoEscape(inner) => self.text(&inner.body, capture),
            Stmt::SetBlock(inner) => self.text(&inner.body, Some("set")),
            Stmt::FilterBlock(inner) => self.text(&inner.body, Some("filter")),
            Stmt::Macro(inner) => self.text(&inner.body, Some("macro")),
            Stmt::CallBlock(inner) => self.text(&inner.macro_decl.body, Some("call")),
            other => Err(other_templates(other)),
        }
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.source[..offset].matches('\n').count()
    }
}

fn captured(line: u16, tag: &'static str) -> TemplateError {
    TemplateError::Refused {
        line: usize::from(line),
        text: "shell text".to_owned(),
        place: Place::Captured(tag),
    }
}

fn other_templates(stmt: &Stmt<'_>) -> TemplateError {
    let (line, tag) = match stmt {
        Stmt::Block(inner) => (inner.span().start_line, "block"),
        Stmt::Import(inner) => (inner.span().start_line, "import"),
        Stmt::FromImport(inner) => (inner.span().start_line, "from"),
        Stmt::Extends(inner) => (inner.span().start_line, "extends"),
        Stmt::Include(inner) => (inner.span().start_line, "include"),
        _ => (1, "this tag"),
    };
    TemplateError::Refused {
        line: usize::from(line),
        text: format!("`{{% {tag} %}}`"),
        place: Place::OtherTemplates,
    }
}

/// Sends each expression in shell text through the filter.
fn wrap(
    source: &str,
    nonce: &str,
    in_shell: Vec<Option<Site>>,
    edits: &mut Vec<Edit>,
) -> Result<Vec<Site>, TemplateError> {
    // Each `{{ … }}` is one expression of the tree, and both are in source order.
    let mut expressions = in_shell.into_iter();
    let mut sites = Vec::new();
    let mut start: Option<Range<usize>> = None;
    let mismatch = || TemplateError::Syntax {
        line: 1,
        detail: "the expressions cannot be distinguished".to_owned(),
    };
    for token in machinery::tokenize(source, false, syntax()) {
        let Ok((token, span)) = token else {
            return Err(mismatch());
        };
        let range = span.start_offset as usize..span.end_offset as usize;
        match token {
            Token::VariableStart => start = Some(range),
            Token::VariableEnd => {
                let (Some(start), Some(expression)) = (start.take(), expressions.next()) else {
                    return Err(mismatch());
                };
                if let Some(mut site) = expression {
                    site.text = format!(
                        "`{}`",
                        source[start.start..range.end]
                            .split_whitespace()
                            .collect::<Vec<_>>()
                            .join(" ")
                    );
                    edits.push((start.end..start.end, " (".to_owned()));
                    edits.push((
                        range.start..range.start,
                        format!(")|{}({})", filter_name(nonce), sites.len()),
                    ));
                    sites.push(site);
                }
            }
            _ => {}
        }
    }
    if expressions.next().is_some() {
        Err(mismatch())
    } else {
        Ok(sites)
    }
}

fn apply(source: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|(range, _)| range.start);
    let mut result = String::with_capacity(source.len() + edits.len() * 80);
    let mut at = 0;
    for (range, text) in edits {
        result.push_str(&source[at..range.start]);
        result.push_str(&text);
        at = range.end;
    }
    result.push_str(&source[at..]);
    result
}

/// Collects the names that a template sets anywhere.
fn assigned(list: &[Stmt<'_>], names: &mut HashSet<String>) {
    for stmt in list {
        match stmt {
            Stmt::Set(inner) => target(&inner.target, names),
            Stmt::SetBlock(inner) => {
                target(&inner.target, names);
                assigned(&inner.body, names);
            }
            Stmt::ForLoop(inner) => {
                target(&inner.target, names);
                assigned(&inner.body, names);
                assigned(&inner.else_body, names);
            }
            Stmt::WithBlock(inner) => {
                inner.assignments.iter().for_each(|(to, _)| target(to, names));
                assigned(&inner.body, names);
            }
            Stmt::IfCond(inner) => {
                assigned(&inner.true_body, names);
                assigned(&inner.false_body, names);
            }
            Stmt::AutoEscape(inner) => assigned(&inner.body, names),
            Stmt::FilterBlock(inner) => assigned(&inner.body, names),
            Stmt::Macro(inner) => {
                names.insert(inner.name.to_owned());
                inner.args.iter().for_each(|arg| target(arg, names));
                assigned(&inner.body, names);
            }
            Stmt::CallBlock(inner) => assigned(&inner.macro_decl.body, names),
            _ => {}
        }
    }
}

fn target(expr: &Expr<'_>, names: &mut HashSet<String>) {
    match expr {
        Expr::Var(var) => {
            names.insert(var.id.to_owned());
        }
        Expr::List(list) => list.items.iter().for_each(|item| target(item, names)),
        Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| target(item, names)),
        _ => {}
    }
}

/// Writes the text of the rewritten template for one value of all conditions, with a placeholder
/// for each value in shell text.
fn sketch(list: &[Stmt<'_>], cond: bool, nonce: &str, site: &mut usize, text: &mut String) {
    for stmt in list {
        match stmt {
            Stmt::EmitRaw(raw) => text.push_str(raw.raw),
            Stmt::EmitExpr(emit) => {
                if matches!(&emit.expr, Expr::Filter(filter) if filter.name == filter_name(nonce)) {
                    text.push_str(&placeholder(nonce, *site));
                    *site += 1;
                }
            }
            Stmt::ForLoop(inner) => {
                branch(&inner.body, cond, cond, nonce, site, text);
                branch(&inner.else_body, cond, !cond, nonce, site, text);
            }
            Stmt::IfCond(inner) => {
                branch(&inner.true_body, cond, cond, nonce, site, text);
                branch(&inner.false_body, cond, !cond, nonce, site, text);
            }
            Stmt::WithBlock(inner) => sketch(&inner.body, cond, nonce, site, text),
            Stmt::AutoEscape(inner) => sketch(&inner.body, cond, nonce, site, text),
            _ => {}
        }
    }
}

/// Writes a branch if it is taken. The expressions of a branch that is not taken are still counted.
fn branch(list: &[Stmt<'_>], cond: bool, taken: bool, nonce: &str, site: &mut usize, text: &mut String) {
    let length = text.len();
    sketch(list, cond, nonce, site, text);
    if !taken {
        text.truncate(length);
    }
}
