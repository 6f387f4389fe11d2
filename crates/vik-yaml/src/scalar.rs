//! Scalars of YAML 1.2, core schema.

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text,
}

/// Returns the value of an unquoted text: `yes` and `on` are texts.
pub(crate) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        _ => {}
    }
    let (negative, unsigned) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let sign = if negative { -1.0 } else { 1.0 };
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Value::Float(sign * f64::INFINITY);
    }
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix)
            && !digits.starts_with('+')
            && let Ok(number) = i128::from_str_radix(digits, radix)
        {
            return Value::Int(number);
        }
    }
    let is_number = unsigned
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
        && unsigned
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_digit() || b == b'.')
        && unsigned.bytes().any(|b| b.is_ascii_digit());
    if !is_number {
        return Value::Text;
    }
    if unsigned.bytes().all(|b| b.is_ascii_digit())
        && let Ok(number) = unsigned.parse::<i128>()
    {
        return Value::Int(if negative { -number } else { number });
    }
    unsigned
        .parse::<f64>()
        .map_or(Value::Text, |number| Value::Float(sign * number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_read_as_yaml_1_2_reads_them() {
        for (text, value) in [
            ("", Value::Null),
            ("~", Value::Null),
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("FALSE", Value::Bool(false)),
            ("yes", Value::Text),
            ("on", Value::Text),
            ("10", Value::Int(10)),
            ("-3", Value::Int(-3)),
            ("+3", Value::Int(3)),
            ("007", Value::Int(7)),
            ("0o17", Value::Int(15)),
            ("0x1F", Value::Int(31)),
            ("0x", Value::Text),
            ("0x+1", Value::Text),
            ("1.0", Value::Float(1.0)),
            (".5", Value::Float(0.5)),
            ("-1e3", Value::Float(-1000.0)),
            ("-.inf", Value::Float(f64::NEG_INFINITY)),
            (".", Value::Text),
            ("-", Value::Text),
            ("1_000", Value::Text),
            ("1.2.3", Value::Text),
            ("5m", Value::Text),
            ("inf", Value::Text),
            ("12:30", Value::Text),
            ("2026-01-01", Value::Text),
            ("é", Value::Text),
        ] {
            assert_eq!(resolve(text), value, "{text}");
        }
    }
}
