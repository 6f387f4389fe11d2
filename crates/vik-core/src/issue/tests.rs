use super::*;

#[test]
fn links_are_web_addresses_and_labels_are_names() {
    let read = |more: &str| {
        let item = format!(r#"{{"id":"1","title":"T","state":"todo"{more}}}"#);
        let issue = Issue::parse(&item).unwrap();
        (issue.url(), issue.labels())
    };
    let (url, labels) =
        read(r#","url":"https://t.example/1","labels":["bug",{"name":"ui","color":"red"},{"id":3},7]"#);
    assert_eq!(url.as_deref(), Some("https://t.example/1"));
    assert_eq!(labels, ["bug", "ui"]);
    for hostile in [
        "javascript:alert(1)",
        "file:///etc/passwd",
        " https://t.example",
        "//t.example",
        "",
    ] {
        assert_eq!(read(&format!(r#","url":"{hostile}""#)).0, None, "{hostile}");
    }
    assert_eq!(read(r#","url":7,"labels":"bug""#), (None, Vec::new()));
}

#[test]
fn bad_item_does_not_spoil_the_pull() {
    let pull = Pull::parse(
        br#"[{"id":1,"state":"todo","title":"a","desc":"d"},{"id":"x"},{"identifier":"E-1","status":"todo"},
            {"id":"1","state":"done"},7,{"state":"todo"},{"id":{},"state":"a"},{"id":"","state":"a"}]"#,
    )
    .unwrap();
    let ids: Vec<_> = pull.issues.iter().map(|i| i.id.as_str()).collect();
    assert_eq!(ids, ["1", "E-1"]);
    assert_eq!(pull.issues[0].description(), "d");
    assert_eq!(pull.issues[1].description(), "");
    let reasons: Vec<_> = pull
        .skipped
        .iter()
        .map(|s| (s.index, s.reason.as_str()))
        .collect();
    assert_eq!(
        reasons,
        [
            (1, "it has no `state`"),
            (3, "an earlier item has the same id"),
            (4, "it is not an object"),
            (5, "it has no `id`"),
            (6, "`id` is neither a string nor a number"),
            (7, "`id` is empty"),
        ]
    );
}

#[test]
fn priority_is_a_number_or_none() {
    let of = |text: &str| {
        Issue::parse(&format!(r#"{{"id":1,"state":"a","priority":{text}}}"#))
            .unwrap()
            .priority_milli
    };
    assert_eq!(
        [of("2"), of("-1.5"), of("1e300")],
        [Some(2000), Some(-1500), Some(i64::MAX)]
    );
    assert_eq!([of("null"), of("\"1\""), of("[1]")], [None; 3]);
}

#[test]
fn unwanted_issues_are_checked_and_counted_but_not_kept() {
    let first = Pull::parse(br#"[{"id":"a","state":"doing","n":1},{"id":"b","state":"doing"}]"#)
        .unwrap()
        .issues;
    let known = first
        .into_iter()
        .map(|issue| (issue.id.clone(), Some(issue)))
        .collect();
    let wanted = Wanted {
        states: vec!["todo".into()],
        known,
    };
    let text = br#"[{"id":"a","state":"doing","n":1},{"id":"b","state":"done"},{"id":"c","state":"todo"},
        {"id":"d","state":"done"},{"id":"d","state":"todo"},{"id":"e"}]"#;
    let pull = Pull::parse_wanted(text, &wanted).unwrap();
    let kept: Vec<_> = pull
        .issues
        .iter()
        .map(|issue| (issue.id.as_str(), &*issue.state))
        .collect();
    assert_eq!(kept, [("a", "doing"), ("b", "done"), ("c", "todo")]);
    assert_eq!(
        (pull.count, pull.skipped.len()),
        (4, 2),
        "the second `d` is no issue of its own"
    );
    assert!(
        Arc::ptr_eq(
            &pull.issues[0].payload,
            &wanted.known["a"].as_ref().unwrap().payload
        ),
        "unchanged: not read again"
    );
    assert!(Arc::ptr_eq(&pull.issues[2].state, &wanted.states[0]));
}

#[test]
fn pull_of_garbage_is_an_error() {
    for output in [&b"not json"[..], b"", b"{}", b"[{", b"[]x", b"\xff"] {
        assert!(Pull::parse(output).is_err());
    }
}

#[test]
fn other_fields_are_kept_and_the_fingerprint_follows_edits() {
    let issue = |text: &str| Issue::parse(text).unwrap();
    let a = issue(r#"{"id":"a","state":"todo","labels":["x"],"description":"d"}"#);
    assert_eq!(a.fields()["labels"][0], "x");
    assert_eq!(
        a.fingerprint(),
        issue(r#"{"id":"a","state":"todo","labels":[],"desc":"d"}"#).fingerprint()
    );
    assert_ne!(
        a.fingerprint(),
        issue(r#"{"id":"a","state":"todo","desc":"e"}"#).fingerprint()
    );
}

#[test]
fn field_of_another_type_warns_and_keeps_the_issue() {
    for (field, value, fits) in [
        ("title", "5", false),
        ("title", "{}", false),
        ("title", "null", true),
        ("description", r#"{"type":"doc"}"#, false),
        ("description", "[]", false),
        ("description", "null", true),
        ("desc", "true", false),
        ("url", "{}", false),
        ("created_at", "17", false),
        ("created_at", r#""yesterday""#, true),
        ("priority", "{}", false),
        ("priority", "true", false),
        ("priority", r#""high""#, true),
        ("labels", "{}", false),
        ("labels", r#""bug""#, false),
        ("labels", r#"["bug",{"name":"ui","color":"red"}]"#, true),
        ("labels", r#"["bug",3,{"title":"ui"}]"#, false),
        ("blocked_by", r#"[{"number":3}]"#, false),
        ("blocked_by", "{}", false),
        ("blocked_by", "[null]", false),
        ("blocked_by", "[2]", true),
        ("blocked_by", "2", true),
    ] {
        let item = format!(r#"[{{"id":"1","state":"todo","{field}":{value}}}]"#);
        let pull = Pull::parse(item.as_bytes()).unwrap();
        assert_eq!(
            (pull.issues.len(), pull.skipped.len()),
            (1, 0),
            "{field}: {value}"
        );
        let warnings: Vec<_> = pull
            .warnings
            .iter()
            .map(|warning| (warning.issue.as_str(), warning.field))
            .collect();
        let expected: &[_] = if fits { &[] } else { &[("1", field)] };
        assert_eq!(warnings, expected, "{field}: {value}");
    }
    let pull = Pull::parse(br#"[{"id":"1","state":"a","blocked_by":["2",{"number":3}]}]"#).unwrap();
    let blockers: Vec<_> = pull.issues[0].blocked_by.iter().map(|id| id.as_str()).collect();
    assert_eq!(blockers, ["2", UNREADABLE_BLOCKER]);
}
