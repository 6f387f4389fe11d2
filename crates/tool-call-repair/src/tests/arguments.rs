use proptest::prelude::*;
use serde_json::{Value, json};

use crate::repair_arguments;

fn render(raw: &str) -> String {
    match repair_arguments(raw) {
        Ok(value) => value.to_string(),
        Err(broken) => {
            assert_eq!(broken.raw, raw);
            format!("broken: {}", broken.reason)
        }
    }
}

fn all(texts: &[&str]) -> String {
    let lines = texts.iter().map(|text| format!("{text:?}\n    {}", render(text)));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn unambiguous_arguments_are_repaired() {
    let rendered = all(&[
        r#"{"path":"a"}"#,
        r#"{"path":"a","path":"b"}"#,
        "```json\n{\"path\":\"a\"}\n```",
        "``` {\"path\":\"a\"} ```",
        r#"{"path":"a","limit":3,}"#,
        r#"{"paths":["a","b",],}"#,
        r#"{'path': 'it"s', 'all': True, 'none': None, 'not': False}"#,
        r#"{'content': 'don\'t \n "x"'}"#,
        "{\"content\":\"one\ntwo\t\u{1}three\r\n\"}",
        r#"{path: "a", limit: 2}"#,
        r#"{"pattern":"\d+\.\w* \$HOME \` x"}"#,
        "{\"command\":\"a \\\n b\"}",
        r#""{\"path\":\"a\\n\"}""#,
        r#""\"{\\\"path\\\":\\\"a\\\"}\"""#,
        r#"{"path":"a"}{"path":"a"}"#,
        "{\"path\":\"a\"}\n{ \"path\" : \"a\" } {\"path\":\"a\"}",
        r#"{"path":"a"}}"#,
        r#"{"path":"a"}</tool_call>"#,
        "{\"path\":\"a\"}\nThis reads the file.",
        "{\"content\": \"\"\"print('a')\nprint(\"b\")\n\"\"\", \"path\": \"a.py\"}",
        "{\"content\": `let a = 'b';\nlet c = \"d\";`, \"path\": \"a.js\"}",
        r#"{"x":"\ud83d\ude00 \u00e9", 'y': "\uD83D\uDE00"}"#,
        "[1, 2,]",
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(rendered) });
}

#[test]
fn ambiguous_arguments_stay_broken() {
    let rendered = all(&[
        "",
        "  ",
        "path",
        "path: a",
        "5 x",
        "\"a\" b",
        r#"{"path":"a""#,
        r#"{"path":"a"#,
        r#"{"path":"#,
        r#"{"path""#,
        r#"{"path":"a","#,
        r#"{"limit": 12"#,
        r#"{"all": tru"#,
        "{",
        r#"{"content":"a \u12"#,
        r#"{"content":"a \"#,
        r#"{"path":"a"}{"path":"b"}"#,
        r#"{"path":"a"}{"path":"a"#,
        r#"{"path":"a"}, "limit": 2}"#,
        r#"{"path":"a"} and then {"path":"b"}"#,
        r#"{'path':'a','path':'b'}"#,
        r#"{"path": a.txt}"#,
        r#"{"command":"echo 'it\'s'"}"#,
        r#"{"content":"\x1b[0m"}"#,
        r#"{"content":"say "hi""}"#,
        "{\"content\": \"\"\"a\\nb\"\"\"}",
        r#"{"x":"\ud83d"}"#,
        r#"{"x":"\ud83d", 'y': 1}"#,
        r#"{"a" "b"}"#,
        r#""{\"path\":\"a""#,
        "```json\n{\"path\":\"a\"",
        r#"{"limit": 1-2, 'x': 1}"#,
    ]);
    insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(rendered) });
}

#[test]
fn argument_nesting_is_bounded() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{a:", "}")] {
        let deep = format!("{}1,{}", open.repeat(20_000), close.repeat(20_000));
        assert!(repair_arguments(&deep).is_err());
        let shallow = format!("{}1,{}", open.repeat(50), close.repeat(50));
        assert!(repair_arguments(&shallow).is_ok(), "{open}");
    }
    let encoded = (0..10).fold("{}".to_owned(), |text, _| Value::from(text).to_string());
    assert!(matches!(repair_arguments(&encoded), Ok(Value::String(_))));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
        r#"[a"'\\\n{}\[\],: `]{0,12}"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(".{0,5}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-z_]{1,6}", json_value(), 0..5)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

proptest! {
    #[test]
    fn valid_json_arguments_are_unchanged(value in object()) {
        prop_assert_eq!(repair_arguments(&value.to_string()), Ok(value.clone()));
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(repair_arguments(&pretty), Ok(value));
    }

    #[test]
    fn json_wrappers_are_removed(value in object()) {
        let raw = value.to_string();
        for around in [format!("```json\n{raw}\n```"), format!("{raw}{raw}"), format!("{raw}}}"),
                       Value::from(raw).to_string()] {
            prop_assert_eq!(repair_arguments(&around), Ok(value.clone()), "{}", around);
        }
    }

    #[test]
    fn cut_off_arguments_are_never_completed(value in object(), part in 0.0..1.0_f64) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let at = |text: &str| text.floor_char_boundary((text.len() as f64 * part) as usize);
        let raw = value.to_string();
        let trailing_comma = raw.strip_suffix('}').map(|raw| format!("{raw},}}"));
        for raw in std::iter::once(raw).chain(trailing_comma) {
            let cut = &raw[..at(&raw)];
            prop_assert!(repair_arguments(cut).is_err(), "{}", cut);
        }
    }

    #[test]
    fn arguments_accept_any_text(raw in ".*", marks in r#"[{}\[\]"'`,:\\untfT1 -]{0,40}"#) {
        for text in [raw.clone(), format!("{{{raw}"), marks.clone(), format!("{{{marks}"), format!("{{\"a\":{marks}")] {
            if let Err(broken) = repair_arguments(&text) {
                prop_assert!(!broken.reason.is_empty());
            }
        }
    }

    #[test]
    fn raw_newlines_are_kept(lines in prop::collection::vec("[a-z' ]{0,8}", 1..5)) {
        let content = lines.join("\n");
        let raw = format!("{{\"content\":\"{content}\"}}");
        prop_assert_eq!(repair_arguments(&raw), Ok(json!({"content": content})));
    }
}
