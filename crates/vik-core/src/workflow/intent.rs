//! `issue.stages.S.intent`, `issue.scope_conflicts` and `trust`: what attempts may change, and
//! whose text is trusted.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use vik_scope::Scope;

use super::decode::{Cx, Decode, join};
use super::diagnostic::{Diagnostic, Sink};
use super::diff::Leaves;
use super::lower::Check;
use super::section::section;
use super::values::{Text, list};
use super::yaml::{self, Kind, Node};

section! {
    /// What attempts of this stage are to do, and where. An issue may say more of it, by fields of
    /// the same names or by front matter of its description; it can make the scope narrower only.
    struct Intent: strict;
    /// Which paths of the workspace may be changed: globs in order, of which the last one that
    /// takes a path decides, and `!` leaves out. They begin at the workspace; a folder stands for
    /// all in it. When it is not written, an issue's own scope holds, and without one everything
    /// may be changed.
    "owned_scope" owned_scope: optional Globs;
    /// What must hold while it is done: sentences for the prompt.
    "constraints" constraints: defaults Texts = Texts::default();
    /// What must hold when it is done: sentences for the prompt.
    "acceptance" acceptance: defaults Texts = Texts::default();
    /// What happens when something out of scope was changed: the attempt fails, or that is put back
    /// as it was.
    "on_violation" on_violation: defaults OnViolation = OnViolation::Fail;
    /// Whether what an issue says of its intent is read.
    "from_issue" from_issue: defaults bool = true;
    instead {
        "scope" => "did you mean `owned_scope`?",
        "paths" => "did you mean `owned_scope`?",
        "files" => "did you mean `owned_scope`?",
        "rules" => "did you mean `constraints`?",
        "done" => "did you mean `acceptance`?",
        "acceptance_criteria" => "did you mean `acceptance`?",
        "criteria" => "did you mean `acceptance`?",
    }
}

section! {
    /// Whose issues are trusted. Without this section all are.
    struct Trust: strict;
    /// Who is trusted: the `author` of an issue as the pull command prints it, or the `login` or
    /// `username` of its `author` or `user`; upper and lower case matter.
    "authors" authors: defaults Texts = Texts::default();
    /// An issue with one of these labels is trusted, whoever wrote it: for trackers in which only
    /// members can set labels.
    "labels" labels: defaults Texts = Texts::default();
    /// What happens to the others. `hold`: they do not start. `fence`: their text stands in prompts
    /// as data, in a fence that it cannot leave.
    "untrusted" untrusted: defaults Untrusted = Untrusted::Hold;
    instead {
        "users" => "did you mean `authors`?",
        "author" => "did you mean `authors`?",
        "label" => "did you mean `labels`?",
        "default" => "did you mean `untrusted`?",
        "otherwise" => "did you mean `untrusted`?",
    }
}

/// `on_violation`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnViolation {
    /// The attempt fails.
    #[default]
    Fail,
    /// What was changed out of scope is put back as it was.
    Revert,
}

/// `issue.scope_conflicts`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScopeConflicts {
    /// Two issues whose scopes may overlap do not run at once.
    #[default]
    Serialize,
    /// They may.
    Allow,
}

/// `trust.untrusted`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Untrusted {
    /// The issue does not start.
    #[default]
    Hold,
    /// Its text is fenced.
    Fence,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageIntent {
    pub scope: Option<Scope>,
    pub constraints: Vec<String>,
    pub acceptance: Vec<String>,
    pub on_violation: OnViolation,
    pub from_issue: bool,
}

impl Default for StageIntent {
    fn default() -> Self {
        Self {
            scope: None,
            constraints: Vec::new(),
            acceptance: Vec::new(),
            on_violation: OnViolation::Fail,
            from_issue: true,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustPolicy {
    pub authors: Vec<String>,
    pub labels: Vec<String>,
    pub untrusted: Untrusted,
}

/// A list of sentences or names.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Texts(pub(crate) Vec<String>);

impl Decode for Texts {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let items = list(node, cx, "a list of texts", "[one, another]")?;
        let texts = items.iter().filter_map(|item| Text::decode(item, cx));
        Some(Self(texts.map(|text| text.0).collect()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "string", "minLength": 1 } })
    }
}

/// The globs of a scope.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Globs(pub(crate) Scope);

impl Decode for Globs {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let example = "[src/**, \"!src/generated/**\"]";
        let items = list(node, cx, "a list of globs", example)?;
        let mut globs = Vec::new();
        for item in items {
            let glob = Text::decode(item, cx)?.0;
            // Each glob separately, so that the invalid one is reported.
            if let Err(error) = Scope::new([&glob]) {
                let diagnostic = cx
                    .error("bad_glob", item, error.to_string())
                    .hint(format!("globs begin at the workspace, part by part: `{example}`"));
                cx.sink.push(diagnostic);
                return None;
            }
            globs.push(glob);
        }
        match Scope::new(globs) {
            Ok(scope) => Some(Self(scope)),
            Err(error) => {
                let diagnostic = cx
                    .error("empty_value", node, error.to_string())
                    .hint("leave it out where every path is meant");
                cx.sink.push(diagnostic);
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "minItems": 1,
            "maxItems": vik_scope::MAX_GLOBS,
            "items": { "type": "string", "minLength": 1 },
        })
    }
}

impl From<Intent> for StageIntent {
    fn from(intent: Intent) -> Self {
        Self {
            scope: intent.owned_scope.map(|globs| globs.0),
            constraints: intent.constraints.0,
            acceptance: intent.acceptance.0,
            on_violation: intent.on_violation,
            from_issue: intent.from_issue,
        }
    }
}

impl Check<'_> {
    pub(super) fn trust(&mut self, trust: Option<Trust>) -> Option<TrustPolicy> {
        let trust = trust?;
        let policy = TrustPolicy {
            authors: trust.authors.0,
            labels: trust.labels.0,
            untrusted: trust.untrusted,
        };
        let is_named = ["authors", "labels"]
            .iter()
            .any(|key| !self.places.is_absent(&join("trust", key)));
        if policy.untrusted == Untrusted::Hold && !is_named {
            let message = "nobody is trusted, so nothing ever starts";
            let hint = "name `authors` or `labels`, or write `untrusted: fence`";
            self.report_at_key(Diagnostic::error("missing_key", "trust", message).hint(hint));
        }
        Some(policy)
    }
}

impl Leaves {
    pub(super) fn intent(&mut self, intent: &StageIntent) {
        let StageIntent {
            scope,
            constraints,
            acceptance,
            on_violation,
            from_issue,
        } = intent;
        self.optional("intent.owned_scope", scope.as_ref());
        self.list("intent.constraints", constraints.iter().map(String::as_str));
        self.list("intent.acceptance", acceptance.iter().map(String::as_str));
        self.choice("intent.on_violation", on_violation);
        self.plain("intent.from_issue", from_issue);
    }

    pub(super) fn trust(&mut self, trust: Option<&TrustPolicy>) {
        let Some(TrustPolicy {
            authors,
            labels,
            untrusted,
        }) = trust
        else {
            return;
        };
        self.list("trust.authors", authors.iter().map(String::as_str));
        self.list("trust.labels", labels.iter().map(String::as_str));
        self.choice("trust.untrusted", untrusted);
    }
}

/// Parses front matter: a map of texts and lists of texts. Other values become values of another
/// type than text.
pub(crate) fn front_matter(text: &str) -> Result<Map<String, Json>, String> {
    let mut sink = Sink::default();
    let root = yaml::parse(text, &mut sink);
    let (Some(root), None) = (root, sink.first_error()) else {
        let why = sink.first_error().unwrap_or("it is empty");
        return Err(why.to_owned());
    };
    let Kind::Map(entries) = root.kind else {
        return Err("it is no map".to_owned());
    };
    let entries = entries.into_iter();
    Ok(entries.map(|entry| (entry.key, json(&entry.value))).collect())
}

fn json(node: &Node) -> Json {
    match &node.kind {
        Kind::Scalar(_) if node.is_null() => Json::Null,
        Kind::Scalar(scalar) => Json::String(scalar.text.clone()),
        Kind::List(items) => items.iter().map(json).collect(),
        Kind::Map(_) => Json::Object(Map::new()),
    }
}
