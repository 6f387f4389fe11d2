//! Rules: what is allowed and denied beyond the profile, by tool and by the subject of a call.
//!
//! `TOOL` or `TOOL(PATTERN)`. For `run_command` the pattern is matched against each simple command
//! of the line, `*` for anything; for tools with paths it is a glob of paths; for `web_fetch` it is
//! the name of the host, for `load_skill` that of the skill. A deny wins over an allow, an allow over the profile. An unreadable
//! subject is never allowed by a pattern, and always denied by one.

mod paths;
mod shell;
#[cfg(test)]
mod tests;
mod wrappers;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::output::Refusal;
use super::{Root, Subject, canonical};
use shell::{Glyph, Word, known};

/// The name of an existing tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolName(Cow<'static, str>);

impl ToolName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the only server whose tools this can name; `None` for tools of vex, and if it has
    /// wildcards for servers.
    pub(crate) fn server(&self) -> Option<&str> {
        let (server, _) = server_tool(&self.0)?;
        (!has_wildcards(server)).then_some(server)
    }

    /// Returns the only tool of this server that this can name; `None` if it has wildcards.
    pub(super) fn tool_of(&self, server: &str) -> Option<&str> {
        let (of, tool) = server_tool(&self.0)?;
        (of == server && !has_wildcards(tool)).then_some(tool)
    }

    /// Returns whether this names the tool. In names of tools of servers, `*` is anything and `?`
    /// one character.
    pub(super) fn matches(&self, tool: &str) -> bool {
        self.0 == tool
            || match (server_tool(&self.0), server_tool(tool)) {
                (Some((server, tool)), Some((of_server, of_tool))) => {
                    fits(server, &glyphs(of_server)) && fits(tool, &glyphs(of_tool))
                }
                _ => false,
            }
    }
}

fn has_wildcards(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// How the names of tools of servers start.
const SERVER_TOOLS: &str = "mcp.";

/// Returns the server and the tool in `mcp.SERVER.TOOL`.
fn server_tool(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(SERVER_TOOLS)?.split_once('.')
}

impl FromStr for ToolName {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        if text.starts_with(SERVER_TOOLS) {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "_-./*?".contains(c);
            let is_name = |part: &str| !part.is_empty() && part.chars().all(allowed);
            return match server_tool(text) {
                Some((server, tool)) if is_name(server) && is_name(tool) => Ok(Self(text.to_owned().into())),
                _ => Err(RuleError::ServerTool(text.to_owned())),
            };
        }
        canonical(text)
            .map(Self)
            .ok_or_else(|| RuleError::UnknownTool(text.to_owned()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    tool: ToolName,
    pattern: Option<String>,
}

impl Rule {
    /// Returns the tool that it is about.
    pub(crate) fn tool(&self) -> &ToolName {
        &self.tool
    }
}

/// Why a text is not a rule.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A rule about an unknown tool would have no effect.
    #[error("unknown tool {0:?}")]
    UnknownTool(String),
    /// The text does not name tools of a server.
    #[error(
        "{0:?} names no tool of an MCP server: expected mcp.SERVER.TOOL, such as mcp.tickets.read or mcp.tickets.*"
    )]
    ServerTool(String),
    /// Nothing is known about the arguments of a server's tool.
    #[error("invalid rule {0:?}: a rule for a tool of an MCP server has no pattern in parentheses")]
    ServerPattern(String),
    /// The parentheses do not match.
    #[error("invalid rule {0:?}: expected TOOL or TOOL(PATTERN)")]
    Form(String),
    /// The pattern is not a glob.
    #[error("{0:?} is not a glob")]
    Pattern(String),
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        let (name, pattern) = match text.split_once('(') {
            None => (text, None),
            Some((name, parenthesized)) => {
                let pattern = parenthesized
                    .strip_suffix(')')
                    .map(str::trim)
                    .filter(|pattern| !pattern.is_empty());
                (
                    name,
                    Some(pattern.ok_or_else(|| RuleError::Form(text.to_owned()))?),
                )
            }
        };
        let rule = Self {
            tool: name.trim().parse()?,
            pattern: pattern.map(str::to_owned),
        };
        match pattern {
            Some(_) if server_tool(&rule.tool.0).is_some() => Err(RuleError::ServerPattern(text.to_owned())),
            Some(pattern) if paths::glob(pattern).is_none() && rule.tool.0 != "run_command" => {
                Err(RuleError::Pattern(pattern.to_owned()))
            }
            _ => Ok(rule),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            None => f.write_str(&self.tool.0),
            Some(pattern) => write!(f, "{}({pattern})", self.tool.0),
        }
    }
}

/// Serialises rules and names as texts, as they are written in settings.
macro_rules! as_text {
    ($type:ty, $show:expr) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let show: fn(&Self) -> String = $show;
                serializer.serialize_str(&show(self))
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                String::json_schema(generator)
            }
        }
    };
}
as_text!(ToolName, |name| name.0.clone().into_owned());
as_text!(Rule, ToString::to_string);

/// All rules of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub allow: Vec<Rule>,
    pub deny: Vec<Rule>,
}

/// The decision of the rules about a call.
#[derive(Debug)]
pub(super) enum Ruling {
    Denied(Refusal),
    Allowed,
    /// No rule matches: the profile decides. The text explains why a similar allow does not match.
    NoMatch(Option<&'static str>),
}

impl Rules {
    /// Returns whether an allow names exactly this, without a pattern that also matches others.
    pub(super) fn names(&self, tool: &str, exactly: &str) -> bool {
        let names = |rule: &Rule| {
            let pattern = rule.pattern.as_deref();
            rule.tool.0 == tool && pattern.is_some_and(|pattern| pattern.eq_ignore_ascii_case(exactly))
        };
        !exactly.contains(['*', '?']) && self.allow.iter().any(names)
    }

    /// Returns whether calls of this tool of a server are allowed.
    pub(super) fn allows_calls(&self, tool: &str) -> bool {
        let is_allowed = self.allow.iter().any(|rule| rule.tool.matches(tool));
        is_allowed && !self.denies_calls(tool)
    }

    /// Returns whether calls of this tool of a server are denied.
    pub(super) fn denies_calls(&self, tool: &str) -> bool {
        self.deny.iter().any(|rule| rule.tool.matches(tool))
    }

    /// Decides about a call.
    pub(super) fn judge(&self, tool: &str, subject: impl FnOnce() -> Subject, root: &Root) -> Ruling {
        let of = |rules: &'_ [Rule]| rules.iter().any(|rule| rule.tool.matches(tool));
        if !of(&self.allow) && !of(&self.deny) {
            return Ruling::NoMatch(None);
        }
        let about = MatchTarget::new(subject(), root);
        let concerns = |rule: &&Rule| rule.tool.matches(tool);
        for rule in self.deny.iter().filter(concerns) {
            if let Some(why) = about.is_denied(rule.pattern.as_deref()) {
                let refusal = Refusal::new("rule", format!("{tool} is denied by the rule {rule}{why}"));
                return Ruling::Denied(refusal.instead("do without it, and say what could not be done"));
            }
        }
        let allow: Vec<&Rule> = self.allow.iter().filter(concerns).collect();
        match about.is_allowed(&allow) {
            Ok(true) => Ruling::Allowed,
            Ok(false) => Ruling::NoMatch(None),
            Err(why) => Ruling::NoMatch(Some(why)),
        }
    }
}

/// The subject of a call, in the form that patterns are matched against.
enum MatchTarget {
    Line(shell::CommandLine),
    Paths(Vec<paths::PathForms>),
    Name(String),
    Unknown,
}

impl MatchTarget {
    fn new(subject: Subject, root: &Root) -> Self {
        match subject {
            Subject::Command(line) => Self::Line(shell::read(&line)),
            Subject::Paths(all) => {
                Self::Paths(all.iter().map(|path| paths::PathForms::of(path, root)).collect())
            }
            Subject::Host(host) => Self::Name(host.to_ascii_lowercase()),
            Subject::Name(name) => Self::Name(name),
            Subject::Unknown => Self::Unknown,
        }
    }

    /// Returns whether this pattern of a deny matches or might match. The text explains a match
    /// that is not obvious.
    fn is_denied(&self, pattern: Option<&str>) -> Option<&'static str> {
        let Some(pattern) = pattern else { return Some("") };
        match self {
            Self::Unknown => Some("; what it is about cannot be known"),
            Self::Name(name) => might_match(pattern, &glyphs(name)).then_some(""),
            Self::Paths(all) => all.iter().any(|forms| forms.any_fits(pattern)).then_some(""),
            Self::Line(line) if line.unreadable => {
                Some("; the line is too involved to tell that it does not do that: write plain commands")
            }
            Self::Line(line) => {
                let own = line.commands.iter().map(|simple| &simple.words);
                own.chain(&line.wrapped)
                    .any(|words| might_run(pattern, words))
                    .then_some("")
            }
        }
    }

    /// Returns whether the rules allow all of it; an error explains why patterns could not be
    /// applied.
    fn is_allowed(&self, rules: &[&Rule]) -> Result<bool, &'static str> {
        if rules.iter().any(|rule| rule.pattern.is_none()) {
            return Ok(true);
        }
        let mut patterns = rules.iter().filter_map(|rule| rule.pattern.as_deref());
        if rules.is_empty() {
            return Ok(false);
        }
        match self {
            Self::Unknown => Ok(false),
            Self::Name(name) => Ok(patterns.any(|pattern| might_match(pattern, &glyphs(name)))),
            Self::Paths(all) => {
                let patterns: Vec<&str> = patterns.collect();
                let fits = |forms: &paths::PathForms| patterns.iter().any(|pattern| forms.real_fits(pattern));
                Ok(!all.is_empty() && all.iter().all(fits))
            }
            Self::Line(line) => {
                let patterns: Vec<&str> = patterns.collect();
                let too_much = "only plain commands can be allowed by a pattern: no variables, substitutions, globs, \
                                assignments or output to files";
                if line.unreadable || line.commands.iter().any(|simple| simple.does_more) {
                    return Err(too_much);
                }
                let texts: Option<Vec<String>> = line
                    .commands
                    .iter()
                    .map(|simple| written(&simple.words))
                    .collect();
                let texts = texts.ok_or(too_much)?;
                let fits = |text: &String| patterns.iter().any(|pattern| might_match(pattern, &glyphs(text)));
                Ok(!texts.is_empty() && texts.iter().all(fits))
            }
        }
    }
}

fn glyphs(text: &str) -> Vec<Glyph> {
    text.chars().map(Glyph::Char).collect()
}

/// Returns the words as one text, quoted if required; `None` if any part is unknown.
fn written(words: &[Word]) -> Option<String> {
    let words: Option<Vec<String>> = words
        .iter()
        .map(|word| known(word).map(|text| super::command::quoted(&text)))
        .collect();
    words.map(|words| words.join(" "))
}

/// Returns whether a command of these words is, or might be, the one in the pattern of a deny: also
/// by the path of the program, and after the options that git takes before its verb.
fn might_run(pattern: &str, words: &[Word]) -> bool {
    let plain = join(words);
    if might_match(pattern, &plain) || written(words).is_some_and(|text| might_match(pattern, &glyphs(&text)))
    {
        return true;
    }
    let Some((first, args)) = words.split_first() else {
        return false;
    };
    let Some(name) = wrappers::program(first) else {
        return false;
    };
    let mut named = vec![glyphs(&name)];
    named.extend_from_slice(args);
    if might_match(pattern, &join(&named)) {
        return true;
    }
    if name == "git" {
        return match git_verb(args) {
            Some(at) => {
                let mut short = vec![glyphs("git")];
                short.extend_from_slice(&args[at..]);
                let may_be_an_alias = known(&args[at]).is_none_or(|verb| !is_verb_of_git(&verb));
                might_match(pattern, &join(&short)) || (may_be_an_alias && pattern.starts_with("git"))
            }
            None => false,
        };
    }
    // `git-push` is `git push`.
    match name.strip_prefix("git-") {
        Some(verb) => {
            let mut short = vec![glyphs("git"), glyphs(verb)];
            short.extend_from_slice(args);
            might_match(pattern, &join(&short))
        }
        None => false,
    }
}

fn join(words: &[Word]) -> Vec<Glyph> {
    words.join(&Glyph::Char(' '))
}

/// Returns the position of git's verb after its own options.
fn git_verb(args: &[Word]) -> Option<usize> {
    let with_value = [
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--exec-path",
        "--config-env",
        "--super-prefix",
    ];
    let mut at = 0;
    while let Some(word) = args.get(at) {
        match known(word) {
            Some(option) if with_value.contains(&option.as_str()) => at += 2,
            Some(option) if option.starts_with('-') => at += 1,
            _ => return Some(at),
        }
    }
    None
}

/// Returns whether git has this verb, so that no alias can replace it.
fn is_verb_of_git(verb: &str) -> bool {
    const VERBS: &str = " add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr \
        check-ignore check-mailmap check-ref-format checkout checkout-index cherry cherry-pick clean clone commit \
        commit-graph commit-tree config count-objects credential describe diagnose diff diff-files diff-index diff-tree \
        difftool fast-export fast-import fetch fetch-pack filter-branch fmt-merge-msg for-each-ref for-each-repo \
        format-patch fsck gc grep gui hash-object help hook index-pack init init-db interpret-trailers log ls-files \
        ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-index merge-tree mergetool \
        mktag mktree multi-pack-index mv name-rev notes pack-objects pack-redundant pack-refs patch-id prune \
        prune-packed pull push range-diff read-tree rebase reflog remote repack replace request-pull rerere reset \
        restore rev-list rev-parse revert rm send-pack shortlog show show-branch show-index show-ref sparse-checkout \
        stage stash status stripspace submodule switch symbolic-ref tag unpack-file unpack-objects update-index \
        update-ref update-server-info var verify-commit verify-pack verify-tag version whatchanged worktree write-tree ";
    VERBS.contains(&format!(" {verb} "))
}

/// Returns whether a pattern matches a text, or might match if parts of the text are unknown. `*`
/// is anything, `?` one character; a ` *` at the end may also be empty.
fn might_match(pattern: &str, text: &[Glyph]) -> bool {
    fits(pattern, text) || pattern.strip_suffix(" *").is_some_and(|short| fits(short, text))
}

fn fits(pattern: &str, text: &[Glyph]) -> bool {
    // `reach[j]`: the pattern up to here can end before the j-th glyph of the text.
    let mut reach = vec![false; text.len() + 1];
    reach[0] = true;
    over_unknown(&mut reach, text);
    for p in pattern.chars() {
        let mut next = vec![false; text.len() + 1];
        for j in 0..=text.len() {
            next[j] = match p {
                '*' => reach[j] || (j > 0 && next[j - 1]),
                p => {
                    // An unknown part may contain this character.
                    let within = reach[j] && text.get(j) == Some(&Glyph::Any);
                    let one = j > 0
                        && match text[j - 1] {
                            Glyph::Any => reach[j] || reach[j - 1],
                            Glyph::Char(c) => reach[j - 1] && (p == '?' || p == c),
                        };
                    within || one
                }
            };
        }
        over_unknown(&mut next, text);
        reach = next;
    }
    reach[text.len()]
}

/// An unknown part may be empty.
fn over_unknown(reach: &mut [bool], text: &[Glyph]) {
    for (j, glyph) in text.iter().enumerate() {
        if *glyph == Glyph::Any && reach[j] {
            reach[j + 1] = true;
        }
    }
}
