//! Guarantees: a known value of 8 bytes or more is masked in each of the promised forms, however
//! the text is cut, and ordinary text is unchanged. The forms are computed here independently of
//! the crate.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use vik_mask::{Label, Masker};

/// A random generator with a fixed sequence.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most as u64).unwrap()
    }

    fn pick<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len())]
    }

    /// Returns a text of 8 to 200 bytes without leading or trailing space.
    fn secret(&mut self) -> String {
        const PLAIN: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let length = 8 + self.below(193);
        let kind = self.below(4);
        let mut text = String::new();
        while text.len() < length {
            let is_edge = text.is_empty() || text.len() + 4 >= length;
            match kind {
                0 => text.push(char::from(*self.pick(PLAIN))),
                1 => text.push(char::from(b'!' + u8::try_from(self.below(94)).unwrap())),
                _ if is_edge || self.below(3) > 0 => text.push(char::from(*self.pick(PLAIN))),
                2 => text.push(*self.pick(&[
                    ' ', '\n', '\t', '"', '\\', '/', '\'', '+', '%', '$', '`', '&', '<',
                ])),
                _ => text.push(*self.pick(&['ä', 'ß', '€', '漢', '🔑', '\u{1}', '=', '-'])),
            }
        }
        text
    }

    fn words(&mut self) -> String {
        let words = [
            "", "the ", "key=", "a: ", "\n", "x", "\"", "{", "日本 ", "0", "=", "%", "\\",
        ];
        (0..self.below(4)).map(|_| *self.pick(&words)).collect()
    }
}

fn percent(text: &str, kept: &str, upper: bool) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if kept.contains(c) {
            out.push(c);
            continue;
        }
        for byte in c.to_string().bytes() {
            let code = format!("{byte:02x}");
            out.push('%');
            out += &if upper { code.to_uppercase() } else { code };
        }
    }
    out
}

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

fn json(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap();
    quoted[1..quoted.len() - 1].to_owned()
}

fn ascii_json(text: &str) -> String {
    let mut out = String::new();
    for c in json(text).chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").unwrap();
            }
        }
    }
    out
}

const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Returns the forms that do not depend on their surroundings.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![
        secret.to_owned(),
        hex(secret),
        hex(secret).to_uppercase(),
        json(secret),
        json(&json(secret)),
        ascii_json(secret),
        json(secret).replace('/', "\\/"),
        secret.replace('\'', "'\\''"),
    ];
    for upper in [false, true] {
        for kept in ["", "-._~", "-_.!~*'()", "-._~/"] {
            let letters = if kept.is_empty() { "" } else { LETTERS };
            forms.push(percent(secret, &format!("{letters}{kept}"), upper));
        }
    }
    forms.push(percent(secret, &format!("{LETTERS}-._~"), true).replace("%20", "+"));
    forms
}

fn masked_in_pieces(masker: &Masker, text: &str, dice: &mut Dice) -> String {
    let mut stream = masker.stream();
    let (mut out, mut remaining) = (String::new(), text);
    let most = *dice.pick(&[1, 3, 20, 200]);
    while !remaining.is_empty() {
        let mut cut = (1 + dice.below(most)).min(remaining.len());
        while !remaining.is_char_boundary(cut) {
            cut += 1;
        }
        out += &stream.push(&remaining[..cut]);
        remaining = &remaining[cut..];
    }
    out + &stream.finish()
}

#[test]
fn ten_thousand_secrets_in_all_forms_and_any_pieces() {
    let mut dice = Dice(0x5eed_1234_5678_9abc);
    let mut checked = 0;
    for _ in 0..200 {
        let secrets: Vec<String> = (0..50).map(|_| dice.secret()).collect();
        let named = secrets.iter().enumerate();
        let masker = Masker::new(named.map(|(at, value)| (Label::Secret(format!("S{at}")), value.clone())));
        for (at, secret) in secrets.iter().enumerate() {
            let placeholder = format!("[secret S{at}]");
            let forms = forms(secret);
            // One text with every form.
            let mut text = String::new();
            for form in &forms {
                text += &dice.words();
                text += form;
            }
            let whole = masker.mask(&text);
            for form in &forms {
                assert!(
                    !whole.contains(form.as_str()),
                    "{form:?} of {secret:?} is readable: {whole:?}"
                );
            }
            assert!(whole.contains(&placeholder), "{whole:?}");
            assert_eq!(masked_in_pieces(&masker, &text, &mut dice), whole, "{text:?}");
            base64(&masker, secret, &placeholder, &mut dice);
            checked += 1;
        }
    }
    assert_eq!(checked, 10_000);
}

/// In Base64 the neighbours of a value change its first and last letter; everything between must be
/// masked.
fn base64(masker: &Masker, secret: &str, placeholder: &str, dice: &mut Dice) {
    let engines = [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD];
    for offset in 0..3 {
        let (before, after) = (
            "\u{7}".repeat(offset + 3 * dice.below(3)),
            "~".repeat(dice.below(4)),
        );
        let text = dice.pick(&engines).encode(format!("{before}{secret}{after}"));
        let masked = masker.mask(&text);
        assert!(masked.contains(placeholder), "{secret:?} in {text}: {masked}");
        let left = masked.replace(placeholder, "").trim_end_matches('=').len();
        let neighbours = (before.len() * 8).div_ceil(6) + (after.len() * 8).div_ceil(6) + 1;
        assert!(
            left <= neighbours,
            "{secret:?}: {left} letters are left of {text}: {masked}"
        );
        assert_eq!(masked_in_pieces(masker, &text, dice), masked);
    }
}

#[test]
fn page_from_anywhere_masks_secrets_across_its_borders() {
    let mut dice = Dice(77);
    for _ in 0..300 {
        let secret = dice.secret();
        let masker = Masker::new([(Label::Secret("S".into()), secret.clone())]);
        let text = format!("one two {secret} three\n{} four", hex(&secret));
        let mut cut = |from: usize| {
            let at = from + dice.below(text.len() - from + 1);
            (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap()
        };
        let start = cut(0);
        let end = cut(start);
        let page = masker.mask_part(&text, start..end);
        let shown = page.replace("[secret S]", "");
        // Only ordinary words may be visible.
        assert!("one two  three\n four".contains(shown.as_str()), "{page:?}");
        assert_eq!(masker.mask_part(&text, 0..text.len()), masker.mask(&text));
    }
}

#[test]
fn multiline_key_is_masked_whole_and_line_by_line() {
    let lines = [
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
        "Qw9fKx7Yb2LpZt5Rn8Vs3Hc6Jd1Gf4Ma0Ek",
    ];
    let key = format!(
        "-----BEGIN THING-----\n{}\n{}\n-----END THING-----\n",
        lines[0], lines[1]
    );
    let masker = Masker::new([(Label::Secret("PEM".into()), key.clone())]);
    assert_eq!(masker.mask(&format!("a {key} b")), "a [secret PEM]\n b");
    assert_eq!(
        masker.mask(&format!("> {}\n> {}", lines[0], lines[1])),
        "> [secret PEM]\n> [secret PEM]"
    );
    assert_eq!(masker.mask(&key.replace('\n', "\\n")), "[secret PEM]\\n");
    assert_eq!(masker.mask("-----BEGIN THING-----"), "-----BEGIN THING-----");
    // With the line length of `base64`.
    let encoded = STANDARD.encode(&key);
    let broken: Vec<&str> = encoded
        .as_bytes()
        .chunks(76)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    assert_eq!(masker.mask(&broken.join("\n")), "[secret PEM]");
}

#[test]
fn overlapping_secrets_leave_nothing() {
    let values = ["abcdefgh1234", "12345678zyxw", "cdefgh123456"];
    let masker = Masker::new(values.map(|value| (Label::Secret("S".into()), value.to_owned())));
    assert_eq!(masker.mask("<abcdefgh12345678zyxw>"), "<[secret S]>");
    // A rule recognizes only a part of it.
    let masker = Masker::new([(
        Label::Secret("S".into()),
        "a1B2c3D4e5F6g7H8\"i9 and more".to_owned(),
    )]);
    assert_eq!(
        masker.mask("TOKEN=a1B2c3D4e5F6g7H8\"i9 and more."),
        "TOKEN=[secret S]."
    );
    let masker = Masker::new([(Label::Key, "aaaaaaaa".to_owned())]);
    let mut stream = masker.stream();
    let out: String = (0..100_000).map(|_| stream.push("aaaa ".trim())).collect();
    assert_eq!(out + &stream.finish(), "[REDACTED:key]");
}

#[test]
fn mask_json_changes_only_strings() {
    let secret = "pass\"word\n12345678";
    let masker = Masker::new([(Label::Secret("S".into()), secret.to_owned())]);
    let given = format!(
        "{{\"n\": 1.50e3, \"big\":123456789012345678901234567890, \"t\" : \"x{}\\u00e9\", \"u\":\"\\u0070ass\\\"word\\u000a12345678\",\"k\":[true,null]}}",
        json(secret)
    );
    let masked = masker.mask_json(&given);
    assert_eq!(
        masked,
        "{\"n\": 1.50e3, \"big\":123456789012345678901234567890, \"t\" : \"x[secret S]é\", \"u\":\"[secret S]\",\"k\":[true,null]}"
    );
    // A key that is a JSON text by its name and follows an escaped line end.
    let key = "q7Rz2Lk9Xw4Tb8Vn3Pc6Jd5Hf1Gs0MyK";
    let masked = masker
        .mask_json(&format!(
            r#"{{"api_key":"{key}","out":"a\nsk-{key}","deep":"{{\"o\":\"\\nsk-{key}\"}}"}}"#
        ))
        .into_owned();
    assert!(!masked.contains(key), "{masked}");
    serde_json::from_str::<serde_json::Value>(&masked).unwrap();
    // Text that is not JSON.
    for text in [
        "{ oops pass\"word\n12345678",
        "{\"a\":\"pass\"word\n12345678\"",
        "\"half",
        "[1,2",
    ] {
        assert!(!masker.mask_json(text).contains("12345678"));
    }
    let plain = r#"{"seq":1,"text":"ordinary \u00e9 words"}"#;
    assert!(matches!(masker.mask_json(plain), Cow::Borrowed(_)));
}

#[test]
fn ordinary_text_stays_beside_many_secrets() {
    let mut dice = Dice(4711);
    let secrets: Vec<_> = (0..50).map(|_| (Label::Key, dice.secret())).collect();
    let masker = Masker::new(secrets);
    let mut text = String::new();
    let words = [
        "fn main() {",
        "let token = next_token(&mut lexer)?;",
        "The secret of good prose is",
        "password",
        "/usr/local/lib/python3.12/site-packages/requests/auth.py",
        "https://example.com/a/b?c=d&e=%20f",
        "crates/vik-session/src/attempt/follow.rs:128:9",
        "error[E0308]: mismatched types",
        "max_tokens=4096",
        "SGVsbG8sIHdvcmxkIQ==",
    ];
    for _ in 0..5000 {
        text += *dice.pick::<&str>(&words);
        text.push(*dice.pick(&[' ', '\n', '\t']));
        let number = [
            dice.next().to_be_bytes(),
            dice.next().to_be_bytes(),
            dice.next().to_be_bytes(),
        ]
        .concat();
        let hex = hex_of(&number);
        match dice.below(5) {
            // A commit id, a UUID, a checksum, an image.
            0 => text += &hex[..40],
            1 => {
                text += &format!(
                    "{}-{}-4{}-a{}-{}",
                    &hex[..8],
                    &hex[8..12],
                    &hex[12..15],
                    &hex[15..18],
                    &hex[18..30]
                );
            }
            2 => text += &format!("sha256:{hex}"),
            3 => text += &format!("data:image/png;base64,iVBORw0KGgo{}", STANDARD.encode(&number)),
            _ => {}
        }
        text.push(' ');
    }
    assert!(
        matches!(masker.mask(&text), Cow::Borrowed(_)),
        "{}",
        masker.mask(&text)
    );
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the values as a shell itself quotes them, one on each line, without line breaks of a
/// value.
fn quoted_by_bash(secrets: &[String], locale: &str) -> Option<Vec<String>> {
    let script = r#"for value; do printf '%q\0%s\0' "$value" "${value@Q}"; done"#;
    let output = std::process::Command::new("bash")
        .args(["-c", script, "bash"])
        .args(secrets)
        .env("LC_ALL", locale)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.split_terminator('\0').map(str::to_owned).collect())
}

#[test]
fn shell_quoted_secret_is_masked() {
    let mut dice = Dice(0x0ddb_a115);
    let mut secrets: Vec<String> = (0..300).map(|_| dice.secret()).collect();
    secrets.extend(
        [
            "pa ss#wo~rd",
            "#leading-123",
            "~tilde/12345",
            "a,b;c{d}e^f",
            "bell\u{7}esc\u{1b}[0m",
            "grün\tund\nblau",
            "q'uo\"te\\s!",
        ]
        .map(str::to_owned),
    );
    for locale in ["C", "C.UTF-8"] {
        let Some(quoted) = quoted_by_bash(&secrets, locale) else {
            return;
        };
        assert_eq!(quoted.len(), 2 * secrets.len());
        for (secret, forms) in secrets.iter().zip(quoted.chunks(2)) {
            let masker = Masker::new([(Label::Secret("S".into()), secret.clone())]);
            for form in forms {
                let masked = masker.mask(form);
                let left = masked.replace("[secret S]", "");
                assert!(
                    ["", "''", "$''"].contains(&left.as_str()),
                    "{form} of {secret:?}: {masked}"
                );
            }
        }
    }
}

#[test]
fn values_quoted_by_other_programs_are_masked() {
    let secret = "pa:ss-w=o~r#d/1.2 é\"x";
    let masker = Masker::new([(Label::Secret("S".into()), secret.to_owned())]);
    for form in [
        // Ruby's Shellwords, Perl's quotemeta, Python's re.escape, git's file names.
        r#"pa:ss-w\=o\~r\#d/1.2\ é\"x"#,
        r#"pa\:ss\-w\=o\~r\#d\/1\.2\ é\"x"#,
        r#"pa:ss\-w=o\~r\#d/1\.2\ é"x"#,
        r#"pa:ss-w=o~r#d/1.2 \303\251\"x"#,
    ] {
        assert_eq!(masker.mask(form), "[secret S]", "{form}");
    }
}
