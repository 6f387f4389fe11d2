use super::*;

fn malformed() -> Event<'static> {
    Event::Malformed {
        line: "?".into(),
        bytes: None,
        offset: None,
    }
}

#[test]
fn overlong_event_is_written_with_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan-x.jsonl");
    let mut log = SessionLog::create(&path).unwrap();
    let message = |text: String| Event::Message { text: text.into() };
    // Each of these characters takes six bytes in JSON.
    log.push(Timestamp::UNIX_EPOCH, &message("\u{1}".repeat(LONGEST_EVENT / 4)))
        .unwrap();
    log.push(Timestamp::UNIX_EPOCH, &message("after".to_owned()))
        .unwrap();
    log.flush().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        (&lines[0]["seq"], &lines[0]["kind"]),
        (&1.into(), &"malformed".into())
    );
    assert!(lines[0]["bytes"].as_u64().unwrap() > LONGEST_EVENT as u64);
    assert!(
        lines[0]["line"]
            .as_str()
            .unwrap()
            .starts_with("{\"kind\":\"message\"")
    );
    assert_eq!(lines[1]["text"], "after");
    assert_eq!(SessionLog::reopen(&path).unwrap().agent_events, 2);
}

#[test]
fn lines_are_numbered_stamped_and_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan-x.jsonl");
    let mut log = SessionLog::create(&path).unwrap();
    let at = Timestamp::from_millisecond(1_700_000_000_123).unwrap();
    log.push(
        at,
        &Event::Message {
            text: "a\n\"b\"".into(),
        },
    )
    .unwrap();
    log.push(at, &malformed()).unwrap();
    log.sync().unwrap();
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "{\"seq\":1,\"at\":\"2023-11-14T22:13:20.123Z\",\"kind\":\"message\",\"text\":\"a\\n\\\"b\\\"\"}\n\
             {\"seq\":2,\"at\":\"2023-11-14T22:13:20.123Z\",\"kind\":\"malformed\",\"line\":\"?\"}\n"
    );
    assert!(SessionLog::create(&path).is_err(), "a log is never written twice");
}

#[test]
fn truncated_log_resumes_after_its_last_whole_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan-x.jsonl");
    let head = "{\"seq\":1,\"at\":\"2023-11-14T22:13:20.123Z\",\"kind\":\"resumed\"}\n\
                    {\"seq\":2,\"at\":\"2023-11-14T22:13:20.123Z\",\"kind\":\"message\",\"text\":\"\"}\n";
    std::fs::write(&path, format!("{head}{{\"seq\":3,\"ki")).unwrap();
    let mut reopened = SessionLog::reopen(&path).unwrap();
    assert_eq!((reopened.agent_events, reopened.is_ended), (1, false));
    reopened.log.push(Timestamp::UNIX_EPOCH, &malformed()).unwrap();
    reopened.log.sync().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let tail = text.strip_prefix(head).unwrap();
    assert!(tail.starts_with("{\"seq\":3,"), "{text}");
    assert_eq!(tail.lines().count(), 1);
}

#[test]
fn approval_events_do_not_count_as_agent_events() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan-x.jsonl");
    let mut log = SessionLog::create(&path).unwrap();
    for by in [Some("ada".into()), None] {
        let event = Event::Approval {
            by,
            tool: "Bash".into(),
            decision: "denied".into(),
            detail: Some("\"kind\":\"approval\",\"by\":\"x\"".into()),
        };
        log.push(Timestamp::UNIX_EPOCH, &event).unwrap();
    }
    log.flush().unwrap();
    assert_eq!(SessionLog::reopen(&path).unwrap().agent_events, 1);
}

#[test]
fn full_disk_is_an_error_and_keeps_unwritten_events() {
    let mut log = SessionLog {
        path: "/dev/full".into(),
        file: OpenOptions::new().append(true).open("/dev/full").unwrap(),
        buffer: Vec::new(),
        seq: 0,
        stamp: (i64::MIN, String::new()),
    };
    log.push(Timestamp::UNIX_EPOCH, &Event::Message { text: "a".into() })
        .unwrap();
    assert!(log.flush().is_err());
    assert!(!log.buffer.is_empty());
}
