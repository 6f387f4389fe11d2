//! Documents of any text.

use super::*;

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "\\PC{0,8}",
        prop::sample::select(vec![
            "true", "null", "~", "1", "1.5", "0x1", "no", "---", "#", "- a", "a: b", "a #b", "'", "\"", "\\",
            "&a", "*a", "!x", "|", ">", "%", "@", "`", "[a", "{a", "a,b", ":", "a:", "\u{feff}", "\u{85}",
            "\u{2028}"
        ])
        .prop_map(str::to_owned),
    ]
}

/// One line of front matter besides id and state, as people write them.
fn odd_line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("# a comment: with a colon".to_owned()),
        Just("list:\n  - a\n  -   'b' # c".to_owned()),
        Just("block: |\n  state: todo\n\n  more".to_owned()),
        Just("folded: >-\n  id: 5\n  more".to_owned()),
        Just("flow: {state: x, id: [1, 2]}".to_owned()),
        Just("nested:\n    state: inner\n    id: inner".to_owned()),
        Just("\"quoted key\"   :   1.50".to_owned()),
        any_text().prop_map(|word| format!("w: {}", yaml::scalar(&word))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn yaml_scalar_round_trips_its_text(text in any_text()) {
        let line = format!("k: {}\nl: {}", yaml::scalar(&text), yaml::list(std::slice::from_ref(&text)));
        let entries = front::entries(&line).unwrap();
        prop_assert_eq!(front::text(&entries[0].value), Some(text.as_str()));
        let list = front::json(&entries[1].value);
        let item = &list[0];
        let number = item.to_string();
        prop_assert!(item.as_str() == Some(text.as_str()) || number == text);
    }

    #[test]
    fn change_of_a_field_keeps_all_other_text(
        before in prop::collection::btree_set(odd_line(), 0..3),
        after in prop::collection::btree_set(odd_line(), 0..3),
        style in 0..4,
        old in any_text(),
        new in any_text(),
        space in "[ ]{1,3}",
        comment in prop::sample::select(vec!["", " # note", "   #"]),
        newline in prop::sample::select(vec!["\n", "\r\n"]),
        body in "(\\PC|\n){0,30}",
    ) {
        prop_assume!(!old.trim().is_empty() && !new.trim().is_empty());
        let value = match style {
            0 => format!("'{}'", "plain old"),
            1 => yaml::quoted(&old),
            2 => "bare".to_owned(),
            _ => yaml::scalar(&old),
        };
        let mut before: Vec<_> = before.into_iter().collect();
        before.dedup_by_key(|line| line.starts_with("w:").then_some(()).ok_or_else(|| line.clone()));
        let after: Vec<_> = after.into_iter().filter(|line| !before.contains(line) && !line.starts_with("w:")).collect();
        let head = format!("---\nid: 1\n{}\nstate:{space}", before.join("\n")).replace('\n', newline);
        let tail = format!("{comment}\n{}\n---\n{body}", after.join("\n")).replace('\n', newline);
        let text = format!("{head}{value}{tail}");
        let path = Path::new("x.md");
        let Ok(mut document) = Document::parse(path, text) else {
            return Err(TestCaseError::fail("the text of the test is no document"));
        };
        document.set("state", &new, path).unwrap();
        let text = document.text();
        prop_assert!(text.starts_with(&head) && text.ends_with(&tail), "{text:?}");
        prop_assert_eq!(document.issue(path).unwrap().state, new);
    }

}

proptest! {
    // Few cases, because each one writes and syncs several files.
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn comments_never_change_the_description(body in "(\\PC|\n){0,40}", texts in prop::collection::vec("(\\PC|\n|## Comments\n){1,30}", 1..4)) {
        let (_dir, tracker) = tracker();
        let id = tracker.create(&NewIssue { body, ..new("t") }, now()).unwrap();
        let before = tracker.show(&id).unwrap().description;
        let texts: Vec<_> = texts.into_iter().filter(|text| !text.trim().is_empty()).collect();
        for text in &texts {
            tracker.comment(&id, "a", text, now()).unwrap();
        }
        let issue = tracker.show(&id).unwrap();
        prop_assert_eq!(issue.description, before);
        prop_assert_eq!(issue.comments.len(), texts.len());
    }

}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn document_of_any_text_does_not_panic(text in "(---\n)?(id: 1\n|state: x\n|\\PC|\n|[\\[\\]{}:&*#|>'\"!%@`-]| ){0,60}(\n---\n)?(\\PC|\n){0,20}") {
        if let Ok(mut document) = Document::parse(Path::new("x.md"), text) {
            let _ = document.issue(Path::new("x.md"));
            let _ = document.set("state", "y", Path::new("x.md"));
            document.comment("a", "b", now());
        }
    }
}
