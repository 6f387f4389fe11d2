//! Benchmarks of single parts of the daemon. `cargo xtask bench` measures the whole daemon, `cargo
//! bench -p vik-agents` the adapters alone.

#![allow(clippy::unwrap_used, reason = "a bench may stop at once")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use jiff::Timestamp;
use serde_json::json;
use vik_core::event::Event;
use vik_core::issue::{Issue, Pull};
use vik_core::scheduler::{Filter, Input, Scheduler};
use vik_core::time::{Mono, Now};
use vik_core::workflow::Workflow;
use vik_session::attempt::{AttemptHandle, KeptOutput, OutputReader};
use vik_session_log::SessionLog;
use vik_workflow::WorkflowFile;
use vik_workflow_reader::load;

const ISSUES: usize = 10_000;
/// About 40 MB of output.
const LINES: usize = 100_000;

const WORKFLOW: &str = "
agents:
  stand_in: { runtime: codex, model: m }
issues:
  pull: { command: cat issues.json }
issue:
  stages:
    work: { when: { state: todo }, agent: stand_in, prompt: Work on it. }
";

fn workflow() -> Arc<Workflow> {
    Arc::new(load(WORKFLOW).workflow.unwrap())
}

/// Returns the output of a pull, about 350 bytes per issue.
fn pulled(state: &str) -> String {
    let text =
        "The command prints amounts without cents, so that totals look wrong to people who read them. "
            .repeat(2);
    let mut list = String::from("[");
    for number in 0..ISSUES {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(
            list,
            r#"{comma}{{"id":{number},"title":"Show cents in amounts, part {number}","state":"{state}","description":"{text}","labels":["bug","amounts"],"url":"https://tracker.example/issues/{number}"}}"#
        );
    }
    list.push(']');
    list
}

/// Returns issues of which each is blocked by the next one.
fn chained() -> Vec<Issue> {
    let issue = |number: usize| {
        let next = number + 1;
        let blocked_by = if next < ISSUES {
            vec![next.to_string()]
        } else {
            Vec::new()
        };
        json!({"id": number, "title": "Show cents", "state": "todo", "blocked_by": blocked_by})
    };
    let list: Vec<_> = (0..ISSUES).map(issue).collect();
    Pull::parse(&serde_json::to_vec(&list).unwrap()).unwrap().issues
}

fn now() -> Now {
    Now {
        wall: Timestamp::UNIX_EPOCH,
        mono: Mono(Duration::ZERO),
    }
}

fn scheduler() -> Scheduler {
    Scheduler::new(workflow(), Filter::default(), [0; 6])
}

fn intake(criterion: &mut Criterion) {
    let (todo, backlog) = (pulled("todo"), pulled("backlog"));
    let mut group = criterion.benchmark_group("10,000 issues");
    group.throughput(Throughput::Bytes(todo.len() as u64));
    group.bench_function("read all", |bencher| {
        bencher.iter(|| Pull::parse(black_box(todo.as_bytes())).unwrap());
    });
    let empty = scheduler().wanted();
    group.bench_function("read, none is wanted", |bencher| {
        bencher.iter(|| Pull::parse_wanted(black_box(backlog.as_bytes()), &empty).unwrap());
    });
    let mut full = scheduler();
    full.handle(
        now(),
        Input::pulled_new(Pull::parse(todo.as_bytes()).unwrap().issues),
    );
    group.bench_function("read, all are known", |bencher| {
        bencher.iter(|| Pull::parse_wanted(black_box(todo.as_bytes()), &full.wanted()).unwrap());
    });
    let issues: Vec<Issue> = Pull::parse(todo.as_bytes()).unwrap().issues;
    let took = |issues: &Vec<Issue>| issues.clone();
    group.bench_function("decide, all are new", |bencher| {
        bencher.iter_batched_ref(
            || (scheduler(), Some(took(&issues))),
            |(scheduler, issues)| {
                scheduler.handle(now(), Input::pulled_new(issues.take().unwrap_or_default()))
            },
            BatchSize::LargeInput,
        );
    });
    group.bench_function("decide, all are known", |bencher| {
        bencher.iter_batched(
            || took(&issues),
            |issues| full.handle(now(), Input::pulled_new(issues)),
            BatchSize::LargeInput,
        );
    });
    let mut chain = scheduler();
    chain.handle(now(), Input::pulled_new(chained()));
    group.bench_function("list what waits, each for the next", |bencher| {
        bencher.iter(|| black_box(chain.waiting(now(), 200)));
    });
    group.finish();
}

/// Returns one line of agent output, about 400 bytes long.
fn line() -> String {
    let prose = "The tests pass now; what is left is the error path of the parser. ".repeat(5);
    format!(r#"{{"type":"item.completed","item":{{"id":"item_7","type":"agent_message","text":"{prose}"}}}}"#)
}

fn follow(raw: &Path, folder: &Path) -> u64 {
    let workflow = workflow();
    let profile = &workflow.agents["stand_in"];
    let path = folder.join("session.jsonl");
    let _ = std::fs::remove_file(&path);
    let log = SessionLog::create(&path).unwrap();
    let kept = KeptOutput {
        files: vec![raw.to_owned(), path.clone()],
        limit: None,
        discount: folder.join("session.partial"),
    };
    let adapter = vik_agents::driver(profile.runtime).adapter(profile, None);
    let updates = AttemptHandle::new().1.updates;
    let mut follower = OutputReader::open(raw, adapter, log, 0, updates, kept).unwrap();
    while follower.poll().unwrap() {}
    std::fs::metadata(&path).unwrap().len()
}

fn events(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let mut group = criterion.benchmark_group("events");
    let text = "The tests pass now; what is left is the error path of the parser. ".repeat(5);
    let mut log = SessionLog::create(&folder.path().join("push.jsonl")).unwrap();
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("write one to the log", |bencher| {
        let message = Event::Message {
            text: text.as_str().into(),
        };
        bencher.iter(|| log.push(Timestamp::UNIX_EPOCH, black_box(&message)).unwrap());
    });
    let raw = folder.path().join("raw.jsonl");
    std::fs::write(&raw, format!("{}\n", line()).repeat(LINES)).unwrap();
    group
        .throughput(Throughput::Elements(LINES as u64))
        .sample_size(10);
    group.bench_function("follow 100,000 from file to log", |bencher| {
        bencher.iter(|| follow(&raw, folder.path()));
    });
    group.finish();
}

fn texts(criterion: &mut Criterion) {
    let hook = "git clone -q {{ issue.url }} .\ngit switch -c vik/{{ issue.id }}\necho \"{{ issue.title }}\" > TITLE\n";
    let context = json!({"issue": {"id": "ABC-1", "title": "It's \"quoted\" $(x)", "url": "https://git.example/a.git"}});
    criterion.bench_function("render a hook", |bencher| {
        bencher.iter(|| vik_template::script(black_box(hook), &context).unwrap());
    });
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("workflow.example.yml");
    criterion.bench_function("load the example workflow", |bencher| {
        bencher.iter(|| WorkflowFile::valid(black_box(&example), |_| {}).unwrap());
    });
}

criterion_group!(benches, intake, events, texts);
criterion_main!(benches);
