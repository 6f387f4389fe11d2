//! Prices and context sizes of well-known models. The settings override this table.
//!
//! As the providers published them on 2026-11-22, standard service, USD for a million tokens.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// How the model calls tools.
    pub tool_calls: ToolCalls,
    /// Additional fields of each request, with the names of the provider.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// Millionths of a USD for a million tokens: integers, so that sums are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    input: u64,
    cached: u64,
    write: u64,
    output: u64,
    /// The number of input tokens from which on another price applies to the whole request, and
    /// that price.
    long: Option<(u64, Factor)>,
}

/// The surcharge for a long request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Factor {
    /// Twice for input and cache, one and a half times for output.
    DoubleInput,
    /// Five times for all.
    FiveTimes,
}

impl Price {
    /// Creates a price, in thousandths of a USD.
    const fn of(input: u64, cached: u64, write: u64, output: u64) -> Self {
        Self {
            input: input * 1000,
            cached: cached * 1000,
            write: write * 1000,
            output: output * 1000,
            long: None,
        }
    }

    const fn long(self, from: u64, factor: Factor) -> Self {
        Self {
            long: Some((from, factor)),
            ..self
        }
    }

    /// Returns the cost of one request, in USD.
    pub fn cost(&self, usage: Usage) -> f64 {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let write = usage.cache_write_input_tokens.min(usage.input_tokens - cached);
        let fresh = usage.input_tokens - cached - write;
        let part = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let mut input = part(fresh, self.input) + part(cached, self.cached) + part(write, self.write);
        let mut output = part(usage.output_tokens, self.output);
        match self.long {
            Some((from, Factor::DoubleInput)) if usage.input_tokens > from => {
                input *= 2;
                output = output * 3 / 2;
            }
            Some((from, Factor::FiveTimes)) if usage.input_tokens > from => {
                input *= 5;
                output *= 5;
            }
            _ => {}
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

const K: u64 = 1000;
const LONG: u64 = 272 * K;

/// Name, context window, longest answer, price.
#[rustfmt::skip]
const TABLE: &[(&str, u64, u32, Price)] = &[
    ("claude-fable-5-1",   1000 * K, 128_000, Price::of(10_000, 250, 12_500, 50_000)),
    ("claude-fable-5",     1000 * K, 128_000, Price::of(10_000, 1_000, 12_500, 50_000)),
    ("claude-opus-5-5",    1000 * K, 128_000, Price::of(4_000, 200, 5_000, 20_000)),
    ("claude-opus-5",      1000 * K, 128_000, Price::of(5_000, 500, 6_250, 25_000)),
    ("claude-opus-4-8",    1000 * K, 128_000, Price::of(5_000, 500, 6_250, 25_000)),
    ("claude-opus-4-7",    1000 * K, 128_000, Price::of(5_000, 500, 6_250, 25_000)),
    ("claude-opus-4-6",    1000 * K, 128_000, Price::of(5_000, 500, 6_250, 25_000)),
    ("claude-opus-4-5",     200 * K,  64_000, Price::of(5_000, 500, 6_250, 25_000)),
    ("claude-opus-4-1",     200 * K,  32_000, Price::of(15_000, 1_500, 18_750, 75_000)),
    ("claude-sonnet-5-5",  1000 * K, 128_000, Price::of(2_000, 100, 2_500, 10_000)),
    ("claude-sonnet-5",    1000 * K, 128_000, Price::of(2_000, 200, 2_500, 10_000)),
    ("claude-sonnet-4-6",  1000 * K,  64_000, Price::of(3_000, 300, 3_750, 15_000)),
    ("claude-sonnet-4-5",   200 * K,  64_000, Price::of(3_000, 300, 3_750, 15_000)),
    ("claude-haiku-5-5",   1000 * K, 128_000, Price::of(100, 10, 125, 500).long(100 * K, Factor::FiveTimes)),
    ("claude-haiku-4-5",    200 * K,  64_000, Price::of(1_000, 100, 1_250, 5_000)),
    ("gpt-6-2-sol",        1050 * K, 128_000, Price::of(2_000, 100, 2_500, 10_000).long(LONG, Factor::DoubleInput)),
    ("gpt-6-1-sol",        1050 * K, 128_000, Price::of(2_000, 100, 2_500, 10_000).long(LONG, Factor::DoubleInput)),
    ("gpt-6-sol",          1050 * K, 128_000, Price::of(2_000, 200, 2_500, 10_000).long(LONG, Factor::DoubleInput)),
    ("gpt-6-luna",         1050 * K, 128_000, Price::of(100, 10, 125, 500).long(LONG, Factor::DoubleInput)),
    ("gpt-6-astra",        1050 * K, 128_000, Price::of(10_000, 1_000, 12_500, 50_000).long(LONG, Factor::DoubleInput)),
    ("gpt-5-5",            1050 * K, 128_000, Price::of(5_000, 500, 5_000, 30_000).long(LONG, Factor::DoubleInput)),
    ("gpt-5-4",            1050 * K, 128_000, Price::of(2_500, 250, 2_500, 15_000).long(LONG, Factor::DoubleInput)),
    ("gpt-5-4-mini",        400 * K, 128_000, Price::of(750, 75, 750, 4_500)),
    ("gpt-5-4-nano",        400 * K, 128_000, Price::of(200, 20, 200, 1_250)),
    ("gpt-5-3-codex",       400 * K, 128_000, Price::of(1_750, 175, 1_750, 14_000)),
    ("gpt-5-2-codex",       400 * K, 128_000, Price::of(1_750, 175, 1_750, 14_000)),
    ("gpt-5-2",             400 * K, 128_000, Price::of(1_750, 175, 1_750, 14_000)),
    ("gpt-5-1-codex",       400 * K, 128_000, Price::of(1_250, 125, 1_250, 10_000)),
    ("gpt-5-1",             400 * K, 128_000, Price::of(1_250, 125, 1_250, 10_000)),
    ("gpt-5",               400 * K, 128_000, Price::of(1_250, 125, 1_250, 10_000)),
    ("gpt-5-mini",          400 * K, 128_000, Price::of(250, 25, 250, 2_000)),
];

/// Returns the facts about a model: from the settings, else from the table. Prices of the settings
/// apply only if both the input and the output have one.
pub fn facts(model: &str, configured: &BTreeMap<String, ModelConfig>) -> Facts {
    let plain = plain_name(model);
    let row = TABLE.iter().find(|row| row.0 == plain);
    let config = configured.get(model).cloned().unwrap_or_default();
    let own_price = config.input.zip(config.output).map(|(input, output)| Price {
        input: millionths(input),
        cached: millionths(config.cached_input.unwrap_or(input)),
        write: millionths(config.cache_write.unwrap_or(input)),
        output: millionths(output),
        long: None,
    });
    Facts {
        context_window: config.context_window.or(row.map(|row| row.1)),
        max_output_tokens: config.max_output_tokens.or(row.map(|row| row.2)),
        price: own_price.or(row.map(|row| row.3)),
    }
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
        let mut names: Vec<&str> = TABLE.iter().map(|row| row.0).collect();
        assert!(names.iter().all(|name| plain_name(name) == *name));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len());
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
