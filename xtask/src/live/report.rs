//! The tables of `cargo xtask live`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::agents::Agent;
use super::tasks::Task;
use super::{Attempt, COMPARED};
use crate::repo::{self, TaskResult};

const PAGE: &str = "docs/performance.md";
const MARKS: (&str, &str) = (
    "<!-- begin: cargo xtask live -->",
    "<!-- end: cargo xtask live -->",
);

/// Returns the results so far as Markdown.
pub fn table(done: &[Attempt], all: &[Task]) -> String {
    let mut text = String::new();
    let vex: Vec<&Attempt> = done.iter().filter(|one| one.agent == Agent::Vex).collect();
    text.push_str(
        "| task | solved | claimed, not solved | turns | tokens in / out | repaired calls | seconds |\n",
    );
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for task in all {
        let tries: Vec<_> = vex.iter().copied().filter(|one| one.task == task.name).collect();
        if !tries.is_empty() {
            append_row(&mut text, &task.name, &tries);
        }
    }
    append_row(&mut text, "**all**", &vex);
    let protocols: BTreeSet<_> = vex.iter().map(|one| one.protocol.as_str()).collect();
    let protocols: Vec<_> = protocols.into_iter().collect();
    let _ = writeln!(
        text,
        "\nFigures but the first two are of one try, on the average. Protocols used: {}.\n",
        protocols.join(", ")
    );
    text.push_str("The first try of five of the tasks, by each agent on the same server:\n\n");
    text.push_str(
        "| agent | solved | claimed, not solved | turns | tokens in / out | repaired calls | seconds |\n",
    );
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for agent in [Agent::Vex, Agent::Codex, Agent::Opencode] {
        let tries: Vec<_> = done
            .iter()
            .filter(|one| one.agent == agent && one.number == 1 && COMPARED.contains(&one.task.as_str()))
            .collect();
        if !tries.is_empty() {
            append_row(&mut text, &agent.to_string(), &tries);
        }
    }
    text
}

fn append_row(text: &mut String, name: &str, tries: &[&Attempt]) {
    let count = |value: fn(&Attempt) -> bool| tries.iter().filter(|one| value(one)).count();
    let mean = |value: fn(&Attempt) -> f64| {
        tries.iter().map(|one| value(one)).sum::<f64>() / tries.len().max(1) as f64
    };
    let _ = writeln!(
        text,
        "| {name} | {} of {} | {} | {:.1} | {:.0} / {:.0} | {:.1} | {:.0} |",
        count(|one| one.solved && one.claimed),
        tries.len(),
        count(|one| one.claimed && !one.solved),
        mean(|one| one.turns as f64),
        mean(|one| one.input_tokens as f64),
        mean(|one| one.output_tokens as f64),
        mean(|one| one.repaired as f64),
        mean(|one| one.seconds),
    );
}

/// Puts the tables into the page.
pub fn write(table: &str) -> TaskResult {
    let path = repo::root().join(PAGE);
    repo::put_between(&path, MARKS, &format!("{}\n\n{table}", repo::machine()?))
}
