use proptest::prelude::*;
use serde_json::json;
use strum::VariantArray as _;
use uuid::Uuid;

use super::credentials::{in_git_config, is_credential};
use super::*;

const ISSUE: &str = "7";

fn pursuit_of<T>(run: u64, act: impl FnOnce(&Pursuit<'_>) -> T) -> T {
    let (issue, stage) = (IssueId::new(ISSUE), StageName::new("work"));
    act(&Pursuit {
        issue: &issue,
        stage: &stage,
        run: RunId(Uuid::from_u64_pair(0, run)),
    })
}

fn lines(text: &str) -> Result<Vec<Line>, Vec<Refusal>> {
    pursuit_of(1, |pursuit| read(text.as_bytes(), pursuit))
}

fn rule(max: u32, allow: &[&str]) -> OutputRule {
    let globs: Vec<_> = allow.iter().map(|&glob| glob.to_owned()).collect();
    OutputRule {
        max,
        allow: (!globs.is_empty()).then(|| AllowList::new(globs).unwrap()),
        push: None,
        run: "true".to_owned(),
        check: None,
        is_keyed: false,
        approve: false,
    }
}

fn recoveries() -> impl Strategy<Value = Recovery> {
    prop_oneof![
        Just(Recovery::Check),
        Just(Recovery::Repeat),
        Just(Recovery::Person)
    ]
}

fn policy() -> OutputPolicy {
    OutputPolicy {
        rules: BTreeMap::from([
            (OutputKind::Comment, rule(1, &[])),
            (
                OutputKind::Label,
                rule(2, &["needs-review", "area/*", "!area/secret"]),
            ),
            (OutputKind::State, rule(1, &["review"])),
            (OutputKind::PullRequest, rule(1, &[])),
        ]),
        secrets: Vec::new(),
    }
}

fn messages(refusals: &[Refusal]) -> Vec<String> {
    refusals.iter().map(ToString::to_string).collect()
}

fn refused(text: &str) -> Vec<String> {
    match lines(text) {
        Err(refusals) => messages(&refusals),
        Ok(lines) => messages(&check(&lines, &policy(), &BTreeMap::new())),
    }
}

#[test]
fn valid_file_is_read_in_its_order() {
    let text = "\n{\"kind\":\"comment\",\"body\":\"Done.\\n\\nSee `src`.\"}\r\n  \n\
                {\"kind\":\"label\",\"label\":\"area/ui\"}\n{\"kind\":\"state\",\"state\":\"review\"}\n\
                {\"kind\":\"pull_request\",\"title\":\"Fix it\"}";
    let lines = lines(text).unwrap();
    let places: Vec<_> = lines
        .iter()
        .map(|line| (line.number, line.output.kind()))
        .collect();
    assert_eq!(
        places,
        [
            (2, OutputKind::Comment),
            (4, OutputKind::Label),
            (5, OutputKind::State),
            (6, OutputKind::PullRequest)
        ]
    );
    assert_eq!(check(&lines, &policy(), &BTreeMap::new()), []);
    assert_eq!(lines[0].output.summary(), "Done.");
    assert_eq!(lines[3].output.fields(), [("title", "Fix it")]);
}

#[test]
fn refusal_names_the_line_and_the_rule() {
    let cases = [
        "comment",
        r#"{"kind":"comment"}"#,
        r#"{"kind":"comment","body":"x","to":"everyone"}"#,
        r#"{"kind":"comment","body":"x","body":"y"}"#,
        r#"{"kind":"delete","id":1}"#,
        r#"{"kind":"comment","body":["x"]}"#,
        r#"{"kind":"comment","body":" \n"}"#,
        r#"{"kind":"comment","body":"a\u202eb"}"#,
        r#"{"kind":"comment","body":"a\u0000b"}"#,
        r#"{"kind":"label","label":"area/a\nb"}"#,
        r#"{"kind":"label","label":"--force"}"#,
        r#"{"kind":"label","label":"bug"}"#,
        r#"{"kind":"label","label":"area/secret"}"#,
        r#"{"kind":"label","label":"area/a/b"}"#,
        r#"{"kind":"state","state":"done"}"#,
        r#"{"kind":"pull_request","title":"t","base":"main"}"#,
        r#"{"kind":"issue","title":"t"}"#,
        "{\"kind\":\"comment\",\"body\":\"a\"}\n{\"kind\":\"comment\",\"body\":\"b\"}",
        "{\"kind\":\"state\",\"state\":\"review\"}\n{\"state\":\"review\",\"kind\":\"state\"}",
    ];
    let messages: Vec<_> = cases
        .iter()
        .flat_map(|case| {
            let refused = refused(case);
            assert!(!refused.is_empty(), "{case}");
            refused
        })
        .collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn length_limits_are_exact() {
    let long = |name: &str, length: u32| {
        let text = "x".repeat(length as usize);
        match name {
            "body" => json!({"kind": "comment", "body": text}),
            "title" => json!({"kind": "pull_request", "title": text}),
            _ => json!({"kind": "state", "state": text}),
        }
        .to_string()
    };
    for (name, most) in [("body", MAX_BODY), ("title", MAX_TITLE), ("state", MAX_NAME)] {
        assert!(lines(&long(name, most)).is_ok(), "{name}");
        let refusals = lines(&long(name, most + 1)).unwrap_err();
        assert_eq!(refusals[0].rule, Rule::TooLong, "{name}");
    }
    let one = |at: usize| format!("{{\"kind\":\"comment\",\"body\":\"{at}\"}}\n");
    let many: String = (0..=MAX_OUTPUTS as usize).map(one).collect();
    assert_eq!(lines(&many).unwrap_err()[0].rule, Rule::TooMany);
    let large = " ".repeat(MAX_FILE_BYTES + 1);
    assert_eq!(lines(&large).unwrap_err()[0].rule, Rule::TooLarge);
    assert_eq!(lines(&large[1..]), Ok(Vec::new()));
    let refusals = pursuit_of(1, |pursuit| read(b"\xff", pursuit)).unwrap_err();
    assert_eq!(refusals[0].rule, Rule::NotText);
}

#[test]
fn earlier_outputs_count_unless_they_are_the_same() {
    let comment = |body: &str| json!({"kind": "comment", "body": body}).to_string();
    let first = lines(&comment("a")).unwrap();
    let earlier = BTreeMap::from([(first[0].key.clone(), OutputKind::Comment)]);
    assert_eq!(check(&first, &policy(), &earlier), []);
    let other = lines(&comment("b")).unwrap();
    assert_eq!(
        messages(&check(&other, &policy(), &earlier)),
        ["line 1: this stage permits 1 `comment` per run; earlier attempts used 1 (too_many)"]
    );
}

#[test]
fn allow_list_is_read_in_order() {
    let list = |globs: &[&str]| AllowList::new(globs.iter().map(|&glob| glob.to_owned()).collect()).unwrap();
    for (globs, allows, not) in [
        (&["a", "b-*"][..], &["a", "b-", "b-1"][..], &["A", "ab", ""][..]),
        (&["!main"], &["x", "y/z"], &["main"]),
        (&["*", "!a*", "ab"], &["b", "ab"], &["a", "abc", "b/c"]),
        (&["**"], &["a/b/c"], &[]),
        (&["\\!x", "[ab]?", "{p,q}"], &["!x", "a1", "p"], &["x", "c1"]),
    ] {
        let list = list(globs);
        for value in allows {
            assert!(list.allows(value), "{globs:?} {value}");
        }
        for value in not {
            assert!(!list.allows(value), "{globs:?} {value}");
        }
    }
    assert_eq!(AllowList::new(Vec::new()), Err(BadAllow::Empty));
    assert_eq!(
        AllowList::new(vec!["a".to_owned(); MAX_ALLOW + 1]),
        Err(BadAllow::TooMany)
    );
    for bad in ["", "!", "[a", "{a"] {
        assert!(AllowList::new(vec![bad.to_owned()]).is_err(), "{bad}");
    }
}

#[test]
fn stage_schema_has_only_its_kinds() {
    let schema = json_schema_of(&policy());
    let kinds: Vec<_> = schema["oneOf"].as_array().unwrap().iter().collect();
    let names: Vec<_> = kinds
        .iter()
        .map(|kind| kind["properties"]["kind"]["const"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["comment", "label", "state", "pull_request"]);
    assert!(
        kinds.iter().all(|kind| kind["additionalProperties"] == false
            || kind["unevaluatedProperties"] == false
            || schema["unevaluatedProperties"] == false),
        "{schema:#}"
    );
}

#[test]
fn credentials_are_known_by_their_names() {
    for name in [
        "GITHUB_TOKEN",
        "REDMINE_API_KEY",
        "gh_token",
        "JIRA_URL",
        "SSH_AUTH_SOCK",
        "GIT_ASKPASS",
    ] {
        assert!(is_credential(name), "{name}");
    }
    for name in [
        "PATH",
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GIT_DIR",
        "VIK_OUTPUTS",
    ] {
        assert!(!is_credential(name), "{name}");
    }
    for (text, line) in [
        (
            "[remote \"origin\"]\n\turl = https://x:abc@github.com/a/b\n",
            Some(2),
        ),
        (
            "[remote \"o\"]\nurl = https://ghp_0123456789012345678901234@github.com/a",
            Some(2),
        ),
        (
            "[http \"https://github.com/\"]\n extraheader = AUTHORIZATION: basic x",
            Some(2),
        ),
        ("[http] extraHeader = A: b", Some(1)),
        ("[url \"https://u:p@h/\"]\ninsteadOf = gh:", Some(1)),
        (
            "[remote \"origin\"]\n\turl = https://github.com/a/b\n[http]\nextraheader =\n",
            None,
        ),
        ("url = git@github.com:a/b\nurl = ssh://git@github.com/a", None),
        ("# https://example.com/a:b@c", None),
    ] {
        assert_eq!(in_git_config(text), line, "{text}");
    }
}

fn outputs() -> impl Strategy<Value = Output> {
    let word = "[a-z/ -]{0,6}|\\PC{0,4}";
    prop_oneof![
        ".{0,8}".prop_map(|body| Output::Comment { body }),
        word.prop_map(|label| Output::Label { label }),
        word.prop_map(|state| Output::State { state }),
        (word, ".{0,4}", proptest::option::of(word)).prop_map(|(title, body, base)| Output::PullRequest {
            title,
            body,
            base
        }),
        (word, ".{0,4}").prop_map(|(title, body)| Output::Issue { title, body }),
    ]
}

proptest! {
    #[test]
    fn output_round_trips_or_is_refused(output in outputs()) {
        let text = serde_json::to_string(&output).unwrap();
        match lines(&text) {
            Ok(lines) => {
                prop_assert_eq!(&lines[0].output, &output);
                for (_, value) in output.fields() {
                    prop_assert!(!value.starts_with('-') && !value.contains(char::is_control) && !value.is_empty());
                }
            }
            Err(refusals) => prop_assert!(refusals.iter().all(|refusal| refusal.line == Some(1))),
        }
    }

    #[test]
    fn lines_as_text_are_read_as_the_same_lines(asked in proptest::collection::vec(outputs(), 0..6), empty in 0..3_usize) {
        let written = |output: Output| "\n".repeat(empty) + &serde_json::to_string(&output).unwrap() + "\n";
        let text: String = asked.into_iter().map(written).collect();
        if let Ok(read) = lines(&text) {
            prop_assert_eq!(lines(&to_text(&read)), Ok(read));
        }
    }

    #[test]
    fn read_never_panics_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = pursuit_of(1, |pursuit| read(&bytes, pursuit));
    }

    #[test]
    fn accepted_outputs_keep_to_counts_and_allow_lists(
        asked in proptest::collection::vec(outputs(), 0..8),
        labels in proptest::collection::vec(prop_oneof![Just("area/a"), Just("area/b"), Just("needs-review"), Just("bug")], 0..4),
    ) {
        let labels = labels.into_iter().map(|label| Output::Label { label: label.to_owned() });
        let text: String = asked.into_iter().chain(labels).map(|output| serde_json::to_string(&output).unwrap() + "\n").collect();
        if let Ok(lines) = lines(&text)
            && check(&lines, &policy(), &BTreeMap::new()).is_empty()
        {
            let policy = policy();
            for &kind in OutputKind::VARIANTS {
                let of_kind: Vec<_> = lines.iter().filter(|line| line.output.kind() == kind).collect();
                let most = policy.rules.get(&kind).map_or(0, |rule| rule.max as usize);
                prop_assert!(of_kind.len() <= most);
                for line in of_kind {
                    if let Some(value) = line.output.allowed_value() {
                        prop_assert!(policy.rules[&kind].allow.as_ref().unwrap().allows(value));
                    }
                }
            }
        }
    }

    #[test]
    fn key_is_unique_to_its_contents_and_run(a in outputs(), b in outputs(), runs in (0..3_u64, 0..3_u64)) {
        let key = |run, output: &Output| pursuit_of(run, |pursuit| pursuit.key(output));
        prop_assert_eq!(key(runs.0, &a) == key(runs.1, &b), runs.0 == runs.1 && a == b);
        prop_assert_eq!(key(1, &a).as_str().len(), 32);
    }

    /// A tracker that does what it is asked, while daemons die and commands are cut off wherever it
    /// hurts: nothing is done twice, and where the check is conclusive, nothing stays undone
    /// for ever.
    #[test]
    fn outputs_are_never_applied_twice(recovery in recoveries(), tries in proptest::collection::vec((0..7_u8, any::<bool>()), 1..12)) {
        let (mut last, mut done) = (None, 0);
        let has_check = recovery == Recovery::Check;
        // A command that knows the key does nothing the second time.
        let most = if recovery == Recovery::Repeat { 1 } else { u32::MAX };
        let looked = |done: u32, is_conclusive: bool| match (is_conclusive, done) {
            (false, _) => CheckResult::Unclear,
            (true, 0) => CheckResult::NotDone,
            (true, _) => CheckResult::Done,
        };
        for (blow, is_conclusive) in tries.into_iter().chain([(0, true); 2]) {
            match next(last, recovery) {
                NextStep::Skip | NextStep::Leave => continue,
                NextStep::Check => {
                    if let Some(end) = after_check(looked(done, is_conclusive)) {
                        last = Some(end);
                        continue;
                    }
                }
                NextStep::Run => {}
            }
            last = Some(Progress::Applying);
            let ran = match blow {
                // The daemon dies before the command, or behind it.
                1 => continue,
                2 => {
                    done = most.min(done + 1);
                    continue;
                }
                // It is cut off before it has done it, or behind that.
                3 => RunResult::CutOff,
                4 => {
                    done = most.min(done + 1);
                    RunResult::CutOff
                }
                5 => RunResult::Failed,
                _ => {
                    done = most.min(done + 1);
                    RunResult::Well
                }
            };
            let after = (has_check && ran == RunResult::Well).then(|| looked(done, is_conclusive));
            last = Some(after_run(ran, after));
        }
        prop_assert!(done <= 1, "done {} times", done);
        prop_assert!(last != Some(Progress::Applied) || done == 1);
        if recovery != Recovery::Person {
            prop_assert_eq!(last, Some(Progress::Applied));
        }
    }
}
