//! Amounts: money, tokens, memory, and limits on them.

use std::marker::PhantomData;

use schemars::{Schema, SchemaGenerator, json_schema};
use vik_core::money::MicroUsd;
use vik_yaml::{Diagnostic, Node, Value};

use super::decode::{Cx, Decode};
use super::values::Whole;

/// The maximum of one limit: a larger number is a mistake.
const MAX_USD: u32 = 1_000_000;
const MAX_TOKENS: u64 = 1_000_000_000_000;

/// A number of tokens, possibly zero.
pub(crate) type Tokens = Whole<u64, 0, MAX_TOKENS>;
/// A limit on tokens.
pub(crate) type TokenLimit = Limit<u64, MAX_TOKENS>;
/// A limit on concurrency.
pub(crate) type SlotLimit = Limit<u32, { u32::MAX as u64 }>;

fn number(node: &Node, cx: &mut Cx<'_>) -> Option<f64> {
    let wanted = "a number";
    match cx.scalar(node, wanted)?.value {
        Value::Int(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => cx.wrong_type(node, wanted),
    }
}

fn out_of_range(node: &Node, cx: &Cx<'_>, message: impl Into<String>) -> Diagnostic {
    cx.error("out_of_range", node, message)
}

/// Reports a limit of zero: nothing could run, and no limit is written as `null`.
fn zero<T>(node: &Node, cx: &mut Cx<'_>) -> Option<T> {
    let diagnostic = out_of_range(node, cx, "a limit cannot be zero");
    cx.refuse(diagnostic.hint("write `null` for no limit, or use `vik pause` to stop all work"))
}

/// A price: finite and not negative.
pub(crate) struct Amount;

impl Decode for Amount {
    type Value = f64;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<f64> {
        let number = number(node, cx)?;
        if !number.is_finite() || number < 0.0 {
            return cx.refuse(out_of_range(
                node,
                cx,
                "expected a finite number that is not negative",
            ));
        }
        // A negative zero becomes zero.
        Some(number.abs())
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0 })
    }
}

/// An amount of money in dollars.
pub(crate) struct Usd;

impl Decode for Usd {
    type Value = MicroUsd;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<MicroUsd> {
        let usd = Amount::decode(node, cx)?;
        let micros = (usd * 1e6).round();
        let wrong = if usd > f64::from(MAX_USD) {
            Some(format!("expected at most {MAX_USD} (USD)"))
        } else if usd > 0.0 && micros < 1.0 {
            Some("expected at least one millionth of a dollar".to_owned())
        } else {
            None
        };
        if let Some(message) = wrong {
            return cx.refuse(out_of_range(node, cx, message));
        }
        // Within bounds, so the cast is exact.
        Some(MicroUsd(micros as u64))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": MAX_USD })
    }

    fn as_written(default: &MicroUsd) -> Option<serde_json::Value> {
        Some(default.usd().into())
    }
}

/// A limit on money.
pub(crate) struct UsdLimit;

impl Decode for UsdLimit {
    type Value = MicroUsd;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<MicroUsd> {
        let usd = Usd::decode(node, cx)?;
        if usd == MicroUsd(0) {
            return zero(node, cx);
        }
        Some(usd)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "exclusiveMinimum": 0, "maximum": MAX_USD })
    }
}

/// A limit in whole numbers.
pub(crate) struct Limit<T, const MAX: u64>(PhantomData<T>);

impl<T: TryFrom<u64>, const MAX: u64> Decode for Limit<T, MAX> {
    type Value = T;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<T> {
        match Whole::<u64, 0, MAX>::decode(node, cx)? {
            0 => zero(node, cx),
            number => T::try_from(number).ok(),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        Whole::<T, 1, MAX>::schema(generator)
    }
}

/// The number of attempts for one issue: never unlimited.
pub(crate) struct Attempts;

impl Attempts {
    const MAX: u32 = 100_000;
}

impl Decode for Attempts {
    type Value = u32;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<u32> {
        let number = Whole::<u32, 0, { Self::MAX as u64 }>::decode(node, cx)?;
        if number == 0 {
            return cx.refuse(
                out_of_range(node, cx, "a limit cannot be zero")
                    .hint("use `vik pause` to stop all work; the default is 15"),
            );
        }
        Some(number)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        Whole::<u32, 1, { Self::MAX as u64 }>::schema(generator)
    }
}

/// A percentage above zero.
pub(crate) struct Percent;

impl Decode for Percent {
    type Value = f64;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<f64> {
        let number = number(node, cx)?;
        if number > 0.0 && number <= 100.0 {
            return Some(number);
        }
        cx.refuse(out_of_range(
            node,
            cx,
            "expected a percentage above 0 and at most 100",
        ))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "exclusiveMinimum": 0, "maximum": 100 })
    }
}

/// A number of bytes above zero: `512MiB`, `2GiB`, or bytes.
pub(crate) struct Memory;

const MEMORY_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Returns `None` if the text is no amount of bytes, or one that no machine has.
fn memory(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim_start();
    let (_, factor) = MEMORY_UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor).filter(|bytes| *bytes <= 1 << 50)
}

impl Decode for Memory {
    type Value = u64;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<u64> {
        let scalar = cx.scalar(node, "an amount of bytes")?;
        let bytes = match scalar.value {
            Value::Int(number) => u64::try_from(number).ok().filter(|bytes| *bytes <= 1 << 50),
            _ => memory(&scalar.text),
        };
        match bytes {
            Some(0) => zero(node, cx),
            Some(bytes) => Some(bytes),
            None => {
                let hint = "write `512MiB`, `2GiB`, or a number of bytes";
                cx.refuse_text("bad_size", node, ("invalid amount of bytes", &scalar.text), hint)
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "pattern": r"^[0-9]+ *([KMGT]iB|[kKMGT]?B)$",
            "minimum": 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_written_with_a_unit() {
        for (text, bytes) in [
            ("512MiB", Some(512 << 20)),
            ("2 GiB", Some(2 << 30)),
            ("1kB", Some(1000)),
            ("7B", Some(7)),
            ("7", None),
            ("GiB", None),
            ("-1GiB", None),
            ("1.5GiB", None),
            ("1gib", None),
            ("99999999999TiB", None),
            ("1025TiB", None),
            ("é", None),
        ] {
            assert_eq!(memory(text), bytes, "{text}");
        }
    }
}
