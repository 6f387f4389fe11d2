//! A record of the trace: the changes of one attempt, in the schema of Agent Trace.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vik_core::file_change::{ChangeKind, ContentHash, FileChange, RelPath};
use vik_core::ids::{AgentName, AttemptId, IssueId, RunId, StageName};
use vik_core::machine::TakenOver;
use vik_core::mutation::{MutationClass, Texts, classify};
use vik_store::AttemptRecord;
use vik_workspace::changes::{Changes, Store, lines};

/// The version of Agent Trace that the records follow, in the format of its schema.
pub const VERSION: &str = "0.1";

/// The length limit of a model name in the schema, in characters.
const MAX_MODEL: usize = 250;

/// A record of the trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The version of Agent Trace.
    pub version: String,
    /// The id of the attempt. Each attempt that changed something has one record.
    pub id: AttemptId,
    /// The time of the record.
    pub timestamp: Timestamp,
    /// The commit that was checked out when the agent had ended, if the agent created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcs: Option<Vcs>,
    pub tool: Tool,
    /// The changed files with their changed lines.
    pub files: Vec<TracedFile>,
    /// The fields that Vik adds.
    pub metadata: Metadata,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vcs {
    #[serde(rename = "type")]
    pub kind: String,
    pub revision: String,
}

/// The program that created the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub version: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedFile {
    /// The path in the workspace.
    pub path: RelPath,
    /// The one conversation that changed the file.
    pub conversations: Vec<Conversation>,
}

/// The changed lines of a file and their author.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// The id of the attempt, as a URN.
    pub url: String,
    pub contributor: Contributor,
    /// The lines of the file after the agent had ended.
    pub ranges: Vec<Range>,
    /// The issue, if it has a URL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Related>,
}

/// The author of lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contributor {
    #[serde(rename = "type")]
    pub kind: String,
    /// `provider/model`, if the profile names a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
}

/// A range of lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The first line, from 1.
    pub start_line: u32,
    pub end_line: u32,
    /// The hash of the bytes of the lines.
    pub content_hash: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Related {
    #[serde(rename = "type")]
    pub kind: String,
    pub url: String,
}

/// Fields outside of the schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    #[serde(rename = "dev.vik")]
    pub vik: VikMetadata,
}

/// The fields that Vik adds to a record. The last one is at the end of a record's line and forms
/// the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VikMetadata {
    /// The version of these fields.
    pub schema: u32,
    /// The position of the record in the trace, from 1.
    pub seq: u64,
    /// The hash of the previous record; zeros for the first one.
    pub prev: ContentHash,
    pub issue: IssueId,
    pub intent: String,
    pub stage: StageName,
    pub run: RunId,
    /// The number of the attempt within the run.
    pub attempt: u32,
    pub session: AttemptId,
    pub agent: AgentName,
    /// The person who made the changes, in the session of the agent that they had taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The adapter of the agent.
    pub runtime: String,
    /// The model, as the profile names it.
    pub model: Option<String>,
    /// Whether another stage of the issue may have worked in the workspace at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parallel: bool,
    /// The commit that was checked out before the agent ran.
    pub base_revision: Option<String>,
    /// The commit that was checked out after the agent had ended.
    pub revision: Option<String>,
    /// A hash of the whole workspace before the agent ran.
    pub base_tree: ContentHash,
    /// A hash of the whole workspace after the agent had ended.
    pub tree: ContentHash,
    /// The paths that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<RelPath>,
    pub changes: Vec<Mutation>,
    /// The hash of the line up to this field.
    pub hash: ContentHash,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mutation {
    /// The class of the change, if it is known.
    pub class: Option<MutationClass>,
    #[serde(flatten)]
    pub change: FileChange,
}

impl Mutation {
    /// Returns the numbers of added and of removed lines.
    pub fn line_counts(&self) -> (u64, u64) {
        let sum = |ranges: &mut dyn Iterator<Item = vik_core::file_change::LineRange>| {
            ranges.map(|range| u64::from(range.count)).sum()
        };
        (sum(&mut self.change.ranges()), sum(&mut self.change.removed()))
    }
}

impl Record {
    /// Creates the record of an attempt's changes. Its position in the chain is not set yet.
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
                vik: VikMetadata {
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
                    by: None,
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

    /// Creates the record of the changes that a person made while they had the issue of `attempt`
    /// taken over, which was its last one.
    pub fn of_person(
        attempt: &AttemptRecord,
        hold: &TakenOver,
        changes: &Changes,
        store: &Store,
        now: Timestamp,
    ) -> Self {
        let mut record = Self::of(attempt, changes, store, now);
        let person = Contributor {
            kind: "human".to_owned(),
            model_id: None,
        };
        for file in &mut record.files {
            for conversation in &mut file.conversations {
                conversation.contributor = person.clone();
                conversation.url = format!("urn:uuid:{}", hold.session);
            }
        }
        let vik = &mut record.metadata.vik;
        (vik.session, vik.model, vik.parallel) = (hold.session, None, false);
        vik.by = Some(vik_mask::mask(&hold.by).into_owned());
        Self {
            id: hold.session,
            ..record
        }
    }

    /// Returns the fields that Vik adds.
    pub fn vik(&self) -> &VikMetadata {
        &self.metadata.vik
    }
}

/// Returns the path with secrets masked. A record is never changed, so no secret may enter it.
pub fn masked(path: &RelPath) -> RelPath {
    match vik_mask::mask(&path.text()) {
        Cow::Borrowed(_) => path.clone(),
        Cow::Owned(text) => RelPath::from_text(&text),
    }
}

/// The old and the new content of a changed file, if it has lines.
struct Contents {
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
}

impl Contents {
    fn of(change: &FileChange, store: &Store) -> Self {
        let has_lines = change.hunks.is_some();
        let side = |side: Option<&vik_core::file_change::Side>| match side {
            Some(side) if has_lines => store.get(side.hash?),
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

/// Returns `provider/model`, as far as Vik knows the provider.
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

/// Returns the page of the issue. Its URL comes from the tracker, so only an unambiguous one is
/// kept.
fn related(url: &str) -> Option<Related> {
    let remaining = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))?;
    let is_plain = |byte: u8| {
        byte.is_ascii_graphic()
            && !matches!(
                byte,
                b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
            )
    };
    let is_address = !remaining.is_empty()
        && !remaining.starts_with('/')
        && url.len() <= 2000
        && url.bytes().all(is_plain);
    is_address.then(|| Related {
        kind: "issue".to_owned(),
        url: url.to_owned(),
    })
}
