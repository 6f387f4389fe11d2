//! Amounts: money, tokens, memory, and limits on them.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use vik_core::money::MicroUsd;
use vik_yaml::{Diagnostic, Node, Value};

use super::decode::{Cx, Decode};
use super::text::quoted;
use super::values::Whole;

/// The maximum of one limit: a larger number is a mistake.
const MAX_USD: u32 = 1_000_000;
const MAX_TOKENS: u64 = 1_000_000_000_000;

/// A number of tokens, possibly zero.
pub(crate) type Tokens = Whole<0, MAX_TOKENS>;
/// A limit on tokens.
pub(crate) type TokenLimit = Limit<MAX_TOKENS>;
/// A limit on concurrency.
pub(crate) type SlotLimit = Limit<{ u32::MAX as u64 }>;

fn number(node: &Node, cx: &mut Cx<'_>) -> Option<f64> {
    let wanted = "a number";
    match cx.scalar(node, wanted)?.value {
        Value::Int(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => {
            cx.wrong_type(node, wanted);
            None
        }
    }
}

fn out_of_range(node: &Node, cx: &Cx<'_>, message: impl Into<String>) -> Diagnostic {
    cx.error("out_of_range", node, message)
}

/// Reports a limit of zero: nothing could run, and no limit is written as `null`.
fn zero(node: &Node, cx: &mut Cx<'_>) {
    let diagnostic = out_of_range(node, cx, "a limit cannot be zero");
    cx.sink
        .push(diagnostic.hint("write `null` for no limit, or use `vik pause` to stop all work"));
}

/// A price: finite and not negative.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Amount(pub(crate) f64);

impl Decode for Amount {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let number = number(node, cx)?;
        if !number.is_finite() || number < 0.0 {
            let diagnostic = out_of_range(node, cx, "expected a finite number that is not negative");
            cx.sink.push(diagnostic);
            return None;
        }
        // A negative zero becomes zero.
        Some(Self(number.abs()))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0 })
    }
}

/// An amount of money in dollars.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usd(pub(crate) MicroUsd);

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.usd())
    }
}

impl Decode for Usd {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let usd = Amount::decode(node, cx)?.0;
        let micros = (usd * 1e6).round();
        let wrong = if usd > f64::from(MAX_USD) {
            Some(format!("expected at most {MAX_USD} (USD)"))
        } else if usd > 0.0 && micros < 1.0 {
            Some("expected at least one millionth of a dollar".to_owned())
        } else {
            None
        };
        if let Some(message) = wrong {
            let diagnostic = out_of_range(node, cx, message);
            cx.sink.push(diagnostic);
            return None;
        }
        // Within bounds, so the cast is exact.
        Some(Self(MicroUsd(micros as u64)))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": MAX_USD })
    }
}

/// A limit on money.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsdLimit(pub(crate) MicroUsd);

impl Decode for UsdLimit {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let Usd(usd) = Usd::decode(node, cx)?;
        if usd == MicroUsd(0) {
            zero(node, cx);
            return None;
        }
        Some(Self(usd))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "exclusiveMinimum": 0, "maximum": MAX_USD })
    }
}

/// A limit in whole numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit<const MAX: u64>(pub(crate) u64);

impl SlotLimit {
    pub(crate) fn get(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl<const MAX: u64> Decode for Limit<MAX> {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let Whole(number) = Whole::<0, MAX>::decode(node, cx)?;
        if number == 0 {
            zero(node, cx);
            return None;
        }
        Some(Self(number))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        Whole::<1, MAX>::schema(generator)
    }
}

/// The number of attempts for one issue: never unlimited.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Attempts(pub(crate) u32);

impl Attempts {
    const MAX: u32 = 100_000;
}

impl Decode for Attempts {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let Whole(number) = Whole::<0, { Self::MAX as u64 }>::decode(node, cx)?;
        if number == 0 {
            let diagnostic = out_of_range(node, cx, "a limit cannot be zero");
            cx.sink
                .push(diagnostic.hint("use `vik pause` to stop all work; the default is 15"));
            return None;
        }
        u32::try_from(number).map_or(None, |number| Some(Self(number)))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        Whole::<1, { Self::MAX as u64 }>::schema(generator)
    }
}

/// A percentage above zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percent(pub(crate) f64);

impl Decode for Percent {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let number = number(node, cx)?;
        if number > 0.0 && number <= 100.0 {
            return Some(Self(number));
        }
        let diagnostic = out_of_range(node, cx, "expected a percentage above 0 and at most 100");
        cx.sink.push(diagnostic);
        None
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "exclusiveMinimum": 0, "maximum": 100 })
    }
}

/// A number of bytes above zero: `512MiB`, `2GiB`, or bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory(pub(crate) u64);

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
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let scalar = cx.scalar(node, "an amount of bytes")?;
        let bytes = match scalar.value {
            Value::Int(number) => u64::try_from(number).ok().filter(|bytes| *bytes <= 1 << 50),
            _ => memory(&scalar.text),
        };
        match bytes {
            Some(0) => zero(node, cx),
            Some(bytes) => return Some(Self(bytes)),
            None => {
                let message = format!("invalid amount of bytes {}", quoted(&scalar.text));
                let diagnostic = cx
                    .error("bad_size", node, message)
                    .hint("write `512MiB`, `2GiB`, or a number of bytes");
                cx.sink.push(diagnostic);
            }
        }
        None
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
