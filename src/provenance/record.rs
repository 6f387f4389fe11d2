//! One record of the trace: what one attempt changed, in the schema of Agent Trace.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vik_core::file_change::{ChangeKind, ContentHash, FileChange, RelPath};
use vik_core::ids::{AgentName, AttemptId, IssueId, RunId, StageName};
use vik_core::mutation::{MutationClass, Texts, classify};
use vik_store::AttemptRecord;

use crate::workspace::changes::{Changes, Store, lines};

/// The version of Agent Trace that records are of, as its schema wants it written.
pub const VERSION: &str = "0.1";

/// The longest name of a model that the schema takes, in letters.
const MAX_MODEL: usize = 250;

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The version of Agent Trace.
    pub version: String,
    /// The attempt's session: there is one record of each that changed something.
    pub id: AttemptId,
    /// When it was recorded.
    pub timestamp: Timestamp,
    /// The commit that was checked out when the agent had ended, where it is the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcs: Option<Vcs>,
    /// Vik.
    pub tool: Tool,
    /// The files, with the lines that were changed in them.
    pub files: Vec<TracedFile>,
    /// What Vik adds.
    pub metadata: Metadata,
}

/// A revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vcs {
    /// `git`
    #[serde(rename = "type")]
    pub kind: String,
    /// The commit.
    pub revision: String,
}

/// The program that records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// `vik`
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedFile {
    /// Its path in the workspace.
    pub path: RelPath,
    /// The one conversation that changed it.
    pub conversations: Vec<Conversation>,
}

/// Who changed which lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// The session, as a URN.
    pub url: String,
    /// The agent's model.
    pub contributor: Contributor,
    /// The lines as the file stood when the agent had ended.
    pub ranges: Vec<Range>,
    /// The issue, where it has an address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Related>,
}

/// Who contributed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contributor {
    /// `ai`
    #[serde(rename = "type")]
    pub kind: String,
    /// `provider/model`, where the profile names a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
}

/// Some lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The first one, from 1.
    pub start_line: u32,
    /// The last one.
    pub end_line: u32,
    /// The hash of their bytes.
    pub content_hash: String,
}

/// Something that belongs to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Related {
    /// `issue`
    #[serde(rename = "type")]
    pub kind: String,
    /// Its address.
    pub url: String,
}

/// What is not of the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// What Vik adds.
    #[serde(rename = "dev.vik")]
    pub vik: Added,
}

/// What Vik adds to a record. Its last field is the last thing in a record's line: what the chain is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Added {
    /// The version of these fields.
    pub schema: u32,
    /// The record's place in the trace, from 1.
    pub seq: u64,
    /// The hash of the record before it; zeros where there is none.
    pub prev: ContentHash,
    /// The issue.
    pub issue: IssueId,
    /// What was wanted: the issue's title.
    pub intent: String,
    /// The stage.
    pub stage: StageName,
    /// The run.
    pub run: RunId,
    /// The attempt's number in its run.
    pub attempt: u32,
    /// The attempt's session.
    pub session: AttemptId,
    /// The agent's profile.
    pub agent: AgentName,
    /// The agent.
    pub runtime: String,
    /// The model, as the profile names it.
    pub model: Option<String>,
    /// Whether another stage of the issue may have worked in the workspace at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parallel: bool,
    /// The commit that was checked out before.
    pub base_revision: Option<String>,
    /// The commit that was checked out after.
    pub revision: Option<String>,
    /// A hash of all that stood in the workspace before.
    pub base_tree: ContentHash,
    /// A hash of all that stood in it after.
    pub tree: ContentHash,
    /// What could not be looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<RelPath>,
    /// What was changed.
    pub changes: Vec<Mutation>,
    /// The hash of the line up to here.
    pub hash: ContentHash,
}

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mutation {
    /// What kind of change it is, where that can be told.
    pub class: Option<MutationClass>,
    /// The change.
    #[serde(flatten)]
    pub change: FileChange,
}

impl Mutation {
    /// How many lines came, and how many went.
    pub fn sums(&self) -> (u64, u64) {
        let sum = |ranges: &mut dyn Iterator<Item = vik_core::file_change::LineRange>| {
            ranges.map(|range| u64::from(range.count)).sum()
        };
        (sum(&mut self.change.ranges()), sum(&mut self.change.removed()))
    }
}

impl Record {
    /// The record of what an attempt changed. Its place in the chain is not known yet.
    pub fn of(attempt: &AttemptRecord, changes: &Changes, store: &Store, now: Timestamp) -> Self {
        let start = attempt.kept.as_ref().map(|kept| &kept.start);
        let url = start.and_then(|start| start.issue.url());
        let conversation = Conversation {
            url: format!("urn:uuid:{}", attempt.session_id),
            contributor: Contributor {
                kind: "ai".to_owned(),
                model_id: model_id(attempt),
            },
            ranges: Vec::new(),
            related: url.as_deref().and_then(related).into_iter().collect(),
        };
        let texts: Vec<_> = changes
            .files
            .iter()
            .map(|change| Contents::of(change, store))
            .collect();
        let pairs = changes.files.iter().zip(&texts).map(|(change, texts)| Texts {
            change,
            old: texts.old.as_deref(),
            new: texts.new.as_deref(),
        });
        let classes = classify(&pairs.collect::<Vec<_>>());
        let files = changes
            .files
            .iter()
            .zip(&texts)
            .map(|(change, texts)| TracedFile {
                path: masked(&change.path),
                conversations: vec![Conversation {
                    ranges: texts.ranges(change),
                    ..conversation.clone()
                }],
            });
        let is_own = changes.head != changes.base_head;
        let vcs = changes.head.as_ref().filter(|_| is_own).map(|revision| Vcs {
            kind: "git".to_owned(),
            revision: revision.clone(),
        });
        Self {
            version: VERSION.to_owned(),
            id: attempt.session_id,
            timestamp: now,
            vcs,
            tool: Tool {
                name: "vik".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            files: files.collect(),
            metadata: Metadata {
                vik: Added {
                    schema: 1,
                    seq: 0,
                    prev: ContentHash::default(),
                    issue: attempt.issue_id.clone(),
                    intent: vik_mask::mask(&attempt.issue_title).into_owned(),
                    stage: attempt.stage.clone(),
                    run: attempt.run_id,
                    attempt: attempt.attempt,
                    session: attempt.session_id,
                    agent: attempt.agent.clone(),
                    runtime: attempt.runtime.clone(),
                    model: attempt.model.clone(),
                    parallel: start.is_some_and(|start| start.stage.parallel),
                    base_revision: changes.base_head.clone(),
                    revision: changes.head.clone(),
                    base_tree: changes.base_tree,
                    tree: changes.tree,
                    unseen: changes.unseen.iter().map(masked).collect(),
                    changes: std::iter::zip(&changes.files, classes)
                        .map(|(change, class)| Mutation {
                            class,
                            change: FileChange {
                                path: masked(&change.path),
                                kind: match &change.kind {
                                    ChangeKind::Renamed { from } => {
                                        ChangeKind::Renamed { from: masked(from) }
                                    }
                                    kind => kind.clone(),
                                },
                                ..change.clone()
                            },
                        })
                        .collect(),
                    hash: ContentHash::default(),
                },
            },
        }
    }

    /// What Vik adds.
    pub fn vik(&self) -> &Added {
        &self.metadata.vik
    }
}

/// The path as the trace keeps it. A record is never changed, so no secret may come into it.
pub fn masked(path: &RelPath) -> RelPath {
    match vik_mask::mask(&path.text()) {
        Cow::Borrowed(_) => path.clone(),
        Cow::Owned(text) => RelPath::from_text(&text),
    }
}

/// What a changed file held and holds, where lines can be told of it.
struct Contents {
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
}

impl Contents {
    fn of(change: &FileChange, store: &Store) -> Self {
        let is_told = change.hunks.is_some();
        let side = |side: Option<&vik_core::file_change::Side>| match side {
            Some(side) if is_told => store.get(side.hash?),
            Some(_) => None,
            None => Some(Vec::new()),
        };
        Self {
            old: side(change.old.as_ref()),
            new: side(change.new.as_ref()),
        }
    }

    fn ranges(&self, change: &FileChange) -> Vec<Range> {
        let lines = lines(self.new.as_deref().unwrap_or_default());
        let ranges = change.ranges().filter_map(|range| {
            let mut sum = Sha256::new();
            lines
                .get(range.indices())?
                .iter()
                .for_each(|line| sum.update(line));
            Some(Range {
                start_line: range.start,
                end_line: range.end(),
                content_hash: format!("sha256:{}", ContentHash(sum.finalize().into())),
            })
        });
        ranges.collect()
    }
}

/// `provider/model`, as far as Vik knows the provider.
fn model_id(attempt: &AttemptRecord) -> Option<String> {
    let model = attempt.model.as_deref()?;
    let profile = attempt.kept.as_ref().map(|kept| &kept.profile);
    let provider = match attempt.runtime.as_str() {
        "codex" => Some("openai"),
        "claude_code" => Some("anthropic"),
        _ => profile.and_then(|profile| profile.provider.as_deref()),
    };
    let id = match provider {
        Some(provider) if !model.contains('/') => format!("{provider}/{model}"),
        _ => model.to_owned(),
    };
    Some(id.chars().take(MAX_MODEL).collect())
}

/// The issue's page. Its address is the tracker's text: only what is surely one is kept.
fn related(url: &str) -> Option<Related> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))?;
    let is_plain = |byte: u8| {
        byte.is_ascii_graphic()
            && !matches!(
                byte,
                b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
            )
    };
    let is_address =
        !rest.is_empty() && !rest.starts_with('/') && url.len() <= 2000 && url.bytes().all(is_plain);
    is_address.then(|| Related {
        kind: "issue".to_owned(),
        url: url.to_owned(),
    })
}
