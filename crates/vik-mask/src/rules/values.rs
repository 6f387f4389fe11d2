//! The values that look like secrets.

use super::find;

/// Returns whether the value of a secret name is a secret. `plain` states that only a value can be
/// in its place.
pub(crate) fn secret_value(value: &[u8], plain: bool) -> bool {
    let template = matches!(
        value.first(),
        None | Some(b'$' | b'{' | b'[' | b'<' | b'%' | b'*')
    );
    let inner = [b"${".as_slice(), b"{{", b"://", b"::"];
    if template || value.len() < 16 || inner.iter().any(|mark| find(value, mark).is_some()) {
        return false;
    }
    random(value)
        || aws_secret(value)
        || (plain && is_base64_run(value) && value.iter().any(u8::is_ascii_digit) && entropy(value) >= 3.3)
}

/// Returns the end of the last Base64 text that is long enough for a line of a key.
pub(super) fn last_base64_end(text: &[u8]) -> Option<usize> {
    let mut end = None;
    let mut at = 0;
    while at < text.len() {
        let length = run(&text[at..], base64);
        if length >= 24 && mixed(&text[at..at + length]) {
            end = Some(at + length);
        }
        at += length.max(1);
    }
    end
}

/// Returns the number of leading bytes of a class.
pub(super) fn run(text: &[u8], class: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|byte| !class(*byte)).unwrap_or(text.len())
}

/// Returns the value without the full stop of a sentence.
pub(super) fn trimmed(value: &[u8]) -> &[u8] {
    let end = value
        .iter()
        .rposition(|byte| !matches!(byte, b'.' | b':' | b'!' | b'?'))
        .map_or(0, |last| last + 1);
    &value[..end]
}

pub(super) fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

pub(crate) fn identifier(byte: u8) -> bool {
    alphanumeric(byte) || byte == b'_'
}

pub(crate) fn dashed(byte: u8) -> bool {
    identifier(byte) || byte == b'-'
}

pub(super) fn dotted(byte: u8) -> bool {
    dashed(byte) || byte == b'.'
}

pub(super) fn base64(byte: u8) -> bool {
    alphanumeric(byte) || b"+/=".contains(&byte)
}

/// Returns whether the text contains digits or capitals, unlike words joined by dashes.
pub(super) fn mixed(value: &[u8]) -> bool {
    value
        .iter()
        .any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

pub(super) fn slack(tail: &[u8]) -> bool {
    tail.len() >= 10 && tail.iter().any(u8::is_ascii_digit)
}

pub(super) fn aws_id(tail: &[u8]) -> bool {
    tail.len() == 16
        && tail
            .iter()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

pub(super) fn jwt(tail: &[u8]) -> bool {
    let mut parts = tail.split(|byte| *byte == b'.');
    let long = |part: Option<&[u8]>| part.is_some_and(|part| part.len() >= 8);
    long(parts.next()) && long(parts.next()) && parts.next().is_some() && parts.next().is_none()
}

pub(super) fn bearer(value: &[u8]) -> bool {
    value.len() >= 16 && value.iter().any(u8::is_ascii_digit)
}

pub(super) fn basic(value: &[u8]) -> bool {
    value.len() >= 8 && value.iter().all(|byte| base64(*byte)) && (value.ends_with(b"=") || random(value))
}

/// Returns whether the text has the form of a secret key of AWS.
fn aws_secret(value: &[u8]) -> bool {
    value.len() == 40
        && value.iter().all(|byte| base64(*byte))
        && value.iter().any(u8::is_ascii_digit)
        && value.iter().any(u8::is_ascii_uppercase)
        && entropy(value) >= 4.0
}

/// Returns whether the text is one run of letters and digits as in Base64, and not joined words.
fn is_base64_run(value: &[u8]) -> bool {
    value.iter().all(|byte| base64(*byte))
        && value.iter().any(u8::is_ascii_alphabetic)
        && !value[..value.len() - 1].contains(&b'/')
}

/// Returns whether the characters look random: digits, capitals and small letters alternate
/// frequently.
fn random(value: &[u8]) -> bool {
    let changes = value
        .windows(2)
        .filter(|pair| {
            let digit = |byte: u8| byte.is_ascii_digit();
            let letter = |byte: u8| byte.is_ascii_alphabetic();
            (digit(pair[0]) && letter(pair[1]))
                || (letter(pair[0]) && digit(pair[1]))
                || (pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        })
        .count();
    value.len() >= 16
        && value.iter().any(u8::is_ascii_digit)
        && changes * 4 >= value.len()
        && entropy(value) >= 3.0
}

/// Returns the entropy in bits for each byte.
fn entropy(value: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value {
        counts[usize::from(*byte)] += 1;
    }
    let length = value.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = f64::from(*count) / length;
            -share * share.log2()
        })
        .sum()
}
