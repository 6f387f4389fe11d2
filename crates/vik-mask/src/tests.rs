use std::borrow::Cow;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::candidates::Candidates;
use crate::{Label, Masker, key_values};

fn plain() -> Masker {
    Masker::default()
}

fn known(value: &str) -> Masker {
    Masker::new([(Label::Key, value.to_owned())])
}

/// Assembled at run time, so that no scanner mistakes this file for one with secrets.
fn secrets() -> Vec<(String, String)> {
    let random = "q7Rz2Lk9Xw4Tb8Vn3Pc6Jd5Hf1Gs0MyKaEu";
    let hex = "9f8e1a7c3b5d2e4f6a0b1c8d7e9f3a5b";
    let base64 = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let pem =
        |name: &str| format!("-----BEGIN {name}-----\n{base64}\n{base64}\nabcd==\n-----END {name}-----");
    let case = |given: String, masked: &str| (given, masked.to_owned());
    vec![
        case(format!("key sk-{random} end"), "key [REDACTED:api_key] end"),
        case(
            format!("sk-{}-api03-{random}_x-AA.", "ant"),
            "[REDACTED:api_key].",
        ),
        case(format!("sk-{}-{random}", "proj"), "[REDACTED:api_key]"),
        case(format!("AI{}SyD{}", "za", &random[..32]), "[REDACTED:api_key]"),
        case(
            format!("xo{}-123456789012-{random}", "xb"),
            "[REDACTED:slack_token]",
        ),
        case(
            format!("id={}IOSFODNN7EXAMPLE,", "AKIA"),
            "id=[REDACTED:aws_key],",
        ),
        case(format!("{}IOSFODNN7EXAMPLE", "ASIA"), "[REDACTED:aws_key]"),
        case(
            format!(
                "aws_secret_access_key = {}/K7MDENG/bPxRfiCYEXAMPLEKEY",
                "wJalrXUtnFEMI"
            ),
            "aws_secret_access_key = [REDACTED:secret]",
        ),
        case(format!("{}_{random}0", "ghp"), "[REDACTED:github_token]"),
        case(format!("{}_{random}0", "gho"), "[REDACTED:github_token]"),
        case(format!("{}_{random}0", "ghu"), "[REDACTED:github_token]"),
        case(format!("{}_{random}0", "ghs"), "[REDACTED:github_token]"),
        case(format!("{}_{random}0", "ghr"), "[REDACTED:github_token]"),
        case(
            format!("github_{}_{random}_{random}", "pat"),
            "[REDACTED:github_token]",
        ),
        case(
            format!("gl{}-{}", "pat", &random[..20]),
            "[REDACTED:gitlab_token]",
        ),
        case(
            format!("a\n{}\nb", pem("RSA PRIVATE KEY")),
            "a\n[REDACTED:private_key]\nb",
        ),
        case(pem("OPENSSH PRIVATE KEY"), "[REDACTED:private_key]"),
        case(
            format!("{{\"k\":\"{}\"}}", pem("PRIVATE KEY").replace('\n', "\\n")),
            "{\"k\":\"[REDACTED:private_key]\"}",
        ),
        case(
            format!("-----BEGIN EC PRIVATE KEY-----\n{base64}\nand so on"),
            "[REDACTED:private_key]\nand so on",
        ),
        case(
            format!("Authorization: Bearer {hex}"),
            "Authorization: Bearer [REDACTED:bearer]",
        ),
        case(
            "authorization: basic dXNlcjpodW50ZXIyMjI=".to_owned(),
            "authorization: basic [REDACTED:basic]",
        ),
        case(
            "postgres://app:hunter2@db.example.com:5432/x".to_owned(),
            "postgres://app:[REDACTED:password]@db.example.com:5432/x",
        ),
        case(
            "redis://:p@ss:word1@cache/0".to_owned(),
            "redis://:[REDACTED:password]@cache/0",
        ),
        case(
            format!("DB_PASSWORD=\"{hex}\""),
            "DB_PASSWORD=\"[REDACTED:secret]\"",
        ),
        case(
            format!("  \"api_key\": \"{hex}\","),
            "  \"api_key\": \"[REDACTED:secret]\",",
        ),
        case(
            format!("{{\\\"token\\\": \\\"{hex}\\\"}}"),
            "{\\\"token\\\": \\\"[REDACTED:secret]\\\"}",
        ),
        case(
            format!("GITHUB_TOKEN={}_{random}0", "ghp"),
            "GITHUB_TOKEN=[REDACTED:github_token]",
        ),
        case(format!("X-Api-Key: {hex}"), "X-Api-Key: [REDACTED:secret]"),
        case(
            "CLIENT_SECRET=abcd1234efgh5678".to_owned(),
            "CLIENT_SECRET=[REDACTED:secret]",
        ),
        case(
            format!("GET /x?a=1&access_token={hex}&b=2"),
            "GET /x?a=1&access_token=[REDACTED:secret]&b=2",
        ),
        case(
            format!(
                "c: {}hbGciOiJIUzI1NiJ9.{}zdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
                "eyJ", "eyJ"
            ),
            "c: [REDACTED:jwt]",
        ),
    ]
}

/// Words and code that resemble secrets.
const HARMLESS: &[&str] = &[
    "",
    "the bearer of this letter, a basic understanding; Basic authentication-mechanisms",
    "let token = parse_token_from_header_v2(headers)?;",
    "token: Option<String>, password: &str, secret: SecretString2Wrapper,",
    "password = prompt_for_the_password_of_user_1()",
    "const SECRET_KEY: &str = env!(\"SECRET_KEY\");",
    "API_KEY=${API_KEY} TOKEN=$TOKEN password={{ password }} secret: <your-secret-here-12345>",
    "api_key = os.environ[\"OPENAI_API_KEY\"]",
    "max_tokens: 4096, next_token: null, token = \"short1\"",
    "class=\"sk-loading-indicator-wrapper\" risk-averse disk-usage sk-fading-circle",
    "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\n-----END CERTIFICATE-----",
    "if text.contains(\"-----BEGIN RSA PRIVATE KEY-----\") { return }",
    "https://example.com:8080/a@b http://user@host/ ssh://git@github.com:22/x",
    "postgres://$USER:$PASSWORD@host/db postgres://{user}:{password}@host",
    "checksum = \"8c1c9e4f6a0b1c8d7e9f3a5b9f8e1a7c3b5d2e4f6a0b1c8d7e9f3a5b\"",
    "commit 9f8e1a7c3b5d2e4f6a0b1c8d7e9f3a5b9f8e1a7c, id 550e8400-e29b-41d4-a716-446655440000",
    "AKIA and ASIA are prefixes; ghp_ and glpat- too; eyJ begins a token; AIza",
    "secretary: Margaret; tokenizer = \"cl100k_base_with_extra_2024_tokens\"",
    "token=self.tokens.pop_front().unwrap_or_default()",
    "the token: it is described in chapter 12345678901234567890",
];

#[test]
fn secret_shapes_are_masked_and_nothing_around_them() {
    for (given, masked) in secrets() {
        assert_eq!(plain().mask(&given), masked, "{given}");
        assert_eq!(plain().mask(&masked), masked, "a placeholder stays");
    }
}

#[test]
fn ordinary_words_and_code_stay() {
    for text in HARMLESS {
        assert!(
            matches!(plain().mask(text), Cow::Borrowed(_)),
            "{text}: {}",
            plain().mask(text)
        );
    }
}

#[test]
fn keys_of_the_process_are_masked_everywhere() {
    let variables = [
        ("MY_API_KEY", "correct horse battery"),
        ("MY_OTHER_TOKEN", "correct horse"),
        ("SHORT_TOKEN", "1234567"),
        ("KEY_PATH_SECRET", "/run/secrets/key"),
        ("EDITOR", "a-fine-editor"),
        ("STRANGE", "named-by-settings"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let masker = Masker::new(key_values(variables, &["STRANGE".to_owned()]));
    let text =
        "xcorrect horse batteryx correct horse 1234567 /run/secrets/key a-fine-editor named-by-settings";
    assert_eq!(
        masker.mask(text),
        "x[REDACTED:key]x [REDACTED:key] 1234567 /run/secrets/key a-fine-editor [REDACTED:key]"
    );
}

#[test]
fn json_keys_mark_secret_values() {
    let value = "abcd1234efgh5678";
    let given = serde_json::json!({"command": format!("export TOKEN='{value}'"), "env": {"API_KEY": value, "PLAIN": value}, "n": [1, value]});
    let masked = serde_json::json!({"command": "export TOKEN='[REDACTED:secret]'",
        "env": {"API_KEY": "[REDACTED:secret]", "PLAIN": value}, "n": [1, value]});
    assert_eq!(*plain().mask_value(&given), masked);
}

#[test]
fn stream_of_one_long_word_takes_linear_time() {
    let mut stream = plain().stream();
    let mut shown = 0;
    for _ in 0..200_000 {
        shown += stream.push("eyJab").len();
    }
    assert_eq!(shown + stream.finish().len(), 1_000_000);
}

#[test]
fn first_and_last_letters_are_those_of_all_rules() {
    use crate::rules::{SECRET_NAMES, TOKENS, names_secret};
    for token in TOKENS {
        let text = format!("{}{}", token.prefix, "aB3".repeat(30));
        let is_partial = !matches!(
            crate::rules::at(text.as_bytes(), None, false),
            crate::rules::Verdict::No
        );
        assert!(is_partial, "{}", token.prefix);
    }
    assert!(SECRET_NAMES.iter().all(|name| names_secret(name.as_bytes())));
}

#[test]
fn rows_of_secret_prefixes_take_linear_time() {
    let started = std::time::Instant::now();
    for part in [
        "a-",
        "sk-",
        "token=",
        "a_token='",
        "eyJ.",
        "xoxb-",
        "://a:",
        "bearer ",
        "AKIA-",
        "api_key: \"",
    ] {
        let text = part.repeat(100_000 / part.len());
        let _ = plain().mask(&text);
        let mut stream = plain().stream();
        for piece in text.as_bytes().chunks(1000) {
            stream.push(std::str::from_utf8(piece).unwrap());
        }
        stream.finish();
    }
    // Seconds; repeated scanning would take hours.
    assert!(started.elapsed() < std::time::Duration::from_secs(60));
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name());
        if name.to_string_lossy().starts_with('.') || name == "target" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Tests contain made-up secrets, which they must show.
fn without_tests<'t>(name: &str, text: &'t str) -> &'t str {
    let is_test = name
        .split('/')
        .any(|part| matches!(part, "tests" | "tests.rs" | "fixtures"));
    let end = if is_test {
        0
    } else {
        text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len())
    };
    &text[..end]
}

#[test]
fn masker_leaves_this_repository_unchanged() {
    let mut files = Vec::new();
    sources(&repository(), &mut files);
    let mut read = 0;
    for path in files {
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let name = path
            .strip_prefix(repository())
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let text = without_tests(&name, &text);
        read += text.len();
        let changed: Vec<String> = text
            .lines()
            .filter(|line| matches!(plain().mask(line), Cow::Owned(_)))
            .map(|line| line.chars().take(200).collect())
            .collect();
        assert!(changed.is_empty(), "{name}: {changed:#?}");
    }
    assert!(read > 1_000_000, "{read}");
}

fn in_pieces(masker: &Masker, text: &str, cuts: &[usize]) -> String {
    let mut stream = masker.stream();
    let mut out = String::new();
    let mut cuts: Vec<usize> = cuts
        .iter()
        .map(|cut| {
            (0..=cut % (text.len() + 1))
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap()
        })
        .collect();
    cuts.push(text.len());
    cuts.sort_unstable();
    let mut from = 0;
    for cut in cuts {
        out += &stream.push(&text[from..cut]);
        from = cut;
    }
    out + &stream.finish()
}

#[test]
fn secret_cut_anywhere_gives_the_same() {
    let masker = known("correct horse battery");
    let given = secrets().into_iter().map(|(given, _)| given);
    for text in given.chain(["a correct horse battery staple".to_owned()]) {
        let whole = masker.mask(&text);
        for cut in 0..=text.len() {
            assert_eq!(in_pieces(&masker, &text, &[cut]), whole, "{text} at {cut}");
        }
        let letters: Vec<usize> = (0..text.len()).collect();
        assert_eq!(in_pieces(&masker, &text, &letters), whole, "{text} by letters");
    }
}

#[test]
fn name_that_contains_a_token_prefix_marks_a_secret() {
    // In an address the value needs less evidence, which only the start of the name shows.
    for text in [
        "?my-sk-token=correcthorse1batterystaple",
        "/xghp_PASSWORD=\"9f8e1a7c3b5d2e4f6a0b1c8d7e9f3a5b\"",
    ] {
        let masked = plain().mask(text);
        assert!(masked.contains("[REDACTED:secret]"), "{masked}");
        for cut in 0..text.len() {
            assert_eq!(in_pieces(&plain(), text, &[cut]), masked, "{text} at {cut}");
        }
    }
}

#[test]
fn ordinary_json_needs_no_masking() {
    let masker = known("correct horse battery");
    for json in [
        r#"{"type":"assistant","usage":{"input_tokens":10,"output_tokens":5},"text":"Look at src/main.rs\n"}"#,
        r#"{"monkey":"a task-list, a disk-image"}"#,
    ] {
        assert!(masker.needs_no_masking(json), "{json}");
    }
    for json in [
        r#"{"text":"correct horse battery"}"#,
        r#"{"API-KEY":"x"}"#,
        r#"{"text":"a\nsk-x"}"#,
        r#"{"text":"\u0073k-x"}"#,
    ] {
        assert!(!masker.needs_no_masking(json), "{json}");
    }
}

fn texts() -> impl Strategy<Value = String> {
    let parts: Vec<String> = secrets()
        .into_iter()
        .map(|(given, _)| given)
        .chain(HARMLESS.iter().map(|&text| text.to_owned()))
        .chain(
            [
                "-----BEGIN PRIVATE KEY-----",
                "\n",
                " ",
                "\"",
                "token=",
                "ä",
                "://a:b",
                "@",
                "Bearer ",
                "correct horse battery",
                "?my-",
                "&",
                "-",
                "x",
                "\\",
                "sk-",
                "ghp_",
                "AKIA-",
                "-----BEGIN ",
                "PASSWORD",
                "-token",
                "api_key=",
            ]
            .map(str::to_owned),
        )
        .collect();
    let part = prop_oneof![
        4 => proptest::sample::select(parts.clone()),
        2 => (proptest::sample::select(parts), any::<proptest::sample::Index>(), any::<proptest::sample::Index>())
            .prop_map(|(part, a, b)| {
                let chars: Vec<char> = part.chars().collect();
                let (a, b) = (a.index(chars.len() + 1), b.index(chars.len() + 1));
                chars[a.min(b)..a.max(b)].iter().collect()
            }),
        1 => "[-a-zA-Z0-9_=: \"\n.]{0,20}",
    ];
    proptest::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn stream_of_any_pieces_equals_the_whole(text in texts(), cuts in proptest::collection::vec(any::<usize>(), 0..12)) {
        let masker = known("correct horse battery");
        prop_assert_eq!(in_pieces(&masker, &text, &cuts), masker.mask(&text));
    }

    #[test]
    fn masker_never_panics_on_any_text(text in any::<String>(), cuts in proptest::collection::vec(any::<usize>(), 0..4)) {
        prop_assert_eq!(in_pieces(&plain(), &text, &cuts), plain().mask(&text));
    }
}

proptest! {
    // Many cases, as a secret that the candidates leave out is not masked at all.
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn candidates_leave_out_no_secret(
        text in texts(),
        whole in any::<bool>(),
        held in any::<proptest::sample::Index>(),
        start in any::<proptest::sample::Index>(),
    ) {
        let masker = plain();
        // As in a stream, which no longer has what it has emitted.
        let (emitted, bytes) = text.as_bytes().split_at(held.index(text.len() + 1));
        let mut emitted = emitted.iter().rev().copied();
        let before = [emitted.next(), emitted.next()];
        let start = start.index(bytes.len() + 1);
        let found = |candidates| {
            let (mut from, mut spans) = (start, Vec::new());
            masker.shapes(candidates, &mut from, before, |span| {
                spans.push((span.start, span.end, format!("{:?}", span.kind)));
            });
            (from, spans)
        };
        prop_assert_eq!(
            found(Candidates::new(bytes, whole)),
            found(Candidates::everywhere(bytes, whole))
        );
    }

    #[test]
    fn quick_check_of_json_leaves_out_no_secret(texts in proptest::collection::vec(texts(), 1..4), style in 0..3) {
        let masker = known("correct horse battery");
        let json = match &texts[..] {
            [key, rest @ ..] => serde_json::json!({ key: rest, "text": key }).to_string(),
            [] => String::new(),
        };
        let json = match style {
            0 => json,
            1 => json.replace('/', "\\/"),
            _ => json.replace('e', "\\u0065").replace("\\\\u0065", "\\\\e"),
        };
        let without = masker.mask_texts(&json).unwrap_or_else(|| masker.mask(&json));
        if masker.needs_no_masking(&json) {
            prop_assert_eq!(without, json.as_str());
        }
        // Also where it is no JSON.
        let text = texts.concat();
        if masker.needs_no_masking(&text) {
            prop_assert_eq!(masker.mask(&text), text.as_str());
        }
    }
}
