//! Prices and context sizes of well-known models: `prices.toml`. The settings override this table.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::protocol::ToolCalls;
use crate::conversation::Usage;

/// The settings of a model. Absent values come from the built-in table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// The maximum number of tokens of a request and its answer together.
    pub context_window: Option<u64>,
    /// The maximum number of tokens of an answer.
    pub max_output_tokens: Option<u32>,
    /// USD per million input tokens.
    pub input: Option<f64>,
    /// USD per million input tokens read from the cache; default: `input`.
    pub cached_input: Option<f64>,
    /// USD per million input tokens written to the cache; default: `input`.
    pub cache_write: Option<f64>,
    /// USD per million output tokens.
    pub output: Option<f64>,
    /// The maximum number of thinking tokens, for models of the protocol messages that accept a budget.
    pub thinking_budget: Option<u32>,
    /// How the model calls tools; default: by the size in its name.
    pub tool_calls: Option<ToolCalls>,
    /// Additional fields of each request, with the names of the provider.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// Millionths of a USD for a million tokens: integers, so that sums are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Price {
    #[serde(deserialize_with = "in_millionths")]
    input: u64,
    #[serde(rename = "cached_input", deserialize_with = "in_millionths")]
    cached: u64,
    #[serde(rename = "cache_write", deserialize_with = "in_millionths")]
    write: u64,
    #[serde(deserialize_with = "in_millionths")]
    output: u64,
    long: Option<Surcharge>,
}

/// The surcharge for a long request, which applies to the whole of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Surcharge {
    /// The largest number of input tokens without it.
    from: u64,
    /// The factor for input and cache, in millionths.
    #[serde(deserialize_with = "in_millionths")]
    input: u64,
    /// The factor for the output, in millionths.
    #[serde(deserialize_with = "in_millionths")]
    output: u64,
}

impl Price {
    /// Returns the cost of one request, in USD.
    pub fn cost(&self, usage: Usage) -> f64 {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let write = usage.cache_write_input_tokens.min(usage.input_tokens - cached);
        let fresh = usage.input_tokens - cached - write;
        let part = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let mut input = part(fresh, self.input) + part(cached, self.cached) + part(write, self.write);
        let mut output = part(usage.output_tokens, self.output);
        if let Some(long) = self.long.filter(|long| usage.input_tokens > long.from) {
            input = input * u128::from(long.input) / 1_000_000;
            output = output * u128::from(long.output) / 1_000_000;
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "a double has 15 digits, a bill does not"
        )]
        let picodollars = (input + output) as f64;
        picodollars / 1e12
    }
}

/// Facts about a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The maximum tokens of a request and its answer together.
    pub context_window: Option<u64>,
    /// The maximum tokens of an answer.
    pub max_output_tokens: Option<u32>,
    pub price: Option<Price>,
}

/// A row of the table.
#[derive(Deserialize)]
struct Row {
    context_window: u64,
    max_output_tokens: u32,
    #[serde(flatten)]
    price: Price,
}

const TABLE: &str = include_str!("prices.toml");

/// The rows by the plain name of their model. A test reads the embedded text, so it is never
/// invalid here.
static ROWS: LazyLock<BTreeMap<String, Row>> = LazyLock::new(|| toml::from_str(TABLE).unwrap_or_default());

/// Returns the facts about a model: from the settings, else from the table. Prices of the settings
/// apply only if both the input and the output have one.
pub fn facts(model: &str, configured: &BTreeMap<String, ModelConfig>) -> Facts {
    let row = ROWS.get(&plain_name(model));
    let config = configured.get(model).cloned().unwrap_or_default();
    let own_price = config.input.zip(config.output).map(|(input, output)| Price {
        input: millionths(input),
        cached: millionths(config.cached_input.unwrap_or(input)),
        write: millionths(config.cache_write.unwrap_or(input)),
        output: millionths(output),
        long: None,
    });
    Facts {
        context_window: config.context_window.or(row.map(|row| row.context_window)),
        max_output_tokens: config.max_output_tokens.or(row.map(|row| row.max_output_tokens)),
        price: own_price.or(row.map(|row| row.price)),
    }
}

fn in_millionths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    f64::deserialize(deserializer).map(millionths)
}

fn millionths(usd: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float takes the nearest that fits, and none is below 0"
    )]
    let whole = (usd * 1e6).round() as u64;
    whole
}

/// Returns a name without its vendor prefix and date suffix, dots as dashes:
/// `anthropic/claude-sonnet-4.5` and `claude-sonnet-4-5-20250929` are one model.
fn plain_name(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model).replace('.', "-");
    let name = name.strip_suffix("-latest").unwrap_or(&name);
    let is_digits =
        |text: &str, length: usize| text.len() == length && text.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = name.split('-').collect();
    let undated = match parts[..] {
        [.., date] if is_digits(date, 8) => parts.len() - 1,
        [.., year, month, day] if is_digits(year, 4) && is_digits(month, 2) && is_digits(day, 2) => {
            parts.len() - 3
        }
        _ => parts.len(),
    };
    parts[..undated].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn known(model: &str) -> Facts {
        facts(model, &BTreeMap::new())
    }

    fn usage(input: u64, cached: u64, write: u64, output: u64) -> Usage {
        Usage {
            input_tokens: input,
            cached_input_tokens: cached,
            cache_write_input_tokens: write,
            output_tokens: output,
        }
    }

    #[test]
    fn request_cost_is_the_sum_of_its_parts() {
        let price = known("claude-sonnet-4-5").price.unwrap();
        // 1000 fresh at 3, 7000 cached at 0.30, 2000 written at 3.75, 500 out at 15.
        let cost = price.cost(usage(10_000, 7_000, 2_000, 500));
        assert_eq!(cost, 0.0201);
        assert_eq!(price.cost(Usage::default()), 0.0);
        // Impossible figures of a provider cost no more than all of the input.
        assert_eq!(price.cost(usage(10, 100, 100, 0)), 0.000_003);
    }

    #[test]
    fn long_request_has_the_higher_price() {
        let price = known("gpt-6-sol").price.unwrap();
        assert_eq!(price.cost(usage(272_000, 0, 0, 1000)), 0.554);
        assert_eq!(price.cost(usage(273_000, 0, 0, 1000)), 1.107);
        let haiku = known("claude-haiku-5-5").price.unwrap();
        assert_eq!(haiku.cost(usage(200_000, 0, 0, 1000)), 0.1025);
    }

    #[test]
    fn model_name_variants_share_one_price() {
        let sonnet = known("claude-sonnet-4-5");
        for name in [
            "claude-sonnet-4-5-20250929",
            "anthropic/claude-sonnet-4.5",
            "claude-sonnet-4-5-latest",
        ] {
            assert_eq!(known(name), sonnet, "{name}");
        }
        assert_eq!(known("gpt-5.2-2025-12-11"), known("gpt-5.2"));
        assert_eq!(known("gpt-5.2-unheard-of"), Facts::default());
        assert_ne!(known("gpt-5-mini").price, known("gpt-5").price);
    }

    #[test]
    fn price_table_can_be_read() {
        let rows: BTreeMap<String, Row> = toml::from_str(TABLE).unwrap();
        let lines = TABLE.lines().filter(|line| line.contains(" = "));
        assert_eq!(rows.len(), lines.count());
        for (name, row) in rows {
            assert_eq!(plain_name(&name), name);
            let price = row.price;
            assert!(
                price.cached <= price.input && price.input < price.output,
                "{name}"
            );
            assert!(u64::from(row.max_output_tokens) < row.context_window, "{name}");
        }
    }

    #[test]
    fn settings_override_the_price_table() {
        let text = "['gpt-5.2']\ncontext_window = 9\n[mine]\ninput = 0.175\noutput = 2\n[half]\ninput = 1";
        let configured: BTreeMap<String, ModelConfig> = toml::from_str(text).unwrap();
        let gpt = facts("gpt-5.2", &configured);
        assert_eq!((gpt.context_window, gpt.price), (Some(9), known("gpt-5.2").price));
        let mine = facts("mine", &configured).price.unwrap();
        assert_eq!(mine.cost(usage(1_000_000, 500_000, 0, 1_000_000)), 2.175);
        assert_eq!(facts("half", &configured).price, None);
    }

    proptest! {
        /// The cost of all requests together is the sum of their costs, to the last digit of a
        /// double.
        #[test]
        fn costs_of_requests_add_up(parts in prop::collection::vec((0_u64..100_000, 0_u64..50_000, 0_u64..50_000, 0_u64..10_000), 1..50)) {
            let price = known("claude-opus-5-5").price.unwrap();
            let mut all = Usage::default();
            let mut sum = 0.0;
            for (fresh, cached, write, output) in parts {
                let one = usage(fresh + cached + write, cached, write, output);
                sum += price.cost(one);
                all.add(one);
            }
            prop_assert!((price.cost(all) - sum).abs() < 1e-12);
        }
    }
}
