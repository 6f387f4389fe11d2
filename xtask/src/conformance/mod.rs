//! `cargo xtask conformance`: the client scenarios of the public conformance suite of MCP, with the
//! MCP client of vex.
//!
//! The suite starts a server for each scenario, and this program as the client.

mod client;
mod expected;
mod suite;

use clap::Args;

use self::expected::Expected;
use self::suite::{Run, Scenario, Suite};
use crate::repo::TaskResult;

/// `cargo xtask conformance`
#[derive(Debug, Args)]
pub struct ConformanceArgs {
    /// Scenarios to run [default: all that tests/mcp-conformance/expected.json does not skip]
    #[arg(long = "scenario", value_name = "NAME")]
    scenarios: Vec<String>,
    /// Run as the client of a scenario whose server has this URL
    #[arg(long, value_name = "URL", hide = true)]
    client: Option<String>,
}

/// The result of a scenario.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// A listed check failed.
    Expected(String),
    Skipped(String),
    Failed(String),
}

impl Outcome {
    fn columns(&self) -> (&'static str, &str) {
        match self {
            Self::Passed => ("passed", ""),
            Self::Expected(reason) => ("expected failure", reason),
            Self::Skipped(reason) => ("skipped", reason),
            Self::Failed(reason) => ("FAILED", reason),
        }
    }
}

pub fn run(args: &ConformanceArgs) -> TaskResult {
    if let Some(url) = &args.client {
        return client::run(url);
    }
    let expected = Expected::read()?;
    let suite = Suite::install()?;
    let all = suite.scenarios()?;
    if let Some(unknown) = args
        .scenarios
        .iter()
        .find(|name| all.iter().all(|scenario| scenario.name != **name))
    {
        let names: Vec<&str> = all.iter().map(|scenario| scenario.name.as_str()).collect();
        return Err(format!(
            "the suite has no scenario `{unknown}`; its scenarios are {}",
            names.join(", ")
        ));
    }
    let is_wanted =
        |scenario: &&Scenario| args.scenarios.is_empty() || args.scenarios.contains(&scenario.name);
    let mut rows = Vec::new();
    for scenario in all.iter().filter(is_wanted) {
        // A scenario that is named is run, although it is skipped by default.
        let skipped = expected
            .skipped(&scenario.name)
            .filter(|_| args.scenarios.is_empty());
        if let Some(reason) = skipped {
            rows.push((scenario.name.clone(), Outcome::Skipped(reason.to_owned())));
            continue;
        }
        for version in scenario.runs() {
            let run = suite.run(&scenario.name, version)?;
            let name = version.map_or_else(String::new, |version| format!(" {version}"));
            rows.push((
                format!("{}{name}", scenario.name),
                outcome(&expected, &scenario.name, &run),
            ));
        }
    }
    let unused: Vec<&str> = if args.scenarios.is_empty() {
        expected.unused().collect()
    } else {
        Vec::new()
    };
    report(&rows, &unused)
}

/// Compares a run with what is expected of it.
fn outcome(expected: &Expected, scenario: &str, run: &Run) -> Outcome {
    let reasons: Vec<Option<&str>> = run
        .failed
        .iter()
        .map(|failed| expected.failing(scenario, &failed.check))
        .collect();
    let unexpected = run.failed.iter().zip(&reasons);
    let unexpected = unexpected.filter(|(_, reason)| reason.is_none());
    let unexpected: Vec<String> = unexpected.map(|(failed, _)| failed.to_string()).collect();
    if !unexpected.is_empty() {
        return Outcome::Failed(unexpected.join("; "));
    }
    match (reasons.first().copied().flatten(), &run.client_error) {
        (Some(reason), _) => Outcome::Expected(reason.to_owned()),
        (None, Some(error)) => Outcome::Failed(error.clone()),
        (None, None) if run.passed == 0 => Outcome::Failed("it checked nothing".to_owned()),
        (None, None) => Outcome::Passed,
    }
}

fn report(rows: &[(String, Outcome)], unused: &[&str]) -> TaskResult {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, outcome) in rows {
        let (result, reason) = outcome.columns();
        println!("{}", format!("{name:width$}  {result:16}  {reason}").trim_end());
    }
    let failed = rows
        .iter()
        .filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_)))
        .count();
    if failed > 0 {
        return Err(format!("{failed} of {} scenarios failed", rows.len()));
    }
    if !unused.is_empty() {
        return Err(format!(
            "tests/mcp-conformance/expected.json lists what passes or does not exist: {}",
            unused.join(", ")
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::suite::FailedCheck;
    use super::*;

    fn run(passed: usize, failed: &[&str], client_error: Option<&str>) -> Run {
        let failed = failed.iter().map(|check| FailedCheck {
            check: (*check).to_owned(),
            message: "no".to_owned(),
        });
        Run {
            passed,
            failed: failed.collect(),
            client_error: client_error.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn only_listed_failures_are_expected() {
        let text =
            r#"{"skipped": {"auth/*": "no OAuth"}, "failing": {"a:x": "why", "b": "all", "c": "unused"}}"#;
        let expected = Expected::parse(text).unwrap();
        let outcome = |scenario: &str, run: &Run| outcome(&expected, scenario, run);
        assert_eq!(outcome("a", &run(1, &[], None)), Outcome::Passed);
        assert_eq!(
            outcome("a", &run(1, &["x"], Some("exit code 1"))),
            Outcome::Expected("why".to_owned())
        );
        assert_eq!(
            outcome("a", &run(1, &["x", "y"], None)),
            Outcome::Failed("y: no".to_owned())
        );
        assert_eq!(
            outcome("b", &run(0, &["y"], None)),
            Outcome::Expected("all".to_owned())
        );
        assert_eq!(
            outcome("a", &run(1, &[], Some("exit code 1"))),
            Outcome::Failed("exit code 1".to_owned())
        );
        assert_eq!(
            outcome("a", &run(0, &[], None)),
            Outcome::Failed("it checked nothing".to_owned())
        );
        assert_eq!(expected.skipped("auth/x"), Some("no OAuth"));
        assert_eq!(expected.skipped("a"), None);
        assert_eq!(expected.unused().collect::<Vec<_>>(), ["c"]);
    }
}
