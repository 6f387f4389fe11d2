//! Tests of records, their chain, and authors of lines.

mod blaming;
mod chaining;
mod trimming;

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;
use vik_core::file_change::{ChangeKind, ContentHash, FileChange, RelPath, Side};
use vik_core::ids::{AttemptId, IssueId, RunId, StageName};
use vik_store::AttemptRecord;
use vik_workspace::changes::{Changes, hash_of, hunks, is_binary};

use super::*;

fn scene() -> (TempDir, Trace, Store) {
    let folder = tempfile::tempdir().unwrap();
    let (trace, store) = (
        Trace::new(&folder.path().join("trace")),
        Store::new(&folder.path().join("trace/contents")),
    );
    (folder, trace, store)
}

fn attempt(issue: &str) -> AttemptRecord {
    AttemptRecord {
        schema: 2,
        run_id: RunId(uuid::Uuid::now_v7()),
        session_id: AttemptId(uuid::Uuid::now_v7()),
        issue_id: IssueId::new(issue),
        issue_title: "Say \"hello\"\u{7} {{ x }}".to_owned(),
        issue_state: "todo".to_owned(),
        stage: StageName::from("work"),
        agent: "coder".into(),
        runtime: "claude_code".to_owned(),
        model: Some("opus".to_owned()),
        attempt: 1,
        started_at: Timestamp::UNIX_EPOCH,
        workdir: PathBuf::new(),
        kept: None,
    }
}

fn side(store: &Store, content: &[u8]) -> Side {
    Side {
        mode: 0o644,
        size: content.len() as u64,
        hash: Some(store.put(content).unwrap()),
        link: false,
    }
}

/// Returns a change of a file, as Vik would find it after an attempt.
fn change(store: &Store, path: &str, old: Option<(&str, &[u8])>, new: Option<&[u8]>) -> FileChange {
    let is_text = old.is_none_or(|(_, old)| !is_binary(old)) && new.is_none_or(|new| !is_binary(new));
    let kind = match (old, new) {
        (None, _) => ChangeKind::Added,
        (_, None) => ChangeKind::Deleted,
        (Some((from, _)), _) if from != path => ChangeKind::Renamed {
            from: RelPath::new(from),
        },
        _ => ChangeKind::Modified,
    };
    let old = old.map(|(_, old)| old);
    FileChange {
        path: RelPath::new(path),
        kind,
        old: old.map(|old| side(store, old)),
        new: new.map(|new| side(store, new)),
        hunks: is_text.then(|| hunks(old.unwrap_or_default(), new.unwrap_or_default())),
    }
}

fn record(store: &Store, issue: &str, files: Vec<FileChange>) -> Record {
    let changes = Changes {
        files,
        unseen: BTreeSet::new(),
        base_head: Some("a".repeat(40)),
        head: Some("b".repeat(40)),
        ..Changes::default()
    };
    Record::of(&attempt(issue), &changes, store, Timestamp::now())
}

#[test]
fn record_is_valid_agent_trace_and_reads_back() {
    let (_folder, trace, store) = scene();
    let files = vec![
        change(
            &store,
            "a.rs",
            Some(("a.rs", b"fn a() {}\n")),
            Some(b"fn a() {}\nfn b() { 7 }\n"),
        ),
        change(&store, "gone", Some(("gone", b"1\n")), None),
        change(&store, "binary", None, Some(b"\0")),
        change(&store, "to", Some(("from", b"1\n2\n")), Some(b"1\n2\n")),
        FileChange {
            path: RelPath::new(b"caf\xe9".to_vec()),
            ..change(&store, "x", None, Some(b"1\n2\n"))
        },
    ];
    let mut written = record(&store, "1", files);
    trace.append(&written, 0).unwrap();
    let schema: Value = serde_json::from_str(include_str!("agent-trace.schema.json")).unwrap();
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.add_resource("schema:///", schema).unwrap();
    let index = compiler.compile("schema:///", &mut schemas).unwrap();
    let text = std::fs::read_to_string(trace.file()).unwrap();
    let mut line: Value = serde_json::from_str(&text).unwrap();
    schemas.validate(&line, index).unwrap();
    assert_eq!(line["vcs"]["revision"], "b".repeat(40));
    let added = &line["files"][0]["conversations"][0];
    assert_eq!(added["contributor"]["model_id"], "anthropic/opus");
    let hash = hash_of(b"fn b() { 7 }\n");
    assert_eq!(added["ranges"][0]["content_hash"], format!("sha256:{hash}"));
    assert_eq!(added["ranges"][0]["start_line"], 2);
    let classes: Vec<_> = written
        .vik()
        .changes
        .iter()
        .map(|mutation| mutation.class)
        .collect();
    use vik_core::mutation::MutationClass::*;
    assert_eq!(classes, [Some(IntentEvolution), None, None, Some(Rename), None]);
    // The validator rejects a field that the schema does not allow.
    line["files"][0]["lines"] = 1.into();
    assert!(schemas.validate(&line, index).is_err());
    // The record that is read equals the one that was written.
    let read = trace.read().unwrap().remove(0).record;
    let vik = &mut written.metadata.vik;
    (vik.seq, vik.hash) = (1, read.vik().hash);
    assert_eq!(read, written);
}

#[test]
fn sweep_removes_unreferenced_contents() {
    let folder = tempfile::tempdir().unwrap();
    let workflow = folder.path().join("workflow.yml");
    let root = vik_core::workflow::model::WorkspaceRoot::BesideWorkflow;
    let mut layout = Layout::resolve(&workflow, &root).unwrap();
    layout.create().unwrap();
    sweep(&layout).unwrap();
    let store = Store::new(&layout.contents_dir());
    let files = vec![change(&store, "a", Some(("a", b"old\n")), Some(b"new\n"))];
    Trace::new(&layout.trace_dir())
        .append(&record(&store, "1", files), 0)
        .unwrap();
    let other = store.put(b"other\n").unwrap();
    let snapshotted = store.put(b"looked\n").unwrap();
    let issue = IssueId::new("1");
    std::fs::create_dir_all(layout.issue_dir(&issue)).unwrap();
    std::fs::write(layout.issue_dir(&issue).join("f"), "looked\n").unwrap();
    let dir = std::fs::File::open(layout.issue_dir(&issue)).unwrap();
    let bounds = vik_workspace::changes::Bounds::default();
    let base = Base::take(&store, &dir, &layout.issue_dir(&issue), None, bounds).unwrap();
    std::fs::create_dir_all(layout.last_snapshot(&issue).parent().unwrap()).unwrap();
    std::fs::write(
        layout.last_snapshot(&issue),
        serde_json::to_vec(&base.snapshot).unwrap(),
    )
    .unwrap();
    sweep(&layout).unwrap();
    let kept = |hash: ContentHash| store.get(hash).is_some();
    assert!(!kept(other));
    assert!(kept(snapshotted) && kept(hash_of(b"old\n")) && kept(hash_of(b"new\n")));
}
