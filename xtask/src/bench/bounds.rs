//! What `cargo xtask bench --short` accepts: ratios of the CPU of all processes to that of vik
//! 0.1.3.

use std::fmt::Write as _;

use super::metric::{Key, Measured, Statistic, shown};
use crate::repo::TaskResult;

/// A ratio may exceed its target by a third: other work on the machine changes it that much.
const MARGIN: f64 = 4.0 / 3.0;

/// The bound of a ratio.
pub struct Bound {
    key: Key,
    label: &'static str,
    /// The ratio to reach.
    pub target: f64,
}

pub const EVENTS: Bound = Bound {
    key: Key::EventsTotalCpu,
    label: "10 sessions of 100,000 events",
    target: 0.2,
};
pub const CROWD: Bound = Bound {
    key: Key::CrowdTotalCpu,
    label: "500 issues at once",
    target: 2.0,
};
pub const CROWD_WITHOUT_SANDBOX: Bound = Bound {
    key: Key::CrowdOffCpu,
    label: "the same with `sandbox: off`",
    target: 1.7,
};

/// Prints the ratios, and fails if one exceeds its bound. The two programs were measured in turn:
/// values at the same place belong to the same round.
pub fn check(ours: &Measured, theirs: &Measured) -> TaskResult {
    let mut table = "| CPU of all processes, medians | vik | vik 0.1.3 | ratio | target | fails above |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    let mut exceeded = Vec::new();
    for bound in [EVENTS, CROWD, CROWD_WITHOUT_SANDBOX] {
        let (Some(our), Some(their)) = (ours.get(&bound.key), theirs.get(&bound.key)) else {
            return Err(format!("{} was not measured", bound.label));
        };
        let ratios = our.iter().zip(their).map(|(our, their)| our / their).collect();
        let Some(ratio) = Statistic::Median.of(ratios) else {
            return Err(format!("{} was not measured", bound.label));
        };
        let median = |values: &[f64]| shown(Statistic::Median.of(values.to_vec()), "s");
        let most = bound.target * MARGIN;
        let _ = writeln!(
            table,
            "| {} | {} | {} | {ratio:.2} | {} | {most:.2} |",
            bound.label,
            median(our),
            median(their),
            bound.target
        );
        if ratio > most {
            exceeded.push(format!(
                "{}: {ratio:.2} times the CPU of vik 0.1.3, the limit is {most:.2}",
                bound.label
            ));
        }
    }
    println!("{table}");
    if exceeded.is_empty() {
        return Ok(());
    }
    Err(exceeded.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_compares_the_rounds_in_pairs() {
        let of = |events: &[f64], crowd: f64| {
            Measured::from([
                (Key::EventsTotalCpu, events.to_vec()),
                (Key::CrowdTotalCpu, vec![crowd]),
                (Key::CrowdOffCpu, vec![crowd]),
            ])
        };
        // The machine became slower after the first round: the ratios are 0.2, 0.2 and 0.1.
        let theirs = of(&[10.0, 100.0, 100.0], 1.0);
        assert_eq!(check(&of(&[2.0, 20.0, 10.0], 1.0), &theirs), Ok(()));
        let error = check(&of(&[5.0, 50.0, 10.0], 1.0), &theirs).unwrap_err();
        assert!(
            error.contains("100,000 events: 0.50 times") && !error.contains("issues at once"),
            "{error}"
        );
        let error = check(&of(&[2.0, 20.0, 10.0], 100.0), &theirs).unwrap_err();
        assert!(error.contains("500 issues at once: 100.00 times"), "{error}");
    }
}
