//! Formats numbers of tokens and amounts of money.

use vik_core::outcome::CostSource;

/// Formats a cost with its estimated part, or a dash if it is unknown.
///
/// # Examples
///
/// ```
/// use vik_text::cost_text;
///
/// assert_eq!(cost_text(Some(1.7), 0.5), "$1.20 + ~$0.50 estimated");
/// assert_eq!(cost_text(None, 0.0), "-");
/// ```
pub fn cost_text(usd: Option<f64>, estimated_usd: f64) -> String {
    let money = |usd: f64| {
        if usd > 0.0 && usd < 0.01 {
            format!("${usd:.4}")
        } else {
            format!("${usd:.2}")
        }
    };
    // Sums of fractions are not exact: less than a millionth counts as zero.
    const NOTHING: f64 = 5e-7;
    match usd {
        None => "-".to_owned(),
        Some(usd) if estimated_usd < NOTHING => money(usd),
        Some(usd) if usd - estimated_usd < NOTHING => format!("~{} estimated", money(estimated_usd)),
        Some(usd) => format!(
            "{} + ~{} estimated",
            money(usd - estimated_usd),
            money(estimated_usd)
        ),
    }
}

/// Formats a cost, or a dash if it is unknown.
pub fn cost(usd: Option<f64>) -> String {
    cost_text(usd, 0.0)
}

/// Formats the cost of one attempt with its source, or a dash if it is unknown.
pub fn attempt_cost(usd: Option<f64>, source: CostSource) -> String {
    match source {
        CostSource::Estimate => cost_text(usd, usd.unwrap_or_default()),
        CostSource::Price => format!("{} (price)", cost(usd)),
        CostSource::None | CostSource::Reported => cost(usd),
    }
}

/// Formats a number, as in `12.3k`.
pub fn short(number: u64) -> String {
    // A number that would be rounded to 1000 of a unit has the next unit.
    match number {
        n if n < 1_000 => n.to_string(),
        n if n < 999_950 => format!("{:.1}k", n as f64 / 1e3),
        n if n < 999_950_000 => format!("{:.1}M", n as f64 / 1e6),
        n => format!("{:.1}G", n as f64 / 1e9),
    }
}

/// Formats a number of tokens, as in `12.3k`, or a dash for none.
pub fn tokens(count: u64) -> String {
    match count {
        0 => "-".to_owned(),
        count => short(count),
    }
}

/// Formats a number of things, as in `1 token` or `12.3k tokens`.
pub fn count_short(number: u64, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {noun}{end}", short(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_shows_its_estimated_part_apart() {
        for (usd, estimated, text) in [
            (None, 0.0, "-"),
            (Some(0.0), 0.0, "$0.00"),
            (Some(1.2), 0.0, "$1.20"),
            (Some(0.0031), 0.0, "$0.0031"),
            (Some(1.7), 0.5, "$1.20 + ~$0.50 estimated"),
            (Some(0.5), 0.5, "~$0.50 estimated"),
            (Some(0.1 + 0.2), 0.3, "~$0.30 estimated"),
        ] {
            assert_eq!(cost_text(usd, estimated), text);
        }
        assert_eq!(attempt_cost(Some(0.5), CostSource::Estimate), "~$0.50 estimated");
        assert_eq!(attempt_cost(Some(0.5), CostSource::Price), "$0.50 (price)");
    }

    #[test]
    fn numbers_have_the_unit_of_their_rounded_value() {
        for (number, text) in [
            (999, "999"),
            (1_000, "1.0k"),
            (999_949, "999.9k"),
            (999_999, "1.0M"),
            (999_999_999, "1.0G"),
        ] {
            assert_eq!(short(number), text);
        }
        assert_eq!((tokens(0).as_str(), tokens(1).as_str()), ("-", "1"));
        assert_eq!(count_short(1, "token"), "1 token");
        assert_eq!(count_short(2_000, "token"), "2.0k tokens");
    }
}
