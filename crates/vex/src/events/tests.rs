use serde_json::json;

use super::testing::Sink;
use super::*;
use crate::json_schema::JsonSchema;
use crate::plan::StepStatus;
use crate::skills::SkillOrigin;
use crate::tools::testing::result;

struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Concatenated here, so that scanners do not take this file for one with secrets.
fn secret() -> String {
    format!("{}_{}", "ghp", "q7Rz2Lk9Xw4Tb8Vn3Pc6Jd5Hf1Gs0MyKaEu9")
}

/// Makes the last event old enough that an `activity` event may follow.
fn rewind(journal: &Journal) {
    let mut inner = journal.inner();
    inner.last_event = inner.last_event.checked_sub(ACTIVITY_INTERVAL).unwrap();
}

fn text(block: usize, text: &str) -> Progress<'_> {
    Progress::Text { block, text }
}

fn thinking(block: usize, text: &str) -> Progress<'_> {
    Progress::Thinking { block, text }
}

/// Returns the output with a fixed time and duration.
fn stable(text: &str) -> String {
    let times = regex::Regex::new(r#""(at":"[^"]+"|duration_ms":\d+)"#).unwrap();
    let stable = |found: &regex::Captures<'_>| {
        let fixed = if found[1].starts_with("at") {
            r#""at":"T""#
        } else {
            r#""duration_ms":0"#
        };
        fixed.to_owned()
    };
    times.replace_all(text, stable).into_owned()
}

/// Emits one event of every kind.
fn emit_every_event(journal: &Journal) {
    let tool_call = |call: ToolCall| journal.tool_call(&call, &call.tool);
    let call = |tool: &str, input| ToolCall {
        call_id: "c1".into(),
        tool: tool.into(),
        input,
        repaired: true,
    };
    journal.session_start(&SessionStart {
        session_id: "s1",
        model: "m",
        version: "1.2.3",
        provider: "p",
        cwd: "/w",
        permission: "workspace-write",
        sandbox: Some("none: the kernel has no Landlock"),
        resumed_from: Some("s1"),
        forked_from: Some("s0@3"),
    });
    journal.skills(&[ListedSkill {
        name: "release",
        origin: SkillOrigin::Workflow,
        path: "/skills/release".to_owned(),
        sha256: "abcd",
    }]);
    journal.warning("the variable VEX_MODLE is not a setting");
    journal.reasoning("I think\nand think");
    journal.message(&format!("I look, with {}.", secret()));
    journal.add_usage(
        Usage {
            input_tokens: 10,
            cached_input_tokens: 4,
            output_tokens: 2,
            ..Usage::default()
        },
        Some(0.25),
        Some(200_000),
    );
    tool_call(call(
        "run_command",
        Arguments::Json(json!({"command": format!("echo {}\x1b[31m\nls", secret())})),
    ));
    journal.tool_result(&result("c1", Some(3), "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"));
    tool_call(call(
        "edit_file",
        Arguments::Broken {
            raw: "{\"path\": ".into(),
            reason: "cut off".into(),
        },
    ));
    journal.tool_result(&result("c1", None, "a.txt\n-one\n+two"));
    journal.plan(&[
        Step {
            text: "look".into(),
            status: StepStatus::Done,
        },
        Step {
            text: "mend".into(),
            status: StepStatus::InProgress,
        },
        Step {
            text: "check".into(),
            status: StepStatus::Pending,
        },
    ]);
    journal.progress(&thinking(0, "First\n"));
    // Too soon after the delta before it.
    journal.progress(&thinking(0, "second."));
    // Too soon after the event before it.
    journal.progress(&Progress::Received { bytes: 1 });
    rewind(journal);
    journal.progress(&Progress::Received { bytes: 512 });
    journal.progress(&Progress::Retry {
        attempt: 2,
        delay_ms: 1500,
        reason: "overloaded",
    });
    journal.progress(&Progress::Fallback { model: "m2" });
    journal.compaction(Compacted {
        before_tokens: 900,
        after_tokens: 300,
        dropped_messages: 12,
        shortened_results: 3,
        by_model: false,
    });
    journal.guard("same_call", "You made the same call three times.");
    journal.verify("make test", &result("c1", Some(2), "no\n"));
    journal.verify("make test", &result("c1", Some(0), "yes\n"));
    journal.error("something", false, None);
    journal.evidence(|evidence| {
        evidence.files_changed.push("a.txt".into());
        evidence.commands.push(CommandRun {
            command: format!("echo {}", secret()),
            exit_code: Some(3),
        });
    });
    journal.message("All done.");
    journal.set_result(&json!({"answer": 42}));
}

#[test]
fn events_fit_the_schema_and_contain_no_secret() {
    let (sink, journal) = Sink::journal();
    emit_every_event(&journal);
    journal.end(ExitReason::Done, None);
    journal.end(ExitReason::Failed, Some("a second end counts for nothing"));
    journal.message("later messages are not logged");
    let text = sink.text();
    assert!(!text.contains(&secret()), "{text}");
    let schema = JsonSchema::new(&json_schema()).unwrap();
    for (index, line) in text.lines().enumerate() {
        let event: Value = serde_json::from_str(line).unwrap();
        let mistakes = schema.violations(&event);
        assert!(mistakes.is_empty(), "{line}: {mistakes:?}");
        assert_eq!(event["seq"], index as u64 + 1);
    }
    insta::assert_snapshot!(stable(&text));
    // A schema that accepts everything would prove nothing.
    for wrong in [
        json!({"v": 1, "seq": 1, "type": "nothing"}),
        json!({"v": 1, "seq": 1, "type": "message"}),
        json!({"type": "message", "text": ""}),
    ] {
        assert!(!schema.violations(&wrong).is_empty(), "{wrong}");
    }
}

#[test]
fn streaming_answer_is_reported_as_bounded_activity() {
    let (sink, journal) = Sink::journal();
    let started = Instant::now();
    rewind(&journal);
    for bytes in 1..=10_000 {
        journal.progress(&Progress::Received { bytes });
    }
    let most = started.elapsed().as_millis() / ACTIVITY_INTERVAL.as_millis() + 1;
    let text = sink.text();
    let written = text.lines().count();
    assert!(
        (1..=most).contains(&(written as u128)),
        "{written}, at most {most}"
    );
    assert_eq!(
        stable(text.lines().next().unwrap()),
        r#"{"v":1,"seq":1,"at":"T","type":"activity","received_bytes":1}"#
    );
}

#[test]
fn deltas_are_merged_and_bounded_over_all_kinds() {
    let (sink, journal) = Sink::journal();
    let started = Instant::now();
    let mut whole = String::new();
    while started.elapsed() < 3 * deltas::INTERVAL {
        journal.progress(&thinking(0, "think "));
        journal.progress(&text(1, "word "));
        whole.push_str("word ");
    }
    let most = started.elapsed().as_millis() / deltas::INTERVAL.as_millis() + 1;
    journal.message(&whole);
    let output = sink.text();
    let events: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (message, deltas) = events.split_last().unwrap();
    assert_eq!(message["type"], "message");
    assert!(
        (3..=most).contains(&(deltas.len() as u128)),
        "{}, at most {most}",
        deltas.len()
    );
    for delta in deltas {
        assert_eq!(delta["type"], "delta");
        let expected = if delta["kind"] == "text" { 1 } else { 0 };
        assert_eq!(delta["block"], expected);
        assert!(delta["at"].as_str().unwrap().parse::<Timestamp>().is_ok());
    }
}

#[test]
fn delta_contains_no_part_of_a_secret() {
    let (sink, journal) = Sink::journal();
    let answer = format!("The key is {} and works.", secret());
    for piece in answer.as_bytes().chunks(3) {
        journal.inner().deltas.forget_last_time();
        journal.progress(&text(0, std::str::from_utf8(piece).unwrap()));
    }
    let shown = sink.text();
    assert!(shown.contains("[REDACTED:github_token]"), "{shown}");
    assert!(!shown.contains("ghp_"), "{shown}");
}

#[test]
fn deltas_of_a_retried_answer_are_discarded() {
    let (sink, journal) = Sink::journal();
    journal.progress(&text(0, "One "));
    journal.progress(&text(0, "half an answer "));
    journal.progress(&Progress::Retry {
        attempt: 2,
        delay_ms: 1,
        reason: "cut",
    });
    journal.inner().deltas.forget_last_time();
    journal.progress(&text(0, "Another "));
    let output = sink.text();
    let last: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    assert_eq!(last["text"], "Another ");
}

#[test]
fn text_output_shows_an_answer_as_it_arrives_and_only_once() {
    const THOUGHT: &str = "1\nthought 2\n3\n\n5\n6\n7\n8\n";
    const ANSWER: &str = "One two\n\nthree.  \n";
    let shown = |in_pieces: bool| {
        let err = Sink::default();
        let journal = Journal::new(false, Box::new(std::io::sink()), Box::new(err.clone()));
        if in_pieces {
            let pieces = |whole: &'static str| {
                let pieces = whole.as_bytes().chunks(5);
                pieces.map(|piece| std::str::from_utf8(piece).unwrap())
            };
            let thoughts = pieces(THOUGHT).map(|piece| thinking(0, piece));
            for progress in thoughts.chain(pieces(ANSWER).map(|piece| text(1, piece))) {
                journal.inner().deltas.forget_last_time();
                journal.progress(&progress);
            }
            assert!(err.text().contains("three"), "{}", err.text());
        }
        journal.add_usage(Usage::default(), None, None);
        journal.reasoning(THOUGHT);
        journal.message(ANSWER);
        journal.warning("after it");
        err.text()
    };
    assert_eq!(
        shown(true).replace("\n\n", "\n"),
        shown(false).replace("\n\n", "\n")
    );
    assert_eq!(shown(true).matches("three").count(), 1);
    assert!(shown(true).contains("… 2 more lines"), "{}", shown(true));
}

#[test]
fn text_output_shows_every_event() {
    let (out, err) = (Sink::default(), Sink::default());
    let journal = Journal::new(false, Box::new(out.clone()), Box::new(err.clone()));
    emit_every_event(&journal);
    journal.end(ExitReason::Done, None);
    assert_eq!(out.text(), "All done.\n");
    let stable = regex::Regex::new(r"done in [0-9.]+ s").unwrap();
    insta::assert_snapshot!(stable.replace(&err.text(), "done in 0.0 s"));
    assert!(!err.text().contains(&secret()) && !err.text().contains('\x1b'));
}

#[test]
fn failed_run_prints_nothing_on_stdout() {
    let out = Sink::default();
    let journal = Journal::new(false, Box::new(out.clone()), Box::new(std::io::sink()));
    journal.message("Half done.");
    journal.end(ExitReason::Limit, Some("reached the limit of 2 turns"));
    assert_eq!(out.text(), "");
}

#[test]
fn full_disk_is_reported() {
    for json in [true, false] {
        let journal = Journal::new(json, Box::new(Full), Box::new(Full));
        assert!(!journal.is_closed());
        journal.message("hello");
        assert!(journal.is_closed());
    }
    // The last message on stdout counts as well.
    let journal = Journal::new(false, Box::new(Full), Box::new(std::io::sink()));
    journal.message("hello");
    assert!(!journal.is_closed());
    journal.end(ExitReason::Done, None);
    assert!(journal.is_closed());
}
