//! Unpaired surrogates in JSON. Servers that cut texts by UTF-16 units send `\ud83d` in one event
//! and `\ude00` in the next; neither is a character, and no parser accepts them.

use std::borrow::Cow;

/// Returns the same JSON with each unpaired surrogate replaced by the replacement character.
pub(super) fn well_formed(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut mended = String::new();
    let mut kept = 0;
    let mut at = 0;
    while let Some(found) = bytes
        .get(at..)
        .and_then(|tail| tail.iter().position(|&byte| byte == b'\\'))
    {
        let start = at + found;
        // An escape has two bytes, or six; if it has neither, the parser reports it.
        at = start + 2;
        let Some(unit) = unit(bytes, start) else { continue };
        at = start + 6;
        let lone = match unit {
            0xd800..=0xdbff if matches!(self::unit(bytes, at), Some(0xdc00..=0xdfff)) => {
                at += 6;
                false
            }
            0xd800..=0xdfff => true,
            _ => false,
        };
        if lone {
            mended += &json[kept..start];
            mended += "\\ufffd";
            kept = at;
        }
    }
    if kept == 0 {
        return Cow::Borrowed(json);
    }
    mended += &json[kept..];
    Cow::Owned(mended)
}

/// Returns the UTF-16 unit written as `\uXXXX` here.
fn unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, &digit| {
        Some(unit * 16 + char::from(digit).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrogate_halves_alone_are_replaced() {
        for whole in [
            "",
            "plain ü \u{1f600}",
            r#"{"a":"\ud83d\ude00 \u00fc \n \\ud83d \\\\"}"#,
            r"\",
            r"\u",
            r"\u12",
            r"\uXYZW",
            r"\u+123",
        ] {
            assert!(matches!(well_formed(whole), Cow::Borrowed(_)), "{whole}");
        }
        for (broken, mended) in [
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\uDE00x""#, r#""\ufffdx""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""ü\ud83d\n\\\ude00ü""#, r#""ü\ufffd\n\\\ufffdü""#),
        ] {
            assert_eq!(well_formed(broken), mended);
            assert!(serde_json::from_str::<String>(broken).is_err());
            assert!(serde_json::from_str::<String>(mended).is_ok());
        }
    }
}
