//! The types of values in a workflow file, each with its reader and its schema.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use vik_core::approval::OnTimeout;
use vik_core::duration::Span;
use vik_core::workflow::{
    ArgsStyle, Home, HookKind, LogFormat, NotifyEvent, OnStateChange, OnViolation, OutputFormat, Permission,
    RemoveWorkspace, ResumeForm, ResumePolicy, Runtime, SandboxBackend, SandboxFiles, ScopeConflicts,
    Untrusted,
};
use vik_yaml::{Diagnostic, Kind, Node, Value};

use super::decode::{Cx, Decode, describe};
use super::notify::NotifyKind;
use super::text::{choices, did_you_mean, quoted};

/// The maximum span: adding it to any clock cannot overflow.
const MAX_SPAN: Duration = Duration::from_secs(10 * 366 * 86_400);

pub(crate) struct Text;

impl Decode for Text {
    type Value = String;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<String> {
        let scalar = cx.scalar(node, "a string")?;
        if scalar.value != Value::Text {
            return cx.refuse(
                cx.error(
                    "wrong_type",
                    node,
                    format!("expected a string, found {}", describe(node)),
                )
                .hint(format!(
                    "quote the value: \"{}\"",
                    quoted(&scalar.text).trim_matches('`')
                )),
            );
        }
        if scalar.text.trim().is_empty() {
            return cx.refuse(cx.error("empty_value", node, "the string is empty"));
        }
        no_nul(&scalar.text, node, cx)?;
        Some(scalar.text.clone())
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1 })
    }
}

/// A path as written: absolute, below the home directory (`~/`), or relative to a folder that
/// depends on the key.
pub(crate) struct PathText;

impl Decode for PathText {
    type Value = String;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<String> {
        let path = Text::decode(node, cx)?;
        match unexpanded(&path) {
            Some(why) => cx.refuse_text("bad_path", node, ("invalid path", &path), why),
            None => Some(path),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        Text::schema(generator)
    }
}

/// Returns a hint if a path contains an expression that is not expanded: it would become the name
/// of a folder.
pub(crate) fn unexpanded(path: &str) -> Option<&'static str> {
    let names_variable =
        |suffix: &str| suffix.starts_with(|c: char| c == '{' || c == '_' || c.is_ascii_alphabetic());
    if path.starts_with('~') && path != "~" && !path.starts_with("~/") {
        Some("`~/` is the only home directory that a path can name")
    } else if path.split('$').skip(1).any(names_variable) {
        Some("write the full path: variables are not expanded in paths, only `~/`")
    } else {
        None
    }
}

/// Checks that a text contains no NUL, which would end it in files, arguments and variables.
pub(crate) fn no_nul(text: &str, node: &Node, cx: &mut Cx<'_>) -> Option<()> {
    if text.contains('\0') {
        return cx.refuse(cx.error("bad_text", node, "the string contains a NUL character"));
    }
    Some(())
}

/// Returns a scalar as written, whatever its type in YAML: `1.0` stays `1.0`.
pub(crate) fn written(node: &Node, cx: &mut Cx<'_>, code: &'static str) -> Option<String> {
    let scalar = cx.scalar(node, "a string, a number or a boolean")?;
    if scalar.value == Value::Null {
        return cx.refuse(
            cx.error(code, node, "the value is missing")
                .hint("write `\"\"` for an empty string"),
        );
    }
    no_nul(&scalar.text, node, cx)?;
    Some(scalar.text.clone())
}

/// A whole number of at least `MIN`.
pub(crate) struct Whole<T, const MIN: u64, const MAX: u64>(PhantomData<T>);

/// A count that is at least one.
pub(crate) type Count = Whole<u32, 1, { u32::MAX as u64 }>;

impl<T: TryFrom<u64>, const MIN: u64, const MAX: u64> Decode for Whole<T, MIN, MAX> {
    type Value = T;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<T> {
        let wanted = "a whole number";
        match cx.scalar(node, wanted)?.value {
            Value::Int(number) => match u64::try_from(number) {
                Ok(number) if (MIN..=MAX).contains(&number) => T::try_from(number).ok(),
                _ => {
                    let bound = if number < i128::from(MIN) {
                        format!("at least {MIN}")
                    } else {
                        format!("at most {MAX}")
                    };
                    cx.refuse(cx.error("out_of_range", node, format!("expected {bound}")))
                }
            },
            _ => cx.wrong_type(node, wanted),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({ "type": "integer", "minimum": MIN });
        if MAX < u64::MAX {
            schema.insert("maximum".to_owned(), MAX.into());
        }
        schema
    }
}

impl Decode for bool {
    type Value = Self;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let wanted = "`true` or `false`";
        match cx.scalar(node, wanted)?.value {
            Value::Bool(value) => Some(value),
            _ => cx.wrong_type(node, wanted),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "boolean" })
    }
}

impl Decode for ResumePolicy {
    type Value = Self;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let wanted = "`run`, `issue`, `true` or `false`";
        let scalar = cx.scalar(node, wanted)?;
        match (&scalar.value, scalar.text.as_str()) {
            (Value::Bool(is_on), _) => Some(ResumeForm::Switch(*is_on).into()),
            (_, "run") => Some(Self::Run),
            (_, "issue") => Some(Self::Issue),
            (_, text) => {
                let wanted = format!("expected {wanted}");
                cx.refuse_text("unknown_value", node, ("unknown value", text), wanted)
            }
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<ResumeForm>()
    }
}

impl Decode for Span {
    type Value = Self;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        const HINT: &str = "write `30s`, `5m`, `1h30m`, or a number of seconds";
        let scalar = cx.scalar(node, "a duration")?;
        let seconds = match scalar.value {
            Value::Int(number) => Some(number as f64),
            Value::Float(number) => Some(number),
            Value::Text => None,
            Value::Bool(_) | Value::Null => return cx.wrong_type(node, "a duration"),
        };
        if seconds.is_some_and(|seconds| seconds < 0.0) {
            return cx.refuse(
                cx.error("out_of_range", node, "the duration is negative")
                    .hint(HINT),
            );
        }
        let span: Option<Span> = match seconds {
            Some(seconds) => Duration::try_from_secs_f64(seconds).ok().map(Span),
            None => scalar.text.parse().ok(),
        };
        let Some(span) = span else {
            return cx.refuse_text("bad_duration", node, ("invalid duration", &scalar.text), HINT);
        };
        if span.0 > MAX_SPAN {
            return cx.refuse(cx.error("out_of_range", node, "the duration is longer than ten years"));
        }
        Some(span)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Self>()
    }
}

/// A duration above zero.
pub(crate) struct Positive;

impl Decode for Positive {
    type Value = Span;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Span> {
        let span = Span::decode(node, cx)?;
        if span.0.is_zero() {
            return cx.refuse(
                cx.error("out_of_range", node, "expected a duration longer than zero")
                    .hint("zero does not mean `no limit`; write a long duration, such as `30d`"),
            );
        }
        Some(span)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        Span::schema(generator)
    }
}

/// Returns the variant names of an enum, from its schema.
fn variant_names<T: JsonSchema>() -> Vec<String> {
    let schema = T::json_schema(&mut SchemaGenerator::default()).to_value();
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let plain = schema["enum"].as_array().into_iter().flatten().filter_map(text);
    let documented = schema["oneOf"].as_array().into_iter().flatten();
    let documented = documented.flat_map(|one| {
        one["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .chain(one.get("const"))
            .filter_map(text)
    });
    plain.chain(documented).collect()
}

pub(crate) fn decode_variant<T: JsonSchema + DeserializeOwned>(
    node: &Node,
    cx: &mut Cx<'_>,
    code: &'static str,
    instead: &[(&str, &str)],
) -> Option<T> {
    let variants = variant_names::<T>();
    let names = || variants.iter().map(String::as_str);
    let wanted = choices(names());
    let scalar = cx.scalar(node, &wanted)?;
    if let Ok(value) = serde_json::from_value(scalar.text.as_str().into()) {
        return Some(value);
    }
    let meant = instead.iter().find(|(old, _)| *old == scalar.text.to_lowercase());
    let hint = match meant {
        Some((_, new)) => Some(format!("did you mean {}?", quoted(new))),
        None => did_you_mean(&scalar.text, names()),
    };
    let hint = match hint {
        Some(hint) => format!("{hint} Expected {wanted}"),
        None => format!("expected {wanted}"),
    };
    cx.refuse_text(code, node, ("unknown value", &scalar.text), hint)
}

macro_rules! decode_variants {
    ($($ty:ty, $code:literal, $instead:expr;)+) => {
        $(impl $crate::decode::Decode for $ty {
            type Value = Self;

            fn decode(node: &vik_yaml::Node, cx: &mut $crate::decode::Cx<'_>) -> Option<Self> {
                $crate::values::decode_variant(node, cx, $code, &$instead)
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                generator.subschema_for::<Self>()
            }
        })+
    };
}
pub(crate) use decode_variants;

decode_variants! {
    Runtime, "unknown_runtime", [("claude", "claude_code"), ("claude-code", "claude_code"), ("cli", "command"), ("shell", "command"), ("custom", "command")];
    Permission, "unknown_value", [("read", "read-only"), ("readonly", "read-only"), ("write", "workspace-write"), ("yolo", "full"), ("danger-full-access", "full")];
    OutputFormat, "unknown_value", [("json", "jsonl"), ("ndjson", "jsonl"), ("plain", "text")];
    SandboxBackend, "unknown_value", [("bwrap", "bubblewrap"), ("namespaces", "bubblewrap"), ("seccomp", "landlock")];
    SandboxFiles, "unknown_value", [("read_only", "read-only"), ("readonly", "read-only"), ("none", "read-only"), ("workspace-write", "workspace"), ("write", "workspace")];
    Home, "unknown_value", [("own", "private"), ("shared", "user")];
    RemoveWorkspace, "unknown_value", [("keep", "never"), ("false", "never"), ("true", "always"), ("auto", "clean")];
    LogFormat, "unknown_value", [("jsonl", "json"), ("ndjson", "json"), ("plain", "text"), ("logfmt", "text")];
    OnStateChange, "unknown_value", [("stop", "cancel"), ("abort", "cancel"), ("kill", "cancel"), ("continue", "finish"), ("keep", "finish"), ("ignore", "finish")];
    OnTimeout, "unknown_value", [("denied", "deny"), ("reject", "deny"), ("approved", "approve"), ("allow", "approve"), ("accept", "approve")];
    OnViolation, "unknown_value", [("error", "fail"), ("reject", "fail"), ("undo", "revert"), ("restore", "revert"), ("reset", "revert")];
    ScopeConflicts, "unknown_value", [("serial", "serialize"), ("wait", "serialize"), ("queue", "serialize"), ("ignore", "allow"), ("parallel", "allow")];
    Untrusted, "unknown_value", [("wait", "hold"), ("block", "hold"), ("mark", "fence"), ("quote", "fence"), ("data", "fence")];
    HookKind, "unknown_value", [("gh", "github"), ("gitea", "hmac"), ("forgejo", "hmac"), ("generic", "hmac"), ("sha256", "hmac")];
    ArgsStyle, "unknown_value", [("comma", "join"), ("commas", "join")];
    NotifyKind, "unknown_value", [("shell", "command"), ("script", "command"), ("http", "webhook"), ("https", "webhook"), ("url", "webhook"), ("slack", "webhook")];
    NotifyEvent, "unknown_value", [("failure", "failed"), ("budget", "over_budget"), ("waiting", "waiting_for_person"), ("daily", "daily_summary"), ("summary", "daily_summary"), ("error", "trouble")];
}

/// `agents.N.env`: variables and their values.
pub(crate) struct Env;

const ENV_PATTERN: &str = r"^[^=\u0000-\u001f\u007f]+$";

pub(crate) fn env_name(name: &str) -> Option<Diagnostic> {
    let is_fine = !name.is_empty() && !name.contains(|c: char| c == '=' || c.is_ascii_control());
    (!is_fine).then(|| {
        Diagnostic::error(
            "bad_env_name",
            "",
            format!("invalid variable name {}", quoted(name)),
        )
        .hint("use a name that is not empty and contains no `=`, no NUL and no line break")
    })
}

impl Decode for Env {
    type Value = BTreeMap<String, String>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<BTreeMap<String, String>> {
        let Kind::Map(entries) = &node.kind else {
            return cx.wrong_type(node, "a map of variable names to values");
        };
        let mut env = BTreeMap::new();
        for entry in entries {
            cx.under(&entry.key, entry.key_place, |cx| {
                if let Some(mut diagnostic) = env_name(&entry.key) {
                    diagnostic.path = cx.path();
                    cx.sink.push(diagnostic.place(entry.key_place));
                }
                if let Some(value) = written(&entry.value, cx, "empty_value") {
                    env.insert(entry.key.clone(), value);
                }
            });
        }
        Some(env)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": { "pattern": ENV_PATTERN },
            "additionalProperties": { "type": ["string", "number", "boolean"] },
        })
    }
}

/// `agents.N.env_pass`: names of variables.
pub(crate) struct EnvNames;

impl Decode for EnvNames {
    type Value = Vec<String>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Vec<String>> {
        let items = list(node, cx, "a list of names", "[NAME]")?;
        let name = |item| {
            let name = Text::decode(item, cx)?;
            if let Some(mut diagnostic) = env_name(&name) {
                diagnostic.path = cx.path();
                cx.sink.push(diagnostic.place(cx.blame(item)));
            }
            Some(name)
        };
        Some(items.iter().filter_map(name).collect())
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "string", "pattern": ENV_PATTERN } })
    }
}

/// The name of a variable.
pub(crate) struct EnvName;

impl Decode for EnvName {
    type Value = String;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<String> {
        let name = Text::decode(node, cx)?;
        if let Some(mut diagnostic) = env_name(&name) {
            diagnostic.path = cx.path();
            return cx.refuse(diagnostic.place(cx.blame(node)));
        }
        Some(name)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": ENV_PATTERN })
    }
}

macro_rules! lists_of_texts {
    ($($(#[doc = $doc:literal])+ $name:ident, $wanted:literal, $example:literal;)+) => {
        $($(#[doc = $doc])+
        pub(crate) struct $name;

        impl Decode for $name {
            type Value = Vec<String>;

            fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Vec<String>> {
                let items = list(node, cx, $wanted, $example)?;
                Some(items.iter().filter_map(|item| Text::decode(item, cx)).collect())
            }

            fn schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "array", "items": { "type": "string", "minLength": 1 } })
            }
        })+
    };
}

lists_of_texts! {
    /// `issue.terminal_states`: states of issues.
    States, "a list of states", "[done, closed]";
    /// `issue.stages.S.when.labels`: labels of issues.
    Labels, "a list of labels", "[agent]";
    /// A list of sentences or names.
    Texts, "a list of strings", "[one, another]";
}

/// `agents.N.command`: a program and its arguments.
pub(crate) struct CommandLine;

impl Decode for CommandLine {
    type Value = Vec<String>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Vec<String>> {
        let items = list(
            node,
            cx,
            "a list of a program and its arguments",
            "[my-agent, --flag]",
        )?;
        let args: Vec<_> = items
            .iter()
            .map(|item| written(item, cx, "empty_value"))
            .collect();
        let args = args.into_iter().collect::<Option<Vec<_>>>()?;
        if args.first().is_some_and(|program| program.trim().is_empty()) {
            return cx.refuse(cx.error("empty_value", &items[0], "the program name is empty"));
        }
        Some(args)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": ["string", "number", "boolean"] } })
    }
}

/// Reads a list of globs; `check` returns the problem of a single one, with a hint.
pub(crate) fn globs(
    node: &Node,
    cx: &mut Cx<'_>,
    example: &str,
    check: impl Fn(&str) -> Result<(), (String, String)>,
) -> Option<Vec<String>> {
    let mut globs = Vec::new();
    for item in list(node, cx, "a list of globs", example)? {
        let glob = Text::decode(item, cx)?;
        // Each glob separately, so that the invalid one is reported.
        if let Err((message, hint)) = check(&glob) {
            return cx.refuse(cx.error("bad_glob", item, message).hint(hint));
        }
        globs.push(glob);
    }
    Some(globs)
}

pub(crate) fn globs_schema(most: usize) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": most,
        "items": { "type": "string", "minLength": 1 },
    })
}

pub(crate) fn list<'n>(node: &'n Node, cx: &mut Cx<'_>, wanted: &str, example: &str) -> Option<&'n [Node]> {
    match &node.kind {
        Kind::List(items) => Some(items),
        _ => cx.refuse(
            cx.error(
                "wrong_type",
                node,
                format!("expected {wanted}, found {}", describe(node)),
            )
            .hint(format!("write it as `{example}`")),
        ),
    }
}
